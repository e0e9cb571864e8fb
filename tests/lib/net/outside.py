"""Servers outside of the mesh that MeshConfig names: a collector of spans, and an authorizer.

Both run in threads of the test, on sockets that lie in a namespace.
"""
import concurrent.futures
import http.server
import json
import threading

import grpc

from lib.net import messages

_auth = messages.load("envoy/service/auth/v3/external_auth.proto")


class Collector:
    """A Zipkin collector: POST /api/v2/spans, a JSON list."""

    def __init__(self, namespace, address, port, path="/api/v2/spans"):
        self.spans, self.lock = [], threading.Lock()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self._body()
                if self.path == path:
                    with collector.lock:
                        collector.spans += json.loads(body)
                self.send_response(202 if self.path == path else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def _body(self):
                if self.headers.get("Transfer-Encoding") != "chunked":  # as Envoy sends spans
                    return self.rfile.read(int(self.headers.get("Content-Length", 0)))
                chunks = []
                while size := int(self.rfile.readline(), 16):
                    chunks.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(chunks)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer((address, port), Handler, False)
        self.server.socket.close()
        self.server.socket = namespace.listen(address, port)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def traces(self):
        """{trace id: {(service, kind), ...}}"""
        found = {}
        with self.lock:
            for span in self.spans:
                found.setdefault(span["traceId"], set()).add(
                    (span["localEndpoint"].get("serviceName"), span.get("kind")))
        return found

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Authorizer:
    """envoy.service.auth.v3.Authorization: refuses what `allows(principal, path)` is false for, until
    it is closed. `asked`: every (principal, path)."""

    def __init__(self, namespace, address, port, allows):
        self.allows, self.asked, self.closed = allows, [], False
        # A thread for each question of a burst that is kept waiting.
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(64))
        self.server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(
            "envoy.service.auth.v3.Authorization", {"Check": grpc.unary_unary_rpc_method_handler(
                self._check, _auth.CheckRequest.FromString,
                _auth.CheckResponse.SerializeToString)})])
        namespace.inside(lambda: self.server.add_insecure_port(f"{address}:{port}"))
        self.server.start()

    def close(self):
        self.closed = True
        self.server.stop(0).wait()

    def _check(self, request, _):
        attributes = request.attributes
        principal, path = attributes.source.principal, attributes.request.http.path
        self.asked.append((principal, path))
        answer = _auth.CheckResponse()
        if not self.allows(principal, path):
            answer.status.code = grpc.StatusCode.PERMISSION_DENIED.value[0]
            answer.denied_response.status.code = 403
            answer.denied_response.body = "says the authorizer"
        return answer
