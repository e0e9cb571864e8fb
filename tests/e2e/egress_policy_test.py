#!/usr/bin/python3
"""Egresses open hosts and routes, TLS names and addresses outside of the mesh, in both modes and without a
TrafficTarget. The exact headers leave, several objects add up, and changes apply without a restart. What
`osm policy explain` says of each call is what Envoy does, and it names the Egress.

The outside is a namespace with an address for each server. The account of machine "client" has a
TrafficTarget; that of "loner" is named by Egresses alone.
"""

import datetime
import json
import ssl

from lib.mesh import authority, meshcase, objects
from lib.mesh.rig import REFUSED
from lib.net.netns import ip
from lib.net.outside import GreetingDestination, HttpDestination, TlsDestination
from lib.net.processes import FairClock, NotYet, wait_for

HTTP, TLS, MAIL, OTHER = meshcase.PORT, 8443, 2525, 2626  # HTTP is a port of the mesh too
ONE, TWO, BAIT = "10.200.9.1", "10.200.9.2", "10.200.8.1"
OUTSIDE = "one.example.com", "two.example.com", "deep.sub.example.com"
MESH = "10.96.0.12"


class EgressPolicy(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client, self.server = self.add_client_and_server()
        self.rig.mesh.write(
            "loner.yaml", objects.account("client", "loner"), objects.machine("client", "loner", "10.200.0.13", "loner")
        )
        self.loner = self.rig.add_vm("loner", "client", "10.200.0.13")
        switch = self.rig.switch.namespace
        for address in (ONE, TWO, BAIT):
            ip("-n", switch.name, "address", "add", f"{address}/16", "dev", "br0")
        self.one, self.two, self.bait = (
            self.outside(HttpDestination, address, HTTP, name)
            for address, name in ((ONE, "one"), (TWO, "two"), (BAIT, "bait"))
        )
        now = datetime.datetime.now(datetime.timezone.utc)
        self.identity = authority.certify(self.rig.directory, "outside", [], now, now + datetime.timedelta(days=1))
        self.tls_one, self.tls_two, self.tls_bait = (
            self.outside(TlsDestination, address, TLS, name, self.identity)
            for address, name in ((ONE, "one"), (TWO, "two"), (BAIT, "bait"))
        )
        for address in (ONE, BAIT):
            for port in (MAIL, OTHER):
                self.outside(GreetingDestination, address, port, "mail")

    def outside(self, kind, *arguments):
        made = kind(self.rig.switch.namespace, *arguments)
        self.addCleanup(made.close)
        return made

    def start(self):
        self.start_mesh()
        self.serve(self.server)
        for machine in self.rig.machines.values():
            machine.namespace.set_hosts(
                (machine.directory / "hosts").read_text()
                + f"{ONE} one.example.com\n{TWO} two.example.com\n{ONE} deep.sub.example.com\n"
            )
        self.wait_for_status(self.client, 200, "server.server")

    def configure(self, permissive=False, egress=False, **sections):
        self.rig.mesh.write("config.yaml", objects.mesh_config(permissive, egress, **sections))

    def write(self, *egresses):
        """The Egresses of the mesh, live on all their proxies."""
        self.rig.mesh.write("egress.yaml", *egresses)

    def both_modes(self):
        for permissive in (False, True):
            self.configure(permissive, observability={"tracing": {"enable": True, "address": BAIT, "port": 9411}})
            yield permissive

    @staticmethod
    def say(machine, address, host, path="/", method="GET"):
        """(status, body) for a request to the address; the port is HTTP."""
        return machine.request(address, HTTP, path, host, method)

    def wait_for_answer(self, machine, wanted, address, host, path="/"):
        def answered():
            got = self.say(machine, address, host, path)
            if got[0] != wanted and got != wanted:
                raise NotYet(got)
            return True

        wait_for(f"{machine.name} gets {wanted} from {host} at {address}", answered, 20)

    @staticmethod
    def shake(machine, address, name, port=TLS):
        """What the TLS server at the address says to a client that asks for `name`, or REFUSED."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with (
                machine.namespace.connect(address, port, timeout=8) as connection,
                context.wrap_socket(connection, server_hostname=name) as tls,
            ):
                return tls.recv(100).decode() or REFUSED
        except (ConnectionError, ssl.SSLError) as closed:
            machine.assert_live(closed)
            return REFUSED

    def wait_for_tls(self, machine, wanted, address, name):
        def shaken():
            got = self.shake(machine, address, name)
            if got != wanted:
                raise NotYet(got)
            return True

        wait_for(f"{machine.name} gets {wanted} as {name} at {address}", shaken, 20)

    @staticmethod
    def hear(machine, address, port, say=b""):
        """(what the server says to a client that says so much, or REFUSED; fair seconds until then)"""
        clock = FairClock()
        try:
            with machine.namespace.connect(address, port, timeout=8) as connection:
                connection.sendall(say)
                said = connection.recv(100).decode().strip() or REFUSED
        except ConnectionError as closed:
            machine.assert_live(closed)
            said = REFUSED
        return said, clock.seconds()

    def explained(self, machine, address, port, host=None, path="/", method="GET"):
        """What `osm policy explain` says about a call: (the object that allows it, the hosts that it reaches), or (the
        object that denies it, its field, the status of the refusal)."""
        asked = f"workload:{machine.ns}/{machine.name}", f"host:{address}", "--port", port
        asked += "--path", path, "--method", method, *(("--host", host) if host else ())
        told = json.loads(self.rig.osm("policy", "explain", *asked, "-o", "json", check=False))
        [way] = told["ways"]
        decides = [step for step in told["steps"] + way["steps"] if step["effect"] != "notes"][-1]
        self.assertEqual(way["allowed"], told["verdict"] == "allowed")
        if way["allowed"]:
            return decides["object"], way["addresses"]
        return decides["object"], decides["field"], way["status"]

    def test_hosts_and_routes_of_http(self):
        self.rig.mesh.write(
            "paths.yaml", objects.routes("client", "paths", books={"pathRegex": "/books/.*", "methods": ["GET"]})
        )
        self.start()
        self.write(
            objects.egress("client", "out", ["client", "loner"], {HTTP: "HTTP"}, ["one.example.com"], groups=["paths"])
        )
        for permissive in self.both_modes():
            for machine in (self.client, self.loner):
                with self.subTest(permissive=permissive, machine=machine.name):
                    host = f"one.example.com:{HTTP}"
                    self.wait_for_answer(machine, (200, "one"), ONE, host, "/books/1")
                    self.assertEqual(self.say(machine, ONE, "ONE.example.com", "/books/1"), (200, "one"))
                    for path, method in (
                        ("/other", "GET"),
                        ("/books/1", "POST"),
                        ("/books/../other", "GET"),
                        ("/books/%2e%2e/x", "GET"),
                    ):
                        self.assertEqual(self.say(machine, ONE, host, path, method)[0], 404, path)
                        told = self.explained(machine, ONE, HTTP, host, path, method)
                        self.assertEqual(told, ("Egress client/out", "spec.matches", 404), path)
                    self.assertEqual(self.say(machine, TWO, "two.example.com", "/books/1")[0], 404)
                    told = self.explained(machine, TWO, HTTP, "two.example.com", "/books/1")
                    self.assertEqual(told, ("Egress client/out", "spec.hosts", 404))
                    # The name decides, not the address: the server at BAIT hears nothing.
                    self.assertEqual(self.say(machine, BAIT, host, "/books/1"), (200, "one"))
                    self.assertEqual(self.bait.heads, [])
                    for address, name in ((ONE, host), (ONE, "ONE.example.com"), (BAIT, host)):
                        told = self.explained(machine, address, HTTP, name, "/books/1")
                        self.assertEqual(told, ("Egress client/out", ["one.example.com"]))
            with self.subTest("an address of the mesh stays the mesh's", permissive=permissive):
                self.wait_for_status(self.client, 200, "server.server")
                self.assertEqual(self.say(self.client, MESH, "one.example.com", "/books/1")[0], 404)
            with self.subTest("another account gets nothing", permissive=permissive):
                self.assertEqual(self.say(self.server, ONE, "one.example.com", "/books/1")[0], REFUSED)
                self.assertEqual(self.explained(self.server, ONE, HTTP, "one.example.com", "/books/1"), ("", "", 0))

    def test_no_header_of_the_mesh_leaves_it(self):
        self.start()
        self.write(
            objects.egress("client", "out", ["client"], {HTTP: "http"}, ["one.example.com", "*.sub.example.com"])
        )
        sent = {
            "plain": [],
            "a traced application behind a proxy": [
                ("x-forwarded-proto", "https"),
                ("x-request-id", "mine"),
                ("x-b3-traceid", "1" * 16),
                ("x-b3-spanid", "2" * 16),
                ("x-b3-sampled", "1"),
                ("x-forwarded-for", "10.0.0.7"),
            ],
        }
        for permissive in self.both_modes():
            for host in ("one.example.com", "deep.sub.example.com"):
                self.wait_for_answer(self.client, (200, "one"), ONE, host)
                for what, more in sent.items():
                    with self.subTest(what, permissive=permissive, host=host):
                        del self.one.heads[:]
                        own = [("user-agent", "app"), ("x-own", "1"), *more]
                        lines = [f"{name}: {value}\r\n" for name, value in own]
                        with self.client.namespace.connect(ONE, HTTP, timeout=5) as connection:
                            connection.sendall(
                                f"GET /x HTTP/1.1\r\nhost: {host}\r\n{''.join(lines)}"
                                "x-forwarded-client-cert: URI=spiffe://cluster.local/ns/a/sa/b\r\n"
                                "x-envoy-retry-on: 5xx\r\n\r\n".encode()
                            )
                            answer = connection.recv(4096).decode()
                        [(line, headers)] = self.one.heads
                        self.assertEqual(line, "GET /x HTTP/1.1")
                        self.assertEqual(sorted(headers), sorted([("host", host), *own]))
                        self.assertNotIn("x-envoy", answer)

    def test_tls_names_and_addresses(self):
        self.start()
        self.write(
            objects.egress(
                "client",
                "names",
                ["client", "loner"],
                {TLS: "https"},
                ["one.example.com", "two.example.com", "*.sub.example.com"],
            ),
            objects.egress(
                "client", "mail", ["client", "loner"], {MAIL: "tcp-server-first", OTHER: "tcp"}, addresses=[f"{ONE}/31"]
            ),
        )
        for permissive in self.both_modes():
            for machine in (self.client, self.loner):
                with self.subTest(permissive=permissive, machine=machine.name):
                    self.wait_for_tls(machine, "one", ONE, "one.example.com")
                    self.wait_for_tls(machine, "two", TWO, "two.example.com")
                    self.assertEqual(self.shake(machine, ONE, "deep.sub.example.com"), "one")
                    for name in ("other.example.com", "example.com", "sub.example.com", None):
                        self.assertEqual(self.shake(machine, ONE, name), REFUSED, name)
                        told = self.explained(machine, ONE, TLS, name)
                        self.assertEqual(told, ("Egress client/names", "spec.hosts", 0), name)
                    # A full name is looked up by the sidecar, so that a false one leads nowhere
                    # else; a name below a wildcard is believed (docs/security.md).
                    self.assertEqual(self.shake(machine, BAIT, "one.example.com"), "one")
                    self.assertEqual(self.shake(machine, BAIT, "deep.sub.example.com"), "bait")
                    for address, name, reached in (
                        (ONE, "one.example.com", "one.example.com"),
                        (TWO, "two.example.com", "two.example.com"),
                        (ONE, "deep.sub.example.com", ONE),
                        (BAIT, "one.example.com", "one.example.com"),
                        (BAIT, "deep.sub.example.com", BAIT),
                    ):
                        told = self.explained(machine, address, TLS, name)
                        self.assertEqual(told, ("Egress client/names", [reached]), (address, name))
                    plain = b"GET / HTTP/1.1\r\nhost: one.example.com\r\n\r\n"
                    self.assertEqual(self.hear(machine, ONE, TLS, plain)[0], REFUSED)
                    for port in (MAIL, OTHER):
                        said, seconds = self.hear(machine, ONE, port)
                        self.assertEqual(said, "220 mail")
                        self.assertLess(seconds, 1)
                        self.assertEqual(self.explained(machine, ONE, port), ("Egress client/mail", [ONE]))
                        self.assertEqual(self.hear(machine, BAIT, port)[0], REFUSED)
                        told = self.explained(machine, BAIT, port)
                        self.assertEqual(told, ("Egress client/mail", "spec.ipAddresses", 0))
            with self.subTest("another account gets nothing", permissive=permissive):
                self.assertEqual(self.shake(self.server, ONE, "one.example.com"), REFUSED)
                self.assertEqual(self.hear(self.server, ONE, MAIL)[0], REFUSED)
                for port in (TLS, MAIL):
                    self.assertEqual(self.explained(self.server, ONE, port, "one.example.com"), ("", "", 0))

    def test_policies_are_united_and_follow_their_objects(self):
        paths = [objects.routes("client", name, one={"pathRegex": f"/{name}"}) for name in ("first", "second")]
        self.rig.mesh.write("paths.yaml", *paths)
        self.start()
        host = "one.example.com"

        def out(name, **more):
            return objects.egress("client", name, ["client"], {HTTP: "http"}, [host], **more)

        first, second = out("first", groups=["first"]), out("second", groups=["second"])
        self.assertEqual(self.say(self.client, ONE, host)[0], REFUSED)
        self.write(first, second)
        for path in ("/first", "/second"):
            self.wait_for_answer(self.client, (200, "one"), ONE, host, path)
        self.assertEqual(self.say(self.client, ONE, host, "/third")[0], 404)
        with self.subTest("one of two is removed"):
            self.write(first)
            self.wait_for_answer(self.client, 404, ONE, host, "/second")
            self.assertEqual(self.say(self.client, ONE, host, "/first"), (200, "one"))
        with self.subTest("a group that is gone is missed, and said to be"):
            self.rig.mesh.write("paths.yaml", paths[1])
            self.wait_for_answer(self.client, 404, ONE, host, "/first")
            self.assertEqual(self.told("first"), [("dangling-reference", "warning")])
        with self.subTest("limits of the destination"):
            self.rig.mesh.write(
                "setting.yaml",
                objects.upstream_setting("client", "none", host, connectionSettings={"http": {"maxRequests": 0}}),
            )
            self.write(out("first", setting="none"))
            self.wait_for_answer(self.client, 503, ONE, host)
            self.assertEqual(self.told("first"), [])
            self.rig.mesh.write("setting.yaml", objects.upstream_setting("client", "none", host))
            self.wait_for_answer(self.client, (200, "one"), ONE, host)
        with self.subTest("the feature flag"):
            self.configure(featureFlags={"enableEgressPolicy": False})
            self.wait_for_answer(self.client, REFUSED, ONE, host)
            self.assertEqual(self.told("first"), [("unused-field", "notice")])
        with self.subTest("global egress lets everything pass, and a notice says so"):
            self.configure(egress=True)
            self.wait_for_answer(self.client, (200, "two"), TWO, "two.example.com")
            self.assertEqual(self.shake(self.client, BAIT, "other"), "bait")
            self.assertEqual(self.told("first"), [("unused-field", "notice")])
        with self.subTest("until the last one is deleted"):
            self.configure()
            self.wait_for_answer(self.client, (200, "one"), ONE, host)
            self.rig.mesh.remove("egress.yaml")
            self.wait_for_answer(self.client, REFUSED, ONE, host)
            self.wait_for_status(self.client, 200, "server.server")

    def told(self, name):
        return [(p["code"], p["severity"]) for p in self.rig.problems() if p["object"] == f"Egress client/{name}"]


if __name__ == "__main__":
    meshcase.main()
