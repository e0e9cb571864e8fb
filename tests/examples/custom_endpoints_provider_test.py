#!/usr/bin/python3
"""Endpoints of an HTTP inventory become the mesh's, and the provider passes the conformance suite.

usage: custom_endpoints_provider_test.py --bin DIR
"""

import http.server
import re
import threading

import example


class Inventory(http.server.ThreadingHTTPServer):
    """An inventory service: what `text` says, or 503 while there is none."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.text = ""
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,))
        self.thread.start()

    def end(self):
        self.shutdown()
        self.thread.join()
        self.server_close()


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = self.server.text if self.path == "/endpoints" else None
        body = (text or "").encode()
        self.send_response(503 if text is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


MESH = """
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {openservicemesh.io/monitored-by: osm}}
---
apiVersion: v1
kind: Service
metadata: {name: books, namespace: shop}
spec:
  clusterIP: 10.96.0.7
  ports: [{name: http, port: 80, targetPort: 8080}]
"""


class CustomEndpointsProvider(example.ExampleCase):
    def setUp(self):
        self.inventory = Inventory()
        self.addCleanup(self.inventory.end)
        mesh = self.directory / "mesh"
        mesh.mkdir()
        (mesh / "mesh.yaml").write_text(MESH)
        self.start(
            "custom_endpoints_provider",
            "127.0.0.1:0",
            mesh,
            self.directory / "state",
            f"127.0.0.1:{self.inventory.server_address[1]}",
        )

    def wait_for_endpoints(self, *expected):
        self.wait_for(lambda: self.get("/?service=shop/books"), (200, "".join(line + "\n" for line in expected)))

    def test_the_mesh_lists_what_the_inventory_has_and_follows_it(self):
        self.inventory.text = (
            "shop/books 10.0.0.2:8080 http account=books\n"
            "shop/books 10.0.0.1:8080 http account=archive zone=b weight=3\n"
        )
        self.wait_for_endpoints("10.0.0.1:8080 shop/archive", "10.0.0.2:8080 shop/books")
        with self.subTest("another endpoint, and one that claims to be another namespace's"):
            self.inventory.text = (
                "shop/books 10.0.0.3:8080 http account=books\nshop/books 10.0.0.4:8080 http account=kube-system/admin\n"
            )
            self.wait_for_endpoints("10.0.0.3:8080 shop/books")
            self.wait_for(lambda: "kube-system/admin" in self.log(), True)
        with self.subTest("an inventory that is down takes nothing with it, and is named"):
            self.inventory.text = None
            self.wait_for(lambda: "endpoints provider inventory" in self.log(), True)
            self.wait_for_endpoints("10.0.0.3:8080 shop/books")
        with self.subTest("when it is back, so are its changes"):
            self.inventory.text = "shop/books -\n"
            self.wait_for_endpoints()

    def test_it_passes_the_conformance_suite(self):
        report = self.run_program("inventory_conformance")
        self.assertEqual(report.returncode, 0, report.stdout + report.stderr)
        self.assertIn("31 of 31 clauses hold", report.stdout)
        # The inventory runs no proxies.
        self.assertEqual(re.findall("^not applicable (\\w+)", report.stdout, re.M), ["workloads"] * 11)


if __name__ == "__main__":
    example.main()
