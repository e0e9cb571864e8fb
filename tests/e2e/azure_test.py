#!/usr/bin/python3
"""Instances of a scale set come and go against a stand-in for ARM; calls continue while it throttles and is
away.
"""

import json
import re
import signal

import yaml

from lib.mesh import meshcase, objects
from lib.mesh.rig import Switch
from lib.net import arm
from lib.net.processes import CommandFailed, NotYet, wait_for

ADDRESSES = [f"10.200.0.{number}" for number in (12, 13, 14)]


def resource(name, resource_id, app="shop"):
    return {
        "apiVersion": "workload.openservicemesh.io/v1alpha1",
        "kind": "AzureResource",
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": app}},
        "spec": {"resourceID": resource_id, "serviceAccount": "shop"},
    }


class Azure(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.arm = arm.Arm(self.rig.switch.namespace, Switch.ADDRESS, self.rig.directory / "arm")
        self.addCleanup(self.arm.stop)
        self.secret = self.rig.directory / "secret"
        self.secret.write_text(arm.SECRET + "\n")
        self.client = self.add_machine("client", "10.200.0.11")
        self.rig.mesh.write(
            "shop.yaml",
            objects.namespace("shop"),
            objects.account("shop", "shop"),
            objects.service("shop", "shop", "10.96.0.12", meshcase.PORT),
            objects.routes("shop", "routes", books={"pathRegex": "/books-bought"}),
            objects.target("shop", "access", "shop", [("client", "client")], ("HTTPRouteGroup", "routes", ["books"])),
        )

    def configure(self, **settings):
        """By default client credentials; the interval is the shortest that is allowed."""
        file = self.rig.directory / "azure.yaml"
        origin = f"https://{Switch.ADDRESS}:{arm.Arm.TLS_PORT}"
        settings = settings or {
            "authority": origin,
            "tenant": arm.TENANT,
            "clientID": arm.CLIENT,
            "clientSecretFile": str(self.secret),
        }
        file.write_text(
            yaml.safe_dump({"endpoint": origin, "caFile": str(self.arm.ca_file), "interval": 5, **settings})
        )
        self.rig.controller_flags = ("--azure-config", file)

    def tearDown(self):
        self.assertEqual(self.arm.faults, [])
        log = (self.rig.directory / "osm-controller.log").read_text()
        self.assertNotIn(arm.SECRET, log)
        for token in self.arm.tokens:
            self.assertNotIn(token, log)

    def answering(self, wanted, timeout=30):
        """Waits until exactly these addresses answer the client."""

        def seen():
            versions = set()
            for _ in range(12):
                status, body = self.client.get("shop.shop", meshcase.PORT, "/books-bought")
                if status != 200:
                    raise NotYet((status, body))
                versions.add(json.loads(body)["version"])
            if versions != set(wanted):
                raise NotYet(versions)
            return True

        wait_for(f"{sorted(wanted)} answer", seen, timeout)

    def wait_for_problem(self, *words):
        """The problem whose cause has these words."""

        def told():
            problems = self.rig.problems()
            for problem in problems:
                if all(word in problem["cause"] for word in words):
                    return problem
            raise NotYet([p["cause"] for p in problems])

        return wait_for(f"a problem with {words}", told, 30, retry=(CommandFailed,))

    def wait_until_alive(self):
        wait_for("the controller is alive", lambda: self.rig.controller_http("/health/alive")[0] == 200, 20)

    def wait_for_no_problem(self):
        def none():
            texts = [p["cause"] for p in self.rig.problems()]
            if texts:
                raise NotYet(texts)
            return True

        wait_for("no problem", none, 30)

    def start_scale_set(self, addresses):
        machines = {}
        for instance, address in enumerate(ADDRESSES):
            machines[address] = self.rig.add_vm(f"shop-{instance}", "shop", address)
        self.arm.scale_sets["web"] = self.instances(addresses)
        self.rig.mesh.write("resource.yaml", resource("shop", "/resource" + arm.scale_set_id("web")))
        self.rig.start_controller()
        self.client.bootstrap()
        self.client.start_proxy()
        for address in addresses:
            self.join(machines[address])
        self.answering(addresses)
        return machines

    @staticmethod
    def instances(addresses):
        return {str(ADDRESSES.index(address)): (address, True) for address in addresses}

    def join(self, machine):
        """As cloud-init would: the files, the proxy, the application."""
        wait_for(
            f"the controller knows {machine.name}", lambda: machine.bootstrap() or True, 30, retry=(CommandFailed,)
        )
        machine.start_proxy()
        self.serve(machine, version=machine.address)

    def test_instances_of_a_scale_set_come_and_go(self):
        self.configure()
        machines = self.start_scale_set(ADDRESSES[:2])
        with meshcase.Load(self.client, "shop.shop") as load:
            with self.subTest("an instance comes: the list has two pages now"):
                self.arm.scale_sets["web"]["2"] = (ADDRESSES[2], False)
                self.join(machines[ADDRESSES[2]])
                self.arm.scale_sets["web"]["2"] = (ADDRESSES[2], True)
                self.answering(ADDRESSES)
            with self.subTest("an instance is stopped"):
                self.arm.scale_sets["web"]["1"] = (ADDRESSES[1], False)
                self.answering([ADDRESSES[0], ADDRESSES[2]])
            with self.subTest("an instance goes"):
                self.arm.scale_sets["web"] = self.instances([ADDRESSES[0], ADDRESSES[2]])
                wait_for("its workload is gone", lambda: self.workloads() == 3, 30)
                self.answering([ADDRESSES[0], ADDRESSES[2]])
            load.check(self)

    def workloads(self):
        text = self.rig.controller_http("/metrics")[1]
        return float(re.search(r"^osm_mesh_workloads (\S+)", text, re.M).group(1))

    def test_calls_continue_while_ARM_throttles_and_is_away(self):
        self.configure()
        self.start_scale_set(ADDRESSES[:2])
        with meshcase.Load(self.client, "shop.shop") as load:
            with self.subTest("429: no request before Retry-After has passed"):
                self.arm.throttle(12)
                wait_for("it is throttled", lambda: "throttled" in self.arm.operations(), 30)
                self.wait_for_problem("429")
                self.wait_for_no_problem()
            with self.subTest("tokens that are revoked are replaced"):
                self.arm.revoke()
                count = self.arm.operations().count("authority")
                wait_for("another token", lambda: self.arm.operations().count("authority") > count, 30)
                self.assertNotIn("ExpiredAuthenticationToken", self.rig.osm("problems", check=False))
            with self.subTest("away"):
                self.arm.stop()
                self.wait_for_problem("is not reached")
                load.check(self, more=50)
                self.rig.stop_controller(signal.SIGKILL)
                self.rig.start_controller(wait=False)
                self.wait_until_alive()
                load.check(self, more=100)
                self.assertNotEqual(200, self.rig.controller_http("/health/ready")[0])
                self.arm.start()
                self.rig.wait_until_ready(60)
                load.check(self, more=50)
            with self.subTest("a list that continues at another server is not followed"):
                self.arm.elsewhere = True
                self.arm.scale_sets["web"] = self.instances(ADDRESSES)
                self.wait_for_problem("continues at another server")
                self.arm.elsewhere = False
                self.arm.scale_sets["web"] = self.instances(ADDRESSES[:2])
                self.wait_for_no_problem()
            load.check(self)

    def test_a_virtual_machine_by_managed_identity_and_a_refusal_names_its_object(self):
        self.configure(managedIdentity={})
        machine = self.rig.add_vm("shop", "shop", ADDRESSES[0])
        self.arm.machines["web"] = (ADDRESSES[0], True)
        self.rig.mesh.write("resource.yaml", resource("shop", arm.machine_id("web").lower()))
        self.start_mesh()
        self.serve(machine, version=machine.address)
        self.answering([machine.address])
        self.assertIn("metadata", self.arm.operations())
        with self.subTest("a right that is taken away"):
            self.arm.forbidden.add("web")
            self.wait_for_problem("AuthorizationFailed", "role Reader")
            self.answering([machine.address])
            self.arm.forbidden.clear()
        with self.subTest("a machine that is not there"):
            self.rig.mesh.write("other.yaml", resource("other", arm.machine_id("nobody")))
            self.wait_for_problem("ResourceNotFound", "correct spec.resourceID")

    def test_a_scale_set_in_flexible_mode_is_a_problem_of_its_object(self):
        self.configure()
        self.arm.scale_sets["web"] = self.instances(ADDRESSES[:1])
        self.arm.flexible.add("web")
        self.rig.mesh.write("resource.yaml", resource("shop", arm.scale_set_id("web")))
        self.rig.start_controller(wait=False)
        problem = self.wait_for_problem(
            arm.scale_set_id("web"), "flexible orchestration mode", "write an AzureResource for each"
        )
        self.assertEqual(problem["object"], "AzureResource shop/shop")
        self.rig.wait_until_ready(60)  # it holds the start up for three answers only

    def test_a_secret_that_is_refused_holds_the_start_up_until_it_is_replaced(self):
        self.configure()
        self.arm.secret = "another"
        self.arm.machines["web"] = (ADDRESSES[0], True)
        self.rig.mesh.write("resource.yaml", resource("shop", arm.machine_id("web")))
        self.rig.start_controller(wait=False)
        self.wait_for_problem("gives no token", "invalid_client", "check tenant")
        self.assertNotEqual(200, self.rig.controller_http("/health/ready")[0])
        self.secret.write_text("another")
        self.rig.wait_until_ready(40)


if __name__ == "__main__":
    meshcase.main()
