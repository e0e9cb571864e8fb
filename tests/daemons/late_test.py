#!/usr/bin/python3
"""A daemon whose API server is away, or gives it no Role, serves health and takes no body there, tells the
reason, and ends at once on a signal.

usage: late_test.py --bin DIRECTORY
"""

import signal
import socket

from lib.kube import small_api
from lib.kube.pki import Pki
from lib.mesh.daemon import Daemon, DaemonTest, run
from lib.net.processes import FairClock, NotYet, wait_for

WAITS = "the start waits"


class Refusing(small_api.Answering):
    """An API server that allows nothing."""

    def do_GET(self):
        self.failure(403, "Forbidden", "secrets are forbidden: there is no Role")

    do_POST = do_PATCH = do_PUT = do_DELETE = do_GET


class Late(DaemonTest):
    def setUp(self):
        super().setUp()
        self.pki = Pki(self.folder / "pki")
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            self.port = closed.getsockname()[1]
        self.kubeconfig = small_api.kubeconfig(self.folder / "kubeconfig", self.pki, self.port)

    def flags(self, program):
        flags = {
            "osm-controller": ["--state-dir", self.state, "--ads-address", "127.0.0.1:0"],
            "osm-injector": ["--listen", "127.0.0.1:0"],
        }[program]
        return ["--kubeconfig", self.kubeconfig, *flags]

    def start_daemon(self, program, first=WAITS, flags=None):
        daemon = Daemon(self.bin / program, *(flags or self.flags(program)), first=first)
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.stop(signal.SIGKILL))
        return daemon

    def assert_ends_at_once(self, daemon):
        clock = FairClock()
        self.assertEqual(daemon.stop(), 0)
        self.assertLess(clock.seconds(), 3)
        self.assertEqual(len(daemon.log("stopped while it started")), 1, daemon.lines)

    def test_health_is_served_and_the_reason_is_told_until_a_signal(self):
        for program in ("osm-controller", "osm-injector"):
            with self.subTest(program):
                daemon = self.start_daemon(program)
                self.assertEqual(daemon.http("/health/alive")[0], 200)
                status, body = daemon.http("/health/ready")
                self.assertEqual(status, 503)
                self.assertIn("- certificate authority: ", body)
                self.assertIn("Connection refused", body)
                self.assertNotIn("generation", daemon.http("/version")[1])
                self.assertRegex(
                    daemon.http("/metrics")[1],
                    r"(?m)^osm_problem\{.*"
                    r'code="unavailable",.*file="certificate authority".*\} 1$',
                )
                self.assert_ends_at_once(daemon)

    def test_the_monitor_port_refuses_a_request_at_the_length_of_its_body(self):
        reconciler = ["--reconcile-only", "--kubeconfig", self.kubeconfig]
        for daemon in (
            self.start_daemon("osm-controller"),
            self.start_daemon("osm-injector"),
            self.start_daemon("osm-controller", "osm-controller started", reconciler),
        ):
            for length, status in (("0", 405), ("1", 413)):
                with self.subTest(daemon.process.args, length=length):
                    # The body is never sent.
                    answer = daemon.http("/metrics", "POST", {"Content-Length": length})
                    self.assertEqual(answer[0], status, answer)
            self.assertEqual(daemon.http("/health/alive")[0], 200)

    def test_each_reason_is_logged_once_and_a_missing_role_is_one(self):
        for program in ("osm-controller", "osm-injector"):
            with self.subTest(program):
                daemon = self.start_daemon(program)
                with small_api.serving(self.pki, Refusing, self.port):

                    def forbidden():
                        status, body = daemon.http("/health/ready")
                        self.assertEqual(status, 503)
                        if "there is no Role" not in body:
                            raise NotYet(body)
                        return True

                    wait_for("the missing Role is told", forbidden, 20)
                codes = [line["code"] for line in daemon.log(WAITS)]
                self.assertEqual(codes, ["unavailable", "permission-denied"])
                self.assert_ends_at_once(daemon)

    def test_a_signal_ends_an_attempt_that_hangs(self):
        for program in ("osm-controller", "osm-injector"):
            # It takes connections and answers nothing.
            with self.subTest(program), socket.create_server(("127.0.0.1", self.port)) as silent:
                silent.settimeout(20)
                daemon = self.start_daemon(program, first="Kubernetes cluster")
                connection, _ = silent.accept()
                with connection:
                    connection.recv(1)  # the daemon asks
                    self.assert_ends_at_once(daemon)

    def test_a_fault_that_does_not_pass_ends_the_start(self):
        for path, text in ((self.folder / "nowhere", None), (self.folder / "damaged", "kind: [")):
            if text:
                path.write_text(text)
            self.kubeconfig = path
            for program in ("osm-controller", "osm-injector"):
                with self.subTest(program=program, path=path.name):
                    with self.assertRaises(AssertionError) as ended:
                        self.start_daemon(program)
                    self.assertIn(path.name, str(ended.exception))


if __name__ == "__main__":
    run()
