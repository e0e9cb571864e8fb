"""Servers outside of the mesh that MeshConfig names: a collector of spans, and an authorizer.

Both run in threads of the test, on sockets that lie in a namespace. From the standard library
alone: just enough HTTP/2, gRPC and protobuf for envoy.service.auth.v3.Authorization/Check.
"""
import http.server
import json
import socket
import struct
import threading

from lib.mesh.xds_client import field, fields, varint

_DATA, _HEADERS, _SETTINGS, _PING, _WINDOW_UPDATE = 0, 1, 4, 6, 8
_ACK, _END_STREAM, _END_HEADERS = 1, 1, 4
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def _listen(namespace, address, port):
    opened = namespace.open_socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opened.bind((address, port))
    opened.listen(64)
    return opened


class Collector:
    """What Zipkin's collector takes: POST /api/v2/spans, a JSON list."""

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
        self.server.socket = _listen(namespace, address, port)
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
    """Refuses what `allows(principal, path)` is false for, until it is closed."""

    def __init__(self, namespace, address, port, allows):
        self.allows, self.asked, self.lock = allows, [], threading.Lock()
        self.connections, self.closed = [], False
        self.listener = _listen(namespace, address, port)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.closed = True
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self.listener.close()
        with self.lock:
            for connection in self.connections:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # its client was faster

    def _accept(self):
        while not self.closed:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, connection.makefile("rb") as stream:
            try:
                if stream.read(len(_PREFACE)) != _PREFACE:
                    return
                connection.sendall(_frame(_SETTINGS, 0, 0))
                messages = {}
                while head := stream.read(9):
                    kind, flags, number = head[3], head[4], struct.unpack("!I", head[5:9])[0]
                    payload = stream.read(int.from_bytes(head[:3], "big"))
                    if kind in (_SETTINGS, _PING) and not flags & _ACK:
                        connection.sendall(_frame(kind, _ACK, 0,
                                                  payload if kind == _PING else b""))
                    if kind != _DATA:
                        continue  # of headers, nothing is needed
                    messages[number] = messages.get(number, b"") + payload
                    if payload:
                        connection.sendall(_frame(_WINDOW_UPDATE, 0, 0,
                                                  struct.pack("!I", len(payload))))
                    if flags & _END_STREAM:
                        connection.sendall(self._answer(number, messages.pop(number)[5:]))
            except OSError:
                pass  # closed, by whichever side

    def _answer(self, number, request):
        attributes = fields(fields(request)[1][0])
        principal = fields(attributes[1][0]).get(4, [b""])[0].decode()
        path = fields(fields(attributes[4][0])[2][0])[4][0].decode()
        with self.lock:
            self.asked.append((principal, path))
        response = field(1, b"")  # google.rpc.Status: OK
        if not self.allows(principal, path):
            forbidden = field(1, varint(1 << 3) + varint(403)) + field(3, "says the authorizer")
            response = field(1, varint(1 << 3) + varint(7)) + field(2, forbidden)
        message = b"\0" + struct.pack("!I", len(response)) + response
        return (_frame(_HEADERS, _END_HEADERS, number,
                       b"\x88" + _literal("content-type", "application/grpc")) +
                _frame(_DATA, 0, number, message) +
                _frame(_HEADERS, _END_HEADERS | _END_STREAM, number, _literal("grpc-status", "0")))


def _frame(kind, flags, stream, payload=b""):
    return struct.pack("!I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(
        "!I", stream) + payload


def _literal(name, value):
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
