#!/usr/bin/python3
"""One Service is on pods of two clusters, a machine and a machine behind a DNS name: a ServiceProvider
orders and weighs them, and an API server and a machine that are lost fail no request.

A controller on machines reads both API servers. All meshes have one CA.
"""

import base64
import collections
import json
import signal
import threading

from lib.kube import kubecase, mesh
from lib.kube import kubeobjects as k8s
from lib.kube.api import Credentials, write_kubeconfig
from lib.kube.cluster import API_PORT, ROOT
from lib.mesh import meshcase, objects
from lib.net.name_server import NameServer
from lib.net.netns import Switch, ip
from lib.net.processes import NotYet, wait_for

PORT = 14001
ADDRESS = "10.96.200.1"  # of the Service, on machines
SERVER, CLIENT, FOUND = "10.200.0.40", "10.200.0.41", "10.200.0.42"
EAST, WEST, MACHINE, DNS = "east", "west", "machine", "dns"
EVERYWHERE = (EAST, WEST, MACHINE, DNS)
HEALTHY = "osm_endpoints_provider_healthy"


def kubernetes_objects(version):
    """A pod of the Service, and who may call it."""
    serving = {
        "name": "app",
        "image": "e2e/bookstore",
        "ports": [{"containerPort": PORT}],
        "args": ["serve", "--listen", f"0.0.0.0:{PORT}", "--service", "shop", "--version", version],
    }
    return [
        mesh.namespace("shop"),
        mesh.namespace("visitors"),
        k8s.account("shop", "shop"),
        k8s.account("visitors", "visitor"),
        k8s.service("shop", "shop", port=PORT),
        *access(),
        k8s.deployment("shop", "shop", [serving], account="shop"),
    ]


def access():
    return [
        objects.routes("shop", "books", bought={"pathRegex": "/books-bought", "methods": ["GET"]}),
        objects.target("shop", "access", "shop", [("visitors", "visitor")], ("HTTPRouteGroup", "books", ["bought"])),
    ]


class West(kubecase.MeshCase):
    """The second cluster. Its CA is there before its mesh is."""

    NUMBER = 1
    authority = {}  # of the first cluster

    @classmethod
    def install(cls, installed):
        installed.api.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": mesh.SYSTEM}},
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "data": cls.authority,
                "metadata": {"name": "osm-ca-bundle", "namespace": mesh.SYSTEM},
            },
        )
        installed.install()


