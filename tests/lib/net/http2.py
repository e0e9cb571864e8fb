"""HTTP/2 and gRPC over sockets that grpcio could not open or would not abuse: in network namespaces,
with any certificate, and with frames that no well-behaved client sends. On python3-h2."""

import socket
import ssl

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import hpack
from hyperframe.frame import HeadersFrame

_GOAWAY = 7  # type of a frame
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# The peer ended the connection or the handshake. A peer that is only silent is a TimeoutError.
CLOSED = (ConnectionError, ssl.SSLError)


def request_headers(path, scheme="https", authority="test"):
    return [
        (":method", "POST"),
        (":scheme", scheme),
        (":path", path),
        (":authority", authority),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]


def block(headers):
    """HPACK that depends on no other block and adds nothing to the receiver's table."""
    return hpack.Encoder().encode([(name, value, True) for name, value in headers], huffman=False)


def headers_frame(stream, headers):
    """A whole request's headers, made by block(), as bytes."""
    return HeadersFrame(stream, data=headers, flags=["END_HEADERS"]).serialize()


def message(body):
    """gRPC's framing of one message."""
    return b"\0" + len(body).to_bytes(4, "big") + body


def client_context(roots=None, identity=None, alpn="h2"):
    """For TLS to a server whose name is a URI. `roots`: a file, None to believe everybody;
    `identity`: (chain file, key file) or None."""
    context = ssl.create_default_context(cafile=roots)
    context.check_hostname = False
    if roots is None:
        context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([alpn])
    if identity:
        context.load_cert_chain(*identity)
    return context


class Ended(ConnectionError):
    """The stream has no more messages. `status`: gRPC's, or None if it was reset."""

    def __init__(self, status, why, trailers=None):
        super().__init__(f"the stream ended with status {status}: {why}")
        self.status, self.trailers = status, trailers or {}


class Connection:
    """A client's connection over `opened`, a connected socket, with TLS or without. Failure: CLOSED,
    also for GOAWAY and for bytes that are not HTTP/2; TimeoutError as the socket is set."""

    def __init__(self, opened):
        self.socket = opened
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.scheme = "https" if isinstance(opened, ssl.SSLSocket) else "http"
        self.streams = {}  # number: (bytes that came, how it ended or None)
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(
                header_encoding="utf-8", validate_outbound_headers=False, normalize_outbound_headers=False
            )
        )
        self.h2.initiate_connection()
        self._flush()

    @classmethod
    def tls(cls, address, roots, identity=None, timeout=20, source=""):
        """To HOST:PORT, from the address `source`; the other arguments are client_context's."""
        host, port = address.rsplit(":", 1)
        plain = socket.create_connection((host, int(port)), timeout, (source, 0))
        try:
            return cls(client_context(roots, identity).wrap_socket(plain))
        except BaseException:
            plain.close()
            raise

    def send(self, data):
        """Bytes past the library: it knows nothing of what they do."""
        self.socket.sendall(data)

    def open(self, path, body=None, end=False, authority="test"):
        """A new stream's number, with its first message if there is one."""
        stream = self.h2.get_next_available_stream_id()
        self.streams[stream] = b"", None
        self.h2.send_headers(stream, request_headers(path, self.scheme, authority))
        self._flush()
        if body is not None:
            self.write(stream, body, end)
        return stream

    def write(self, stream, body, end=False):
        """One gRPC message, as fast as the peer has room for it."""
        data = message(body)
        while data:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if room:
                self.h2.send_data(stream, data[:room], end_stream=end and len(data) <= room)
                data = data[room:]
                self._flush()
            else:
                self._read()
                if self.streams[stream][1]:
                    raise self.streams[stream][1]

    def message(self, stream):
        """The next gRPC message of a stream. Failure: Ended when there is none."""
        while (came := self.received(stream)) is None:
            self.advance()
        return came

    def received(self, stream):
        """The next gRPC message of those that have come, or None. Failure: Ended when there is none."""
        data, ended = self.streams[stream]
        end = 5 + int.from_bytes(data[1:5], "big")
        if len(data) >= max(5, end):
            self.streams[stream] = data[end:], ended
            return data[5:end]
        if ended:
            raise ended
        return None

    def advance(self):
        """Takes what has come, or waits for it."""
        self._read()

    def end(self, *streams):
        """The Ended of whichever of the streams ends first; their messages are dropped."""
        while True:
            for stream in streams:
                if self.streams[stream][1]:
                    return self.streams[stream][1]
            self._read()

    def status(self, *streams):
        """gRPC's status of whichever of the streams ends first, None if it was reset."""
        return self.end(*streams).status

    def _receive(self):
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("closed")
        return data

    def _read(self):
        data = self._receive()
        try:
            events = self.h2.receive_data(data)
        except h2.exceptions.ProtocolError as wrong:
            raise ConnectionError(f"not HTTP/2: {wrong!r}") from wrong
        for event in events:
            self._take(event)
        self._flush()

    def _take(self, event):
        if isinstance(event, h2.events.ConnectionTerminated):
            raise ConnectionError(f"GOAWAY {event.error_code}: {event.additional_data}")
        stream = getattr(event, "stream_id", None)
        if stream not in self.streams:
            return
        data, ended = self.streams[stream]
        if isinstance(event, h2.events.DataReceived):
            data += event.data
            self.h2.acknowledge_received_data(event.flow_controlled_length, stream)
        elif isinstance(event, h2.events.StreamReset):
            ended = ended or Ended(None, f"RST_STREAM {event.error_code}")
        elif isinstance(event, (h2.events.ResponseReceived, h2.events.TrailersReceived)):
            headers = dict(event.headers)
            if "grpc-status" in headers:
                ended = Ended(int(headers["grpc-status"]), headers.get("grpc-message", ""), headers)
            elif headers.get(":status", "200") != "200":
                ended = Ended(None, f"HTTP {headers[':status']}")
        elif isinstance(event, h2.events.StreamEnded):
            ended = ended or Ended(None, "no status")
        self.streams[stream] = data, ended

    def _flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class PatientConnection(Connection):
    """Goes on after a GOAWAY, which sends later streams elsewhere."""

    def __init__(self, opened):
        self._bytes = b""
        super().__init__(opened)

    def _receive(self):
        self._bytes += super()._receive()
        kept = b""
        while len(self._bytes) >= 9:
            size = 9 + int.from_bytes(self._bytes[:3], "big")
            if len(self._bytes) < size:
                break
            frame, self._bytes = self._bytes[:size], self._bytes[size:]
            kept += frame if frame[3] != _GOAWAY else b""
        return kept
