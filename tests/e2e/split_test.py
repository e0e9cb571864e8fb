#!/usr/bin/python3
"""TCP connections are divided by weight; without a weight requests get 503, connections are closed, and the
apex's own endpoints get nothing.
"""

import collections
import re

from lib.mesh import meshcase, objects
from lib.mesh.rig import REFUSED
from lib.net.processes import NotYet, wait_for

HTTP, TCP = meshcase.PORT, 7000
APEX = "10.96.0.20"


class Split(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client = self.add_machine("client", "10.200.0.11")
        self.servers = [
            self.add_machine(version, address, "shop", {"app": "shop", "version": version})
            for version, address in (("v1", "10.200.0.12"), ("v2", "10.200.0.13"))
        ]
        self.rig.mesh.write(
            "services.yaml",
            self.service("shop", APEX, {"app": "shop"}),
            self.service("shop-v1", "10.96.0.21", {"version": "v1"}),
            self.service("shop-v2", "10.96.0.22", {"version": "v2"}),
            objects.routes("shop", "routes", books={"pathRegex": "/books-bought"}),
            objects.tcp_route("shop", "ledger", TCP),
            *(
                objects.target("shop", f"{name}-{v}", v, [("client", "client")], rule)
                for v in ("v1", "v2")
                for name, rule in (
                    ("http", ("HTTPRouteGroup", "routes", ["books"])),
                    ("tcp", ("TCPRoute", "ledger", None)),
                )
            ),
        )
        self.write_split(shop_v1=0, shop_v2=1)
        self.start_mesh()
        for machine in self.servers:
            self.serve(machine, version=machine.name)
            self.start_ledger(machine, TCP)

    @staticmethod
    def service(name, cluster_ip, selector):
        made = objects.service("shop", name, cluster_ip, HTTP, selector=selector)
        made["spec"]["ports"].append({"name": "tcp-ledger", "port": TCP, "targetPort": TCP})
        return made

    def write_split(self, **weights):
        self.rig.mesh.write("split.yaml", objects.split("shop", "shop", "shop.shop.svc:80", **weights))

    def switch(self, permissive):
        self.rig.mesh.write("config.yaml", objects.mesh_config(permissive))

    def note(self):
        return self.ask_ledger(self.client, APEX, TCP)

    def taken(self):
        """{service: TCP connections that servers took for it}."""
        taken = collections.Counter()  # a cluster has no counters before its first use
        for machine in self.servers:
            for name, count in machine.stats(r"7000.local\.upstream_cx_total$").items():
                service = re.fullmatch(r"cluster\.shop/(.*)\|7000\|local\.upstream_cx_total", name)
                taken[service[1]] = taken.get(service[1], 0) + count
        return taken

    def note_until_taken(self, *services):
        """Makes connections until each of these services has taken another one."""
        before = self.taken()

        def taken():
            self.note()
            now = self.taken()
            if not all(now[s] > before[s] for s in services):
                raise NotYet(now)
            return True

        wait_for(f"{services} take connections", taken, 15)

    def assert_taken(self, expected, notes=10):
        """So many connections in a row are answered, all by this service."""

        def all_taken():
            before = self.taken()
            if REFUSED in [self.note() for _ in range(notes)]:
                raise NotYet("closed")
            grown = {s: n - before[s] for s, n in self.taken().items() if n > before[s]}
            self.assertEqual(grown, {expected: notes})
            return True

        wait_for(f"{notes} connections are answered", all_taken)

    def test_tcp_connections_are_divided_by_weight_and_closed_without_a_weight(self):
        with self.subTest("one backend gets everything, also where the apex selects the other"):
            self.note_until_taken("shop-v2")
            self.assert_taken("shop-v2")
        self.write_split(shop_v1=1, shop_v2=3)
        for permissive in (True, False):
            with self.subTest("both get their part", permissive=permissive):
                self.switch(permissive)
                before = self.taken()
                self.assertNotIn(REFUSED, [self.note() for _ in range(80)])
                parts = {s: n - before[s] for s, n in self.taken().items() if n > before[s]}
                self.assertEqual(sum(parts.values()), 80)
                self.assertTrue(5 <= parts.get("shop-v1", 0) <= 40, parts)  # 20 by over 3 sigma
        with self.subTest("without a weight nobody gets anything, and that is reported"):
            self.write_split(shop_v1=0, shop_v2=0)
            self.wait_for_status(self.client, 503, "shop.shop")
            wait_for("TCP connections are closed", lambda: self.note() == REFUSED)
            before = self.taken()
            for _ in range(5):
                self.assertEqual(self.note(), REFUSED)
                self.assertEqual(self.client.get("shop.shop", HTTP, "/books-bought")[0], 503)
            self.assertEqual(self.taken(), before)
            told = [(p["code"], p["object"]) for p in self.rig.problems()]
            self.assertIn(("invalid-weights", "TrafficSplit shop/shop"), told)
        with self.subTest("with a weight again it answers, and without the one that has it not"):
            self.write_split(shop_v1=1, shop_v2=0)
            self.wait_for_status(self.client, 200, "shop.shop")
            self.note_until_taken("shop-v1")
            self.write_split(shop_v1=0, shop_v3=1)
            self.wait_for_status(self.client, 503, "shop.shop")
            wait_for("TCP connections are closed", lambda: self.note() == REFUSED)
            self.assertIn("shop/shop-v3", self.rig.osm("problems", check=False))
        with self.subTest("without the split the apex's own endpoints answer"):
            self.rig.mesh.remove("split.yaml")
            self.wait_for_status(self.client, 200, "shop.shop")
            self.note_until_taken("shop")
            self.assert_taken("shop")


if __name__ == "__main__":
    meshcase.main()
