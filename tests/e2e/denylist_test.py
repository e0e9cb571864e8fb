#!/usr/bin/python3
"""Stolen keys of a denied account or proxy are refused within five seconds, and its open connections end
with the drain time; requests of others go on.
"""

import http.client
import ssl

from lib.mesh import meshcase, objects
from lib.mesh.renewal import renew
from lib.mesh.rig import ADS_PORT, REFUSED
from lib.mesh.xds_client import CLUSTER, AdsStream, WorkloadCertificate, as_proxy
from lib.net import http2
from lib.net.netns import Switch
from lib.net.processes import FairClock, NotYet, wait_for

HTTP, TCP = meshcase.PORT, 7000
HOST, LEDGER = "server.server", "10.96.0.14"
SECONDS = 5  # until a denial is in force
DRAIN = 3  # seconds in which open connections end, in the test that waits for that
CHUNK = b"1\r\nx\r\n"  # of a body


class Denylist(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client = self.add_machine("client", "10.200.0.11")
        self.friend = self.add_machine("friend", "10.200.0.12")
        self.server = self.add_machine("server", "10.200.0.13")
        callers = [("client", "client"), ("friend", "friend")]
        self.rig.mesh.write(
            "services.yaml",
            objects.service("server", "server", "10.96.0.13", HTTP),
            objects.service("server", "ledger", LEDGER, TCP, protocol="tcp", selector={"app": "server"}),
            objects.routes("server", "routes", books={"pathRegex": "/books-bought"}),
            objects.tcp_route("server", "ledger", TCP),
            objects.target("server", "access", "server", callers, ("HTTPRouteGroup", "routes", ["books"])),
            objects.target("server", "ledger", "server", callers, ("TCPRoute", "ledger", None)),
        )

    def start(self):
        self.start_mesh()
        self.serve(self.server)
        self.start_ledger(self.server, TCP)
        for machine in (self.client, self.friend):
            self.wait_for_status(machine, 200, HOST)
        self.thief = WorkloadCertificate(self.client, Switch.ADDRESS, ADS_PORT, self.rig.directory)
        wait_for("the ledger answers", self.steal_tcp)

    def deny(self, *arguments):
        return self.rig.osm("deny", *arguments, "--mesh-dir", self.rig.mesh.path)

    def steal_http(self):
        """Status of a request with the stolen workload key, past the client's own proxy."""
        connection = http.client.HTTPConnection(HOST)
        connection.sock = self.thief.dial(self.client, self.server.address, HTTP, "server.server.svc.cluster.local")
        try:
            connection.request("GET", "/books-bought")
            return connection.getresponse().status
        except ConnectionError:
            return REFUSED
        finally:
            connection.close()

    def steal_tcp(self):
        """The ledger's answer to the stolen workload key; b"": the connection was closed."""
        with self.thief.dial(self.client, self.server.address, TCP, "ledger.server.svc.cluster.local") as connection:
            try:
                return self.line(connection)
            except (ConnectionError, ssl.SSLError):
                return b""

    def ask_controller(self):
        """The type of the first response to the client's proxy key."""
        connection = as_proxy(self.client, Switch.ADDRESS, ADS_PORT)
        self.thiefs_address = "ipv4:{}:{}".format(*connection.socket.getsockname())
        stream = AdsStream(connection)
        try:
            stream.ask(CLUSTER)
            return stream.response().type_url
        finally:
            stream.close()

    def check_the_controller_answers(self):
        # The client's own proxy comes back at any time, and ends the stream that asks.
        self.assertEqual(wait_for("the controller answers", self.ask_controller, retry=(http2.Ended,)), CLUSTER)

    def own_stream(self):
        """The controller serves the client's proxy, and no longer who used its key."""
        proxy = self.proxies().get("client")
        return proxy is not None and proxy["peer_address"] != self.thiefs_address

    def line(self, connection):
        connection.sendall(b"x\n")
        return connection.recv(100)

    def check_denied_account(self):
        self.assertEqual(self.steal_http(), 200)
        self.assertTrue(self.steal_tcp())
        self.check_the_controller_answers()
        wait_for("the client's own stream is back", self.own_stream)
        open_tcp = self.friend.namespace.connect(LEDGER, TCP)
        self.addCleanup(open_tcp.close)
        self.assertTrue(self.line(open_tcp))
        updates = self.server.updates()
        with meshcase.Load(self.friend) as load:
            clock = FairClock()
            told = self.deny("account", "client/client", "--reason", "stolen")
            wait_for("HTTP is refused", lambda: self.steal_http() in (REFUSED, 403, 404), SECONDS)
            wait_for("TCP is refused", lambda: self.steal_tcp() == b"", SECONDS)
            self.assertLess(clock.seconds(), SECONDS)
            self.assertIn("cut: client/client", told)
            self.assertIn(self.client.get(HOST, HTTP, "/books-bought")[0], (REFUSED, 403, 404))
            with self.subTest("the controller refuses its proxy key"):
                self.assertNotIn("client", self.proxies())
                with self.assertRaises(http2.Ended) as refused:
                    self.ask_controller()
                self.assertIn("permission-denied", str(refused.exception))
                self.assertIn("(stolen)", str(refused.exception))
                self.assertIsNone(renew(self.client, "--force", check=False))
            with self.subTest("requests and new connections of others go on, open ones until the drain time"):
                self.assertTrue(self.line(open_tcp))
                with self.friend.namespace.connect(LEDGER, TCP) as fresh:
                    self.assertTrue(self.line(fresh))
                load.check(self)
            with self.subTest("the server was told once"):
                self.wait_until_synced(2)
                now = self.server.updates()
                self.assertLessEqual(now["RDS"] - updates["RDS"], 1)
                self.assertLessEqual(now["LDS"] - updates["LDS"], 1)
            with self.subTest("an account that is admitted again is served again"):
                self.deny("remove", "client/client")
                self.wait_for_status(self.client, 200, HOST, timeout=30)
                self.assertTrue(self.steal_tcp())
                wait_for("its stream is back", lambda: "client" in self.proxies(), 40)
            load.check(self)

    def upload(self, connection):
        """Begins a request on an open connection that never ends. Result: the connection."""
        self.addCleanup(connection.close)
        connection.settimeout(0.2)
        connection.sendall(
            f"POST /books-bought HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + CHUNK
        )
        return connection

    def uploads(self):
        """Number of requests that the server's Envoy has begun and not answered."""
        return sum(self.server.stats(r"^http\..*rds-inbound.*downstream_rq_active$").values())

    def wait_for_end(self, name, connection, data, echoed):
        """Until the other side closes a connection on which `data` is sent again and again. If it
        does not echo the data, an answer is an end, too."""

        def ended():
            try:
                connection.sendall(data)
                if not connection.recv(100) or not echoed:
                    return True
            except TimeoutError:
                pass
            except OSError:  # SSLError too
                return True
            raise NotYet("it is open")

        wait_for(f"{name} ends", ended, DRAIN + SECONDS)

    def test_open_connections_of_a_denied_account_end_with_the_drain_time(self):
        self.rig.drain_seconds = DRAIN
        self.start()
        tcp = {
            "the thief's": self.thief.dial(self.client, self.server.address, TCP, "ledger.server.svc.cluster.local"),
            "the client's": self.client.namespace.connect(LEDGER, TCP),
            # All open connections of a port whose policy changes drain (docs/mesh-objects.md).
            "the friend's": self.friend.namespace.connect(LEDGER, TCP),
        }
        for connection in tcp.values():
            self.addCleanup(connection.close)
            self.assertTrue(self.line(connection))
        streams = {
            "the thief's": self.upload(
                self.thief.dial(self.client, self.server.address, HTTP, "server.server.svc.cluster.local")
            ),
            "the client's": self.upload(self.client.namespace.connect(self.client.resolve(HOST), HTTP)),
        }
        wait_for("the server has both uploads", lambda: self.uploads() == 2)
        with meshcase.Load(self.friend) as load:
            self.deny("account", "client/client")
            for name, connection in tcp.items():
                with self.subTest(f"{name} open TCP connection ends"):
                    self.wait_for_end(f"{name} TCP connection", connection, b"x\n", echoed=True)
            for name, connection in streams.items():
                with self.subTest(f"{name} open HTTP stream ends"):
                    self.wait_for_end(f"{name} HTTP stream", connection, CHUNK, echoed=False)
            with self.subTest("requests and new connections of others go on"):
                with self.friend.namespace.connect(LEDGER, TCP) as fresh:
                    self.assertTrue(self.line(fresh))
                load.check(self)

    def test_a_denied_account_is_refused_in_smi_mode(self):
        self.start()
        self.check_denied_account()

    def test_a_denied_account_is_refused_in_permissive_mode(self):
        self.rig.mesh.write("config.yaml", objects.mesh_config(permissive=True))
        self.start()
        self.check_denied_account()

    def test_a_denied_proxy_is_refused_by_the_controller_alone(self):
        self.start()
        wait_for("the client's own stream is back", lambda: "client" in self.proxies())
        uuid = self.proxies()["client"]["uuid"]
        told = self.deny("proxy", uuid)
        self.assertIn(f"cut: client/client ({uuid})", told)
        self.assertNotIn("client", self.proxies())
        with self.assertRaises(http2.Ended) as refused:
            self.ask_controller()
        self.assertIn("permission-denied", str(refused.exception))
        self.assertIsNone(renew(self.client, "--force", check=False))
        self.assertEqual(self.client.get(HOST, HTTP, "/books-bought")[0], 200)
        self.deny("remove", uuid)
        self.check_the_controller_answers()


if __name__ == "__main__":
    meshcase.main()
