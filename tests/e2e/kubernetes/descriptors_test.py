#!/usr/bin/python3
"""Connections to every port that a controller has on Kubernetes, those of the webhook and of remote
administration among them, leave descriptors for a probe, a review and a command (docs/security.md, threat 26).

The API server is real. The controller is a process without a pod, with the flags of the chart.
"""

import contextlib
import http.client
import json
import os
import resource
import socket
import ssl

from lib.kube.kubernetes_rig import KubernetesRig
from lib.mesh import meshcase
from lib.mesh.replicated_rig import first
from lib.mesh.rig import ADS_PORT, HTTP_PORT
from lib.net.ports import listening
from lib.net.processes import NotYet, wait_for

CONTROLLER, ADDRESS = "controller-1", "10.200.251.1"
WEBHOOK, ADMIN, JOIN = 9093, 9094, 15129
OTHERS = (HTTP_PORT, WEBHOOK, ADMIN, JOIN)
# Of so many descriptors half are kept back, as many as the bounds of the ports add up to (docs/run.md).
DESCRIPTORS, KEPT = 1536, 768
EACH = 128  # connections to each of the other ports and to the socket
FILLED = DESCRIPTORS - KEPT + EACH * (len(OTHERS) + 1)


class OneController(KubernetesRig):
    CONTROLLERS = first(1)
    VALUES = (f"osm.osmController.joinPort={JOIN}",)


class Descriptors(meshcase.MeshCase):
    make_rig = OneController

    def setUp(self):
        super().setUp()
        self.rig.controller_flags = ("--ads-max-unverified-per-address", "0")
        self.rig.start_controller()
        self.process = self.rig.controllers[CONTROLLER]
        mine = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, mine)
        resource.setrlimit(resource.RLIMIT_NOFILE, (mine[1], mine[1]))

    def connect(self, stack, port, count):
        for _ in range(count):
            stack.enter_context(self.rig.switch.namespace.connect(ADDRESS, port, 10))

    def connect_to_socket(self, stack, count):
        for _ in range(count):
            opened = stack.enter_context(socket.socket(socket.AF_UNIX))
            opened.connect(str(self.rig.state_of(CONTROLLER) / "admin.sock"))

    def status(self, port, method, path, body=None):
        """Of a new connection's answer, over TLS."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPConnection(ADDRESS, port, timeout=10)
        with contextlib.closing(connection):
            connection.sock = context.wrap_socket(self.rig.switch.namespace.connect(ADDRESS, port, 10))
            connection.request(method, path, body, {"Content-Type": "application/json"})
            return connection.getresponse().status

    def test_connections_to_every_port_leave_descriptors(self):
        pid = self.process.pid
        self.assertEqual(
            listening(pid), {ADS_PORT, *OTHERS}, "a port of the controller is not filled here, or is no longer there"
        )
        hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))
        with contextlib.ExitStack() as stack:
            # More than would be let in if nothing were kept back for one of the other ports.
            self.connect(stack, ADS_PORT, DESCRIPTORS - KEPT + 3 * EACH)
            bound = 'osm_ads_connection_bounds_met_total{bound="connections"}'
            wait_for("the bound of proxies", lambda: self.rig.count_of(CONTROLLER, bound))

            def filled():
                """With new ones each time: silent connections are closed after a few seconds."""
                for port in OTHERS:
                    self.connect(stack, port, EACH + 10)
                self.connect_to_socket(stack, EACH + 10)
                self.connect(stack, ADS_PORT, EACH)
                if (count := len(os.listdir(f"/proc/{pid}/fd"))) < FILLED:
                    raise NotYet(count)
                return True

            wait_for("all ports have as many connections as they may", filled, 30)
            self.assertEqual(self.rig.http(CONTROLLER, "/health/alive")[0], 200)
            self.assertEqual(self.rig.admin_at(CONTROLLER, "/v1/version")[0], 200)
            self.assertEqual(self.status(WEBHOOK, "POST", "/validate", "{}"), 200)
            self.assertEqual(self.status(ADMIN, "GET", "/v1/problems"), 403)  # it was asked for its token
            self.assertIn(self.status(JOIN, "GET", "/"), (404, 405))
            self.assertNotIn("cannot accept", self.process.text())
        wait_for("proxies are admitted", lambda: json.loads(self.rig.http(CONTROLLER, "/version")[1])["admits"])


if __name__ == "__main__":
    meshcase.main()
