#!/usr/bin/python3
"""Machines behind the names of a real name server serve; records come and go, and calls continue without
the server.
"""

import json
import signal

from lib.mesh import meshcase, objects
from lib.mesh.rig import Switch
from lib.net.name_server import NameServer
from lib.net.processes import NotYet, wait_for

SERVICE = "_web._tcp.mesh.test"
FIRST, SECOND = "10.200.0.12", "10.200.0.13"


def resource(name, dns_name, **spec):
    return objects.dns_resource("shop", name, dns_name, "shop", {"app": "shop"}, **spec)


class Dns(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.names = NameServer(
            self.rig.directory,
            Switch.ADDRESS,
            namespace=self.rig.switch.namespace,
            services={SERVICE: ("shop.mesh.test", meshcase.PORT)},
        )
        self.addCleanup(self.names.stop)
        self.rig.controller_flags = ("--dns-server", Switch.ADDRESS)
        self.client = self.add_machine("client", "10.200.0.11")

    def write_shop(self, target_port=None):
        self.rig.mesh.write(
            "shop.yaml",
            objects.namespace("shop"),
            objects.account("shop", "shop"),
            objects.service("shop", "shop", "10.96.0.12", meshcase.PORT, target_port),
            objects.routes("shop", "routes", books={"pathRegex": "/books-bought"}),
            objects.target("shop", "access", "shop", [("client", "client")], ("HTTPRouteGroup", "routes", ["books"])),
        )

    def start_shops(self, dns_name):
        """Two machines behind the name, each with a proxy of its own."""
        self.write_shop()
        shops = {
            address: self.rig.add_vm(f"shop-{address.replace('.', '-')}", "shop", address)
            for address in (FIRST, SECOND)
        }
        self.names.write(shop=[FIRST, SECOND])
        self.rig.mesh.write("name.yaml", resource("shop", dns_name))
        self.start_mesh()
        for address, machine in shops.items():
            self.serve(machine, version=address)
        self.answering([FIRST, SECOND])

    def answering(self, wanted):
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

        wait_for(f"{sorted(wanted)} answer", seen, 30)

    def problems(self):
        return [problem["cause"] for problem in self.rig.problems()]

    def test_records_come_and_go_and_calls_continue_without_the_name_server(self):
        self.start_shops("Shop.mesh.test.")
        with self.subTest("a record goes, and comes back"):
            self.names.write(shop=[SECOND])
            self.answering([SECOND])
            self.names.write(shop=[FIRST, SECOND])
            self.answering([FIRST, SECOND])
            # The proxy of the machine that was away for a while is the same, and served.
            self.wait_until_synced()

        with self.subTest("calls continue while the name server is away"):
            with meshcase.Load(self.client, "shop.shop") as load:
                self.names.stop()
                wait_for(
                    "the provider is stale",
                    lambda: any("no name server answers" in text for text in self.problems()),
                    30,
                )
                load.check(self, more=50)
                # Without the names nobody knows the endpoints: a controller that starts now waits,
                # and proxies keep what they have.
                self.rig.stop_controller(signal.SIGKILL)
                self.rig.start_controller(wait=False)
                wait_for("the controller is alive", lambda: self.rig.controller_http("/health/alive")[0] == 200, 20)
                load.check(self, more=200)
                self.assertNotEqual(200, self.rig.controller_http("/health/ready")[0])
                self.names.start()
                self.rig.wait_until_ready(60)
                self.wait_until_synced()
                load.check(self, more=50)
        self.answering([FIRST, SECOND])
        wait_for("no problem is left", lambda: self.problems() == [], 40)

    def test_a_name_that_is_gone_keeps_its_addresses_and_says_so(self):
        self.start_shops("shop.mesh.test")
        self.names.write(other=[FIRST])
        wait_for("it is told", lambda: any("NXDOMAIN" in text for text in self.problems()), 20)
        self.answering([FIRST, SECOND])

    def test_an_SRV_record_tells_the_port_and_the_machine_has_the_name_of_its_object(self):
        self.write_shop("web")
        machine = self.rig.add_vm("shop", "shop", FIRST)
        self.names.write(shop=[FIRST])
        self.rig.mesh.write("name.yaml", resource("shop", SERVICE, type="SRV"))
        self.start_mesh()
        self.serve(machine, version=FIRST)
        self.answering([FIRST])


if __name__ == "__main__":
    meshcase.main()
