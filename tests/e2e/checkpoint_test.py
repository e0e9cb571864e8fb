#!/usr/bin/python3
"""One client and one server: SMI allows and denies, a restart of the controller changes nothing, and no key
is in any log or dump.
"""

import signal

from lib.mesh import meshcase, objects
from lib.mesh.rig import REFUSED

HOST, PORT = "server.server", meshcase.PORT


class Checkpoint(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client = self.add_machine("client", "10.200.0.11")
        self.server = self.add_machine("server", "10.200.0.12")
        self.rig.mesh.write(
            "server.yaml",
            objects.service("server", "server", "10.96.0.12", PORT),
            objects.routes("server", "routes", books={"pathRegex": "/books-bought", "methods": ["GET"]}),
        )
        self.allow()
        self.start_mesh()
        self.serve(self.server)

    def allow(self):
        self.rig.mesh.write(
            "access.yaml",
            objects.target(
                "server", "access", "server", [("client", "client")], ("HTTPRouteGroup", "routes", ["books"])
            ),
        )

    def get(self, path="/books-bought", method="GET"):
        return self.client.get(HOST, PORT, path, method)

    def test_smi_decides_and_a_restarted_controller_changes_nothing(self):
        self.wait_for_status(self.client, 200, HOST)
        with self.subTest("the server is told who calls"):
            self.assertIn('"caller":"spiffe://cluster.local/ns/client/sa/client"', self.get()[1])
        with self.subTest("what no route matches is not found, and a method not allowed neither"):
            self.assertEqual(self.get("/buy-a-book/new")[0], 404)
            self.assertEqual(self.get(method="POST")[0], 404)
        with self.subTest("a connection from outside the mesh is reset"):
            with self.assertRaises(ConnectionResetError):
                self.rig.switch.namespace.http(self.server.address, PORT, "GET", "/books-bought")

        with self.subTest("denied: the client cannot even connect"):
            self.rig.mesh.remove("access.yaml")
            self.wait_for_status(self.client, REFUSED, HOST)
        with self.subTest("allowed again"):
            self.allow()
            self.wait_for_status(self.client, 200, HOST)

        with self.subTest("the mesh goes on while the controller is dead"):
            self.rig.stop_controller(signal.SIGKILL)
            self.assertEqual(self.get()[0], 200)
        with self.subTest("a restarted controller has nothing to tell but secrets"):
            before = {m: m.updates() for m in (self.client, self.server)}
            self.rig.start_controller()
            self.wait_until_synced()
            for machine, updates in before.items():
                after = machine.updates()
                for kind in ("CDS", "EDS", "LDS", "RDS"):
                    self.assertEqual(after[kind], updates[kind], (machine.name, kind))
            self.assertEqual(self.get()[0], 200)
        with self.subTest("what proxies hold can be dumped, and holds no private key"):
            for name, part in (("client/client", "outbound-listener"), ("server/server", "inbound-listener")):
                dump = self.rig.osm("proxy", "get", "config_dump", name)
                for wanted in (part, "service-cert", "sha256:"):
                    self.assertIn(wanted, dump)
                self.assertNotIn("PRIVATE KEY", dump)
        with self.subTest("and is obeyed"):
            self.rig.mesh.remove("access.yaml")
            self.wait_for_status(self.client, REFUSED, HOST)
        with self.subTest("no private key is in a log"):
            for log in self.rig.directory.glob("*.log"):
                self.assertNotIn("PRIVATE KEY", log.read_text(errors="replace"), log.name)


if __name__ == "__main__":
    meshcase.main()
