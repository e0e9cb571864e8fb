#!/usr/bin/python3
"""When `osm status --wait` reports Applied, traffic obeys; silent proxies are named."""

import subprocess
import time

from lib.mesh import admin, meshcase, objects
from lib.mesh.rig import REFUSED
from lib.net.processes import Timeout

SERVICE = "10.96.0.31"


class Receipts(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client = self.add_machine("client", "10.200.0.31")
        self.server = self.add_machine("server", "10.200.0.32")
        self.add_machine("bystander", "10.200.0.33")
        self.rig.mesh.write("service.yaml", objects.service("server", "server", SERVICE, meshcase.PORT))
        self.rig.mesh.write("routes.yaml", objects.routes("server", "routes", books={"pathRegex": "/books-bought"}))
        self.grant()
        self.start_mesh()
        self.serve(self.server)
        self.wait_for_status(self.client, 200, "server.server")
        self.wait_until_synced()

    def grant(self):
        self.rig.mesh.write(
            "access.yaml",
            objects.target(
                "server", "access", "server", [("client", "client")], ("HTTPRouteGroup", "routes", ["books"])
            ),
            wait=False,
        )

    def status(self, *arguments):
        return subprocess.run(
            [
                self.rig.programs.osm,
                "status",
                "traffictarget",
                "server/access",
                "--state-dir",
                self.rig.state,
                *arguments,
            ],
            capture_output=True,
            text=True,
            timeout=60,
        )

    def get(self):
        return self.client.get("server.server", meshcase.PORT, "/books-bought")[0]

    def test_the_traffic_obeys_at_the_moment_the_receipt_is_there(self):
        for _ in range(5):
            self.rig.mesh.remove("access.yaml", wait=False)
            done = self.status("--wait", "--timeout", "20s")
            self.assertEqual(done.returncode, 0, done)
            self.assertIn("applied by 2 of 2", done.stdout)  # the bystander is none of them
            # The client's Envoy refuses, or the server's if the client's is still closing its listener.
            self.assertIn(self.get(), (REFUSED, 404))
            self.grant()
            done = self.status("--wait", "--timeout", "20s")
            self.assertEqual(done.returncode, 0, done)
            self.assertEqual(self.get(), 200)

    def test_a_proxy_that_does_not_answer_is_behind_by_name_until_it_does(self):
        self.server.freeze_proxy()
        self.addCleanup(self.server.thaw_proxy)
        self.rig.mesh.remove("access.yaml", wait=False)
        started = time.monotonic()
        done = self.status("--wait", "--timeout", "2s")
        self.assertEqual(done.returncode, 5, done)
        self.assertGreaterEqual(time.monotonic() - started, 2)
        self.assertIn("TrafficTarget server/access: Pending", done.stdout)
        self.assertRegex(done.stdout, r"server/server +has not answered")
        self.assertNotIn("bystander", done.stdout)
        target = objects.target("server", "access", "server", [])
        with self.assertRaisesRegex(Timeout, "behind: server/server"):
            admin.wait_until_acknowledged(self.rig.states(), [target], 1)
        self.server.thaw_proxy()
        self.assertEqual(self.status("--wait", "--timeout", "20s").returncode, 0)


if __name__ == "__main__":
    meshcase.main()
