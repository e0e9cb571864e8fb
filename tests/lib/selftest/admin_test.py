#!/usr/bin/python3
"""A write waits until every proxy has acknowledged it, and names the one that does not."""

import http.server
import json
import pathlib
import socketserver
import tempfile
import threading
import unittest
import urllib.parse

from lib.mesh import admin, objects
from lib.mesh.rig import MeshDirectory
from lib.net.processes import Timeout

NAMESPACE, ACCOUNT = objects.namespace("shop"), objects.account("shop", "web")


def told(phase="Applied", generation=7, behind=()):
    lagging = [{"workload": name, "detail": detail} for name, detail in behind]
    return 200, {"object": "it", "phase": phase, "generation": generation, "lagging": lagging}


PENDING = told("Pending", behind=[("shop/web", "")])


class Write(unittest.TestCase):
    """The admin socket gives the answers that the test has put into `answers`, the last one again
    and again."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = pathlib.Path(folder.name)
        self.answers, self.asked = [told()], []
        self.states, self.timeout = [self.state], 20
        self.mesh = MeshDirectory(
            self.state / "mesh", lambda changed: admin.wait_until_acknowledged(self.states, changed, self.timeout)
        )
        self.serve()

    def serve(self):
        test = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                query = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)
                test.asked.append(" ".join(query[part][0] for part in ("kind", "name")))
                status, answer = test.answers.pop(0) if len(test.answers) > 1 else test.answers[0]
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def address_string(self):
                return "unix"

            def log_message(self, *_):
                pass

        server = socketserver.ThreadingUnixStreamServer(str(self.state / "admin.sock"), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)

    def test_it_waits_for_the_proxies_and_tells_the_generation(self):
        self.answers = [PENDING, PENDING, told(generation=8)]
        self.assertEqual(8, self.mesh.write("mesh.yaml", ACCOUNT))
        self.assertEqual(3, len(self.asked))

    def test_a_proxy_that_does_not_acknowledge_is_named_with_the_remedy(self):
        self.answers, self.timeout = [PENDING], 0.1
        with self.assertRaisesRegex(Timeout, "Pending; behind: shop/web.*wait=False"):
            self.mesh.write("mesh.yaml", ACCOUNT)

    def test_a_proxy_that_refuses_is_waited_for_with_its_words(self):
        self.answers, self.timeout = [told("Refused", behind=[("shop/web", "bad regex")])], 0.1
        with self.assertRaisesRegex(Timeout, "Refused; behind: shop/web bad regex"):
            self.mesh.write("mesh.yaml", ACCOUNT)

    def test_an_object_that_is_left_out_is_waited_for_while_a_proxy_has_it(self):
        self.answers = [told("Rejected", behind=[("shop/web", "")]), told("Rejected")]
        self.mesh.write("mesh.yaml", ACCOUNT)
        self.assertEqual(2, len(self.asked))

    def test_a_controller_that_is_not_ready_is_waited_for(self):
        self.answers = [(503, {"error": "not known yet"}), told()]
        self.mesh.write("mesh.yaml", ACCOUNT)
        self.assertEqual(2, len(self.asked))

    def test_an_object_that_shapes_no_proxy_is_not_waited_for(self):
        self.answers = [(404, {"error": "its kind shapes no proxy"}), told()]
        self.assertEqual(7, self.mesh.write("mesh.yaml", NAMESPACE, ACCOUNT))
        self.assertEqual(["Namespace shop", "ServiceAccount web"], self.asked)

    def test_wait_false_asks_nothing(self):
        self.answers = [PENDING]
        self.assertIsNone(self.mesh.write("mesh.yaml", ACCOUNT, wait=False))
        self.assertIsNone(self.mesh.remove("mesh.yaml", wait=False))
        self.assertEqual([], self.asked)

    def test_what_a_file_had_before_is_waited_for_and_what_it_keeps_is_not(self):
        self.mesh.write("mesh.yaml", NAMESPACE, ACCOUNT, wait=False)
        self.mesh.write("mesh.yaml", NAMESPACE)
        self.assertEqual(["ServiceAccount web"], self.asked)
        self.mesh.remove("mesh.yaml")
        self.assertEqual(["ServiceAccount web", "Namespace shop"], self.asked)

    def test_a_file_that_is_no_yaml_is_written(self):
        self.mesh.write_text("mesh.yaml", "kind: [unclosed\n")
        self.assertEqual("kind: [unclosed\n", (self.mesh.path / "mesh.yaml").read_text())

    def test_each_controller_is_asked_and_without_one_nothing_is_waited_for(self):
        self.states = [self.state, self.state]
        self.mesh.write("mesh.yaml", ACCOUNT)
        self.assertEqual(2, len(self.asked))
        self.states = []
        self.assertIsNone(self.mesh.write("mesh.yaml", NAMESPACE))
        self.assertEqual(2, len(self.asked))


if __name__ == "__main__":
    unittest.main()
