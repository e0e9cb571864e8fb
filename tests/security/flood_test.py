#!/usr/bin/python3
"""Floods before and after authentication: the controller's memory and descriptors stay bounded, and
other proxies are served meanwhile (docs/security.md, threats 1 and 4).

usage: flood_test.py --bin DIRECTORY
"""
import contextlib
import os
import random
import socket
import ssl
import struct
import time

from lib.mesh import attacked as mesh
from lib.net import http2
from lib.net.http2 import (ACK, ADS, CONTINUATION, DATA, END_HEADERS, HEADERS, PING, PREFACE, RST_STREAM,
                   SETTINGS, frame, literal, message, request_headers)

# More than --ads-memory: what it is not asked for, and the allocator's slack. AddressSanitizer puts
# room around every allocation.
BOUND_MB = (128 + 150) * (2 if "ASAN_OPTIONS" in os.environ else 1)
ABORTED = 10  # gRPC's status
CANCEL = struct.pack("!I", 8)


class Floods(mesh.MeshTest):
    FLAGS = ("--ads-memory", "128")

    def setUp(self):
        super().setUp()
        self.api = self.proxy("api-1")
        self.assert_served(self.api)
        self.memory, self.open = self.resident(), self.descriptors()

    def tearDown(self):
        """Whatever happened: alive, serving, and everything is given back."""
        self.assertIsNone(self.controller.process.poll(), self.controller.lines[-3:])
        self.assert_served(self.api)
        mesh.wait_for("descriptors to return", lambda: self.descriptors() <= self.open + 8, 30)
        self.assert_bounded()
        self.assertEqual(self.controller.stop(), 0)

    def assert_bounded(self):
        self.assertLess(self.resident() - self.memory, BOUND_MB)

    def flood(self, connection, data, times):
        """Sends until the other side has enough: it may throttle, or hang up."""
        connection.tls.settimeout(2)
        for i in range(times):
            try:
                connection.send(data(i))
            except (OSError, ssl.SSLError):
                return
            if i % 50 == 0:
                self.assert_bounded()

    # -- after authentication: what the holder of one machine's key can do

    def test_a_storm_of_streams_that_are_reset_at_once(self):
        for _ in range(4):
            with self.connect(self.web) as connection:
                def storm(_):
                    out = b""
                    for _ in range(100):
                        stream, connection.next_stream = connection.next_stream, connection.next_stream + 2
                        out += frame(HEADERS, END_HEADERS, stream, request_headers())
                        out += frame(RST_STREAM, 0, stream, CANCEL)
                    return out
                self.flood(connection, storm, 100)
                self.assert_served(self.api)

    def test_thousands_of_streams_that_stay_open(self):
        with contextlib.ExitStack() as stack:
            for _ in range(8):
                connection = stack.enter_context(self.connect(self.web))
                self.flood(connection, lambda i, c=connection: self.opening(c), 500)
                self.assert_served(self.api)
            # One certificate is one proxy, however many streams it opens.
            served = [p for p in self.controller.admin("/v1/proxies")[1]["proxies"]]
            self.assertLessEqual(len(served), 2)

    @staticmethod
    def opening(connection):
        stream, connection.next_stream = connection.next_stream, connection.next_stream + 2
        return (frame(HEADERS, END_HEADERS, stream, request_headers()) +
                frame(DATA, 0, stream, message(http2.CLUSTERS)))

    def test_a_key_without_a_workload_holds_one_waiting_stream(self):
        lost = self.issued("lost", f"{mesh.DOMAIN}/osm/proxy/11111111-1111-4111-8111-111111111111"
                           "/shop/web", pem=self.state / "ca" / "ca.pem")
        with self.connect(lost) as connection:
            # gRPC hands streams to several threads: which of the two is the older is its choice.
            streams = [connection.open(body=http2.CLUSTERS) for _ in range(2)]
            self.assertEqual(connection.status(*streams), ABORTED)

    def test_control_frames_whose_answers_are_never_read(self):
        for data in (frame(PING, 0, 0, b"12345678") * 1000, frame(SETTINGS, 0, 0) * 1000,
                     frame(SETTINGS, 0, 0, b"\0\3\0\0\0\1" * 100) * 100,
                     frame(8, 0, 0, b"\0\0\0\1") * 1000, frame(2, 0, 1, b"\0\0\0\0\1") * 1000):
            with self.connect(self.web) as connection:
                self.flood(connection, lambda _, d=data: d, 300)
                self.assert_served(self.api)

    def test_headers_that_never_end(self):
        filler = b"".join(literal(f"x-{i}", "y" * 100) for i in range(100))
        with self.connect(self.web) as connection:
            connection.send(frame(HEADERS, 0, 1, request_headers()))
            self.flood(connection, lambda _: frame(CONTINUATION, 0, 1, filler), 5000)
            self.assert_served(self.api)
        with self.connect(self.web) as connection:  # each complete, and too large
            def large(_):
                stream, connection.next_stream = connection.next_stream, connection.next_stream + 2
                return frame(HEADERS, END_HEADERS, stream, request_headers() + filler)
            self.flood(connection, large, 2000)

    def test_messages_that_are_too_large_or_never_end(self):
        for claimed in (0xFFFFFFFF, 1 << 30, 17 << 20):
            with self.connect(self.web) as connection:
                stream = connection.open()
                connection.send(frame(DATA, 0, stream, b"\0" + struct.pack("!I", claimed)))
                self.flood(connection, lambda _: frame(DATA, 0, stream, b"x" * 16_000), 2000)
                self.assert_served(self.api)

    def test_a_request_for_a_million_names_is_refused(self):
        names = b"".join(http2.text_field(3, f"n{i}") for i in range(1_000_000))
        with self.connect(self.web) as connection:
            body = message(http2.SECRETS + names)
            stream = connection.open()
            connection.tls.settimeout(10)
            with contextlib.suppress(OSError, ssl.SSLError):
                for at in range(0, len(body), 16_000):
                    self.with_room(connection)
                    connection.send(frame(DATA, 0, stream, body[at:at + 16_000]))
            self.assert_served(self.api)
            self.assert_bounded()
        proxies = self.controller.admin("/v1/proxies")[1]["proxies"]
        self.assertNotIn("shop/web-1", [p["name"] for p in proxies])

    @staticmethod
    def with_room(connection):
        """Drains what came, so that neither side waits for the other."""
        connection.tls.setblocking(False)
        with contextlib.suppress(ssl.SSLError, BlockingIOError):
            while connection.tls.recv(65536):
                pass
        connection.tls.settimeout(10)

    # -- before authentication: what anybody on the network can do

    def plain(self):
        host, port = self.ads.rsplit(":", 1)
        return socket.create_connection((host, int(port)), timeout=5)

    def test_bytes_that_are_no_tls(self):
        dice = random.Random(seed := random.randrange(1 << 32))
        print(f"seed={seed}")
        with self.plain() as hello:  # a real one to cut and change
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            out = ssl.MemoryBIO()
            with contextlib.suppress(ssl.SSLWantReadError):
                context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="ads").do_handshake()
            hello_bytes = out.read()
        for i in range(600):
            data = bytearray(hello_bytes)
            kind = i % 5
            if kind == 0:
                data = bytearray(dice.randbytes(dice.randrange(1, 3000)))
            elif kind == 1:
                data = bytearray(PREFACE + frame(SETTINGS, 0, 0) + dice.randbytes(200))
            elif kind == 2:
                del data[dice.randrange(1, len(data)):]
            else:
                for _ in range(dice.randrange(1, 20)):
                    data[dice.randrange(len(data))] = dice.randrange(256)
            with contextlib.suppress(OSError), self.plain() as connection:
                connection.sendall(data)
                if i % 10 == 0:
                    connection.shutdown(socket.SHUT_WR)
                    connection.settimeout(0.2)
                    connection.recv(100)

    def test_many_connections_that_say_nothing(self):
        silent = []
        try:
            for _ in range(400):
                silent.append(self.plain())
            self.assert_served(self.api)
            self.assert_bounded()
            # None of them may stay for longer than a handshake takes.
            mesh.wait_for("silent connections to be closed",
                          lambda: self.descriptors() <= self.open + 8, 40)
        finally:
            for connection in silent:
                connection.close()

    def test_handshakes_without_a_certificate_again_and_again(self):
        before = len(self.controller.log("proxy connected"))
        for _ in range(300):
            with contextlib.suppress(OSError, ssl.SSLError):
                with self.connect() as connection:
                    connection.send(frame(HEADERS, END_HEADERS, 1, request_headers(ADS)))
                    connection.tls.settimeout(1)
                    connection.frame()
        self.assertEqual(len(self.controller.log("proxy connected")), before)


if __name__ == "__main__":
    mesh.run()
