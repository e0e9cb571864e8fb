#!/usr/bin/python3
"""An object that Envoy refuses is named and left out alone, and nobody takes an object or a limit from
others by refusing it.

Such an object is a regex that costs more than the proxies' operator allows
(re2.max_program_size.error_level), and less than the mesh does.
"""

import re

from lib.mesh import meshcase, objects
from lib.mesh.xds_client import CLUSTER, as_proxy
from lib.mesh.xds_proxy import Cluster, Mode, XdsProxy
from lib.net import http2
from lib.net.processes import FairClock, NotYet, wait_for

SERVERS = {
    "server-a": ("10.200.0.21", "10.96.0.21"),
    "server-b": ("10.200.0.22", "10.96.0.22"),
    "server-c": ("10.200.0.23", "10.96.0.23"),
}
STRICT = """layered_runtime:
  layers:
  - name: strict
    static_layer: {re2: {max_program_size: {error_level: 100}}}
"""
COSTLY = "/a{1,200}"
NEW = "/buy-a-book/new"


class Nack(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.rig.watcher.expect_rejections = True
        self.client = self.add_machine("client", "10.200.0.11")
        for name, (address, service) in SERVERS.items():
            self.add_machine(name, address)
            self.rig.mesh.write(f"service-{name}.yaml", objects.service(name, name, service, meshcase.PORT))
            self.rig.mesh.write(
                f"steady-{name}.yaml",
                objects.routes(name, "steady", books={"pathRegex": "/books-.*"}),
                self.access(name, "steady"),
            )
            self.rig.mesh.write(f"target-{name}.yaml", self.access(name, "extra"))
            self.write_extra(name, "/nothing")
        self.rig.start_controller()
        for machine in self.rig.machines.values():
            machine.bootstrap()
            machine.start_proxy(wait=False, extra=("--config-yaml", STRICT))
        self.callers = []
        for name in SERVERS:
            self.rig.machines[name].wait_until_live()
            self.serve(self.rig.machines[name])
            self.wait_for_status(self.client, 200, f"{name}.{name}")
        self.wait_until_synced()
        for name in SERVERS:
            self.callers.append(meshcase.Load(self.client, f"{name}.{name}", interval=0.05))
            self.addCleanup(self.callers[-1].stop)

    @staticmethod
    def access(name, routes):
        return objects.target(name, routes, name, [("client", "client")], ("HTTPRouteGroup", routes, ["books"]))

    def write_extra(self, name, path, wait=True):
        extra = objects.routes(name, "extra", books={"pathRegex": path})
        self.rig.mesh.write(f"extra-{name}.yaml", extra, wait=wait)

    def refused(self):
        return [p for p in self.rig.problems() if p["code"] == "refused-by-proxy"]

    def wait_for_refused(self, *names):
        def told():
            problems = self.refused()
            return problems if {p["object"] for p in problems} == set(names) else None

        return wait_for(f"refused objects: {names}", told, 10)

    def allowed(self, name, timeout=5):
        """The new path leads to the application."""
        self.wait_for_status(self.client, 200, f"{name}.{name}", NEW, timeout=timeout)

    def check_traffic(self):
        for caller in self.callers:
            caller.check(self)

    def test_the_object_that_envoy_refuses_is_named_and_left_out_alone(self):
        # One edit of three objects.
        clock = FairClock()
        self.write_extra("server-b", COSTLY, wait=False)
        self.write_extra("server-a", NEW, wait=False)
        self.write_extra("server-c", NEW, wait=False)
        self.allowed("server-a")
        self.allowed("server-c")
        problem = self.wait_for_refused("HTTPRouteGroup server-b/extra")[0]
        self.assertLess(clock.seconds(), 5)
        self.assertIn("server-b/server-b", problem["cause"])
        self.assertIn("RE2 program size of", problem["cause"])  # Envoy's words
        self.assertIn(COSTLY, problem["cause"])
        self.assertTrue(problem["path"].endswith("extra-server-b.yaml"), problem)
        self.wait_until_synced()  # everything else is applied, by the one that refused too
        self.check_traffic()
        metrics = self.rig.controller_http("/metrics")[1]
        self.assertRegex(metrics, r'osm_nack_total\{[^}]*object_kind="HTTPRouteGroup"[^}]*\} 1\n')

        with self.subTest("a restarted controller finds it again"):
            self.rig.stop_controller()
            self.rig.start_controller()
            self.wait_for_refused("HTTPRouteGroup server-b/extra")
            self.wait_until_synced()
            self.check_traffic()
        with self.subTest("a proxy that starts with it in the mesh is served the rest"):
            server = self.rig.machines["server-b"]
            self.callers[1].stop()
            server.stop_proxy()
            server.start_proxy(extra=("--config-yaml", STRICT))
            self.wait_for_status(self.client, 200, "server-b.server-b")
        with self.subTest("changed to a good one it is live, and the problem goes away"):
            self.write_extra("server-b", NEW)
            self.allowed("server-b")
            wait_for("no problem is left", lambda: not self.refused())
            self.wait_until_synced()
        for caller in self.callers:
            self.assertEqual(caller.failures, [])


CONNECTIONS = 777  # by this number clients see the limits


class Thief(meshcase.MeshCase):
    """A thief of a machine's xDS key, which may call the server, refuses what others need."""

    def setUp(self):
        super().setUp()
        self.rig.watcher.expect_rejections = True
        self.client, self.server = self.add_client_and_server()
        self.thief = self.add_machine("thief", "10.200.0.66")
        self.add_machine("absent", "10.200.0.67")  # its proxy is never connected
        callers = [(name, name) for name in ("client", "thief", "absent")]
        self.rig.mesh.write(
            "callers.yaml",
            objects.target("server", "callers", "server", callers, ("HTTPRouteGroup", "routes", ["books"])),
        )
        self.write_new()
        self.rig.start_controller()
        for machine in (self.client, self.server, self.thief):
            machine.bootstrap()  # its names of hosts include the new Service's
        self.rig.mesh.remove("new.yaml")
        for machine in (self.client, self.server):
            machine.start_proxy()
        self.serve(self.server)
        self.wait_for_status(self.client, 200, "server.server")

    def write_new(self):
        new = objects.service("server", "new", "10.96.0.13", meshcase.PORT, selector={"app": "server"})
        self.rig.mesh.write("new.yaml", new, wait=False)

    def come(self):
        """The thief's stream. It refuses clusters with the limits, and those of the new Service."""

        def is_of_others(kind, content):
            if kind != CLUSTER:
                return False
            cluster = Cluster.FromString(content)
            limits = {t.max_connections.value for t in cluster.circuit_breakers.thresholds}
            return CONNECTIONS in limits or "server/new" in cluster.name

        coming = []
        host, _, port = (self.thief.controller or self.rig.ads_address).rpartition(":")

        def there():
            if not coming or coming[-1].ended:  # as it does before the controller has its mesh
                coming.append(XdsProxy(as_proxy(self.thief, host, int(port)), Mode.SILENT))
                self.addCleanup(coming[-1].close)
                coming[-1].refuse("no", containing=is_of_others)
            return "thief" in self.proxies()

        wait_for("the thief is connected", there, 20, retry=http2.CLOSED)
        return coming[-1]

    def problems(self):
        """Those that each controller tells."""
        return [self.rig.problems()]

    def restart_controller(self):
        """That of the thief."""
        self.rig.stop_controller()
        self.rig.start_controller(wait=False)

    def wait_for_refusal(self, *objects):
        """Until the thief is known to refuse one of them, or any, and every controller says the same."""
        one = re.compile("refused by 1 of [23] connected proxies: thief/thief")

        def told():
            refused = [[p for p in problems if p["code"] == "refused-by-proxy"] for problems in self.problems()]
            wanted = [p for p in refused[0] if not objects or p["object"] in objects]
            if refused != refused[:1] * len(refused) or not wanted or not one.match(wanted[0]["cause"]):
                raise NotYet(refused)
            return True

        wait_for(f"a refusal of {objects} is told", told, 30)

    def write_limits(self, requests=3, wait=False):
        limits = objects.upstream_setting(
            "server",
            "limits",
            "server.server",
            connectionSettings={"tcp": {"maxConnections": CONNECTIONS}},
            rateLimit={"local": {"http": {"requests": requests, "unit": "hour"}}},
        )
        self.rig.mesh.write("limits.yaml", limits, wait=wait)

    def test_a_thief_takes_no_limit_from_a_server_that_limits_already(self):
        self.write_limits(wait=True)
        self.wait_for_status(self.client, 429, "server.server")
        self.come()  # and is sent the limits
        self.wait_for_refusal("UpstreamTrafficSetting server/limits")
        self.check_limit()
        with self.subTest("a changed limit"):
            self.write_limits(requests=2)
            self.wait_for_status(self.client, 200, "server.server")  # in force, with a full bucket
            self.wait_for_status(self.client, 429, "server.server")
            self.wait_for_refusal("UpstreamTrafficSetting server/limits")
            self.check_limit()

    def check_limit(self):
        """The bucket is empty for an hour: not one request beyond the limit gets through."""
        answers = [self.client.get("server.server", meshcase.PORT, "/books-bought")[0] for _ in range(10)]
        self.assertEqual(answers, [429] * 10)

    def test_a_thief_takes_no_limit_and_no_service_from_others(self):
        self.come().wait_until_configured()
        self.write_limits()
        self.wait_for_refusal("UpstreamTrafficSetting server/limits")
        self.wait_for_status(self.client, 429, "server.server")
        self.write_new()
        self.wait_for_status(self.client, 200, "new.server")
        self.wait_for_refusal("Service server/new")
        self.check_others()
        with self.subTest("it comes first to a controller that starts"):
            self.restart_controller()
            self.come()
            self.wait_for_refusal()  # of one object or another, and then nothing is left for the thief
            wait_for("the others are back", lambda: {"client", "server"} <= self.proxies().keys(), 20)
            self.check_others()

    def check_others(self):
        # New routes may have begun with a full bucket.
        self.wait_for_status(self.client, 429, "server.server")
        for host, status in (("server.server", 429), ("new.server", 200)) * 5:
            self.assertEqual(self.client.get(host, meshcase.PORT, "/books-bought")[0], status, host)


if __name__ == "__main__":
    meshcase.main()
