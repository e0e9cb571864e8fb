#!/usr/bin/python3
"""Machines join while strangers ask the join API without a pause. A join that is refused uses up no token,
and a bootstrap that is refused leaves no certificate behind.

usage: join_test.py --bin DIRECTORY
"""

import base64
import contextlib
import http.client
import json
import ssl
import threading

from lib.mesh.daemon import ShopTest, run
from lib.net.processes import wait_for


class Strangers:
    """Four of them ask with tokens that are none. `answers`: statuses by their number."""

    def __init__(self, address):
        self.address, self.answers = address, {}
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(4)]
        for thread in self._threads:
            thread.start()

    def _ask(self):
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        while not self._end.is_set():
            connection = http.client.HTTPSConnection(self.address, timeout=20, context=tls)
            with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
                connection.request("POST", "/v1/join/subject", json.dumps({"id": "x", "secret": "y"}))
                status = connection.getresponse().status
                self.answers[status] = self.answers.get(status, 0) + 1

    def stop(self):
        self._end.set()
        for thread in self._threads:
            thread.join()


class Join(ShopTest):
    FLAGS = ("--join-address", "127.0.0.1:0")

    def token(self, name):
        code, out, error = self.osm("vm", "token", name, "-n", "shop", "--controller", "127.0.0.1:15128")
        self.assertEqual((0, ""), (code, error))
        file = self.folder / "token"
        file.write_text(out)
        return file

    def join(self, token, *more, out=None):
        return self.osm("vm", "join", "--token-file", token, "--out", out or self.folder / "web", *more, state=False)

    def test_strangers_keep_no_machine_from_joining(self):
        fields = json.loads(base64.b64decode(self.token("web-1").read_text()))
        strangers = Strangers(fields["join"])
        self.addCleanup(strangers.stop)
        wait_for("strangers who must ask again", lambda: strangers.answers.get(503, 0) > 20, 60)
        for _ in range(5):
            code, _, error = self.join(self.token("web-1"))
            self.assertEqual((0, ""), (code, error))
        strangers.stop()
        self.assertLessEqual(set(strangers.answers), {403, 503})

    def test_a_join_that_is_refused_uses_up_no_token(self):
        token = self.token("web-1")
        for out, flags, why in (
            ("a", ("--owner", "0"), "proxy uid: 0"),
            ("a'b", (), "directory: must not hold quotes"),
        ):
            code, _, error = self.join(token, *flags, out=self.folder / out)
            self.assertNotEqual(0, code)
            self.assertIn(why, error)
        self.assertEqual([], self.controller.admin("/v1/proxies")[1]["expected"])
        self.assertEqual((0, ""), self.join(token)[::2])

    def test_a_bootstrap_that_is_refused_issues_no_certificate(self):
        code, _, error = self.bootstrap("api-1", self.folder / "x", "--owner", "0")
        self.assertEqual(2, code, error)
        self.assertIn("proxy uid: 0 would leave", error)
        self.assertEqual(2, self.bootstrap("api-1", self.folder / "x", controller="x")[0])
        self.assertEqual([], self.controller.admin("/v1/proxies")[1]["expected"])


if __name__ == "__main__":
    run()
