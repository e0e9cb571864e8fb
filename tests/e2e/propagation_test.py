#!/usr/bin/python3
"""An edit reaches the proxies that it concerns within a second, and no others."""

from lib.mesh import meshcase, objects
from lib.mesh.rig import REFUSED
from lib.net.processes import FairClock, wait_for

PAIRS = {"a": ("10.200.0.11", "10.200.0.12", "10.96.0.12"), "b": ("10.200.0.13", "10.200.0.14", "10.96.0.14")}


class Propagation(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        for pair, (client, server, service) in PAIRS.items():
            self.add_machine(f"client-{pair}", client)
            self.add_machine(f"server-{pair}", server)
            ns = f"server-{pair}"
            self.rig.mesh.write(f"service-{pair}.yaml", objects.service(ns, ns, service, meshcase.PORT))
            self.write_routes(pair, "/books-bought")
            self.rig.mesh.write(
                f"access-{pair}.yaml",
                objects.target(
                    ns, "access", ns, [(f"client-{pair}", f"client-{pair}")], ("HTTPRouteGroup", "routes", ["books"])
                ),
            )
        self.start_mesh()
        for pair in PAIRS:
            self.serve(self.rig.machines[f"server-{pair}"])
            self.wait_for_status(self.rig.machines[f"client-{pair}"], 200, f"server-{pair}.server-{pair}")
        self.wait_until_synced()

    def write_routes(self, pair, path):
        self.rig.mesh.write(
            f"routes-{pair}.yaml", objects.routes(f"server-{pair}", "routes", books={"pathRegex": path}), wait=False
        )

    def known(self, *names):
        """Configuration of the proxies, according to the controller and to Envoy."""
        proxies = self.proxies()
        return {
            name: (
                {k: t["sent_version"] for k, t in proxies[name]["types"].items()},
                self.rig.machines[name].stats("update_(success|attempt)$"),
            )
            for name in names
        }

    def assert_change(self, pair, other, change, wanted):
        """`change` shows at the client of `pair` in under a second; `other` receives nothing."""
        strangers = (f"client-{other}", f"server-{other}")
        before = self.known(*strangers)
        client, host = self.rig.machines[f"client-{pair}"], f"server-{pair}.server-{pair}"
        change()
        clock = FairClock()
        self.wait_for_status(client, wanted, host)
        self.assertLess(clock.seconds(), 1.0)
        self.wait_until_synced()
        self.assert_nothing_received(before)

    def assert_nothing_received(self, before):
        for name, (versions, counters) in self.known(*before).items():
            self.assertEqual(versions, before[name][0], name)
            # A counter may go with the listener it counted for, once that has drained.
            rose = {c: n for c, n in counters.items() if n > before[name][1].get(c, 0)}
            self.assertEqual(rose, {}, name)

    def test_one_more_machine_is_an_endpoint_for_its_clients_and_nothing_else(self):
        before = self.known("server-a", "client-b", "server-b")
        client = self.proxies()["client-a"]["types"]
        self.rig.mesh.write(
            "more.yaml", objects.machine("server-a", "more", "10.200.0.99", "server-a", {"app": "server-a"}), wait=False
        )

        def endpoints():
            types = self.proxies()["client-a"]["types"]
            return types if types["EDS"]["sent_version"] != client["EDS"]["sent_version"] else None

        types = wait_for("client-a is sent endpoints", endpoints, 1)
        for kind in ("CDS", "LDS", "RDS", "SDS"):
            self.assertEqual(types[kind]["sent_version"], client[kind]["sent_version"], kind)
        self.wait_until_synced(4)
        self.assertIn("10.200.0.99:14001", self.rig.machines["client-a"].admin("/clusters")[1])
        self.assert_nothing_received(before)

    def test_a_change_reaches_whom_it_concerns_and_nobody_else(self):
        for pair, other in (("a", "b"), ("b", "a")):
            with self.subTest("a route is changed", pair=pair):
                self.assert_change(pair, other, lambda: self.write_routes(pair, "/other"), 404)
                self.assert_change(pair, other, lambda: self.write_routes(pair, ".*"), 200)
            with self.subTest("the permission is withdrawn", pair=pair):
                self.assert_change(
                    pair, other, lambda: self.rig.mesh.remove(f"access-{pair}.yaml", wait=False), REFUSED
                )
        with self.subTest("only the server whose routes changed is sent them, not its client"):
            self.rig.mesh.write(
                "access-a.yaml",
                objects.target(
                    "server-a",
                    "access",
                    "server-a",
                    [("client-a", "client-a")],
                    ("HTTPRouteGroup", "routes", ["books"]),
                ),
            )
            self.wait_for_status(self.rig.machines["client-a"], 200, "server-a.server-a")
            self.wait_until_synced()
            before = self.known("client-a")
            self.assert_change("a", "b", lambda: self.write_routes("a", "/other"), 404)
            self.assert_nothing_received(before)
        with self.subTest("a file that changes without meaning changes nothing"):
            before = self.known("client-a", "client-b", "server-b")
            text = (self.rig.mesh.path / "service-b.yaml").read_text()
            self.rig.mesh.write_text("service-b.yaml", "# a comment\n" + text, wait=False)
            # An edit after it that shows: when it has arrived, so has the one before.
            self.assert_change("a", "b", lambda: self.write_routes("a", ".*"), 200)
            self.assert_nothing_received(before)


if __name__ == "__main__":
    meshcase.main()
