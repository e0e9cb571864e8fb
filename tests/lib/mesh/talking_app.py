"""A server whose protocols are those that proxies break: one port each.

    talking_app.py --http N --grpc N --h2c N --greeter N --reader N

http     GET /ws with an upgrade: a WebSocket that sends each byte back, capitals for letters. Else
         200, and the request's HTTP version. GET /old: an answer in HTTP/1.0, without a length.
grpc     streams of messages, each sent back; then the trailers grpc-status 0 and x-count
h2c      as grpc: HTTP/2 and nothing else
greeter  says "220 ready" before the client says anything, then sends each line back
reader   reads to the end of the client's half of the connection, then says how many bytes came
"""

import argparse
import socket
import socketserver
import threading

import h2.config
import h2.connection
import h2.events


class Http(socketserver.StreamRequestHandler):
    def handle(self):
        while line := self.rfile.readline():
            _, path, version = line.decode().split()
            headers = {}
            while field := self.rfile.readline().decode().strip():
                name, _, value = field.partition(":")
                headers[name.lower()] = value.strip()
            if headers.get("upgrade", "").lower() == "websocket":
                return self._upgrade()
            if path == "/old":
                return self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\nold")
            self.wfile.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(version)}\r\n\r\n{version}".encode())

    def _upgrade(self):
        self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
        while data := self.request.recv(4096):
            self.wfile.write(data.upper())


class Grpc(socketserver.BaseRequestHandler):
    def handle(self):
        counts = {}
        codec = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        codec.initiate_connection()
        self.request.sendall(codec.data_to_send())
        while data := self.request.recv(65536):
            for event in codec.receive_data(data):
                self._take(codec, event, counts)
            self.request.sendall(codec.data_to_send())

    @staticmethod
    def _take(codec, event, counts):
        if isinstance(event, h2.events.RequestReceived):
            counts[event.stream_id] = 0
            codec.send_headers(event.stream_id, [(":status", "200"), ("content-type", "application/grpc")])
        elif isinstance(event, h2.events.DataReceived):
            counts[event.stream_id] += len(event.data) > 0
            codec.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            codec.send_data(event.stream_id, event.data)
        if isinstance(event, h2.events.StreamEnded):
            codec.send_headers(
                event.stream_id, [("grpc-status", "0"), ("x-count", str(counts[event.stream_id]))], end_stream=True
            )


class Greeter(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"220 ready\r\n")
        while line := self.rfile.readline():
            self.wfile.write(line)


class Reader(socketserver.BaseRequestHandler):
    def handle(self):
        count = 0
        while data := self.request.recv(4096):
            count += len(data)
        self.request.sendall(f"{count} bytes".encode())


class Either(socketserver.BaseRequestHandler):
    """HTTP/1 and gRPC on one port."""

    def handle(self):
        speaks_http_2 = self.request.recv(3, socket.MSG_PEEK) == b"PRI"
        (Grpc if speaks_http_2 else Http)(self.request, self.client_address, self.server)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 64


def main():
    parser = argparse.ArgumentParser()
    handlers = {"http": Http, "grpc": Grpc, "h2c": Grpc, "greeter": Greeter, "reader": Reader, "either": Either}
    for name in handlers:
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    for name, handler in handlers.items():
        server = Server(("127.0.0.1", getattr(options, name)), handler)
        server.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
