#!/usr/bin/python3
"""Protocols that proxies break pass two real Envoys, in both modes: HTTP/1.0, HTTP/2 without TLS,
WebSocket, gRPC streams with trailers, servers that speak first and half-closed connections. Silent streams
and connections end after the idle time of their Service.
"""

import contextlib
import pathlib
import socket
import sys
import time

from lib.mesh import meshcase, objects, talking_app
from lib.net import http2
from lib.net.processes import FairClock

HTTP, GRPC, GREETER, READER, PLAIN = meshcase.PORT, 14002, 14003, 14004, 14005
H2C, SOCKET, EITHER = 14006, 14007, 14008
ADDRESS, HOST = "10.96.0.12", "server.server"
BRISK_ADDRESS, BRISK_HOST = "10.96.0.13", "brisk.server"  # the same ports, with short idle times
GREETING = b"220 ready\r\n"


class Protocols(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client, self.server = self.add_client_and_server()
        service = objects.service("server", "server", ADDRESS, HTTP)
        brisk = objects.service("server", "brisk", BRISK_ADDRESS, HTTP, selector={"app": "server"})
        service["spec"]["ports"] = brisk["spec"]["ports"] = [
            {"name": "http-web", "port": HTTP, "targetPort": HTTP},
            {"name": "rpc", "port": GRPC, "targetPort": GRPC, "appProtocol": "grpc"},
            {"name": "mail", "port": GREETER, "targetPort": GREETER, "appProtocol": "tcp-server-first"},
            {"name": "tcp-reader", "port": READER, "targetPort": READER},
            {"name": "tcp-mail", "port": PLAIN, "targetPort": GREETER},
            {"name": "two", "port": H2C, "targetPort": H2C, "appProtocol": "kubernetes.io/h2c"},
            {"name": "http-either", "port": EITHER, "targetPort": EITHER},
            {"name": "grpc-either", "port": EITHER + 1, "targetPort": EITHER},
            {"name": "socket", "port": SOCKET, "targetPort": HTTP, "appProtocol": "kubernetes.io/ws"},
        ]
        self.rig.mesh.write(
            "server.yaml",
            service,
            brisk,
            objects.upstream_setting(
                "server",
                "brisk",
                BRISK_HOST,
                connectionSettings={"tcp": {"idleTimeout": "1s"}, "http": {"streamIdleTimeout": "1s"}},
            ),
            objects.routes("server", "routes", all={"pathRegex": ".*"}),
            objects.tcp_route("server", "tcp", GREETER, READER),
            objects.target("server", "web", "server", [("client", "client")], ("HTTPRouteGroup", "routes", ["all"])),
            objects.target("server", "tcp", "server", [("client", "client")], ("TCPRoute", "tcp", None)),
        )
        self.start_mesh()
        self.server.run(
            "app",
            sys.executable,
            str(pathlib.Path(talking_app.__file__)),
            *(
                str(part)
                for name, port in (
                    ("http", HTTP),
                    ("grpc", GRPC),
                    ("h2c", H2C),
                    ("greeter", GREETER),
                    ("reader", READER),
                    ("either", EITHER),
                )
                for part in (f"--{name}", port)
            ),
        )

    def modes(self):
        for permissive in (False, True):
            self.rig.mesh.write("config.yaml", objects.mesh_config(permissive))
            # The application opens this port last.
            self.wait_for_status(self.client, 200, HOST, "/", port=EITHER)
            yield permissive

    def dial(self, port, address=ADDRESS):
        connection = self.client.namespace.connect(address, port, timeout=10)
        self.addCleanup(connection.close)
        return connection

    @staticmethod
    def read(connection, size):
        """So many bytes."""
        data = b""
        while len(data) < size:
            more = connection.recv(size - len(data))
            if not more:
                raise ConnectionError(f"closed after {data!r}")
            data += more
        return data

    @staticmethod
    def read_all(connection):
        return b"".join(iter(lambda: connection.recv(4096), b""))

    def test_http_1_0_is_served_at_both_ends(self):
        for permissive in self.modes():
            with self.subTest("a client that speaks it", permissive=permissive):
                connection = self.dial(HTTP)
                connection.sendall(f"GET / HTTP/1.0\r\nHost: {HOST}\r\n\r\n".encode())
                answer = self.read_all(connection)
                self.assertRegex(answer, rb"^HTTP/1\.[01] 200 OK\r\n")
                self.assertTrue(answer.endswith(b"HTTP/1.1"), answer)  # what its server saw
            with self.subTest("a server that speaks it", permissive=permissive):
                self.assertEqual((200, "old"), self.client.get(HOST, HTTP, "/old"))

    def test_http_2_without_tls_reaches_a_server_that_speaks_nothing_else(self):
        for permissive in self.modes():
            with self.subTest("a client that speaks it", permissive=permissive):
                self.assert_echoes(http2.Connection(self.dial(H2C)))
            with self.subTest("a client that speaks HTTP/1.1", permissive=permissive):
                self.assertEqual(200, self.client.get(HOST, H2C, "/talk.Talk/Echo")[0])

    def open_websocket(self, port=HTTP, address=ADDRESS, host=HOST):
        connection = self.dial(port, address)
        connection.sendall(
            f"GET /ws HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n".encode()
        )
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.read(connection, 1)
        self.assertIn(b" 101 ", head)
        return connection

    def test_a_websocket_carries_both_directions(self):
        for permissive in self.modes():
            for port in (HTTP, SOCKET):
                with self.subTest(permissive=permissive, port=port):
                    connection = self.open_websocket(port)
                    for text in (b"one", b"two"):
                        connection.sendall(text)
                        self.assertEqual(text.upper(), self.read(connection, 3))

    def test_a_grpc_stream_has_messages_both_ways_and_trailers(self):
        for permissive in self.modes():
            with self.subTest(permissive=permissive):
                self.assert_echoes(http2.Connection(self.dial(GRPC)))

    def test_http_and_grpc_share_a_target_port(self):
        for permissive in self.modes():
            with self.subTest(permissive=permissive):
                self.assertEqual((200, "HTTP/1.1"), self.client.get(HOST, EITHER, "/"))
                self.assert_echoes(http2.Connection(self.dial(EITHER + 1)))

    def assert_echoes(self, rpc):
        stream = self.open_stream(rpc, HOST)
        rpc.write(stream, b"two")
        self.assertEqual(b"two", rpc.message(stream))
        rpc.write(stream, b"last", end=True)
        self.assertEqual(b"last", rpc.message(stream))
        ended = rpc.end(stream)
        self.assertEqual((0, "3"), (ended.status, ended.trailers["x-count"]))

    def open_stream(self, rpc, host):
        """A stream that carried a message both ways."""
        stream = rpc.open("/talk.Talk/Echo", b"one", authority=host)
        self.assertEqual(b"one", rpc.message(stream))
        return stream

    def test_a_server_that_speaks_first_is_heard_at_once(self):
        for permissive in self.modes():
            for port in (GREETER, PLAIN):
                with self.subTest(permissive=permissive, port=port):
                    clock = FairClock()
                    connection = self.dial(port)
                    self.assertEqual(GREETING, self.read(connection, len(GREETING)))
                    self.assertLess(clock.seconds(), 1)
                    connection.sendall(b"HELO me\r\n")
                    self.assertEqual(b"HELO me\r\n", self.read(connection, 9))

    def test_a_connection_that_is_closed_on_one_side_still_answers(self):
        for permissive in self.modes():
            with self.subTest(permissive=permissive):
                connection = self.dial(READER)
                connection.sendall(b"x" * 100_000)
                connection.shutdown(socket.SHUT_WR)
                self.assertEqual(b"100000 bytes", self.read_all(connection))

    def test_a_silent_stream_ends_after_its_services_idle_time_and_no_other_does(self):
        for permissive in self.modes():
            with self.subTest("gRPC", permissive=permissive):
                usual = http2.Connection(self.dial(GRPC))
                kept = self.open_stream(usual, HOST)
                began = time.monotonic()
                brisk = http2.Connection(self.dial(GRPC, BRISK_ADDRESS))
                cut = self.open_stream(brisk, BRISK_HOST)
                self.assertNotEqual(0, brisk.end(cut).status)
                self.assertGreater(time.monotonic() - began, 1)
                usual.write(kept, b"more")
                self.assertEqual(b"more", usual.message(kept))
            with self.subTest("WebSocket", permissive=permissive):
                usual, began = self.open_websocket(), time.monotonic()
                brisk = self.open_websocket(HTTP, BRISK_ADDRESS, BRISK_HOST)
                self.assert_brisk_ends_alone(brisk, began, usual, b"more", b"MORE")
            with self.subTest("TCP", permissive=permissive):
                usual, began = self.dial(GREETER), time.monotonic()
                brisk = self.dial(GREETER, BRISK_ADDRESS)
                for connection in (usual, brisk):
                    self.assertEqual(GREETING, self.read(connection, len(GREETING)))
                self.assert_brisk_ends_alone(brisk, began, usual, b"more\n", b"more\n")

    def assert_brisk_ends_alone(self, brisk, began, usual, text, answer):
        """`began`: before the last byte on `brisk`."""
        with contextlib.suppress(ConnectionError):
            self.assertEqual(b"", brisk.recv(1))
        self.assertGreater(time.monotonic() - began, 1)
        usual.sendall(text)
        self.assertEqual(answer, self.read(usual, len(answer)))


if __name__ == "__main__":
    meshcase.main()
