"""A stand-in for Consul: the part of its HTTP API that examples/consul_provider uses, and the calls
that fill its catalog, as https://developer.hashicorp.com/consul/api-docs has them. It is no Consul:
its blocking queries, indexes, tokens and answers follow that page. Unlike Consul, it refuses clients
that repeat a query without the index. real_consul.py has the same methods.
"""

import collections
import copy
import http.client
import http.server
import json
import ssl
import threading
import urllib.parse

# A client that reads everything twice when it starts, and again after two failures, needs no more
# queries without an index before the next change.
PATIENCE = 8


class _Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, value, index=None):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if index is not None:
            self.send_header("X-Consul-Index", str(index))
        self.end_headers()
        self.wfile.write(body)

    def filtered(self):
        """An answer without what the token may not read. Consul does not say so without a token."""
        self.send_response(200)
        self.send_header("X-Consul-Index", str(self.server.consul.index))
        if self.headers.get("X-Consul-Token"):
            self.send_header("X-Consul-Results-Filtered-By-ACLs", "true")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}" if self.path.startswith("/v1/catalog/") else b"[]")

    def allowed(self):
        consul = self.server.consul
        if consul.token is None or self.headers.get("X-Consul-Token") in (consul.token, consul.management):
            return True
        self.reply(403, "ACL not found")
        return False

    def do_GET(self):
        consul, asked = self.server.consul, urllib.parse.urlsplit(self.path)
        if consul.token is not None and not self.headers.get("X-Consul-Token"):
            return self.filtered()
        if not self.allowed():
            return
        if not consul.readable and self.headers.get("X-Consul-Token") == consul.token:
            return self.filtered()
        query = urllib.parse.parse_qs(asked.query)
        if not asked.path.startswith(("/v1/catalog/services", "/v1/health/")):
            return self.reply(404, "no such page")
        known = int(query.get("index", ["0"])[0])
        with consul.changed:
            if known == 0 and not consul.patient(asked.path):
                return self.reply(429, "asked again without index, and nothing has changed")
            before = consul.restored
            consul.changed.wait_for(
                lambda: consul.closing or consul.index > known or consul.restored != before,
                float(query.get("wait", ["300s"])[0].rstrip("s")),
            )
            answer, index = consul.answer(urllib.parse.unquote(asked.path)), consul.index
            consul.answered.append(self.path)
            cut = consul.cut
        if not cut:
            return self.reply(200, answer, index)
        self.send_response(200)
        self.send_header("X-Consul-Index", str(index))
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"{")
        self.close_connection = True

    def do_PUT(self):
        consul = self.server.consul
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.allowed():
            return
        with consul.changed:
            consul.put(self.path, body)
            consul.index += 1
            consul.asked.clear()
            consul.changed.notify_all()
        self.reply(200, True)


