#!/usr/bin/python3
"""A refusal by the mesh is told from a dead Envoy, a late answer and a mistake in the test; a signal leaves
no process behind.
"""

import contextlib
import http.client
import pathlib
import signal
import socket
import struct
import tempfile
import threading
import unittest
from unittest import mock

from lib.mesh import meshcase, rig
from lib.mesh.rig import REFUSED, Machine, NotLive, Rig
from lib.net.netns import Namespace
from lib.net.processes import Timeout

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbooks"


class Here(Namespace):
    """This process's own network."""

    def __init__(self):
        pass

    def connect(self, address, port, timeout=2, **_):
        return socket.create_connection((address, port), timeout)


class Envoy:
    def __init__(self):
        self.runs, self.ready = True, 200

    def running(self):
        return self.runs


class FakeMachine(Machine):
    """A machine whose Envoy is what the test says."""

    def __init__(self, directory):
        self.name, self.directory, self.namespace, self.proxy = "client", directory, Here(), Envoy()

    def admin(self, path, method="GET"):
        if self.proxy.ready == 0:
            raise ConnectionRefusedError("admin")
        return self.proxy.ready, ""


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Get(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        (self.directory / "hosts").write_text("127.0.0.1 server.server  # a comment\n")
        self.machine = FakeMachine(self.directory)

    @contextlib.contextmanager
    def served(self, answer):
        """The port of a server that does `answer(connection)` with each connection's request."""
        with socket.create_server(("127.0.0.1", 0)) as server:

            def serve():
                while True:
                    try:
                        connection = server.accept()[0]
                    except OSError:
                        return
                    with connection, contextlib.suppress(OSError):
                        connection.recv(1000)
                        answer(connection)

            thread = threading.Thread(target=serve)
            thread.start()
            try:
                yield server.getsockname()[1]
            finally:
                server.shutdown(socket.SHUT_RDWR)
                thread.join()

    def get(self, answer, host="server.server", **more):
        with self.served(answer) as port:
            return self.machine.get(host, port, "/books", **more)

    def closed_port(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            return server.getsockname()[1]

    def test_an_answer_is_its_status_and_body(self):
        self.assertEqual((200, "books"), self.get(lambda c: c.sendall(ANSWER)))

    def test_a_connection_that_a_live_envoy_closes_is_refused(self):
        self.assertEqual(REFUSED, self.get(lambda c: None)[0])
        self.assertEqual(REFUSED, self.get(reset)[0])
        self.assertEqual(REFUSED, self.machine.get("server.server", self.closed_port(), "/")[0])

    def test_nothing_is_a_refusal_when_envoy_is_not_live(self):
        for name, runs, ready in (
            ("it ended", False, 200),
            ("it starts or ends", True, 503),
            ("its admin interface is closed", True, 0),
        ):
            with self.subTest(name), self.assertRaises(NotLive):
                self.machine.proxy.runs, self.machine.proxy.ready = runs, ready
                self.machine.get("server.server", self.closed_port(), "/")
        self.machine.proxy = None
        with self.subTest("there is none"), self.assertRaises(NotLive):
            self.machine.get("server.server", self.closed_port(), "/")

    def test_a_late_answer_is_no_refusal(self):
        late = threading.Event()
        with self.assertRaises(TimeoutError):
            try:
                self.get(lambda c: late.wait(0.5), timeout=0.1)
            finally:
                late.set()

    def test_half_an_answer_is_no_refusal(self):
        def cut(connection):
            connection.sendall(ANSWER[:-2])

        def cut_and_reset(connection):
            cut(connection)
            reset(connection)

        for how in (cut, cut_and_reset):
            with self.subTest(how.__name__), self.assertRaises(http.client.IncompleteRead):
                self.get(how)
        with self.assertRaises(http.client.BadStatusLine):
            self.get(lambda c: c.sendall(b"1 books\r\n"))

    def test_an_unknown_host_is_no_refusal(self):
        with self.assertRaisesRegex(LookupError, "no.such is not in the hosts file of client"):
            self.get(lambda c: None, host="no.such")

    def test_a_mistake_in_the_test_is_no_refusal(self):
        with self.served(lambda c: None) as port, self.assertRaises(TypeError):
            self.machine.get("server.server", port, "/", method=None)

    def test_a_load_counts_each_request_that_was_not_answered(self):
        class Dead:
            def get(self, *_):
                raise NotLive("no Envoy runs")

        with meshcase.Load(Dead()) as load, self.assertRaisesRegex(AssertionError, "no Envoy runs"):
            load.check(self)
        self.assertGreaterEqual(load.requests, 3)
        self.assertEqual(load.requests, len(load.failures))

    def test_a_wait_for_a_refusal_ends_when_envoy_dies(self):
        case = meshcase.MeshCase()
        self.machine.proxy.runs = False
        with self.assertRaises(NotLive):
            case.wait_for_status(self.machine, REFUSED, "server.server", port=self.closed_port())
        self.machine.proxy.runs = True
        with (
            self.served(lambda c: c.sendall(ANSWER)) as port,
            self.assertRaisesRegex(Timeout, "client gets refused from server.server/books-bought .*200"),
        ):
            case.wait_for_status(self.machine, REFUSED, "server.server", port=port, timeout=0.1)


class Start(unittest.TestCase):
    def test_a_signal_between_the_start_and_the_list_comes_after_the_list(self):
        class Interrupted(rig.Process):
            def __init__(self, *arguments, **options):
                super().__init__(*arguments, **options)
                signal.raise_signal(signal.SIGINT)

        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.rig = Rig.__new__(Rig)
        self.rig.directory, self.rig.keep, self.rig.processes = pathlib.Path(directory.name), False, []
        with mock.patch.object(rig, "Process", Interrupted), self.assertRaises(KeyboardInterrupt):
            self.rig.start("sleep", ["sleep", "60"])
        (process,) = self.rig.processes
        self.addCleanup(process.end, signal.SIGKILL)
        self.assertEqual(process.end(signal.SIGTERM), -signal.SIGTERM)  # the child obeys it


if __name__ == "__main__":
    unittest.main()
