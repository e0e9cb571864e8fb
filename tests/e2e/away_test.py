#!/usr/bin/python3
"""Without any controller for a minute (OSM_TEST_LONG: half an hour), sidecars that run lose no request and
no connection. One that starts meanwhile passes nothing, and is configured within 5 s of the controller's
return.
"""

import os
import signal
import time

from lib.mesh import meshcase, objects
from lib.mesh.rig import REFUSED, NotLive
from lib.net.processes import wait_for

AWAY = 30 * 60 if os.environ.get("OSM_TEST_LONG") else 60  # seconds
BACK = 5  # seconds until a returned controller has configured a proxy that waits
HOST, TCP, LEDGER = "server.server", 7000, "10.96.0.14"


class Away(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client, self.server = self.add_client_and_server()
        self.other = self.add_machine("other", "10.200.0.13")
        self.rig.mesh.write(
            "others.yaml",
            objects.service("server", "ledger", LEDGER, TCP, protocol="tcp", selector={"app": "server"}),
            objects.tcp_route("server", "ledger", TCP),
            objects.target("server", "ledger", "server", [("client", "client")], ("TCPRoute", "ledger", None)),
            objects.target("server", "other", "server", [("other", "other")], ("HTTPRouteGroup", "routes", ["books"])),
        )
        self.start_mesh()
        self.serve(self.server)
        self.start_ledger(self.server, TCP)
        for machine in (self.client, self.other):
            self.wait_for_status(machine, 200, HOST)

    def line(self, connection):
        connection.sendall(b"x\n")
        return connection.recv(100)

    def get(self, machine):
        """A status, REFUSED, or None if its sidecar has no listener yet."""
        try:
            return machine.get(HOST, meshcase.PORT, "/books-bought")[0]
        except NotLive:
            return None

    def test_running_sidecars_go_on_and_a_new_one_fails_closed(self):
        opened = self.client.namespace.connect(LEDGER, TCP)
        self.addCleanup(opened.close)
        self.assertTrue(self.line(opened))
        updates = {m: m.updates() for m in (self.client, self.server)}
        with meshcase.Load(self.client) as load:
            self.rig.stop_controller(signal.SIGKILL)
            gone = time.monotonic()
            self.other.stop_proxy()
            self.other.start_proxy(wait=False)
            self.rig.watcher.forget(self.other)  # its first fetch times out
            while time.monotonic() < gone + AWAY:
                self.assertTrue(self.line(opened))
                self.assertNotEqual(self.ask_ledger(self.client, LEDGER, TCP), REFUSED)
                self.assertIn(self.get(self.other), (None, REFUSED))
                time.sleep(0.2)
            load.check(self)
            with self.subTest("the new sidecar is configured soon after the controller is back"):
                self.rig.start_controller()
                wait_for("its requests are answered", lambda: self.get(self.other) == 200, BACK)
            with self.subTest("the others are sent nothing but secrets"):
                self.wait_until_synced()
                for machine, before in updates.items():
                    after = machine.updates()
                    self.assertEqual({**after, "SDS": 0}, {**before, "SDS": 0}, machine.name)
            self.assertTrue(self.line(opened))
            load.check(self)
        self.assertGreater(load.requests, AWAY)


if __name__ == "__main__":
    meshcase.main()
