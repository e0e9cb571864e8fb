#!/usr/bin/python3
"""Protocols that proxies break, through two real Envoys: HTTP/1.0, WebSocket, gRPC streams with
trailers, servers that speak first, and connections that are closed on one side."""
import pathlib
import socket
import sys
import time

from lib.mesh import meshcase, objects, talking_app
from lib.net import http2

HTTP, GRPC, GREETER, READER, PLAIN = meshcase.PORT, 14002, 14003, 14004, 14005
ADDRESS, HOST = "10.96.0.12", "server.server"
GREETING = b"220 ready\r\n"


class Protocols(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client, self.server = self.add_client_and_server()
        service = objects.service("server", "server", ADDRESS, HTTP)
        service["spec"]["ports"] = [
            {"name": "http-web", "port": HTTP, "targetPort": HTTP},
            {"name": "rpc", "port": GRPC, "targetPort": GRPC, "appProtocol": "grpc"},
            {"name": "mail", "port": GREETER, "targetPort": GREETER,
             "appProtocol": "tcp-server-first"},
            {"name": "tcp-reader", "port": READER, "targetPort": READER},
            {"name": "tcp-mail", "port": PLAIN, "targetPort": GREETER}]
        self.rig.mesh.write(
            "server.yaml", service, objects.routes("server", "routes", all={"pathRegex": ".*"}),
            objects.tcp_route("server", "tcp", GREETER, READER),
            objects.target("server", "web", "server", [("client", "client")],
                           ("HTTPRouteGroup", "routes", ["all"])),
            objects.target("server", "tcp", "server", [("client", "client")],
                           ("TCPRoute", "tcp", None)))
        self.start_mesh()
        self.server.run("app", sys.executable, str(pathlib.Path(talking_app.__file__)),
                        *(str(part) for name, port in (("http", HTTP), ("grpc", GRPC),
                                                       ("greeter", GREETER), ("reader", READER))
                          for part in (f"--{name}", port)))

    def modes(self):
        for permissive in (False, True):
            self.rig.mesh.write("config.yaml", objects.mesh_config(permissive))
            self.rig.osm("status", "meshconfig", "osm-system/osm-mesh-config", "--wait",
                         "--timeout", "20s")
            self.wait_for_status(self.client, 200, HOST, "/")
            yield permissive

    def dial(self, port):
        connection = self.client.namespace.connect(ADDRESS, port, timeout=5)
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

    def test_a_websocket_carries_both_directions(self):
        for permissive in self.modes():
            with self.subTest(permissive=permissive):
                connection = self.dial(HTTP)
                connection.sendall(f"GET /ws HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade\r\n"
                                   "Upgrade: websocket\r\n\r\n".encode())
                head = b""
                while b"\r\n\r\n" not in head:
                    head += self.read(connection, 1)
                self.assertIn(b" 101 ", head)
                for text in (b"one", b"two"):
                    connection.sendall(text)
                    self.assertEqual(text.upper(), self.read(connection, 3))

    def test_a_grpc_stream_has_messages_both_ways_and_trailers(self):
        for permissive in self.modes():
            with self.subTest(permissive=permissive):
                rpc = http2.Connection(self.dial(GRPC))
                stream = rpc.open("/talk.Talk/Echo", authority=HOST)
                for text in (b"one", b"two"):
                    rpc.write(stream, text)
                    self.assertEqual(text, rpc.message(stream))
                rpc.write(stream, b"last", end=True)
                self.assertEqual(b"last", rpc.message(stream))
                ended = rpc.end(stream)
                self.assertEqual((0, "3"), (ended.status, ended.trailers["x-count"]))

    def test_a_server_that_speaks_first_is_heard_at_once(self):
        for permissive in self.modes():
            for port in (GREETER, PLAIN):
                with self.subTest(permissive=permissive, port=port):
                    began = time.monotonic()
                    connection = self.dial(port)
                    self.assertEqual(GREETING, self.read(connection, len(GREETING)))
                    self.assertLess(time.monotonic() - began, 1)
                    connection.sendall(b"HELO me\r\n")
                    self.assertEqual(b"HELO me\r\n", self.read(connection, 9))

    def test_a_connection_that_is_closed_on_one_side_still_answers(self):
        for permissive in self.modes():
            with self.subTest(permissive=permissive):
                connection = self.dial(READER)
                connection.sendall(b"x" * 100_000)
                connection.shutdown(socket.SHUT_WR)
                self.assertEqual(b"100000 bytes", self.read_all(connection))


if __name__ == "__main__":
    meshcase.main()
