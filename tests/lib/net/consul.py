"""A stand-in for Consul: the part of its HTTP API that examples/consul_provider uses, and the calls
that fill its catalog, as https://developer.hashicorp.com/consul/api-docs has them. It is no Consul:
its blocking queries, indexes, tokens and answers follow that page.
"""
import http.client
import http.server
import json
import ssl
import threading
import urllib.parse


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

    def allowed(self):
        token = self.server.consul.token
        if token is None or self.headers.get("X-Consul-Token") == token:
            return True
        self.reply(403, "ACL not found")
        return False

    def do_GET(self):
        consul, asked = self.server.consul, urllib.parse.urlsplit(self.path)
        if not self.allowed():
            return
        query = urllib.parse.parse_qs(asked.query)
        if not asked.path.startswith(("/v1/catalog/services", "/v1/health/")):
            return self.reply(404, "no such page")
        with consul.changed:
            consul.changed.wait_for(
                lambda: consul.closing or consul.index > int(query.get("index", ["0"])[0]),
                float(query.get("wait", ["300s"])[0].rstrip("s")))
            answer, index = consul.answer(urllib.parse.unquote(asked.path)), consul.index
        self.reply(200, answer, index)

    def do_PUT(self):
        consul = self.server.consul
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.allowed():
            return
        with consul.changed:
            consul.put(self.path, body)
            consul.index += 1
            consul.changed.notify_all()
        self.reply(200, True)


class Consul:
    """`certificate`: (certificate file, key file) for HTTPS; None: HTTP."""

    def __init__(self, certificate=None, token=None):
        self.certificate, self.token, self.port = certificate, token, 0
        self.changed, self.index, self.closing = threading.Condition(), 10, False
        self.instances = {}  # (node, service id) → entry of /v1/health/service
        self.start()

    def start(self):
        self.closing = False
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

    @property
    def url(self):
        return f"{'https' if self.certificate else 'http'}://127.0.0.1:{self.port}"

    # -- its content, under `changed`
    def answer(self, path):
        if path == "/v1/catalog/services":
            names = {entry["Service"]["Service"] for entry in self.instances.values()}
            return {name: sorted({tag for entry in self.of(name) for tag in entry["Service"]["Tags"]})
                    for name in names}
        if path == "/v1/health/state/any":
            return [check for entry in self.instances.values() for check in entry["Checks"]]
        return self.of(path.rsplit("/", 1)[1])

    def of(self, name):
        return [entry for entry in self.instances.values() if entry["Service"]["Service"] == name]

    def put(self, path, body):
        if path == "/v1/catalog/deregister":
            for key in [k for k in self.instances if k[0] == body["Node"]
                        and body.get("ServiceID") in (None, k[1])]:
                del self.instances[key]
            return
        service, node = body["Service"], body["Node"]
        instance = {"Tags": [], "Meta": {}, "Address": "", "Weights": {"Passing": 1, "Warning": 1},
                    "ID": service["Service"], **service}
        checks = [{"Node": node, "Status": "critical", **check} for check in body.get("Checks", [])]
        self.instances[node, instance["ID"]] = {
            "Node": {"Node": node, "Address": body["Address"], "Meta": body.get("NodeMeta", {})},
            "Service": instance, "Checks": checks}


class Catalog:
    """Fills a Consul, real or not, over its HTTP API."""

    def __init__(self, url, ca=None, token=None):
        parts = urllib.parse.urlsplit(url)
        self.host, self.token = parts.netloc, token
        self.tls = ssl.create_default_context(cafile=str(ca)) if parts.scheme == "https" else None

    def put(self, path, body):
        connection = (http.client.HTTPSConnection(self.host, timeout=10, context=self.tls)
                      if self.tls else http.client.HTTPConnection(self.host, timeout=10))
        try:
            connection.request("PUT", path, json.dumps(body),
                               {"X-Consul-Token": self.token} if self.token else {})
            answer = connection.getresponse()
            if answer.status != 200:
                raise RuntimeError(f"{path}: {answer.status} {answer.read()}")
            answer.read()
        finally:
            connection.close()

    def register(self, node, address, service, port, account=None, status="passing", tags=("osm",),
                 **meta):
        self.put("/v1/catalog/register", {
            "Node": node, "Address": address, "NodeMeta": {"zone": meta.pop("zone", "a")},
            "Service": {"ID": service, "Service": service, "Port": port, "Tags": list(tags),
                        "Meta": {**({"osm-account": account} if account else {}), **meta}},
            "Checks": [{"CheckID": f"{service}-up", "Name": "up", "ServiceID": service,
                        "Status": status}]})

    def deregister(self, node, service=None):
        self.put("/v1/catalog/deregister",
                 {"Node": node, **({"ServiceID": service} if service else {})})
