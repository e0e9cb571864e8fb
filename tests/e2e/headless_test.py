#!/usr/bin/python3
"""A request to a machine of a headless Service reaches that machine, under any host name."""

from lib.mesh import meshcase, objects
from lib.mesh.rig import REFUSED
from lib.net.processes import NotYet, wait_for

HOSTS = ("shop.shop", "shop-0.shop.shop.svc.cluster.local", "10.200.0.12")


class Headless(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client = self.add_machine("client", "10.200.0.11")
        self.shops = {}
        for version, address in (("v1", "10.200.0.12"), ("v2", "10.200.0.13")):
            self.shops[address] = self.add_machine("shop" + version, address, "shop", {"app": "shop"})
        # Dialled at 80, served at 14001; both machines under one account of two.
        self.rig.mesh.write(
            "shop.yaml",
            objects.service("shop", "shop", "None", 80, meshcase.PORT),
            objects.routes("shop", "routes", books={"pathRegex": "/books-bought"}),
            *(
                objects.target(
                    "shop", f"access-{v}", f"shop{v}", [("client", "client")], ("HTTPRouteGroup", "routes", ["books"])
                )
                for v in ("v1", "v2")
            ),
        )
        self.start_mesh()
        for machine in self.shops.values():
            self.serve(machine, version=machine.name[-2:])

    def get(self, address, port, host, path="/books-bought"):
        """(status, body) with the host as the client calls it, at this very address."""
        return self.client.request(address, port, path, host)

    def wait_until_served(self, address, wanted=200):
        def seen():
            got = self.get(address, 80, "shop.shop")
            if got[0] != wanted:
                raise NotYet(got)
            return True

        wait_for(f"{address} answers {wanted}", seen, 15)

    def test_the_dialled_machine_answers_at_either_port_under_any_name(self):
        for address in self.shops:
            self.wait_until_served(address)
        for address, machine in self.shops.items():
            for port in (80, meshcase.PORT):
                for host in (*HOSTS, f"{address}:{port}"):
                    for _ in range(4):  # chance would not do
                        status, body = self.get(address, port, host)
                        self.assertEqual(200, status, (address, port, host, body))
                        self.assertIn(f'"version":"{machine.name[-2:]}"', body.replace(" ", ""))
                        self.assertIn("ns/client/sa/client", body)
                self.assertEqual(404, self.get(address, port, HOSTS[0], "/elsewhere")[0])

    def test_a_policy_is_of_the_machine_that_was_dialled(self):
        kept, barred = self.shops
        self.wait_until_served(barred)
        self.rig.mesh.write(
            "shop.yaml",
            objects.service("shop", "shop", "None", 80, meshcase.PORT),
            objects.routes("shop", "routes", books={"pathRegex": "/books-bought"}),
            objects.target(
                "shop", "access-v1", "shopv1", [("client", "client")], ("HTTPRouteGroup", "routes", ["books"])
            ),
        )
        self.wait_until_served(barred, 404)
        with self.subTest("its own Envoy has answered"):
            counters = self.shops[barred].stats(r"^http\..*rds-inbound.*downstream_rq_4xx$")
            self.assertGreater(sum(counters.values()), 0)
        self.assertEqual(200, self.get(kept, 80, HOSTS[0])[0])

    def test_a_machine_that_is_no_endpoint_any_more_is_not_reached_and_the_other_is(self):
        kept, gone = self.shops
        self.wait_until_served(gone)
        self.rig.mesh.write(
            "machine-shopv2.yaml",
            objects.account("shop", "shopv2"),
            objects.machine("shop", "shopv2", gone, "shopv2", {"app": "none"}),
        )
        self.wait_until_served(gone, REFUSED)
        self.assertEqual(200, self.get(kept, 80, HOSTS[0])[0])


if __name__ == "__main__":
    meshcase.main()