class PlatformsTest(kubecase.MeshCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        West.authority = cls.api.get("Secret", mesh.SYSTEM, "osm-ca-bundle")["data"]
        cls.addClassCleanup(West.doClassCleanups)
        West.setUpClass()
        cls.join_networks()
        for case, version in ((cls, EAST), (West, WEST)):
            case.api.apply(*kubernetes_objects(version))
        for case in (cls, West):
            case.wait_until_available("shop", "shop")
        cls.start_machines()

    @classmethod
    def check_at_the_end(cls):
        super().check_at_the_end()
        West.check_at_the_end()

    @classmethod
    def join_networks(cls):
        """Pods of each cluster, and machines of the first, reach the others, as in one network."""
        east, west = cls.cluster, West.cluster
        ip(
            "-n",
            east.namespace.name,
            "link",
            "add",
            "other",
            "type",
            "veth",
            "peer",
            "name",
            "other",
            "netns",
            west.namespace.name,
        )
        for one, number, routes in (
            (east, 1, [(f"{west.pod_prefix}.0.0/16", 2)]),
            (
                west,
                2,
                [(f"{east.pod_prefix}.0.0/16", 1), *((f"{machine}/32", 1) for machine in (SERVER, CLIENT, FOUND))],
            ),
        ):
            name = one.namespace.name
            ip("-n", name, "address", "add", f"10.201.0.{number}/24", "dev", "other")
            ip("-n", name, "link", "set", "other", "up")
            for network, via in routes:
                ip("-n", name, "route", "add", network, "via", f"10.201.0.{via}")

    @classmethod
    def start_machines(cls):
        rig = cls.rig
        clusters = rig.directory / "clusters"
        clusters.mkdir()
        reader = (ROOT / "deploy/kubernetes/remote-reader.yaml").read_text()
        for name, case, host in ((EAST, cls, cls.cluster.address), (WEST, West, West.cluster.bridge)):
            case.cluster.kubectl("apply", "-f", "-", stdin=reader)
            token = Credentials(token=case.api.token_of(mesh.SYSTEM, "osm-remote-reader"))
            write_kubeconfig(clusters / name, f"https://{host}:{API_PORT}", case.cluster.pki.ca, token)
        for key, file in (("ca.crt", "ca.pem"), ("private.key", "ca.key")):
            (rig.directory / file).write_bytes(base64.b64decode(West.authority[key]))
            (rig.directory / file).chmod(0o600)
        rig.mesh.write(
            "shop.yaml",
            mesh.namespace("shop"),
            mesh.namespace("visitors"),
            objects.service("shop", "shop", ADDRESS, PORT),
            objects.machine("shop", "server", SERVER, "shop", {"app": "shop"}),
            objects.machine("visitors", "client", CLIENT, "visitor"),
            *access(),
            objects.dns_resource("shop", "found", "shop.mesh.test", "shop", {"app": "shop"}),
            objects.retry(
                "visitors",
                "again",
                "visitor",
                [("shop", "shop")],
                retryOn="connect-failure,reset,gateway-error",
                perTryTimeout="3s",
            ),
            objects.upstream_setting(
                "shop", "quick", "shop.shop", connectionSettings={"tcp": {"connectTimeout": "1s"}}
            ),
        )
        rig.mesh.write("config.yaml", objects.mesh_config(featureFlags={"enableRetryPolicy": True}))
        names = NameServer(rig.directory, Switch.ADDRESS, namespace=rig.switch.namespace)
        cls.addClassCleanup(names.stop)
        names.write(shop=[FOUND])
        rig.start_controller(
            "--remote-clusters",
            clusters,
            "--ca-cert",
            rig.directory / "ca.pem",
            "--ca-key",
            rig.directory / "ca.key",
            "--dns-server",
            Switch.ADDRESS,
        )
        cls.server = rig.add_vm("server", "shop", SERVER)
        cls.client = rig.add_vm("client", "visitors", CLIENT)
        found = rig.add_vm(f"found-{FOUND.replace('.', '-')}", "shop", FOUND)
        for machine in (cls.server, cls.client, found):
            machine.start_proxy()
        for machine, version in ((cls.server, MACHINE), (found, DNS)):
            machine.run(
                "app",
                meshcase._programs.bookstore,
                "serve",
                "--service",
                "shop",
                "--version",
                version,
                "--listen",
                f"127.0.0.1:{PORT}",
            )

    def tearDown(self):
        if (self.rig.mesh.path / "order.yaml").exists():
            self.rig.mesh.remove("order.yaml")

    # -- asking -----------------------------------------------------------------------------------
    def ask(self):
        """The platform that answers the client, or (status, body)."""
        status, body = self.client.get("shop.shop", PORT, "/books-bought")
        return json.loads(body).get("version") if status == 200 else (status, body)

    def wait_for_platforms(self, *wanted):
        def same():
            got = {self.ask() for _ in range(30)}
            if got != set(wanted):
                raise NotYet(got)
            return True

        wait_for(f"the client is answered by {wanted}", same, 30)

    def wait_for_health(self, **wanted):
        """Until the metric says so of the clusters."""

        def same():
            page = self.rig.controller_http("/metrics")[1].splitlines()
            got = {
                name: int(float(line.split()[-1]))
                for line in page
                for name in wanted
                if line.startswith(HEALTHY) and f'provider="kubernetes-{name}"' in line
            }
            if got != wanted:
                raise NotYet(got)
            return True

        wait_for(f"the providers' health is {wanted}", same, 60)

    def order(self, *providers, **more):
        self.rig.mesh.write(
            "order.yaml",
            {
                "apiVersion": "workload.openservicemesh.io/v1alpha1",
                "kind": "ServiceProvider",
                "metadata": {"name": "shop", "namespace": "shop"},
                "spec": {"service": "shop", "providers": list(providers), **more},
            },
        )

    # -- tests ------------------------------------------------------------------------------------
    def test_every_platform_answers(self):
        self.wait_for_platforms(*EVERYWHERE)
        self.wait_for_health(east=1, west=1)
        endpoints = self.rig.admin("GET", "/v1/services?name=shop/shop")["endpoints"]
        self.assertEqual({"vm", "dns", "kubernetes-east", "kubernetes-west"}, {e["provider"] for e in endpoints})

    def test_a_service_provider_shifts_traffic_between_platforms(self):
        self.wait_for_platforms(*EVERYWHERE)
        self.order({"name": "kubernetes-west", "weight": 0})
        self.wait_for_platforms(EAST, MACHINE, DNS)
        self.order({"name": "vm"}, others="Exclude")
        self.wait_for_platforms(MACHINE)
        self.order({"name": "kubernetes-east", "weight": 8}, {"name": "kubernetes-west"}, others="Exclude")
        self.wait_for_platforms(EAST, WEST)
        got = collections.Counter(self.ask() for _ in range(180))
        self.assertEqual({EAST, WEST}, set(got))
        self.assertGreater(got[EAST], 4 * got[WEST], got)
        # A typing error is found by name, and the others keep their endpoints.
        self.order({"name": "kubernetes-wets"})
        self.wait_for_platforms(*EVERYWHERE)
        problems = self.rig.osm("problems", check=False)
        self.assertIn(
            "this controller has no endpoints provider kubernetes-wets; it has vm, "
            "dns, azure, kubernetes-east, kubernetes-west",
            " ".join(problems.split()),
        )

    def test_a_lost_cluster_and_a_lost_machine_fail_no_request(self):
        self.wait_for_platforms(*EVERYWHERE)
        end, got = threading.Event(), []

        def run():
            while not end.wait(0.01):
                got.append(self.ask())

        thread = threading.Thread(target=run)
        thread.start()

        def finish():
            end.set()
            thread.join()
            ip("-n", self.server.namespace.name, "link", "set", "eth0", "up")

        self.addCleanup(finish)
        West.cluster.processes["kube-apiserver"].end(signal.SIGKILL)
        self.wait_for_health(east=1, west=0)
        states = {p["name"]: p["state"] for p in self.rig.admin("GET", "/v1/providers")["providers"]}
        self.assertEqual(
            {
                "vm": "current",
                "dns": "current",
                "azure": "current",
                "kubernetes-east": "current",
                "kubernetes-west": "stale",
            },
            states,
        )
        problems = " ".join(self.rig.osm("problems", check=False).split())
        self.assertIn("endpoints provider kubernetes-west", problems)
        self.wait_for_platforms(*EVERYWHERE)  # its pods serve on
        before = len(got)
        ip("-n", self.server.namespace.name, "link", "set", "eth0", "down")
        wait_for("200 calls more", lambda: len(got) > before + 200, 120)
        self.assertEqual(set(), {g for g in got if g not in EVERYWHERE})
        self.assertNotIn(MACHINE, set(got[-50:]))
        West.cluster.start_api_server()
        self.wait_for_health(east=1, west=1)


if __name__ == "__main__":
    kubecase.main()
