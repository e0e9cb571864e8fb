#!/usr/bin/python3
"""One Service is on a pod and a virtual machine, and is called from both. A machine is drained with a
kubeconfig, and one joins by a token.
"""

import json
import subprocess

from lib.kube import kubecase, mesh
from lib.kube import kubeobjects as k8s
from lib.mesh import meshcase, objects
from lib.mesh.rig import PROXY_UID
from lib.net.processes import NotYet, wait_for

PORT = 14001
MACHINE = "10.200.0.40"


class HybridTest(kubecase.MeshCase):
    @staticmethod
    def install(installed):
        installed.install("osm.osmController.joinPort=15129")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.api.apply(
            mesh.namespace("shop"),
            mesh.namespace("visitors"),
            k8s.account("shop", "shop"),
            k8s.account("visitors", "pod"),
            k8s.account("visitors", "vm"),
            k8s.service("shop", "shop", port=PORT),
        )
        idle = k8s.shell_container("app", "trap 'exit 0' TERM; while :; do sleep 0.1; done")
        serving = {
            "name": "app",
            "image": "e2e/bookstore",
            "ports": [{"containerPort": PORT}],
            "args": ["serve", "--listen", f"0.0.0.0:{PORT}", "--service", "shop", "--version", "pod"],
        }
        cls.api.apply(
            k8s.deployment("shop", "shop", [serving], account="shop"),
            k8s.deployment("visitors", "pod", [idle], account="pod"),
            objects.machine("shop", "shop-vm", MACHINE, "shop", {"app": "shop"}),
            objects.machine("visitors", "visitor-vm", "10.200.0.41", "vm"),
            objects.routes("shop", "books", bought={"pathRegex": "/books-bought", "methods": ["GET"]}),
        )
        cls.wait_until_available("shop", "shop")
        cls.wait_until_available("visitors", "pod")
        cls.pod = cls.pod_of("visitors", "pod")
        cls.start_machines()

    @classmethod
    def start_machines(cls):
        # As an operator, with a kubeconfig and no access to the controller's pod.
        cls.rig.osm = lambda *arguments: mesh.osm(cls.cluster, *arguments)
        service = cls.api.get("Service", mesh.SYSTEM, "osm-controller")
        cls.rig.ads_address = f"{service['spec']['clusterIP']}:15128"
        cls.server = cls.rig.add_vm("shop-vm", "shop", MACHINE)
        cls.visitor = cls.rig.add_vm("visitor-vm", "visitors", "10.200.0.41")
        for machine in (cls.server, cls.visitor):
            # The controller looks for a kind again that was not there when it started.
            wait_for(
                "the controller knows the machine", lambda m=machine: m.bootstrap() is None, 40, retry=(RuntimeError,)
            )
            machine.start_proxy()
        cls.server.run(
            "app",
            meshcase._programs.bookstore,
            "serve",
            "--service",
            "shop",
            "--version",
            "vm",
            "--listen",
            f"127.0.0.1:{PORT}",
        )

    def allow(self, *accounts):
        self.api.apply(
            objects.target(
                "shop", "access", "shop", [("visitors", a) for a in accounts], ("HTTPRouteGroup", "books", ["bought"])
            )
        )

    def answers(self, client):
        """{(status, version, caller)} of some requests, by the pod or by the machine."""
        seen = set()
        for _ in range(20):
            if client is self.pod:
                status, body = client.get(f"shop.shop:{PORT}/books-bought")
            else:
                status, body = client.get("shop.shop", PORT, "/books-bought")
            told = json.loads(body) if status == 200 else {}
            seen.add((status, told.get("version"), told.get("caller")))
        return seen

    def wait_for_answers(self, client, wanted):
        def same():
            got = self.answers(client)
            if got != wanted:
                raise NotYet(got)
            return True

        wait_for(f"{client.name} is answered {sorted(wanted, key=str)}", same, 30)

    def test_both_endpoints_answer_both_kinds_of_clients_that_policy_allows(self):
        self.allow("pod", "vm")
        for client, account in ((self.pod, "pod"), (self.visitor, "vm")):
            caller = f"spiffe://cluster.local/ns/visitors/sa/{account}"
            self.wait_for_answers(client, {(200, "pod", caller), (200, "vm", caller)})

    def test_policy_tells_the_kinds_apart(self):
        self.allow("pod")
        self.wait_for_answers(self.visitor, {(0, None, None)})
        caller = "spiffe://cluster.local/ns/visitors/sa/pod"
        self.wait_for_answers(self.pod, {(200, "pod", caller), (200, "vm", caller)})
        self.allow("vm")
        self.wait_for_answers(self.pod, {(0, None, None)})
        caller = "spiffe://cluster.local/ns/visitors/sa/vm"
        self.wait_for_answers(self.visitor, {(200, "pod", caller), (200, "vm", caller)})

    def test_a_pod_that_goes_leaves_the_machine(self):
        self.allow("pod")
        caller = "spiffe://cluster.local/ns/visitors/sa/pod"
        self.wait_for_answers(self.pod, {(200, "pod", caller), (200, "vm", caller)})
        self.addCleanup(self.cluster.kubectl, "scale", "-n", "shop", "deployment/shop", "--replicas=1")
        self.cluster.kubectl("scale", "-n", "shop", "deployment/shop", "--replicas=0")
        self.wait_for_answers(self.pod, {(200, "vm", caller)})
        self.cluster.kubectl("scale", "-n", "shop", "deployment/shop", "--replicas=1")
        self.wait_for_answers(self.pod, {(200, "pod", caller), (200, "vm", caller)})

    def test_a_machine_is_drained_and_taken_back_with_a_kubeconfig(self):
        self.allow("pod")
        caller = "spiffe://cluster.local/ns/visitors/sa/pod"
        both = {(200, "pod", caller), (200, "vm", caller)}
        self.wait_for_answers(self.pod, both)
        self.assertIn("shop/shop-vm is drained", self.rig.osm("vm", "drain", "shop-vm", "-n", "shop"))
        self.wait_for_answers(self.pod, {(200, "pod", caller)})
        record = self.api.get("ConfigMap", mesh.SYSTEM, "osm-drained-machines")["data"]["record"]
        self.assertEqual(["shop-vm"], [m["name"] for m in json.loads(record)["machines"]])
        self.rig.osm("vm", "drain", "shop-vm", "-n", "shop", "--undo")
        self.wait_for_answers(self.pod, both)

    def test_a_machine_joins_by_a_token(self):
        self.allow("vm")
        self.api.apply(objects.machine("visitors", "late-vm", "10.200.0.42", "vm"))
        late = self.rig.add_vm("late-vm", "visitors", "10.200.0.42")
        token = wait_for(
            "the controller knows the machine",
            lambda: self.rig.osm("vm", "token", "late-vm", "-n", "visitors", "--controller", self.rig.ads_address),
            40,
            retry=(RuntimeError,),
        )

        def join():
            return subprocess.run(
                late.namespace.command(
                    meshcase._programs.osm, "vm", "join", "--out", late.directory, "--owner", PROXY_UID
                ),
                input=token,
                capture_output=True,
                text=True,
                timeout=30,
            )

        joined = join()
        self.assertEqual((0, ""), (joined.returncode, joined.stderr))
        again = join()
        self.assertNotEqual(0, again.returncode)
        self.assertIn("the token is not valid", again.stderr)
        record = self.api.get("ConfigMap", mesh.SYSTEM, "osm-join-tokens")["data"]["record"]
        self.assertEqual([], json.loads(record)["tokens"])
        late.namespace.set_hosts((late.directory / "hosts").read_text())
        late.namespace.run(late.directory / "intercept.sh")
        late.start_proxy()
        caller = "spiffe://cluster.local/ns/visitors/sa/vm"
        self.wait_for_answers(late, {(200, "pod", caller), (200, "vm", caller)})


if __name__ == "__main__":
    kubecase.main()
