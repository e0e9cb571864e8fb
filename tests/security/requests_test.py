#!/usr/bin/python3
"""Ambiguous HTTP requests reach the application only if a policy allows what the application sees
(docs/security.md, threats 31 and 32).

The application records each request as its bytes arrive. Requests are raw, of HTTP/1.1 with upgrades
and of HTTP/2, and take two ways: through the client's Envoy, and straight to the server's Envoy with the
client's workload certificate.

usage: requests_test.py --bin DIRECTORY --envoy FILE
"""

import functools
import http.client
import socket
import ssl
import threading
import urllib.parse

import h2.config
import h2.connection
import h2.events
import hpack
from hyperframe.frame import Frame, GoAwayFrame, HeadersFrame, RstStreamFrame, SettingsFrame

from lib.mesh import meshcase, objects
from lib.mesh.authority import Authority
from lib.mesh.rig import ADS_PORT
from lib.mesh.xds_client import WorkloadCertificate
from lib.net.http2 import CLOSED, PREFACE, block, client_context
from lib.net.netns import Switch
from lib.net.processes import wait_for

HOST, SERVICE, PORT = b"server.server", "10.96.0.12", meshcase.PORT
REFUSALS = {400, 403, 404, 501}  # Envoy's own answers


class Recorder:
    """An HTTP server on `listener`, which it owns. `heard`: each request's head as lines."""

    def __init__(self, listener):
        self.listener, self.heard = listener, []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return  # close() was called
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        """Knows no upgrades: whatever comes behind such a request would be another one."""
        with connection, connection.makefile("rb") as stream:
            more = True
            while more:
                head = []
                while line := stream.readline().rstrip(b"\r\n"):
                    head.append(line)
                if not head:
                    return  # a connection without a request
                if head == [b"PRI * HTTP/2.0"]:
                    return self._answer_http2(connection, stream)
                self.heard.append(head)
                more = values(head, b"upgrade")
                if not more:
                    stream.read(int((values(head, b"content-length") or [0])[0]))
                end = b"" if more else b"connection: close\r\n"
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n" + end + b"\r\n")

    def _answer_http2(self, connection, stream):
        """Envoy speaks to the application as the caller speaks to Envoy."""
        server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=False))
        server.initiate_connection()
        data = PREFACE[: -len(b"SM\r\n\r\n")]
        while data:
            for event in server.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    named = dict(event.headers)
                    line = named[b":method"] + b" " + named[b":path"] + b" HTTP/2"
                    self.heard.append([line, *(name + b": " + value for name, value in event.headers)])
                    server.send_headers(event.stream_id, [(":status", "200")], end_stream=True)
            connection.sendall(server.data_to_send())
            data = stream.read1(65536)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self.listener.close()


def values(head, name):
    # A name of HTTP/2 may begin with a colon.
    fields = ((line[:1] + key, value) for line in head[1:] for key, value in [line[1:].split(b":", 1)])
    return [value.strip() for key, value in fields if key.lower() == name]


