"""Servers outside of the mesh: a collector of spans and an authorizer, which MeshConfig names, and
destinations of Egresses.

All run in threads of the test, on sockets that lie in a namespace.
"""

import concurrent.futures
import http.server
import json
import socket
import ssl
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
                    (span["localEndpoint"].get("serviceName"), span.get("kind"))
                )
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
        self.server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler(
                    "envoy.service.auth.v3.Authorization",
                    {
                        "Check": grpc.unary_unary_rpc_method_handler(
                            self._check, _auth.CheckRequest.FromString, _auth.CheckResponse.SerializeToString
                        )
                    },
                )
            ]
        )
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


class Destination:
    """A server that `talk(connection)` makes for each connection, in a thread of its own."""

    def __init__(self, namespace, address, port, talk):
        self._listener, self._talk = namespace.listen(address, port), talk
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # close() was called
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            with connection:
                self._talk(connection)
        except OSError:
            return  # the client left; ssl.SSLError is one: no handshake

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._listener.close()


class HttpDestination(Destination):
    """Answers every request with `name`. `heads`: (request line, its headers as they came)."""

    def __init__(self, namespace, address, port, name):
        self.name, self.heads = name, []
        super().__init__(namespace, address, port, self._answer)

    def _answer(self, connection):
        with connection.makefile("rb") as stream:
            while line := stream.readline().decode().strip():
                headers = []
                while field := stream.readline().decode().strip():
                    headers.append(tuple(field.split(": ", 1)))
                self.heads.append((line, headers))
                connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(self.name)}\r\n\r\n{self.name}".encode())


class TlsDestination(Destination):
    """Says `name` to every client that has shaken hands. `names`: the TLS names that they asked for."""

    def __init__(self, namespace, address, port, name, identity):
        """`identity`: (certificate file, key file)."""
        self.name, self.names = name, []
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*identity)
        self._context.sni_callback = lambda _, asked, __: self.names.append(asked)
        super().__init__(namespace, address, port, self._answer)

    def _answer(self, connection):
        with self._context.wrap_socket(connection, server_side=True) as tls:
            tls.sendall(self.name.encode())
            tls.recv(1)  # until the client leaves


class GreetingDestination(Destination):
    """Speaks first: "220 <name>", then sends back what it hears."""

    def __init__(self, namespace, address, port, name):
        self._greeting = f"220 {name}\r\n".encode()
        super().__init__(namespace, address, port, self._answer)

    def _answer(self, connection):
        connection.sendall(self._greeting)
        while data := connection.recv(4096):
            connection.sendall(data)
