"""Speaks ADS by hand, with a proxy's own certificate: what a thief who owns a machine can do.

Just enough HTTP/2, gRPC and protobuf to ask for secrets, from the standard library alone.
"""
import ssl
import struct
import time

_SECRET = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
_METHOD = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
_DATA, _HEADERS, _SETTINGS, _PING, _GOAWAY = 0, 1, 4, 6, 7


# -- protobuf -------------------------------------------------------------------------------------
def varint(value):
    out = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        out.append(byte | (0x80 if value else 0))
        if not value:
            return bytes(out)


def field(number, payload):
    payload = payload.encode() if isinstance(payload, str) else payload
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def fields(message):
    """{number: [bytes, ...]} of the length-delimited fields of a message."""
    found, at = {}, 0

    def read():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    while at < len(message):
        tag = read()
        if tag & 7 == 0:
            read()
        elif tag & 7 == 2:
            length = read()
            found.setdefault(tag >> 3, []).append(message[at:at + length])
            at += length
        else:
            raise ValueError(f"wire type {tag & 7}")
    return found


# -- HTTP/2 and gRPC ------------------------------------------------------------------------------
def _frame(kind, flags, stream, payload):
    return struct.pack("!I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(
        "!I", stream) + payload


def _literal(name, value):
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


class AdsStream:
    def __init__(self, machine, address, port):
        """As the proxy of `machine`: its certificate, its user, its network."""
        context = ssl.create_default_context(cafile=machine.directory / "cacert.pem")
        context.check_hostname = False  # the identity is a URI, checked below
        context.set_alpn_protocols(["h2"])
        context.load_cert_chain(machine.directory / "sds_cert.pem",
                                machine.directory / "sds_key.pem")
        self.tls = context.wrap_socket(machine.namespace.connect(address, port, uid=1500))
        names = dict(self.tls.getpeercert()["subjectAltName"])
        assert names.get("URI", "").endswith("/osm/controller"), names
        headers = b"".join(_literal(*h) for h in (
            (":method", "POST"), (":scheme", "https"), (":path", _METHOD), (":authority", "ads"),
            ("content-type", "application/grpc"), ("te", "trailers")))
        self.tls.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0, b"") +
                         _frame(_HEADERS, 4, 1, headers))
        self.received = b""

    def ask(self, type_url, *names):
        message = b"".join(field(3, n) for n in names) + field(4, type_url)
        self.tls.sendall(_frame(_DATA, 0, 1, b"\0" + struct.pack("!I", len(message)) + message))

    def response(self, timeout=10):
        """The next DiscoveryResponse: (type URL, [resource, ...])."""
        deadline = time.monotonic() + timeout
        while True:
            if len(self.received) >= 5:
                length = struct.unpack("!I", self.received[1:5])[0]
                if len(self.received) >= 5 + length:
                    message = fields(self.received[5:5 + length])
                    self.received = self.received[5 + length:]
                    return (message[4][0].decode(),
                            [fields(r)[2][0] for r in message.get(2, [])])
            self.tls.settimeout(max(0.01, deadline - time.monotonic()))
            self._read_frame()

    def _read_frame(self):
        head = self._exactly(9)
        kind, flags, stream = head[3], head[4], struct.unpack("!I", head[5:9])[0]
        payload = self._exactly(int.from_bytes(head[:3], "big"))
        if kind == _DATA:
            self.received += payload
        elif kind == _SETTINGS and not flags & 1:
            self.tls.sendall(_frame(_SETTINGS, 1, 0, b""))
        elif kind == _PING and not flags & 1:
            self.tls.sendall(_frame(_PING, 1, 0, payload))
        elif kind == _GOAWAY or (kind == _HEADERS and stream == 1 and flags & 1):
            raise ConnectionError("the controller ended the stream")

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            part = self.tls.recv(count - len(data))
            if not part:
                raise ConnectionError("the controller closed the connection")
            data += part
        return data

    def close(self):
        self.tls.close()


class WorkloadCertificate:
    """A workload's own, valid certificate and key, as its proxy gets them."""

    def __init__(self, machine, address, port, directory):
        stream = AdsStream(machine, address, port)
        try:
            stream.ask(_SECRET, "service-cert", "root-cert")
            secrets = {}
            while len(secrets) < 2:
                for secret in map(fields, stream.response()[1]):
                    secrets[secret[1][0].decode()] = secret
        finally:
            stream.close()
        pair = fields(secrets["service-cert"][2][0])
        trusted = fields(secrets["root-cert"][4][0])
        self.chain, self.key = (directory / f"{machine.name}.{p}.pem" for p in ("chain", "key"))
        self.roots = directory / f"{machine.name}.roots.pem"
        for path, source in ((self.chain, pair[1][0]), (self.key, pair[2][0]),
                             (self.roots, trusted[1][0])):
            content = fields(source)
            path.touch(mode=0o600)
            path.write_bytes((content.get(2) or content.get(3))[0])

    def dial(self, machine, address, port, server_name, alpn="osm"):
        """Straight to another machine's port, past our own proxy: a TLS connection."""
        context = ssl.create_default_context(cafile=self.roots)
        context.check_hostname = False
        context.set_alpn_protocols([alpn])
        context.load_cert_chain(self.chain, self.key)
        plain = machine.namespace.connect(address, port, uid=1500)
        return context.wrap_socket(plain, server_hostname=server_name)


def http_over(tls, host, path):
    """(status, body) of one request on an open connection."""
    tls.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    answer = b""
    while part := tls.recv(65536):
        answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head:
        raise ConnectionResetError("closed without an answer")
    return int(head.split()[1]), body.decode()
