#!/usr/bin/python3
"""While a Service has no machine its clients get 503 or closed connections, also after a restart of the
controller; no listener changes.
"""

from lib.mesh import meshcase, objects
from lib.mesh.rig import REFUSED
from lib.net.processes import NotYet, wait_for

HTTP, TCP = meshcase.PORT, 7000
LEDGER, QUEUE = "10.96.0.14", "10.96.0.15"


class ScaleToZero(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client = self.add_machine("client", "10.200.0.11")
        self.shop = self.add_machine("web", "10.200.0.12", "shop")
        self.bank = self.add_machine("bank", "10.200.0.13")
        self.rig.mesh.write(
            "services.yaml",
            objects.service("shop", "web", "10.96.0.12", HTTP),
            objects.service("shop", "queue", QUEUE, TCP, protocol="tcp", selector={"app": "web"}),
            objects.service("bank", "ledger", LEDGER, TCP, protocol="tcp", selector={"app": "bank"}),
            objects.routes("shop", "routes", books={"pathRegex": "/books-bought"}),
            objects.tcp_route("shop", "queue", TCP),
            objects.tcp_route("bank", "ledger", TCP),
            objects.target("shop", "web", "web", [("client", "client")], ("HTTPRouteGroup", "routes", ["books"])),
            objects.target("shop", "queue", "web", [("client", "client")], ("TCPRoute", "queue", None)),
            objects.target("bank", "ledger", "bank", [("client", "client")], ("TCPRoute", "ledger", None)),
        )
        self.start_mesh()
        self.serve(self.shop)
        for machine in (self.shop, self.bank):
            self.start_ledger(machine, TCP)
        self.wait_for_status(self.client, 200, "web.shop")

    def wait_for_note(self, address):
        def answered():
            got = self.ask_ledger(self.client, address, TCP)
            if got == REFUSED:
                raise NotYet("closed")
            return True

        wait_for(f"the ledger at {address} answers", answered)

    def listener_updates(self):
        return self.client.stats(r"^listener_manager.listener_(added|modified|removed|in_place_updated)$")

    def test_clients_get_503_until_the_machine_is_back_and_no_listener_changes(self):
        for address in (LEDGER, QUEUE):
            self.wait_for_note(address)
        with self.client.namespace.connect(LEDGER, TCP) as kept:
            kept.sendall(b"x\n")
            self.assertTrue(kept.recv(100))
            before = self.listener_updates()
            self.assertGreater(sum(before.values()), 0)

            with self.subTest("without its machine"):
                self.rig.mesh.write("machine-web.yaml", objects.namespace("shop"), objects.account("shop", "web"))
                self.wait_for_status(self.client, 503, "web.shop")
                self.assertEqual(self.ask_ledger(self.client, QUEUE, TCP), REFUSED)
                self.assertEqual(self.listener_updates(), before)
            with self.subTest("nor after a restart of the controller"):
                self.rig.stop_controller()
                self.rig.start_controller()
                self.wait_until_synced(2)
                self.assertEqual(self.client.get("web.shop", HTTP, "/books-bought")[0], 503)
                self.assertEqual(self.listener_updates(), before)
            with self.subTest("the machine is back"):
                self.rig.mesh.write(
                    "machine-web.yaml",
                    objects.namespace("shop"),
                    objects.account("shop", "web"),
                    objects.machine("shop", "web", self.shop.address, "web"),
                )
                self.wait_for_status(self.client, 200, "web.shop")
                self.wait_for_note(QUEUE)
                self.assertEqual(self.listener_updates(), before)
            kept.sendall(b"x\n")
            self.assertTrue(kept.recv(100))


if __name__ == "__main__":
    meshcase.main()
