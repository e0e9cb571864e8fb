#!/usr/bin/python3
"""The data plane works while the API server crashes or is away for 20 s, and changes are caught up; daemons
that start meanwhile wait for it; a deleted MeshConfig stays in force.
"""

import os
import signal
import sys
import time

from lib.kube import kubecase, mesh
from lib.kube import kubeobjects as k8s
from lib.kube.api import ApiError
from lib.kube.cluster import API_PORT
from lib.mesh import objects
from lib.net.processes import FairClock, NotYet, wait_for

# Longer than the Lease of a controller and its deadline to renew it; a minute at night.
AWAY = 60 if os.environ.get("OSM_TEST_LONG") else 20
# An attempt to connect takes 5 s at most, the next comes 4 s later at the latest, and this machine
# is busy.
NOTICED = 15


class OutageTest(kubecase.MeshCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        idle = k8s.shell_container("app", "trap 'exit 0' TERM; while :; do sleep 0.1; done")
        cls.api.apply(
            mesh.namespace("server"),
            mesh.namespace("client"),
            k8s.account("server", "server"),
            k8s.account("client", "client"),
            k8s.service("server", "server"),
            k8s.deployment("server", "server", account="server"),
            k8s.deployment("client", "client", [idle], account="client"),
        )
        cls.routes()
        cls.wait_until_available("server", "server")
        cls.wait_until_available("client", "client")
        cls.client = cls.pod_of("client", "client")
        cls.url = f"server.server:{k8s.PORT}"

    @classmethod
    def routes(cls):
        cls.api.apply(objects.routes("server", "all", everything={"pathRegex": "/.*", "methods": ["*"]}))

    def setUp(self):
        super().setUp()
        self.allow()
        self.wait_for_answer(self.client, 200, f"{self.url}/x")

    def crash_api_server(self):
        """The test starts it again; if the test does not come so far, its cleanup does."""
        self.cluster.stop_api_server(signal.SIGKILL)
        self.addCleanup(lambda: self.cluster.api_server_runs() or self.restart_api_server())

    def restart_api_server(self):
        self.cluster.start_api_server()
        self.cluster.restart_controller_manager()

    def apply(self, *wanted):
        # On a busy node kube-proxy may still name the webhook's former pod.
        wait_for("the webhook takes it", lambda: self.api.apply(*wanted), 20, retry=(ApiError,))

    def allow(self):
        self.apply(
            objects.target(
                "server", "access", "server", [("client", "client")], ("HTTPRouteGroup", "all", ["everything"])
            )
        )

    def forbid(self):
        self.api.delete("TrafficTarget", "server", "access")

    def go_on_for(self, seconds):
        """The client is answered, each time, for so long."""
        until, count = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            status, body = self.client.get(f"{self.url}/x")
            self.assertEqual(200, status, body)
            count += 1
        print(f"{count} requests were answered meanwhile", file=sys.stderr)

    def test_a_crashed_api_server(self):
        self.crash_api_server()
        self.go_on_for(5)
        self.restart_api_server()
        self.forbid()
        clock = FairClock()
        self.wait_for_answer(self.client, 0, f"{self.url}/x", timeout=60)
        took = clock.seconds()
        print(f"in effect {took:.1f} s after the change", file=sys.stderr)
        self.assertLess(took, NOTICED)

    def test_an_api_server_that_cannot_be_reached_for_long(self):
        """The same holds while packets to the API server are dropped for a minute."""
        controllers = [p["status"]["podIP"] for p in self.pods(mesh.SYSTEM)]
        self.assertEqual(2, len(controllers))
        rules = [
            ("INPUT", "-p", "tcp", "-s", address, "--dport", str(API_PORT), "-j", "DROP") for address in controllers
        ]
        rules += [
            ("OUTPUT", "-p", "tcp", "-d", address, "--sport", str(API_PORT), "-j", "DROP") for address in controllers
        ]
        for rule in rules:
            self.cluster.namespace.run("iptables", "-I", *rule)
            self.addCleanup(self.cluster.namespace.run, "iptables", "-D", *rule, check=False)
        # Two changes that only the API server knows of: one takes back, one adds.
        other = objects.target(
            "server", "other", "server", [("client", "nobody")], ("HTTPRouteGroup", "all", ["everything"])
        )
        self.apply(other)
        self.addCleanup(self.api.delete, "TrafficTarget", "server", "other")
        self.go_on_for(AWAY)
        self.forbid()
        self.go_on_for(3)
        for rule in rules:
            self.cluster.namespace.run("iptables", "-D", *rule)
        clock = FairClock()
        self.wait_for_answer(self.client, 0, f"{self.url}/x", timeout=60)
        took = clock.seconds()
        print(f"caught up {took:.1f} s after it could be reached", file=sys.stderr)
        self.assertLess(took, NOTICED)
        self.allow()
        self.wait_for_answer(self.client, 200, f"{self.url}/x")

    def test_daemons_that_start_before_the_api_server_wait_for_it(self):
        self.crash_api_server()
        containers = [
            self.agent.pods(mesh.SYSTEM, daemon)[0].containers[0] for daemon in ("osm-controller", "osm-injector")
        ]
        for container in containers:
            before, pod = container.process.pid, container.pod
            self.agent.expect_restarts(pod.ns, pod.name, container.name)
            os.kill(before, signal.SIGKILL)
            wait_for(f"{container.name} runs again", lambda: container.running() and container.process.pid != before)
        starts = [container.restarts for container in containers]

        def health(container, path):
            return self.cluster.namespace.http(container.pod.address, 9091, "GET", f"/health/{path}")

        def waits(container):
            status, body = health(container, "ready")
            if status != 503 or "- certificate authority: " not in body:
                raise NotYet((status, body))
            return True

        for container in containers:
            wait_for(f"{container.name} says what it waits for", lambda: waits(container), 20, retry=(OSError,))
            self.assertEqual(200, health(container, "alive")[0])
        self.go_on_for(AWAY)
        for container in containers:
            self.assertTrue(waits(container))
        self.restart_api_server()
        back = time.monotonic()
        for container in containers:
            wait_for(f"{container.name} is ready", lambda: health(container, "ready")[0] == 200, 60)
        print(f"ready {time.monotonic() - back:.1f} s after the API server", file=sys.stderr)
        self.assertEqual(starts, [container.restarts for container in containers])
        self.forbid()
        self.wait_for_answer(self.client, 0, f"{self.url}/x", timeout=60)
        self.allow()
        self.restart("client", "client")  # the injector gives the new pod its sidecar
        type(self).client = self.pod_of("client", "client")
        self.wait_for_answer(self.client, 200, f"{self.url}/x")

    def test_a_deleted_mesh_config_closes_no_permissive_mesh(self):
        config = ("MeshConfig", mesh.SYSTEM, "osm-mesh-config")

        self.addCleanup(lambda: self.wait_for_answer(self.client, 0, f"{self.url}/x"))
        self.addCleanup(lambda: self.apply(objects.mesh_config(False)))
        self.forbid()
        self.wait_for_answer(self.client, 0, f"{self.url}/x")
        self.apply(objects.mesh_config(True))
        self.wait_for_answer(self.client, 200, f"{self.url}/x")
        with self.assertRaises(ApiError) as refused:
            self.api.delete(*config)
        self.assertIn("openservicemesh.io/allow-deletion=true", refused.exception.message)
        self.api.patch(*config, {"metadata": {"annotations": {"openservicemesh.io/allow-deletion": "true"}}})
        self.api.delete(*config)
        self.assertIsNone(self.api.find(*config))
        self.go_on_for(2)
        # From here on no program knows it from the object.
        for daemon in ("osm-controller", "osm-injector"):
            self.begin_restart(mesh.SYSTEM, daemon)
        self.go_on_for(3)
        for daemon in ("osm-controller", "osm-injector"):
            self.wait_until_available(mesh.SYSTEM, daemon)
        self.go_on_for(1)
        self.assertIsNone(self.api.find(*config))  # nor did the preset make another
        # All that a new pod has comes from the new programs.
        self.restart("client", "client")
        type(self).client = self.pod_of("client", "client")
        self.wait_for_answer(self.client, 200, f"{self.url}/x")

    def test_pods_are_replaced_after_an_outage(self):
        self.crash_api_server()
        self.restart_api_server()
        old = self.pod_of("server", "server").run.address
        self.restart("server", "server")
        wait_for("the old pod is gone", lambda: old not in {p.address for p in self.agent.pods("server")})
        self.wait_for_answer(self.client, 200, f"{self.url}/x")


if __name__ == "__main__":
    kubecase.main()
