#!/usr/bin/python3
"""The ADS listener under pressure: it accepts again after descriptors ran out, its bounds leave the
other addresses and the health port alone, and readiness says when it cannot accept
(docs/security.md, threat 26).

usage: listener_test.py --bin DIRECTORY [CLASS...]
"""

import contextlib
import http.client
import json
import resource
import socket

from lib.mesh import attacked, objects
from lib.mesh.daemon import run
from lib.mesh.xds_client import CLUSTERS, STATE_OF_THE_WORLD
from lib.net import http2
from lib.net.ports import listening
from lib.net.processes import wait_for


class ListenerTest(attacked.MeshTest):
    def setUp(self):
        super().setUp()
        self.host, port = self.ads.rsplit(":", 1)
        self.port = int(port)
        self.assert_served()
        self.open = self.descriptors()

    def limit_descriptors(self, count):
        """The number of descriptors that the controller may have from now on."""
        pid = self.controller.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (count, before[1]))

    def connect_silently(self, stack, count):
        for _ in range(count):
            stack.enter_context(socket.create_connection((self.host, self.port), timeout=5))

    def is_served(self):
        """A proxy that comes now is configured."""
        with contextlib.suppress(OSError, AssertionError):
            return self.is_configured(self.web)

    def admits(self):
        """/version says that a proxy that comes now is configured."""
        return json.loads(self.controller.http("/version")[1])["admits"]


class Exhaustion(ListenerTest):
    """The ADS port accepts again after all descriptors were used up.

    Not under UBSan: it opens a pipe to look at an object, and takes a failure for a bad one.
    """

    FLAGS = ("--ads-max-unverified-per-address", "0")

    def test_it_accepts_again_after_descriptors_ran_out(self):
        health = http.client.HTTPConnection(self.controller.addresses["http_address"], timeout=10)

        def ready():
            health.request("GET", "/health/ready")
            response = health.getresponse()
            return response.status, response.read().decode()

        def version():
            health.request("GET", "/version")
            return json.loads(health.getresponse().read())

        self.assertEqual(ready()[0], 200)
        self.assertTrue(version()["admits"])
        # Few are so few that the reserve for other parts of the controller is used up, too.
        self.limit_descriptors(self.open + 20)
        with contextlib.closing(health), contextlib.ExitStack() as stack:
            self.connect_silently(stack, 60)
            wait_for("readiness to see it", lambda: ready()[0] == 503, 8)
            self.assertIn("ADS listener", ready()[1])
            self.assertIn("Too many open files", ready()[1])
            self.assertFalse(version()["admits"])
            stack.close()
            wait_for("a proxy to be configured", self.is_served, 5)
            wait_for("ready", lambda: ready()[0] == 200, 5)
            self.assertTrue(version()["admits"])


class Reserve(ListenerTest):
    FLAGS = ("--ads-max-unverified-per-address", "0", "--join-address", "127.0.0.1:0")

    def test_connections_of_proxies_leave_descriptors_for_the_health_port(self):
        self.limit_descriptors(600)
        with contextlib.ExitStack() as stack:
            self.connect_silently(stack, 800)
            self.wait_until_bound()
            self.assertEqual(self.controller.http("/health/ready")[0], 200)
            self.assertLess(self.descriptors(), 600 - 60)
        wait_for("a proxy to be configured", self.is_served, 5)

    def test_connections_to_every_port_leave_descriptors_for_a_probe(self):
        """The TCP ports that a controller over a directory has, and its socket. The webhook and remote administration,
        which only Kubernetes has, are in e2e.kubernetes.descriptors."""
        mine = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, mine)
        resource.setrlimit(resource.RLIMIT_NOFILE, (mine[1], mine[1]))
        self.limit_descriptors(1024)
        health = int(self.controller.addresses["http_address"].rsplit(":", 1)[1])
        join = self.controller.admin("/v1/vm/tokens", "POST", {"name": "web-1", "namespace": "shop", "seconds": 60})
        ports = {self.port, health, join[1]["join_port"]}
        self.assertEqual(listening(self.controller.process.pid), ports, "a port of the controller is not filled here")
        with contextlib.ExitStack() as stack:
            self.connect_silently(stack, 1100)
            for port in ports - {self.port}:
                for _ in range(300):
                    stack.enter_context(socket.create_connection((self.host, port), timeout=5))
            for _ in range(300):
                admin = stack.enter_context(socket.socket(socket.AF_UNIX))
                admin.connect(str(self.state / "admin.sock"))
            self.wait_until_bound()
            self.assertEqual(self.controller.http("/health/alive")[0], 200)
            self.assertEqual(self.controller.admin("/v1/version")[0], 200)
            self.assertEqual(self.controller.log("cannot accept"), [])
        wait_for("a proxy to be configured", self.is_served, 5)

    def wait_until_bound(self):
        bound = 'osm_ads_connection_bounds_met_total{bound="connections"}'
        wait_for("the bound", lambda: self.controller.metric(bound))


class Full(ListenerTest):
    def test_a_replica_that_serves_as_many_proxies_as_it_may_says_that_it_admits_none(self):
        self.write("config.yaml", objects.mesh_config(sidecar={"maxDataPlaneConnections": 1}))
        with self.connect(self.web) as connection:
            connection.message(connection.open(STATE_OF_THE_WORLD, CLUSTERS))
            wait_for("it is full", lambda: not self.admits())
            self.assertEqual(self.controller.http("/health/ready")[0], 200)
        wait_for("there is a place again", self.admits)


class Addresses(ListenerTest):
    FLAGS = ("--ads-max-unverified-per-address", "20")

    def test_connections_without_a_certificate_fill_up_one_address_only(self):
        proxies = contextlib.ExitStack()
        with proxies, contextlib.ExitStack() as stack:
            for _ in range(30):  # these show certificates, and do not count
                connection = proxies.enter_context(self.connect(self.web))
                connection.message(connection.open(STATE_OF_THE_WORLD, CLUSTERS))
            self.connect_silently(stack, 40)
            self.assertFalse(self.is_served())
            with http2.Connection.tls(self.ads, self.roots, self.web, source="127.0.0.2") as other:
                stream = other.open(STATE_OF_THE_WORLD, CLUSTERS)
                self.assertIn(b"envoy.config.cluster.v3.Cluster", other.message(stream))
        wait_for("a proxy to be configured", self.is_served, 5)

    def test_failed_handshakes_cannot_flood_the_log(self):
        before = len(self.controller.log("gRPC"))
        for _ in range(100):
            with contextlib.suppress(OSError), self.connect() as connection:
                connection.status(connection.open(STATE_OF_THE_WORLD, CLUSTERS))
        lines = self.controller.log("gRPC")[before:]
        self.assertLess(len(lines), 40)  # two kinds of lines for each


if __name__ == "__main__":
    run()
