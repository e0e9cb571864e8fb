#!/usr/bin/python3
"""examples/embed configures two Envoys, with a listener of the vendor's own."""

import signal

from lib.mesh import meshcase
from lib.mesh.rig import ADS_PORT, Machine
from lib.net.netns import Switch
from lib.net.processes import wait_for

HOST = "server.shop"


class EmbeddedMachine(Machine):
    """A machine whose files the vendor's program wrote."""

    def bootstrap(self):
        self.namespace.set_hosts((self.directory / "hosts").read_text())
        self.namespace.run(self.directory / "intercept.sh")


class Embed(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        rig = self.rig
        self.embed = rig.start(
            "embed",
            rig.switch.namespace.command(
                rig.programs.controller.parent / "embed", f"{Switch.ADDRESS}:{ADS_PORT}", rig.directory
            ),
        )
        wait_for("embed is ready", lambda: "ready" in self.embed.text().split("\n"), 20)
        for name, address in (("client", "10.200.0.11"), ("server", "10.200.0.12")):
            rig.machines[name] = EmbeddedMachine(rig, name, "shop", address)
            rig.machines[name].bootstrap()
            rig.machines[name].start_proxy()
        self.client, self.server = rig.machines["client"], rig.machines["server"]

    def test_two_envoys_are_configured_from_the_vendors_inventory_with_its_listener(self):
        self.serve(self.server)
        self.wait_for_status(self.client, 200, HOST)
        with self.subTest("the call is encrypted, and the server knows who called"):
            self.assertIn(
                "spiffe://cluster.local/ns/shop/sa/client", self.client.get(HOST, meshcase.PORT, "/books-bought")[1]
            )
        with self.subTest("the policy is the inventory's: GET only"):
            self.assertEqual(self.client.get(HOST, meshcase.PORT, "/books-bought", method="POST")[0], 404)
        for machine in (self.client, self.server):
            with self.subTest(f"the vendor's own listener on {machine.name}"):
                self.assertEqual(
                    machine.namespace.http("127.0.0.1", 16000, "GET", "/"), (200, f"sidecar of shop/{machine.name}\n")
                )
        with self.subTest("it ends cleanly"):
            self.assertEqual(self.embed.end(signal.SIGTERM), 0)


if __name__ == "__main__":
    meshcase.main()
