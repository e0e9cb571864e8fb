#!/usr/bin/python3
"""One service on a pod and on a virtual machine, called from both kinds, with mutual TLS and policy
in both directions."""
import json

from lib.kube import kubecase
from lib.kube import kubeobjects as k8s, mesh
from lib.mesh import meshcase, objects
from lib.net.processes import CommandFailed, NotYet, wait_for

PORT = 14001
MACHINE = "10.200.0.40"


class HybridTest(kubecase.MeshCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.api.apply(mesh.namespace("shop"), mesh.namespace("visitors"),
                      k8s.account("shop", "shop"), k8s.account("visitors", "pod"),
                      k8s.account("visitors", "vm"),
                      k8s.service("shop", "shop", port=PORT))
        idle = k8s.shell_container("app", "trap 'exit 0' TERM; while :; do sleep 0.1; done")
        serving = {"name": "app", "image": "e2e/bookstore", "ports": [{"containerPort": PORT}],
                   "args": ["serve", "--listen", f"0.0.0.0:{PORT}", "--service", "shop",
                            "--version", "pod"]}
        cls.api.apply(k8s.deployment("shop", "shop", [serving], account="shop"),
                      k8s.deployment("visitors", "pod", [idle], account="pod"),
                      objects.machine("shop", "shop-vm", MACHINE, "shop", {"app": "shop"}),
                      objects.machine("visitors", "visitor-vm", "10.200.0.41", "vm"),
                      objects.routes("shop", "books", bought={"pathRegex": "/books-bought",
                                                              "methods": ["GET"]}))
        cls.wait_until_available("shop", "shop")
        cls.wait_until_available("visitors", "pod")
        cls.pod = cls.pod_of("visitors", "pod")
        cls.start_machines()

    @classmethod
    def start_machines(cls):
        controller, = cls.agent.pods(mesh.SYSTEM, "osm-controller")
        cls.rig.state = controller.volume_paths["run"] / "state"
        service = cls.api.get("Service", mesh.SYSTEM, "osm-controller")
        cls.rig.ads_address = f"{service['spec']['clusterIP']}:15128"
        cls.server = cls.rig.add_vm("shop-vm", "shop", MACHINE)
        cls.visitor = cls.rig.add_vm("visitor-vm", "visitors", "10.200.0.41")
        for machine in (cls.server, cls.visitor):
            # The controller looks for a kind again that was not there when it started.
            wait_for("the controller knows the machine", lambda m=machine: m.bootstrap() is None, 40,
                     retry=(CommandFailed,))
            machine.start_proxy()
        cls.server.run("app", meshcase._programs.bookstore, "serve", "--service", "shop",
                       "--version", "vm", "--listen", f"127.0.0.1:{PORT}")

    def allow(self, *accounts):
        self.api.apply(objects.target("shop", "access", "shop",
                                      [("visitors", a) for a in accounts],
                                      ("HTTPRouteGroup", "books", ["bought"])))

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
        self.addCleanup(self.cluster.kubectl, "scale", "-n", "shop", "deployment/shop",
                        "--replicas=1")
        self.cluster.kubectl("scale", "-n", "shop", "deployment/shop", "--replicas=0")
        self.wait_for_answers(self.pod, {(200, "vm", caller)})
        self.cluster.kubectl("scale", "-n", "shop", "deployment/shop", "--replicas=1")
        self.wait_for_answers(self.pod, {(200, "pod", caller), (200, "vm", caller)})


if __name__ == "__main__":
    kubecase.main()
