#!/usr/bin/python3
"""The ADS listener under pressure: it accepts again after descriptors ran out, bounds connections
that show no certificate, and tells readiness when it cannot accept (docs/security.md, threat 26).

usage: listener_test.py --bin DIRECTORY
"""
import contextlib
import resource
import socket
import time

from lib.mesh import attacked
from lib.mesh.daemon import run
from lib.net.processes import wait_for


class Listener(attacked.MeshTest):
    # Descriptors run out before any bound on connections is met.
    FLAGS = ("--ads-max-unverified", "100000", "--ads-max-unverified-per-address", "0")

    def setUp(self):
        super().setUp()
        self.assert_served()
        self.open = self.descriptors()

    def limit_descriptors(self, count):
        """What the controller may have open from now on; all that it has stays open."""
        pid = self.controller.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (count, before[1]))
        self.addCleanup(lambda: self.controller.process.poll() is None and
                        resource.prlimit(pid, resource.RLIMIT_NOFILE, before))

    def connect_silently(self, stack, count):
        host, port = self.ads.rsplit(":", 1)
        for _ in range(count):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=5))

    def test_it_accepts_again_after_descriptors_ran_out(self):
        self.limit_descriptors(self.open + 20)
        with contextlib.ExitStack() as stack:
            self.connect_silently(stack, 60)
            wait_for("descriptors to run out", lambda: self.descriptors() >= self.open + 19)
            time.sleep(1)  # the listener meets the limit more than once
        released = time.monotonic()
        wait_for("a proxy to be configured", self.is_served, 5)
        self.assertLess(time.monotonic() - released, 5)

    def is_served(self):
        with contextlib.suppress(OSError, AssertionError):
            self.assert_served()
            return True


if __name__ == "__main__":
    run()
