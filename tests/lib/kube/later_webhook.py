"""A mutating webhook of somebody else, which the API server calls after osm-injector's: it adds a
container to each new pod of one namespace."""

import base64
import http.server
import json
import ssl
import threading

NAME = "zz-later"
PORT = 9099


class LaterWebhook:
    def __init__(self, listener, context):
        self._container = None
        webhook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                request = review["request"]
                answer = {"uid": request["uid"], "allowed": True}
                there = [c["name"] for c in request["object"]["spec"]["containers"]]
                if webhook._container["name"] not in there:
                    patch = [{"op": "add", "path": "/spec/containers/0", "value": webhook._container}]
                    answer.update(patchType="JSONPatch", patch=base64.b64encode(json.dumps(patch).encode()).decode())
                body = json.dumps({**review, "request": None, "response": answer}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        address = listener.getsockname()
        self.server = http.server.ThreadingHTTPServer(address, Handler, bind_and_activate=False)
        self.server.socket.close()
        self.server.socket = context.wrap_socket(listener, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def add(self, container):
        """The container that pods get from now on."""
        self._container = container

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5)


def start(cluster, ns, add_cleanup):
    """A webhook for pods of namespace `ns`, which ends with the test."""
    certificate, key = cluster.pki.server(NAME, f"IP:{cluster.address}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    webhook = LaterWebhook(cluster.namespace.listen(cluster.address, PORT), context)
    add_cleanup(webhook.stop)
    cluster.api.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": NAME},
            "webhooks": [
                {
                    "name": "later.example.com",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}},
                    "clientConfig": {
                        "url": f"https://{cluster.address}:{PORT}/",
                        "caBundle": base64.b64encode(cluster.pki.ca.read_bytes()).decode(),
                    },
                    "rules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
                    ],
                }
            ],
        }
    )
    add_cleanup(cluster.api.delete, "MutatingWebhookConfiguration", None, NAME)
    return webhook
