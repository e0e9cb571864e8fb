#!/usr/bin/python3
"""Stands in for metrics-server, which reads kubelets: each pod uses as much CPU as a file says.

usage: metrics_api.py ADDRESS PORT CERTIFICATE KEY KUBECTL KUBECONFIG FILE
"""

import http.server
import json
import pathlib
import ssl
import subprocess
import sys
import urllib.parse

from lib.kube.api import now

GROUP = "metrics.k8s.io/v1beta1"


class Handler(http.server.BaseHTTPRequestHandler):
    kubectl, kubeconfig, usage = None, None, None

    def do_GET(self):
        path, _, query = self.path.partition("?")
        parts = path.strip("/").split("/")
        if parts[:4] == ["apis", "metrics.k8s.io", "v1beta1", "namespaces"]:
            selector = urllib.parse.parse_qs(query).get("labelSelector", [""])[0]
            answer = {
                "kind": "PodMetricsList",
                "apiVersion": GROUP,
                "metadata": {},
                "items": self.items(parts[4], selector),
            }
        else:
            answer = {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": GROUP,
                "resources": [{"name": "pods", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}],
            }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def items(self, ns, selector):
        pods = json.loads(
            subprocess.run(
                [self.kubectl, "--kubeconfig", self.kubeconfig, "get", "pods", "-n", ns, "-l", selector, "-o", "json"],
                capture_output=True,
                check=True,
                text=True,
            ).stdout
        )["items"]
        cpu = pathlib.Path(self.usage).read_text().strip()
        return [
            {
                "metadata": {"name": p["metadata"]["name"], "namespace": ns},
                "timestamp": now(),
                "window": "10s",
                "containers": [
                    {"name": c["name"], "usage": {"cpu": cpu, "memory": "64Mi"}} for c in p["spec"]["containers"]
                ],
            }
            for p in pods
        ]

    def log_message(self, *_):
        pass


def main(address, port, certificate, key, kubectl, kubeconfig, usage):
    Handler.kubectl, Handler.kubeconfig, Handler.usage = kubectl, kubeconfig, usage
    server = http.server.ThreadingHTTPServer((address, int(port)), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
