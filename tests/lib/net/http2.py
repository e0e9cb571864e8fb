"""HTTP/2 frames by hand, to say what no well-behaved client says. The standard library alone."""
import socket
import ssl
import struct

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, CONTINUATION = 0, 1, 3, 4, 6, 7, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
ADS = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"


def frame(kind, flags, stream, payload=b""):
    return (struct.pack("!I", len(payload))[1:] + bytes([kind, flags]) +
            struct.pack("!I", stream) + payload)


def literal(name, value):
    """A header without indexing; at most 126 bytes each."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def request_headers(path=ADS):
    return b"".join(literal(*h) for h in (
        (":method", "POST"), (":scheme", "https"), (":authority", "ads"),
        ("content-type", "application/grpc"), ("te", "trailers"))) + (
            b"\0" + bytes([5]) + b":path" + _length(len(path)) + path.encode())


def _length(count):
    """HPACK's integer with a prefix of 7 bits."""
    if count < 127:
        return bytes([count])
    out, count = bytearray([127]), count - 127
    while count >= 128:
        out.append(count % 128 | 128)
        count //= 128
    return bytes(out + bytes([count]))


def message(body):
    return b"\0" + struct.pack("!I", len(body)) + body


def text_field(number, text):
    """A length-delimited protobuf field."""
    text = text.encode() if isinstance(text, str) else text
    return _varint(number << 3 | 2) + _varint(len(text)) + text


def _varint(value):
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


CLUSTERS = text_field(4, "type.googleapis.com/envoy.config.cluster.v3.Cluster")
DELTA_CLUSTERS = text_field(2, "type.googleapis.com/envoy.config.cluster.v3.Cluster")
SECRETS = text_field(4, "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret")


def _integer(data, at, bits):
    value = data[at] & (1 << bits) - 1
    at += 1
    if value < (1 << bits) - 1:
        return value, at
    shift = 0
    while True:
        value += (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 128:
            return value, at


class HeaderTable:
    """Reads what the controller's gRPC writes: no Huffman code, a dynamic table."""

    def __init__(self):
        self.dynamic = []

    def read(self, data):
        headers, at = {}, 0
        while at < len(data):
            first = data[at]
            if first & 0x80:
                index, at = _integer(data, at, 7)
                name, value = self._entry(index)
            elif first & 0xE0 == 0x20:
                _, at = _integer(data, at, 5)
                continue
            else:
                indexed = bool(first & 0x40)
                index, at = _integer(data, at, 6 if indexed else 4)
                name, at = (self._entry(index)[0], at) if index else self._text(data, at)
                value, at = self._text(data, at)
                if indexed:
                    self.dynamic.insert(0, (name, value))
            headers[name] = value
        return headers

    def _entry(self, index):
        return self.dynamic[index - 62] if index > 61 else (f"static-{index}", "")

    @staticmethod
    def _text(data, at):
        length, end = _integer(data, at, 7)
        text = data[end:end + length]
        return ("huffman" if data[at] & 0x80 else text.decode("latin-1")), end + length


class Connection:
    """One TLS connection. `identity`: (chain file, key file) or None; `roots`: a file."""

    def __init__(self, address, roots, identity=None, timeout=20):
        host, port = address.rsplit(":", 1)
        context = ssl.create_default_context(cafile=roots)
        context.check_hostname = False
        context.set_alpn_protocols(["h2"])
        if identity:
            context.load_cert_chain(*identity)
        plain = socket.create_connection((host, int(port)), timeout=timeout)
        try:
            self.tls = context.wrap_socket(plain)
        except BaseException:
            plain.close()
            raise
        self.table = HeaderTable()
        self.next_stream = 1
        self.send(PREFACE + frame(SETTINGS, 0, 0))

    def send(self, data):
        self.tls.sendall(data)

    def open(self, path=ADS, body=None, end=False):
        """A new stream's number."""
        stream, self.next_stream = self.next_stream, self.next_stream + 2
        out = frame(HEADERS, END_HEADERS, stream, request_headers(path))
        if body is not None:
            out += frame(DATA, END_STREAM if end else 0, stream, message(body))
        self.send(out)
        return stream

    def frame(self):
        """(kind, flags, stream, payload) of the next frame; acknowledges what must be."""
        head = self._exactly(9)
        kind, flags, stream = head[3], head[4], struct.unpack("!I", head[5:9])[0]
        payload = self._exactly(int.from_bytes(head[:3], "big"))
        if kind == SETTINGS and not flags & ACK:
            self.send(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            raise ConnectionError("GOAWAY")
        return kind, flags, stream, payload

    def status(self, *streams):
        """gRPC's status of whichever of the streams ends first; -1: it was reset."""
        while True:
            kind, flags, of, payload = self.frame()
            headers = self.table.read(payload) if kind == HEADERS else {}
            if of in streams and kind == RST_STREAM:
                return -1
            if of in streams and "grpc-status" in headers:
                return int(headers["grpc-status"])

    def first_bytes(self, stream):
        """Of the stream's first DATA frame."""
        while True:
            kind, _, of, payload = self.frame()
            if kind == HEADERS:
                self.table.read(payload)
            if of == stream and kind == DATA and payload:
                return payload

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            part = self.tls.recv(count - len(data))
            if not part:
                raise ConnectionError("closed")
            data += part
        return data

    def close(self):
        self.tls.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
