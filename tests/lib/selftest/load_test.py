#!/usr/bin/python3
"""A lane of load reports each call that fails and none that a client of HTTP would not have made; the
balancer leads each proxy to the controller that the test chose, at the speed that it chose."""

import contextlib
import socket
import threading
import time
import unittest

from lib.mesh.balancer import Balancer
from lib.mesh.lanes import Lane
from lib.mesh.reference import DENIED, Call
from lib.net.processes import wait_for

OK = b"HTTP/1.1 200 OK\r\nx-from: api-1 8080\r\ncontent-length: 0\r\n\r\n"
LAST = OK.replace(b"x-from", b"connection: close\r\nx-from")
REFUSED = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 19\r\n\r\nRBAC: access denied"


class Here:
    """In place of a namespace."""

    @staticmethod
    def inside(function):
        return function()


class Server:
    """Answers the requests of each connection as `script` says: bytes, or None to close it."""

    def __init__(self, script):
        self.script, self.connections = script, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.end = threading.Event()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.connections += 1
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, contextlib.suppress(ConnectionError):
            while connection.recv(1000):
                if (answer := self.script.pop(0) if self.script else OK) is None:
                    return
                connection.sendall(answer)

    def close(self):
        with contextlib.suppress(OSError):  # it is closed already
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self.listener.close()


class Lanes(unittest.TestCase):
    def answers(self, keeps, *script, count):
        """(outcomes, connections) of so many calls."""
        server = Server(list(script))
        self.addCleanup(server.close)
        lane = Lane("lane", Here, keeps, 0.001)
        self.addCleanup(lane.stop)
        lane.give([(0, Call("buyer", *server.address, "http", "GET", "/books", host="api.shop"))])
        wait_for("the calls", lambda: len(lane.taken()) >= count)
        self.how = [record.how for record in lane.taken()]
        return [record.outcome for record in lane.taken()][:count], server.connections

    ANSWERED = ("api-1", 8080)

    def test_a_lane_keeps_its_connection_over_refusals(self):
        outcomes, connections = self.answers(True, OK, REFUSED, OK, count=3)
        self.assertEqual((outcomes, connections), ([self.ANSWERED, DENIED, self.ANSWERED], 1))
        self.assertEqual(self.how[1], "403 RBAC: access denied")

    def test_a_lane_makes_a_new_connection_for_each_call(self):
        self.assertGreaterEqual(self.answers(False, count=3)[1], 3)

    def test_a_connection_that_the_server_ends_is_not_used_again(self):
        outcomes, connections = self.answers(True, LAST, count=3)
        self.assertEqual((outcomes, connections), ([self.ANSWERED] * 3, 2))

    def test_a_connection_that_ends_in_place_of_an_answer_is_a_failure(self):
        outcomes, _ = self.answers(True, OK, None, count=3)
        self.assertEqual(outcomes, [self.ANSWERED, DENIED, self.ANSWERED])
        self.assertRegex(self.how[1], "kept connection")

    def test_other_calls_begin_other_records(self):
        server = Server([])
        self.addCleanup(server.close)
        lane = Lane("lane", Here, True, 0.001)
        self.addCleanup(lane.stop)
        call = Call("buyer", *server.address, "http", "GET", "/books", host="api.shop")
        lane.give([(0, call)])
        wait_for("calls", lambda: len(lane.taken()) >= 3)
        lane.give([(1, call)])
        wait_for("calls", lambda: len(lane.taken()) >= 3)
        self.assertEqual({record.call for record in lane.taken()}, {1})


class Balancing(unittest.TestCase):
    def setUp(self):
        self.one, self.two = Server([]), Server([])
        self.balancer = Balancer(Here, "127.0.0.1", {"one": self.one.address, "two": self.two.address})
        for made in (self.one, self.two, self.balancer):
            self.addCleanup(made.close)
        self.balancer.place("web", "two")
        host, _, port = self.balancer.listen_for("web").rpartition(":")
        self.address = host, int(port)

    def ask(self):
        """An open connection that was answered."""
        opened = socket.create_connection(self.address, 5)
        self.addCleanup(opened.close)
        opened.sendall(b"GET")
        self.assertEqual(opened.recv(1000), OK)
        return opened

    def counts(self):
        return self.one.connections, self.two.connections

    def test_a_machine_is_led_to_its_controller(self):
        self.ask()
        self.assertEqual(self.counts(), (0, 1))
        self.balancer.place("web", "one")
        self.ask()
        self.assertEqual(self.counts(), (1, 1))

    def test_another_controller_takes_the_place_of_one_that_is_avoided_or_gone(self):
        self.balancer.avoid("two")
        self.ask()
        self.assertEqual(self.counts(), (1, 0))
        self.balancer.admit("two")
        self.two.close()
        self.ask()
        self.assertEqual(self.counts(), (2, 0))

    def test_a_cut_ends_open_connections(self):
        opened = self.ask()
        self.balancer.cut("web")
        with contextlib.suppress(ConnectionError):
            self.assertEqual(opened.recv(1), b"")
        self.ask()

    def test_a_delay_is_in_both_directions(self):
        self.balancer.delay("web", 0.2)
        begun = time.monotonic()
        self.ask()
        self.assertGreaterEqual(time.monotonic() - begun, 0.4)


if __name__ == "__main__":
    unittest.main()