def get(target, *headers, method=b"GET", host=HOST, body=b""):
    """A request's bytes, with `target` and `headers` as they are."""
    lines = [method + b" " + target + b" HTTP/1.1", *([b"host: " + host] if host else []), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def buy(*headers, body):
    return get(b"/buy", *headers, method=b"POST", body=body)


def length(of):
    return b"content-length: %d" % len(of)


BOOKS, OPEN, VIP = b"/books-bought", b"/open/", b"/vip"
GOLD, SILVER = b"x-level: gold", b"x-level: silver"
HIDDEN = get(b"/admin")
ODD = get(b"/a%2Fb//c/../%61", method=b"PUT")
CHUNKS, CHUNKED = b"0\r\n\r\n" + HIDDEN, b"transfer-encoding: chunked"
NOTHING = None
FORGED = b"By=x;URI=spiffe://cluster.local/ns/payments/sa/admin"
CALLERS = (b"x_forwarded_client_cert: ", b"X-Forwarded_Client-Cert: ", b"X-Forwarded-Client-Cert: ")
ANY_NAME = get(BOOKS, *(name + FORGED for name in CALLERS), b"x_level: admin")
ANYWHERE = "IPRange", "10.200.0.0/16"  # every machine of the test

# kind: (request, the target that the application sees)
PATHS = {
    "as allowed": (get(BOOKS), BOOKS),
    "a query": (get(BOOKS + b"?x=/admin"), BOOKS + b"?x=/admin"),
    "fragment": (get(BOOKS + b"#/../admin"), NOTHING),
    "fragment below a prefix": (get(OPEN + b"x#/../../admin"), NOTHING),
    "fragment after a query": (get(BOOKS + b"?a#b"), NOTHING),
    "escaped number sign": (get(BOOKS + b"%23x"), NOTHING),
    "escaped question mark": (get(BOOKS + b"%3fx"), NOTHING),
    "escaped NUL": (get(BOOKS + b"%00"), NOTHING),
    "escaped dots": (get(OPEN + b"%2e%2E/admin"), NOTHING),
    "escaped dots to what is allowed": (get(b"/x/%2E%2E" + BOOKS), NOTHING),
    "escaped slash": (get(OPEN + b"..%2fadmin"), NOTHING),
    "escaped backslash": (get(OPEN + b"..%5cadmin"), NOTHING),
    "backslash": (get(OPEN + b"..\\admin"), NOTHING),
    "dots escaped twice": (get(OPEN + b"%252e%252e/x"), OPEN + b"%252e%252e/x"),
    "absolute form": (get(b"http://server.server" + BOOKS), BOOKS),
    "absolute form, another path": (get(b"http://server.server/admin"), NOTHING),
    "absolute form with dots": (get(b"http://server.server" + OPEN + b"../admin"), NOTHING),
    "absolute form, another host": (get(b"http://other.host" + BOOKS), NOTHING),
    "two slashes": (get(b"/" + BOOKS), NOTHING),
    "two slashes and dots": (get(OPEN + b"/x//..//..//../admin"), NOTHING),
    "two slashes that stay below the prefix": (get(OPEN + b"/../admin"), NOTHING),
    "dot segment": (get(b"/." + BOOKS), NOTHING),
    "dot segments": (get(OPEN + b"./../admin"), NOTHING),
    "dots with a parameter": (get(BOOKS + b"/..;/admin"), NOTHING),
    "path with a parameter": (get(BOOKS + b";/../admin"), NOTHING),
    "upper case": (get(b"/Books-bought"), NOTHING),
    "slash at the end": (get(BOOKS + b"/"), NOTHING),
    "no slash at the beginning": (get(b"books-bought"), NOTHING),
    "bytes beyond ASCII": (get(BOOKS + b"\xc3\xa9"), NOTHING),
    "an asterisk": (get(b"*", method=b"OPTIONS"), NOTHING),
    "a tunnel": (get(b"server.server:14001", method=b"CONNECT"), NOTHING),
    "a second request behind the first": (get(BOOKS) + HIDDEN, BOOKS),
    "escaped letter": (get(OPEN + b"%61dmin"), NOTHING),
    "dots at the end": (get(OPEN + b".."), NOTHING),
    "a space and a dot in a name": (get(OPEN + b"a%20b.c"), OPEN + b"a%20b.c"),
    "any path where any is allowed": (ODD, b"/a%2Fb//c/../%61"),
}
# With the annotation openservicemesh.io/http-paths.
NORMALIZED = PATHS | {
    "escaped dots to what is allowed": (get(b"/x/%2E%2E" + BOOKS), BOOKS),
    "two slashes": (get(b"/" + BOOKS), BOOKS),
    "two slashes and dots": (get(OPEN + b"/x//..//..//../admin"), OPEN + b"x/admin"),
    "two slashes that stay below the prefix": (get(OPEN + b"/../admin"), OPEN + b"admin"),
    "dot segment": (get(b"/." + BOOKS), BOOKS),
    "escaped letter": (get(OPEN + b"%61dmin"), OPEN + b"admin"),
    "any path where any is allowed": (ODD, NOTHING),
}
UNCHECKED = {
    "escaped slash below a prefix": (get(OPEN + b"a%2Fb"), OPEN + b"a%2Fb"),
    "two slashes below a prefix": (get(OPEN + b"/x"), OPEN + b"/x"),
    "another path": (HIDDEN, NOTHING),
}
HEADERS = {
    "two hosts": (get(BOOKS, b"host: other.host"), NOTHING),
    "two hosts, the right one last": (get(BOOKS, b"host: server.server", host=b"other.host"), NOTHING),
    "one host twice": (get(BOOKS, b"host: server.server"), NOTHING),
    "two hosts in one header": (get(BOOKS, host=b"server.server,other.host"), NOTHING),
    "no host": (get(BOOKS, host=None), NOTHING),
    "user and host": (get(BOOKS, host=b"server.server@other.host"), NOTHING),
    "the header that a policy names": (get(VIP, GOLD), VIP),
    "that header with two values": (get(VIP, GOLD, SILVER), NOTHING),
    "that header with two values, the right one last": (get(VIP, SILVER, GOLD), NOTHING),
    "that header twice": (get(VIP, GOLD, GOLD), NOTHING),
    "without that header": (get(VIP), NOTHING),
    "two values in one header": (get(VIP, b"x-level: gold,silver"), NOTHING),
    "blank before the colon": (get(VIP, b"x-level : gold"), NOTHING),
    "folded value": (get(VIP, b"x-level: silver\r\n gold"), NOTHING),
    "underscore": (get(VIP, b"x_level: gold"), NOTHING),
    "NUL in the value": (get(VIP, GOLD + b"\0"), NOTHING),
    "a header that ends at the next hop": (get(VIP, GOLD, b"connection: x-level"), NOTHING),
    "a length": (buy(length(b"abc"), body=b"abc"), b"/buy"),
    "two lengths": (buy(length(b""), length(HIDDEN), body=HIDDEN), NOTHING),
    "one length twice": (buy(length(b"abc"), length(b"abc"), body=b"abc"), NOTHING),
    "two lengths in one header": (buy(b"content-length: 0, 3", body=b"abc"), NOTHING),
    "signed length": (buy(b"content-length: +3", body=b"abc"), NOTHING),
    "length and chunks": (buy(length(CHUNKS), CHUNKED, body=CHUNKS), NOTHING),
    "chunks and length": (buy(CHUNKED, length(CHUNKS), body=CHUNKS), NOTHING),
    "unknown coding": (buy(b"transfer-encoding: x", body=CHUNKS), NOTHING),
    "two codings": (buy(CHUNKED, b"transfer-encoding: identity", body=CHUNKS), NOTHING),
    "two codings in one header": (buy(b"transfer-encoding: identity, chunked", body=CHUNKS), NOTHING),
}


def upgrade(target, protocol, *headers, body=b""):
    return get(target, b"connection: upgrade", b"upgrade: " + protocol, *headers, body=body)


UPGRADES = {
    "to a WebSocket": (upgrade(BOOKS, b"websocket"), BOOKS),
    "to a WebSocket, with a second request behind it": (upgrade(BOOKS, b"websocket", body=HIDDEN), BOOKS),
    "to a WebSocket, with a length": (upgrade(BOOKS, b"websocket", length(HIDDEN), body=HIDDEN), BOOKS),
    "to a WebSocket, with chunks": (upgrade(BOOKS, b"websocket", CHUNKED, body=CHUNKS), BOOKS),
    "to a WebSocket, of another path": (upgrade(b"/admin", b"websocket"), NOTHING),
    "to a WebSocket, of another method": (
        get(BOOKS, b"connection: upgrade", b"upgrade: websocket", method=b"POST"),
        NOTHING,
    ),
    "to a protocol that is not known": (upgrade(BOOKS, b"x", body=HIDDEN), NOTHING),
    "to two protocols": (upgrade(BOOKS, b"websocket, x", body=HIDDEN), NOTHING),
    "to TLS, which is ignored": (upgrade(BOOKS, b"TLS/1.2", body=HIDDEN), BOOKS),
    "to TLS or a WebSocket": (upgrade(BOOKS, b"tls/1.0, WebSocket"), BOOKS),
    "to HTTP/2, which is ignored": (upgrade(BOOKS, b"h2c", body=HIDDEN), BOOKS),
    "to HTTP/2 or TLS": (upgrade(BOOKS, b"h2c, TLS/1.2"), NOTHING),
    "to a WebSocket, in two lines": (upgrade(BOOKS, b"websocket", b"upgrade: x"), NOTHING),
    "with other tokens in the header `connection`": (
        get(BOOKS, b"connection: keep-alive, Upgrade", b"upgrade: x"),
        NOTHING,
    ),
    "with another token in the header `connection`": (get(BOOKS, b"connection: upgrade-x", b"upgrade: x"), BOOKS),
    "without the header `connection`": (get(BOOKS, b"upgrade: websocket", body=HIDDEN), BOOKS),
}


def fields(path, *headers, method=b"GET", authority=HOST):
    """The fields of a request of HTTP/2, as they are."""
    head = ((b":method", method), (b":scheme", b"http"), (b":path", path), (b":authority", authority))
    return [*((name, value) for name, value in head if value is not None), *headers]


LEVEL = (b"x-level", b"gold")
HTTP2 = {
    "as allowed": (fields(BOOKS), BOOKS),
    "a query": (fields(BOOKS + b"?x=/admin"), BOOKS + b"?x=/admin"),
    "fragment": (fields(BOOKS + b"#/../admin"), NOTHING),
    "dot segments": (fields(OPEN + b"../admin"), NOTHING),
    "escaped dots": (fields(OPEN + b"%2e%2E/admin"), NOTHING),
    "escaped slash": (fields(OPEN + b"..%2fadmin"), NOTHING),
    "escaped NUL": (fields(BOOKS + b"%00"), NOTHING),
    "backslash": (fields(OPEN + b"..\\admin"), NOTHING),
    "absolute form": (fields(b"http://server.server/admin"), NOTHING),
    "no slash at the beginning": (fields(b"books-bought"), NOTHING),
    "an empty path": (fields(b""), NOTHING),
    "blank": (fields(BOOKS + b" /admin"), NOTHING),
    "a line in the path": (fields(BOOKS + b" HTTP/1.1\r\nx-level: gold\r\n\r\n" + HIDDEN), NOTHING),
    "a line in the method": (fields(BOOKS, method=b"GET /admin HTTP/1.1\r\nx:"), NOTHING),
    "a line in a value": (fields(VIP, (b"x-a", b"b\r\nx-level: gold")), NOTHING),
    "a line in a name": (fields(VIP, (b"x-a: b\r\nx-level", b"gold")), NOTHING),
    "NUL in a value": (fields(VIP, (b"x-level", b"gold\0")), NOTHING),
    "a colon in a name": (fields(VIP, (b"x-level:", b"gold")), NOTHING),
    "upper case in a name": (fields(VIP, (b"X-Level", b"gold")), NOTHING),
    "two paths": (fields(BOOKS, (b":path", b"/admin")), NOTHING),
    "two methods": (fields(BOOKS, (b":method", b"PUT")), NOTHING),
    "two authorities": (fields(BOOKS, (b":authority", b"other.host")), NOTHING),
    "no path": (fields(None), NOTHING),
    "no method": (fields(BOOKS, method=None), NOTHING),
    "a pseudo-header behind a header": ([*fields(None, LEVEL), (b":path", VIP)], NOTHING),
    "an unknown pseudo-header": (fields(BOOKS, (b":x", b"y")), NOTHING),
    "another authority": (fields(BOOKS, authority=b"other.host"), NOTHING),
    "user and host": (fields(BOOKS, authority=b"server.server@other.host"), NOTHING),
    "the header that a policy names": (fields(VIP, LEVEL), VIP),
    "that header with two values": (fields(VIP, LEVEL, (b"x-level", b"silver")), NOTHING),
    "underscore": (fields(VIP, (b"x_level", b"gold")), NOTHING),
    "a header that ends at the next hop": (fields(VIP, LEVEL, (b"connection", b"x-level")), NOTHING),
    "chunks": (fields(BOOKS, (b"transfer-encoding", b"chunked")), NOTHING),
    "an upgrade": (fields(BOOKS, (b"connection", b"upgrade"), (b"upgrade", b"websocket")), NOTHING),
    "a tunnel": ([(b":method", b"CONNECT"), (b":authority", b"server.server:14001")], NOTHING),
    "a tunnel to a WebSocket": (fields(BOOKS, (b":protocol", b"websocket"), method=b"CONNECT"), NOTHING),
}


def send_http2(dial, head):
    """Status of a request whose fields go past every check of a library; None: it was reset."""
    with dial() as connection, connection.makefile("rb") as stream:
        end = HeadersFrame(1, data=block(head), flags=["END_HEADERS", "END_STREAM"]).serialize()
        connection.sendall(PREFACE + SettingsFrame(0).serialize() + end)
        decoder = hpack.Decoder()
        try:
            while len(begin := stream.read(9)) == 9:
                frame, size = Frame.parse_frame_header(memoryview(begin))
                frame.parse_body(memoryview(stream.read(size)))
                if isinstance(frame, HeadersFrame):
                    return int(dict(decoder.decode(frame.data))[":status"])
                if isinstance(frame, (RstStreamFrame, GoAwayFrame)):
                    return None
        except CLOSED:
            pass
        return None


class Requests(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.rig.drain_seconds = 1
        self.client, self.server = self.add_client_and_server()
        only = {"methods": ["GET"]}
        self.write_service("strict")
        self.rig.mesh.write(
            "access.yaml",
            objects.routes(
                "server",
                "routes",
                books={"pathRegex": "/books-bought", **only},
                open={"pathRegex": "/open/.*", **only},
                buy={"pathRegex": "/buy", "methods": ["POST"]},
                vip={"pathRegex": "/vip", "headers": [{"x-level": "gold"}], **only},
                put={"methods": ["PUT"]},
            ),
            objects.target(
                "server",
                "access",
                "server",
                [("client", "client")],
                ("HTTPRouteGroup", "routes", ["books", "open", "buy", "vip", "put"]),
            ),
        )
        self.start_mesh()
        self.app = Recorder(self.server.namespace.listen("127.0.0.1", PORT))
        self.addCleanup(self.app.close)
        self.wait_for_status(self.client, 200, HOST.decode())
        identity = WorkloadCertificate(self.client, Switch.ADDRESS, ADS_PORT, self.rig.directory)
        self.ways = {
            "through the client's Envoy": lambda: self.client.namespace.connect(SERVICE, PORT, timeout=5),
            "straight to the server's": lambda: identity.dial(
                self.client, self.server.address, PORT, "server.server.svc.cluster.local"
            ),
        }

    def write_service(self, http_paths, header_names="strict"):
        service = objects.service("server", "server", SERVICE, PORT)
        service["metadata"]["annotations"] = {
            "openservicemesh.io/http-paths": http_paths,
            "openservicemesh.io/http-header-names": header_names,
        }
        self.rig.mesh.write("server.yaml", service)

    def send(self, dial, request):
        """Envoy's first status."""
        with dial() as connection:
            connection.sendall(request)
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            answer.read()
            return answer.status

    def send_and_explain(self, dial, request):
        """The same. An explanation of the request says what Envoy did."""
        status = self.send(dial, request)
        head = request.partition(b"\r\n\r\n")[0].decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        lines = [line for line in head[1:] if not line.startswith("host:")]
        if dial == self.ways["straight to the server's"]:
            asked = {"destination": "account:server/server", "port": str(PORT), "host": HOST.decode()}
        else:
            asked = {"destination": "server/server"}
        told = self.explain("\n".join(lines), path.encode(), method=method, **asked)
        right = ("allowed", 0) if status == 200 else ("denied", status)
        self.assertEqual([(told["verdict"], way["status"]) for way in told["ways"]], [right], told)
        return status

    def check(self, kinds, send=None, http2=False):
        send = send or (send_http2 if http2 else self.send)
        for way, dial in self.ways.items():
            self.app.heard.clear()
            for kind, (request, target) in kinds.items():
                with self.subTest(way, kind=kind):
                    before = len(self.app.heard)
                    status = send(dial, request)
                    heard = self.app.heard[before:]
                    if target is NOTHING:
                        self.assertEqual(heard, [])
                        self.assertIn(status, {None, *REFUSALS} if http2 else REFUSALS)
                        continue
                    self.assertEqual([head[0].split(b" ")[1] for head in heard], [target])
                    self.assertEqual(status, 200)
                    self.assertEqual(values(heard[0], b":authority" if http2 else b"host"), [HOST])
            with self.subTest(way, kind="nothing arrives late"):
                self.assertEqual(self.send(dial, get(BOOKS)), 200)
                allowed = sum(target is not NOTHING for _, target in kinds.values())
                self.assertEqual(len(self.app.heard), allowed + 1)

    def test_no_request_is_ambiguous_to_the_application(self):
        with self.subTest("a path that hides another"):
            self.check(PATHS)
        with self.subTest("headers that occur twice"):
            self.check(HEADERS)
        with self.subTest("upgrades"):
            self.check(UPGRADES, self.send_and_explain)
        with self.subTest("HTTP/2"):
            self.check(HTTP2, http2=True)
        for http_paths, other, kinds in (("normalize", b"/x", NORMALIZED), ("unchecked", b"a%2Fb", UNCHECKED)):
            with self.subTest("with an annotation", http_paths=http_paths):
                self.write_service(http_paths)
                self.wait_for_status(self.client, 200, HOST.decode(), (OPEN + other).decode())
                wait_for(
                    "the chain before is drained",
                    lambda: sum(self.server.stats(r"total_filter_chains_draining$").values()) == 0,
                )
                self.check(kinds)

    # -- names of headers -----------------------------------------------------------------------
    @functools.cached_property
    def outsider(self):
        """A machine without a sidecar."""
        made = self.rig.switch.plug_in("outsider", "10.200.0.99")
        self.addCleanup(made.delete)
        return made

    def dial_ingress(self):
        return self.outsider.connect(self.server.address, PORT, timeout=5)

    def open_ingress(self, dial, source, **rule):
        """Writes an IngressBackend of the server, and waits until it admits requests."""
        self.rig.mesh.write("ingress.yaml", objects.ingress_backend("server", "in", {("server", PORT): rule}, source))
        wait_for(
            "the ingress is open",
            lambda: self.send(dial, get(BOOKS)) == 200,
            retry=(ConnectionError, ssl.SSLError, http.client.HTTPException),
        )

    def test_an_underscore_in_a_headers_name_is_refused(self):
        ways = self.ways | {"ingress": self.dial_ingress}
        self.open_ingress(self.dial_ingress, ANYWHERE, protocol="http")
        self.app.heard.clear()
        names = (b"x_forwarded_client_cert", b"X-Forwarded_Client-Cert", b"X_Level", b"any_", b"_")
        for way, dial in ways.items():
            for name in names:
                with self.subTest(way, name=name):
                    self.assertEqual(self.send(dial, get(BOOKS, name + b": " + FORGED)), 400)
        of_http2 = (b"x_forwarded_client_cert", b"x_level")
        for way, dial in ways.items():
            for name in of_http2:
                with self.subTest(way, name=name, protocol="HTTP/2"):
                    self.assertEqual(send_http2(dial, fields(BOOKS, (name, FORGED))), 400)
        with self.subTest("nothing reached the application"):
            self.assertEqual(self.app.heard, [])
        with self.subTest("they are counted by caller"):
            caller = "spiffe://cluster.local/ns/client/sa/client"
            counters = self.server.stats("refused_header_name_total")
            of_each = len(names) + len(of_http2)
            self.assertEqual(sum(counters.values()), len(ways) * of_each, counters)
            of_client = sum(value for name, value in counters.items() if caller in name)
            self.assertEqual(of_client, len(self.ways) * of_each, counters)
        with self.subTest("and explained"):
            told = self.explain("X_Level: gold")
            self.assertEqual(told["verdict"], "denied", told)
            last = told["ways"][0]["steps"][-1]
            self.assertIn("x_level has an underscore", last["reason"])
            self.assertEqual(last["object"], "Service server/server")

        with self.subTest("a header that is sent twice is explained as one, as Envoy reads it"):
            for headers, verdict in (("x-level: gold", "allowed"), ("x-level: silver\nX-Level: gold", "denied")):
                self.assertEqual(self.explain(headers, VIP)["verdict"], verdict, headers)

    def test_several_cookie_lines_are_explained_as_envoy_reads_them(self):
        rules = {"semicolon": "a=1; b=2", "comma": "a=1,b=2", "first": "a=1", "last": "b=2", "any": ".*b=2"}
        self.rig.mesh.write(
            "cookies.yaml",
            objects.routes(
                "server",
                "cookies",
                **{name: {"pathRegex": f"/{name}", "headers": [{"cookie": rule}]} for name, rule in rules.items()},
            ),
            objects.target(
                "server", "cookies", "server", [("client", "client")], ("HTTPRouteGroup", "cookies", list(rules))
            ),
        )
        cookies = b"Cookie: a=1", b"cookie: b=2"
        wait_for(
            "the rules are in force",
            lambda: self.send(self.ways["through the client's Envoy"], get(b"/any", b"cookie: b=2")) == 200,
        )
        for way, dial in self.ways.items():
            for name in rules:
                with self.subTest(way, rule=rules[name]):
                    status = self.send(dial, get(b"/" + name.encode(), *cookies))
                    told = self.explain("\n".join(line.decode() for line in cookies), b"/" + name.encode())
                    self.assertEqual(
                        (status, told["verdict"]), (200, "allowed") if status == 200 else (status, "denied")
                    )
        with self.subTest("lines of HTTP/2 are joined otherwise, as the explanation of such a port says"):
            lines = [(b"cookie", b"a=1"), (b"cookie", b"b=2")]
            statuses = {
                name: {send_http2(dial, fields(b"/" + name.encode(), *lines)) for dial in self.ways.values()}
                for name in rules
            }
            self.assertEqual(statuses, {name: {200 if name in ("semicolon", "any") else 404} for name in rules})

    def test_a_service_that_takes_any_header_name_gets_one_caller(self):
        self.write_service("strict", "unchecked")
        wait_for("the request passes", lambda: self.send(self.ways["through the client's Envoy"], ANY_NAME) == 200)
        self.check_any_name(self.ways, b"uri=spiffe://cluster.local/ns/client/sa/client")
        self.open_ingress(self.dial_ingress, ANYWHERE, protocol="http")
        self.check_any_name({"ingress": self.dial_ingress}, None)
        mesh_ca = Authority(self.rig.directory / "mesh-ca", self.rig.state / "ca" / "ca.pem")
        name, uri = "gateway.edge.cluster.local", "spiffe://cluster.local/osm/gateway/edge"
        context = client_context(identity=mesh_ca.named("gateway", f"DNS:{name}", f"URI:{uri}"), alpn="http/1.1")

        def dial_with_certificate():
            return context.wrap_socket(self.dial_ingress(), server_hostname="shop.example.com")

        self.open_ingress(dial_with_certificate, ("AuthenticatedPrincipal", name), protocol="https")
        self.check_any_name({"ingress with a certificate": dial_with_certificate}, b"uri=" + uri.encode(), ["HTTP/1.1"])
        self.assertEqual(self.explain("X_Level: gold")["verdict"], "allowed")

    def check_any_name(self, ways, caller, protocols=("HTTP/1.1", "HTTP/2")):
        """Names with an underscore pass, but of all spellings of x-forwarded-client-cert only the server's own, of
        `caller`. None: no spelling arrives."""
        names = (b"x_forwarded_client_cert", FORGED), (b"x-forwarded-client-cert", FORGED), (b"x_level", b"admin")
        kinds = {"HTTP/1.1": (self.send, ANY_NAME), "HTTP/2": (send_http2, fields(BOOKS, *names))}
        for protocol in protocols:
            send, request = kinds[protocol]
            for way, dial in ways.items():
                with self.subTest(way, protocol=protocol):
                    self.app.heard.clear()
                    self.assertEqual(send(dial, request), 200)
                    [head] = self.app.heard
                    self.assertTrue(head[0].endswith(protocol.encode()), head)
                    self.assertEqual(values(head, b"x_level"), [b"admin"])
                    lines = [line.lower().replace(b"_", b"-") for line in head]
                    callers = [line for line in lines if line.startswith(b"x-forwarded-client-cert")]
                    self.assertEqual(len(callers), 0 if caller is None else 1, head)
                    for line in callers:
                        self.assertNotIn(b"ns/payments", line)
                        self.assertIn(caller, line)

    def explain(self, headers, path=BOOKS, destination="server/server", **more):
        asked = {"source": "client/client", "destination": destination, "path": path.decode(), **more}
        return self.rig.admin("GET", "/v1/policy/explain?" + urllib.parse.urlencode(asked | {"headers": headers}))

    def test_in_permissive_mode_paths_pass_as_they_are(self):
        self.rig.mesh.write("config.yaml", objects.mesh_config(permissive=True))
        self.wait_for_status(self.client, 200, HOST.decode(), "/admin")
        wait_for(
            "the chain before is drained",
            lambda: sum(self.server.stats(r"total_filter_chains_draining$").values()) == 0,
        )
        self.check(
            {
                path: (get(path), path)
                for path in (b"/api/exchanges/%2F/amq.default", b"/@scope%2fname", b"//a/./b/../c", b"/a%2Fb//c/../%61")
            }
        )


if __name__ == "__main__":
    meshcase.main()
