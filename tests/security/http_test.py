#!/usr/bin/python3
"""The open HTTP port, the admin socket, and what is written to logs and terminals (docs/security.md,
threats 9, 10, 22 and 23).

usage: http_test.py --bin DIRECTORY
"""

import contextlib
import json
import os
import re
import socket
import stat

from lib.mesh import attacked, objects
from lib.mesh.daemon import run
from lib.net.processes import FairClock, wait_for

OPEN = ("/health/alive", "/health/ready", "/metrics", "/version")
ADMIN = (
    "/v1/proxies",
    "/v1/problems",
    "/v1/certificates",
    "/v1/version",
    "/v1/policy/check?source=shop%2Fweb&destination=shop%2Fapi",
)


class Http(attacked.MeshTest):
    FLAGS = ("--log-level", "debug")

    def raw(self, data, unix=False):
        """The answer to these bytes."""
        if unix:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(20)
            connection.connect(str(self.state / "admin.sock"))
        else:
            host, port = self.controller.addresses["http_address"].rsplit(":", 1)
            connection = socket.create_connection((host, int(port)), timeout=20)
        with contextlib.closing(connection):
            with contextlib.suppress(OSError):
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            answer = b""
            with contextlib.suppress(OSError):
                while part := connection.recv(65536):
                    answer += part
            return answer

    def get(self, path, headers=b"", unix=False, method=b"GET"):
        answer = self.raw(
            method + b" " + path.encode() + b" HTTP/1.1\r\nHost: x\r\n" + headers + b"Connection: close\r\n\r\n", unix
        )
        return int(answer.split()[1]) if answer else None, answer

    def test_every_answer_says_what_it_is_and_is_not_to_be_guessed_at(self):
        for unix, paths in ((False, OPEN + ("/nonsense",)), (True, ADMIN + ("/nonsense",))):
            for path in paths:
                with self.subTest(path, unix=unix):
                    _, answer = self.get(path, unix=unix)
                    head = answer.split(b"\r\n\r\n")[0].lower()
                    self.assertRegex(head, rb"content-type: (application/json|text/plain)")
                    self.assertIn(b"x-content-type-options: nosniff", head)
                    self.assertIn(b"cache-control: no-store", head)
                    self.assertNotIn(b"access-control-allow", head)

    def test_pages_of_a_browser_are_refused(self):
        for unix, paths in ((False, OPEN), (True, ADMIN)):
            for path in paths:
                for origin in (b"https://evil.example", b"null", b"http://localhost:9091"):
                    status, answer = self.get(path, b"Origin: " + origin + b"\r\n", unix)
                    self.assertEqual(status, 403, (path, origin))
                    self.assertNotIn(b"shop", answer)
        status, _ = self.get(
            "/metrics", b"Origin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n", method=b"OPTIONS"
        )
        self.assertEqual(status, 403)

    def test_silent_connections_do_not_stop_probes(self):
        host, port = self.controller.addresses["http_address"].rsplit(":", 1)
        with contextlib.ExitStack() as silent:
            for i in range(600):
                connection = socket.create_connection((host, int(port)), timeout=5)
                silent.enter_context(connection)
                if i % 2:
                    with contextlib.suppress(OSError):  # it may have been closed for others
                        connection.sendall(b"GET /health/alive HTTP/1.1\r\nX-Slow: ")
            for _ in range(20):
                clock = FairClock()
                self.assertEqual(self.controller.http("/health/alive")[0], 200)
                self.assertLess(clock.seconds(), 1)

    def test_a_foreign_host_name_opens_nothing_more(self):
        # Monitoring finds the port under names that only its operator knows.
        for host in (b"evil.example", b"localhost", b"[::1]", b""):
            for path in ADMIN:
                answer = self.raw(
                    b"GET " + path.encode() + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"
                )
                self.assertEqual(int(answer.split()[1]), 404)

    def test_paths_lead_only_where_they_say(self):
        for path in (
            "/../v1/proxies",
            "/health/../v1/proxies",
            "/%2e%2e/v1/proxies",
            "//v1/proxies",
            "/metrics/",
            "/metrics/../../etc/passwd",
            "/v1/proxies",
            "/METRICS",
            "/metrics%00",
            "/metrics;x",
            "/health//alive",
            "/.//metrics",
        ):
            with self.subTest(path):
                self.assertIn(self.get(path)[0], (400, 404))
        for target in (b"http://127.0.0.1/metrics", b"*", b"metrics", b"", b"/\x00", b"/\xff\xfe"):
            answer = self.raw(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            self.assertIn(answer.split()[1] if answer else b"400", (b"400", b"404"), target)

    def test_verbs_that_would_change_something_are_not_there(self):
        for method in (b"POST", b"PUT", b"DELETE", b"PATCH", b"TRACE", b"CONNECT", b"BREW"):
            for path in OPEN:
                status, answer = self.get(path, method=method)
                self.assertIn(status, (400, 404, 405, None), (method, path))
        for path in ADMIN[:4]:
            self.assertEqual(self.get(path, method=b"DELETE", unix=True)[0], 405)
        # A GET changes nothing.
        self.assertEqual(self.get("/v1/certificates/rotate?common_name=x", unix=True)[0], 405)

    def test_headers_and_bodies_are_bounded(self):
        self.assertIn(b" 431 ", self.raw(b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 40_000 + b"\r\n\r\n"))
        self.assertIn(
            b" 413 ",
            self.raw(b"POST /v1/vm/bootstrap HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", unix=True),
        )
        chunked = (
            b"POST /v1/vm/bootstrap HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 140
        )  # of 8 MiB at most
        self.assertIn(b" 413 ", self.raw(chunked, unix=True))
        deep = b"[" * 100_000
        answer = self.raw(
            b"POST /v1/vm/bootstrap HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n" % len(deep) + deep,
            unix=True,
        )
        self.assertIn(b" 400 ", answer)

    def test_requests_that_stand_still_take_bounded_memory(self):
        """256 connections that would send a MiB each to a port that only answers GET."""
        address = self.controller.addresses["http_address"].rsplit(":", 1)
        before = self.resident()
        request = b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n" + b"x" * ((1 << 20) - 1)
        with contextlib.ExitStack() as stack:
            for _ in range(256):
                connection = stack.enter_context(socket.create_connection(address, timeout=5))
                with contextlib.suppress(OSError):
                    connection.sendall(request)
            self.assertLess(self.resident() - before, 60 if "ASAN_OPTIONS" in os.environ else 20)
            self.assertEqual(self.controller.http("/health/alive")[0], 200)
        wait_for("the port is free", lambda: self.controller.http("/health/alive")[0] == 200)

    def handled(self):
        """{series: number of answers} of the open port's handlers. GET /metrics is left out: this call is one."""
        samples = re.findall(r"^(osm_http_response_total\{.*\}) (\S+)$", self.controller.http("/metrics")[1], re.M)
        return {series: float(n) for series, n in samples if series != self.series(200, "/metrics")}

    @staticmethod
    def series(status, path):
        return f'osm_http_response_total{{code="{status}",path="{path}"}}'

    # RFC 9112, section 6.3: a forwarder may see another end of such a request.
    AMBIGUOUS = {
        "two lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n",
        "length and coding": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "coding and length": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "negative": b"Content-Length: -1\r\n",
        "more than 64 bits": b"Content-Length: 99999999999999999999\r\n",
    }
    BODY = b"0\r\n\r\n"  # five bytes, or the end of a chunked body

    def check_refused(self, answer, codes=(b"400",)):
        """One answer, which has one of these codes and says that the connection ends."""
        self.assertEqual(answer.count(b"HTTP/1.1 "), 1, answer)
        head = answer.split(b"\r\n\r\n")[0].lower()
        self.assertIn(head.split()[1], codes, answer)
        self.assertIn(b"\r\nconnection: close", head)

    def test_requests_of_ambiguous_length_reach_no_handler_of_the_open_port(self):
        def ask(framing, body=self.BODY):
            first = b"POST /metrics HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n" + body
            return self.raw(first + b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

        # Without a body both are handled, and counted.
        before = self.handled()
        answer = ask(b"Content-Length: 0\r\n", body=b"")
        self.assertEqual(re.findall(rb"HTTP/1.1 (\d+)", answer), [b"405", b"200"])
        after = self.handled()
        for series in (self.series(405, "/metrics"), self.series(200, "/version")):
            self.assertEqual(after[series], before.get(series, 0) + 1)
        for kind, framing in {**self.AMBIGUOUS, "one length": b"Content-Length: 5\r\n"}.items():
            with self.subTest(kind):
                self.check_refused(ask(framing), (b"400", b"413"))
                self.assertEqual(self.handled(), after)

    def test_requests_of_ambiguous_length_reach_no_handler_of_the_admin_socket(self):
        def ask(framing):
            rotate = b"POST /v1/certificates/rotate?common_name=osm-controller.osm-system HTTP/1.1\r\nHost: x\r\n"
            first = rotate + framing + b"\r\n" + self.BODY
            return self.raw(first + rotate + b"Content-Length: 0\r\nConnection: close\r\n\r\n", unix=True)

        def rotated():
            return self.controller.metric("osm_cert_rotated_count") or 0

        # With one length both rotate the certificate.
        self.assertEqual(re.findall(rb"HTTP/1.1 (\d+)", ask(b"Content-Length: 5\r\n")), [b"200", b"200"])
        self.assertEqual(rotated(), 2)
        for kind, framing in self.AMBIGUOUS.items():
            with self.subTest(kind):
                self.check_refused(ask(framing))
                self.assertEqual(rotated(), 2)

    def test_slow_clients_do_not_keep_others_out(self):
        host, port = self.controller.addresses["http_address"].rsplit(":", 1)
        with contextlib.ExitStack() as stack:
            for _ in range(200):
                slow = stack.enter_context(socket.create_connection((host, int(port)), timeout=5))
                slow.sendall(b"GET /metrics HTTP/1.1\r\nX-")
            self.assertEqual(self.controller.http("/health/alive")[0], 200)
            # An unfinished request has ten seconds.
            slow.settimeout(30)
            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(slow.recv(1000), b"")

    def test_the_admin_socket_is_its_owners_alone(self):
        path = self.state / "admin.sock"
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE((self.state / "ca").stat().st_mode), 0o700)
        self.assertEqual(stat.S_IMODE((self.state / "ca" / "ca.pem").stat().st_mode), 0o600)
        self.assertEqual(os.getuid(), 0, "only root can become another user: run this as root")
        # Also when its mode is opened by hand: the peer's user is asked for.
        for part in (self.folder, self.state, path):
            part.chmod(0o777)
        read, write = os.pipe()
        stranger = os.fork()
        if stranger == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            with contextlib.suppress(OSError):
                os.write(write, self.get("/v1/proxies", unix=True)[1])
            os._exit(0)
        os.close(write)
        os.waitpid(stranger, 0)
        with os.fdopen(read, "rb") as answer:
            self.assertEqual(answer.read(), b"")
        wait_for("the refusal", lambda: self.controller.log("another user"))

    def test_control_characters_stay_text_wherever_they_are_written(self):
        evil = "\x1b]52;c;cm0gLXJm\x07\x1b[2J\u009b31m\u202e\u2066\u061c\nfake: line"
        broken = objects.books_for("broken", "web", "api")
        broken["spec"][evil] = 1
        self.write("broken.yaml", broken)
        [line] = wait_for("the problem", lambda: self.controller.log("shop/broken"))
        self.assertEqual(line["level"], "warning")  # one line, and JSON
        for command in (
            ("problems",),
            ("problems", "-o", "json"),
            ("problems", "-o", "yaml"),
            ("policy", "check", "shop/web", evil),
            ("proxy", "get", "config_dump", evil),
            ("certificate", "rotate", evil),
        ):
            _, out, err = self.osm(*command)
            self.assertIn("fake: line", out + err, command)  # it was quoted
            for text in (out, err):
                unsafe = "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
                self.assertFalse(re.search(unsafe, text), (command, text))
            if "json" in command:
                [problem] = json.loads(out)["problems"]
                self.assertIn(evil, problem["field"] + problem["cause"])
        self.assertFalse([line for line in self.controller.lines if line["level"] == "not JSON"])
        self.assertNotIn("\x1b", self.controller.http("/metrics")[1])

    def test_no_key_is_in_any_log_line_answer_or_metric(self):
        self.assert_served()
        self.assertEqual(self.osm("certificate", "rotate", "osm-controller.osm-system")[0], 0)
        wait_for("the rotation", lambda: self.controller.metric("osm_cert_rotated_count") == 1)
        self.assertTrue([line for line in self.controller.lines if line["level"] == "debug"])
        keys = [self.web[1].read_text(), (self.state / "ca" / "ca.pem").read_text()]
        blocks = [key.split("-----END PRIVATE KEY")[0] for key in keys]
        secrets = [line for block in blocks for line in block.splitlines() if len(line) == 64]
        self.assertTrue(secrets)
        seen = [str(self.controller.lines), self.controller.http("/metrics")[1]]
        seen += [str(self.controller.admin(path)) for path in ADMIN]
        seen += [str(self.controller.admin("/v1/proxies/config_dump?name=web-1"))]
        for text in seen:
            self.assertNotIn("PRIVATE KEY", text)
            for secret in secrets:
                self.assertNotIn(secret, text)


if __name__ == "__main__":
    run()
