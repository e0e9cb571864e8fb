#!/usr/bin/python3
"""Real Envoys obey merged targets, TCP rules and the permissive mode, and refuse forged headers and clients
outside of the mesh.
"""

from lib.mesh import meshcase, objects
from lib.mesh.rig import REFUSED
from lib.net.processes import NotYet, wait_for

HTTP, TCP = meshcase.PORT, 7000
NOTED = b"1 x\n"
HOST = "server.server"


class Policy(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.reader = self.add_machine("reader", "10.200.0.11")
        self.buyer = self.add_machine("buyer", "10.200.0.12")
        self.server = self.add_machine("server", "10.200.0.13")
        self.rig.mesh.write(
            "services.yaml",
            objects.service("server", "server", "10.96.0.13", HTTP),
            objects.service("server", "ledger", "10.96.0.14", TCP, protocol="tcp", selector={"app": "server"}),
            objects.routes(
                "server",
                "routes",
                read={"pathRegex": "/books-bought"},
                buy={"pathRegex": "/buy-a-book/.*", "methods": ["GET"]},
            ),
            objects.tcp_route("server", "ledger", TCP),
        )
        self.write_access("reader", ("HTTPRouteGroup", "routes", ["read"]))
        self.write_access("buyer", ("HTTPRouteGroup", "routes", ["buy"]))
        self.write_access("buyer", ("TCPRoute", "ledger", None), name="buyer-ledger")
        self.start_mesh()
        self.serve(self.server)
        self.start_ledger(self.server, TCP)
        self.wait_for_status(self.reader, 200, HOST)
        self.wait_for_status(self.buyer, 200, HOST, "/buy-a-book/new")

    def write_access(self, who, *rules, name=None):
        self.rig.mesh.write(
            f"access-{name or who}.yaml", objects.target("server", name or who, "server", [(who, who)], *rules)
        )

    def note(self, machine):
        """The ledger's answer to a line on a new connection. REFUSED: the server's Envoy counts a
        denial, and closes the connection without an answer."""
        denied = self.denied()
        with machine.namespace.connect("10.96.0.14", TCP) as connection:
            connection.sendall(b"x\n")
            if answer := connection.recv(100):
                return answer
        if self.denied() == denied:
            raise NotYet("closed, but not because of a policy of the server")
        return REFUSED

    def denied(self):
        return sum(self.server.stats(r"rbac\.denied$").values())

    def wait_for_note(self, machine, wanted):
        def seen():
            got = self.note(machine)
            if got != wanted:
                raise NotYet(got)
            return True

        wait_for(f"the ledger answers {machine.name} {wanted}", seen)

    def test_policies_of_several_clients_on_one_server_merge_and_do_not_leak(self):
        for machine, path, wanted in (
            (self.reader, "/books-bought", 200),
            (self.reader, "/buy-a-book/new", 403),
            (self.buyer, "/buy-a-book/new", 200),
            (self.buyer, "/books-bought", 403),
            (self.reader, "/other", 404),
            (self.buyer, "/other", 404),
        ):
            with self.subTest(f"{machine.name} {path}"):
                self.assertEqual(machine.get(HOST, HTTP, path)[0], wanted)
        with self.subTest("a path that hides another is judged as what it is"):
            self.assertEqual(self.reader.get(HOST, HTTP, "/x/../buy-a-book/new")[0], 404)
            self.assertEqual(self.buyer.get(HOST, HTTP, "/buy-a-book/../books-bought")[0], 403)
        with self.subTest("a client cannot say that it is somebody else"):
            status, body = self.reader.namespace.http(
                "10.96.0.13",
                HTTP,
                "GET",
                "/books-bought",
                {"Host": f"{HOST}:{HTTP}", "x-forwarded-client-cert": "URI=spiffe://cluster.local/ns/buyer/sa/buyer"},
            )
            self.assertEqual(status, 200)
            self.assertIn("ns/reader/sa/reader", body)
            self.assertNotIn("ns/buyer/sa/buyer", body)

        with self.subTest("a TCP service answers whom a TCPRoute allows"):
            self.wait_for_note(self.buyer, NOTED)
            self.assertEqual(self.note(self.reader), REFUSED)
        with self.subTest("and nobody else once that is gone, while HTTP goes on"):
            self.rig.mesh.remove("access-buyer-ledger.yaml")
            self.wait_for_note(self.buyer, REFUSED)
            self.assertEqual(self.buyer.get(HOST, HTTP, "/buy-a-book/new")[0], 200)
        with self.subTest("a TCPRoute beside HTTP routes bounds them to its ports"):
            both = [("HTTPRouteGroup", "routes", ["buy"]), ("TCPRoute", "ledger", None)]
            self.write_access("buyer", *both)
            self.wait_for_note(self.buyer, NOTED)
            self.wait_for_status(self.buyer, 404, HOST, "/buy-a-book/new")
            self.rig.mesh.write("http-port.yaml", objects.tcp_route("server", "http", HTTP))
            self.write_access("buyer", *both, ("TCPRoute", "http", None))
            self.wait_for_status(self.buyer, 200, HOST, "/buy-a-book/new")
            self.rig.mesh.remove("http-port.yaml")
            wait_for(
                "the whole target is withheld",
                lambda: "DENIED" in self.rig.osm("policy", "check", "buyer/buyer", "server/server", check=False),
            )
            self.write_access("buyer", ("HTTPRouteGroup", "routes", ["buy"]))
            self.wait_for_status(self.buyer, 200, HOST, "/buy-a-book/new")

        with self.subTest("permissive mode lets everybody of the mesh do everything"):
            self.rig.mesh.write("config.yaml", objects.mesh_config(permissive=True))
            self.wait_for_status(self.reader, 200, HOST, "/buy-a-book/new")
            self.wait_for_status(self.buyer, 200, HOST)
            self.wait_for_note(self.reader, NOTED)
        with self.subTest("but nobody outside of it"):
            for port in (HTTP, TCP):
                self.assert_outsider_is_reset(port)
        with self.subTest("SMI mode again: as before"):
            self.rig.mesh.write("config.yaml", objects.mesh_config())
            self.wait_for_status(self.reader, 403, HOST, "/buy-a-book/new")
            self.wait_for_status(self.buyer, 403, HOST)
            self.wait_for_note(self.reader, REFUSED)
            self.assertEqual(self.reader.get(HOST, HTTP, "/books-bought")[0], 200)
        with self.subTest("no outsider either"):
            for port in (HTTP, TCP):
                self.assert_outsider_is_reset(port)

        with self.subTest("what decides can be asked"):
            self.assertIn("server/reader", self.rig.osm("policy", "check", "reader/reader", "server/server"))
            self.assertIn("DENIED", self.rig.osm("policy", "check", "server/server", "reader/reader", check=False))

    def assert_outsider_is_reset(self, port):
        with self.assertRaises(ConnectionResetError):
            with self.rig.switch.namespace.connect(self.server.address, port) as connection:
                connection.sendall(b"GET /books-bought HTTP/1.1\r\nHost: server\r\n\r\n")
                if not connection.recv(100):
                    raise ConnectionResetError  # closed without a byte: as good


if __name__ == "__main__":
    meshcase.main()