class Consul:
    """`certificate`: (certificate file, key file) for HTTPS; None: HTTP. `token`: for reading; None:
    no token is needed."""

    management = "a-token-for-everything"
    INDEX = 10  # of a Consul without content

    def __init__(self, certificate=None, token=None):
        self.certificate, self.token, self.port = certificate, token, 0
        self.changed, self.index, self.closing = threading.Condition(), self.INDEX, False
        self.instances = {}  # (node, service id) → entry of /v1/health/service
        self.asked = collections.Counter()  # path → queries without index since the last change
        self.answered = []  # the target of each query that was answered
        self.restored = 0  # how often
        self.readable = True  # the token has its policy
        self.cut = False  # answers end in the middle
        self.start()

    def start(self):
        self.closing = False
        self.asked.clear()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), _Answer)
        self.server.daemon_threads, self.server.consul = True, self
        self.server.handle_error = lambda *_: None  # who asked is gone
        if self.certificate:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(*map(str, self.certificate))
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        self.server.shutdown()
        self.server.server_close()

    def accept(self, token, readable=True):
        """The only token for reading from now on. Not `readable`: it has no policy."""
        self.token, self.readable = token, readable

    def forget(self):
        """A stopped Consul starts without content, and with low indexes."""
        self.instances, self.index = {}, self.INDEX

    def snapshot(self):
        with self.changed:
            return self.index, copy.deepcopy(self.instances)

    def restore(self, saved):
        """Content and index are as they were. Blocking queries are answered."""
        with self.changed:
            self.index, self.instances = saved[0], copy.deepcopy(saved[1])
            self.restored += 1
            self.asked.clear()
            self.changed.notify_all()

    def answers(self):
        """Number of queries that were answered."""
        with self.changed:
            return len(self.answered)

    def patient(self, path):
        """Under `changed`. Whether one more query without index is answered."""
        self.asked[path] += 1
        return self.asked[path] <= PATIENCE

    @property
    def url(self):
        return f"{'https' if self.certificate else 'http'}://127.0.0.1:{self.port}"

    # -- its content, under `changed`
    def answer(self, path):
        if path == "/v1/catalog/services":
            names = {entry["Service"]["Service"] for entry in self.instances.values()}
            return {
                name: sorted({tag for entry in self.of(name) for tag in entry["Service"]["Tags"]}) for name in names
            }
        if path == "/v1/health/state/any":
            return [check for entry in self.instances.values() for check in entry["Checks"]]
        return self.of(path.rsplit("/", 1)[1])

    def of(self, name):
        return [entry for entry in self.instances.values() if entry["Service"]["Service"] == name]

    def put(self, path, body):
        if path == "/v1/catalog/deregister":
            for key in [k for k in self.instances if k[0] == body["Node"] and body.get("ServiceID") in (None, k[1])]:
                del self.instances[key]
            return
        service, node = body["Service"], body["Node"]
        instance = {
            "Tags": [],
            "Meta": {},
            "Address": "",
            "Weights": {"Passing": 1, "Warning": 1},
            "ID": service["Service"],
            **service,
        }
        checks = [{"Node": node, "Status": "critical", **check} for check in body.get("Checks", [])]
        self.instances[node, instance["ID"]] = {
            "Node": {"Node": node, "Address": body["Address"], "Meta": body.get("NodeMeta", {})},
            "Service": instance,
            "Checks": checks,
        }


class Catalog:
    """Fills a Consul, real or not, over its HTTP API."""

    def __init__(self, url, ca=None, token=None):
        parts = urllib.parse.urlsplit(url)
        self.host, self.token = parts.netloc, token
        self.tls = ssl.create_default_context(cafile=str(ca)) if parts.scheme == "https" else None

    def put(self, path, body):
        return self.ask("PUT", path, json.dumps(body))[0]

    def ask(self, method, path, body=None):
        """(content, index) of the answer."""
        connection = (
            http.client.HTTPSConnection(self.host, timeout=10, context=self.tls)
            if self.tls
            else http.client.HTTPConnection(self.host, timeout=10)
        )
        try:
            connection.request(method, path, body, {"X-Consul-Token": self.token} if self.token else {})
            answer = connection.getresponse()
            content = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{path}: {answer.status} {content}")
            return content, int(answer.headers.get("X-Consul-Index") or 0)
        finally:
            connection.close()

    def register(self, node, address, service, port, account=None, status="passing", tags=("osm",), **meta):
        self.put(
            "/v1/catalog/register",
            {
                "Node": node,
                "Address": address,
                "NodeMeta": {"zone": meta.pop("zone", "a")},
                "Service": {
                    "ID": service,
                    "Service": service,
                    "Port": port,
                    "Tags": list(tags),
                    "Meta": {**({"osm-account": account} if account else {}), **meta},
                },
                "Checks": [{"CheckID": f"{service}-up", "Name": "up", "ServiceID": service, "Status": status}],
            },
        )

    def deregister(self, node, service=None):
        self.put("/v1/catalog/deregister", {"Node": node, **({"ServiceID": service} if service else {})})
