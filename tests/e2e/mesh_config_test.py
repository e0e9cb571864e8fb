#!/usr/bin/python3
"""Tracing, external authorization, health checks and curves are switched under load; a deleted MeshConfig
stays in force.
"""

import json
import threading

from lib.mesh import meshcase, objects
from lib.net.netns import Switch
from lib.net.outside import Authorizer, Collector
from lib.net.processes import wait_for

HOST, PORT = "server.server", meshcase.PORT
# Probes come every 10 s, and every 60 s before the first request. Envoy's runtime makes it less.
FREQUENT_PROBES = """layered_runtime:
  layers:
  - name: frequent
    static_layer: {health_check.max_interval: 500}
"""
READ, BUY = "/books-bought", "/buy-a-book/new"


class MeshConfig(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client = self.add_machine("client", "10.200.0.11")
        self.servers = [
            self.add_machine(name, address, "server", {"app": "server"})
            for name, address in (("one", "10.200.0.12"), ("two", "10.200.0.13"))
        ]
        # Permissions of other callers for every path must not block a probe.
        self.rig.mesh.write(
            "mesh.yaml",
            objects.namespace("admin"),
            objects.account("admin", "admin"),
            objects.service("server", "server", "10.96.0.12", PORT),
            objects.routes(
                "server", "routes", read={"pathRegex": READ}, buy={"pathRegex": BUY}, all={"pathRegex": ".*"}
            ),
            *(
                objects.target(
                    "server",
                    f"client-{name}",
                    name,
                    [("client", "client")],
                    ("HTTPRouteGroup", "routes", ["read", "buy"]),
                )
                for name in ("one", "two")
            ),
            *(
                objects.target(
                    "server", f"admin-{name}", name, [("admin", "admin")], ("HTTPRouteGroup", "routes", ["all"])
                )
                for name in ("one", "two")
            ),
        )

    def start(self, extra=()):
        self.start_mesh(extra)
        for machine in self.servers:
            self.serve(machine, version=machine.name)
        for _ in range(4):  # both
            self.wait_for_status(self.client, 200, HOST)
        self.wait_until_synced()

    def configure(self, **sections):
        made = objects.mesh_config()
        for name, section in sections.items():
            made["spec"].setdefault(name, {}).update(section)
        self.rig.mesh.write("config.yaml", made)

    # -- tracing --------------------------------------------------------------------------------
    def collector(self, port, path):
        made = Collector(self.rig.switch.namespace, Switch.ADDRESS, port, path)
        self.addCleanup(made.close)
        return made

    def trace(self, port, path="/api/v2/spans"):
        self.configure(
            observability={"tracing": {"enable": True, "address": "collector.example", "port": port, "endpoint": path}}
        )

    def wait_for_whole_trace(self, collector):
        def whole():
            self.client.get(HOST, PORT, READ)
            return any(
                {("client.client", "CLIENT"), (f"{name}.server", "SERVER")} <= spans
                for spans in collector.traces().values()
                for name in ("one", "two")
            )

        wait_for("both sides' spans of one trace", whole, 20, 0.1)

    def test_spans_of_both_sides_arrive_under_one_trace_while_nothing_restarts(self):
        first, second = self.collector(9411, "/api/v2/spans"), self.collector(9412, "/api/v2/spans")
        self.start()
        for machine in self.rig.machines.values():
            machine.namespace.set_hosts(
                (machine.directory / "hosts").read_text() + f"{Switch.ADDRESS} collector.example\n"
            )
        self.assertEqual(first.traces(), {})
        with meshcase.Load(self.client) as load:
            self.trace(9411)
            self.wait_for_whole_trace(first)
            with self.subTest("a collector that moves costs no listener and no connection"):
                before = {n: m.updates()["LDS"] for n, m in self.rig.machines.items()}
                self.trace(9412)
                self.wait_for_whole_trace(second)
                self.wait_until_synced()
                self.assertEqual({n: m.updates()["LDS"] for n, m in self.rig.machines.items()}, before)
            self.configure()
            for machine in self.rig.machines.values():
                wait_for(
                    f"{machine.name} has no collector any more",
                    lambda m=machine: "envoy-tracing-cluster" not in m.admin("/clusters")[1],
                )
            load.check(self, more=10)

    # -- deletion ---------------------------------------------------------------------------------
    def test_a_deleted_mesh_config_closes_no_permissive_mesh(self):
        self.rig.mesh.write("config.yaml", objects.mesh_config(permissive=True))
        self.rig.mesh.write("mesh.yaml", objects.service("server", "server", "10.96.0.12", PORT))
        self.start()

        def is_gone():
            return any(
                "does not exist" in problem["cause"] and "mesh-config.json" in problem["cause"]
                for problem in self.rig.problems()
            )

        with meshcase.Load(self.client) as load:
            self.rig.mesh.remove("config.yaml")
            wait_for("a problem says that it is gone", is_gone)
            load.check(self, more=10)
            self.rig.stop_controller()
            load.check(self, more=10)
            self.rig.start_controller()
            self.assertTrue(is_gone())
            # A Service that this controller sends to the client.
            self.rig.mesh.write("other.yaml", objects.service("server", "other", "10.96.0.13", PORT))
            self.wait_until_synced()
            load.check(self, more=10)
        with self.subTest("an empty one gives the defaults"):
            made = objects.mesh_config()
            made["spec"] = {}
            self.rig.mesh.write("config.yaml", made)
            self.wait_for_status(self.client, meshcase.REFUSED, HOST)
            self.assertFalse(is_gone())

    # -- external authorization -----------------------------------------------------------------
    def authorizer(self):
        made = Authorizer(self.rig.switch.namespace, Switch.ADDRESS, 9191, lambda principal, path: path != BUY)
        self.addCleanup(lambda: made.closed or made.close())
        return made

    def authorize(self, **settings):
        self.configure(
            traffic={
                "inboundExternalAuthorization": {
                    "enable": True,
                    "address": Switch.ADDRESS,
                    "port": 9191,
                    "timeout": "10s",
                    **settings,
                }
            }
        )

    def wait_for_all(self, wanted, path):
        """`wanted` from one server and the other: eight times in a row."""
        wait_for(
            f"{wanted} from both servers for {path}",
            lambda: all(self.client.get(HOST, PORT, path)[0] == wanted for _ in range(8)),
            20,
        )

    def test_an_authorizer_is_obeyed_and_without_it_nothing_passes_unless_so_configured(self):
        authorizer = self.authorizer()
        self.start()
        self.wait_for_all(200, BUY)
        self.assertEqual(authorizer.asked, [])
        with meshcase.Load(self.client) as load:
            self.authorize()
            self.wait_for_all(403, BUY)
            self.assertIn("says the authorizer", self.client.get(HOST, PORT, BUY)[1])
            self.wait_for_all(200, READ)
            load.check(self, more=10)
        with self.subTest("it is told who calls"):
            self.assertEqual({who for who, _ in authorizer.asked}, {"spiffe://cluster.local/ns/client/sa/client"})
        with self.subTest("it is down: nothing passes"):
            authorizer.close()
            self.wait_for_all(403, READ)
        with self.subTest("unless requests may pass then"):
            self.authorize(failureModeAllow=True)
            self.wait_for_all(200, READ)
            self.wait_for_all(200, BUY)
        with self.subTest("and it is obeyed again once it is back"):
            back = self.authorizer()
            self.wait_for_all(403, BUY)
            self.assertEqual(self.client.get(HOST, PORT, READ)[0], 200)
        with self.subTest("one that takes longer than it may has said nothing"):
            released = threading.Event()
            self.addCleanup(released.set)
            back.allows = lambda *_: released.wait()
            self.authorize(timeout="100ms")
            self.wait_for_all(403, READ)
            released.set()
            self.wait_for_all(200, READ)
        with self.subTest("off: nobody is asked"):
            self.configure()
            self.wait_for_all(200, BUY)

    # -- TLS ------------------------------------------------------------------------------------
    def handshakes(self, curve):
        """Handshakes of the client with the servers' Envoys that agreed on that curve."""
        return sum(self.client.stats(rf"^cluster\.server/server.*\.ssl\.curves\.{curve}$").values())

    def test_curves_are_the_data_planes_and_a_proxy_that_joins_reaches_the_controller(self):
        self.start()
        # The controller takes none of these. A hybrid with X25519 behind it needs no order of updates.
        for curves in (["X25519"], ["X25519MLKEM768", "X25519"]):
            curve = curves[0]
            with self.subTest(curve), meshcase.Load(self.client) as load:
                before = self.handshakes(curve)
                self.configure(sidecar={"ecdhCurves": curves})
                wait_for(f"a handshake over {curve}", lambda: self.handshakes(curve) > before, 20)
                self.wait_until_synced()
                load.check(self, more=10)
            with self.subTest(f"a proxy joins while the list is {curve}"):
                joins = self.servers[1]
                joins.stop_proxy()
                joins.bootstrap()
                joins.start_proxy()
                self.wait_until_synced()
                wait_for(
                    "it serves", lambda: '"version":"two"' in self.client.get(HOST, PORT, READ)[1].replace(" ", "")
                )
        self.assertEqual(self.handshakes("P-256"), 0)

    # -- health checks --------------------------------------------------------------------------
    def unhealthy(self):
        """Addresses that the client's probes have given up, of how many."""
        clusters = json.loads(self.client.admin("/clusters?format=json")[1])["cluster_statuses"]
        hosts = next(c.get("host_statuses", []) for c in clusters if c["name"] == f"server/server|{PORT}")
        failed = {
            h["address"]["socket_address"]["address"]
            for h in hosts
            if {"failed_active_health_check", "pending_active_hc"} & set(h["health_status"])
        }
        return failed, len(hosts)

    def test_an_endpoint_whose_proxy_hangs_is_left_alone_until_it_answers_again(self):
        self.start(("--config-yaml", FREQUENT_PROBES))
        with meshcase.Load(self.client) as load:
            self.configure(featureFlags={"enableEnvoyActiveHealthChecks": True})
            wait_for("probes succeed", lambda: sum(self.client.stats(r"health_check\.success$").values()) >= 2, 40)
            wait_for("both endpoints are healthy", lambda: self.unhealthy() == (set(), 2), 75)
            load.check(self, more=10)
        hangs = self.servers[1]
        hangs.freeze_proxy()
        try:
            wait_for("the client gives up the one that hangs", lambda: self.unhealthy() == ({hangs.address}, 2), 60)
            for _ in range(8):
                status, body = self.client.get(HOST, PORT, READ)
                self.assertEqual(status, 200, body)
                self.assertIn('"version":"one"', body.replace(" ", ""))
        finally:
            hangs.thaw_proxy()
        wait_for("it is back", lambda: self.unhealthy() == (set(), 2), 30)
        # One that came before its server's new chains is what any request is: 403, and logged.
        self.assertEqual(
            [
                line
                for machine in self.servers
                for line in machine.proxy.text().splitlines()
                if '"/healthz/osm"' in line and '"response_code":200' in line
            ],
            [],
        )


if __name__ == "__main__":
    meshcase.main()
