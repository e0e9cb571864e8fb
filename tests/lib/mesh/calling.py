"""Applications that answer every call, and clients that make the calls of lib.mesh.reference.

All run in threads of the test, on sockets inside the machines' namespaces.
"""

import http.client
import re
import socket
import ssl
import threading

from lib.mesh.reference import CLUSTER, DENIED, header_lines

REFUSALS = {400, 403, 404, 503}  # Envoy's own answers
_CLOSED = (ConnectionError, ssl.SSLError)


class App:
    """Answers each call with `name`, its port and what it was sent. `heard`: the calls' numbers."""

    def __init__(self, namespace, name, address, port, kind):
        self.name, self.port, self.heard = name, port, set()
        self._listener = namespace.listen(address, port)
        self._answer = self._answer_http if kind == "http" else self._answer_tcp
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # close() was called
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, connection.makefile("rb") as stream:
            try:
                while self._answer(connection, stream):
                    pass
            except ConnectionError:
                return  # the proxy closed it

    def _answer_http(self, connection, stream):
        head = []
        while line := stream.readline().rstrip(b"\r\n"):
            head.append(line.decode("latin-1"))
        if not head:
            return False
        _, target, _ = head[0].split(" ")
        fields = dict(line.split(": ", 1) for line in head[1:] if ": " in line)
        stream.read(int(fields.get("content-length", 0)))
        self.heard.add(int(fields["x-call"]))
        upgraded = "upgrade" in fields  # it goes on otherwise, and this application knows no such way
        said = {
            "x-from": f"{self.name} {self.port}",
            "x-target": target,
            "x-caller": fields.get("x-forwarded-client-cert", ""),
            "content-length": "0",
            **({"connection": "close"} if upgraded else {}),
        }
        lines = [f"{name}: {value}\r\n" for name, value in said.items()]
        connection.sendall(f"HTTP/1.1 200 OK\r\n{''.join(lines)}\r\n".encode("latin-1"))
        return not upgraded

    def _answer_tcp(self, connection, stream):
        line = stream.readline()
        if not line:
            return False
        self.heard.add(int(line))
        connection.sendall(f"{self.name}\n{self.port}\n".encode())
        return True

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._listener.close()


class Caller:
    """Makes the calls of one machine. HTTP connections through its proxy stay open, but those of upgrades."""

    def __init__(self, machine, identity, hosts):
        """`identity`: a WorkloadCertificate. `hosts`: the host name of each Service's address."""
        self._machine, self._identity, self._hosts = machine, identity, hosts
        self._open = {}  # (address, port): HTTPConnection

    def answer(self, call, number):
        """(DENIED, how), or ((machine, port) that answered, the headers of its answer)."""
        if call.kind == "tcp":
            return self._tcp(call, number)
        try:
            status, headers = self._http(call, number)
        except _CLOSED as closed:
            self._machine.assert_live(closed)
            return DENIED, repr(closed)
        if status in REFUSALS:
            return DENIED, status
        if status != 200:
            raise AssertionError(f"{call}: {status} {headers}")
        name, port = headers["x-from"].split()
        return (name, int(port)), headers

    def close(self):
        for connection in self._open.values():
            connection.close()

    def hang_up(self, call):
        """The next such call has a connection of its own."""
        if kept := self._open.pop((call.address, call.port), None):
            kept.close()

    def _tcp(self, call, number):
        try:
            with self._dial(call) as connection:
                connection.sendall(b"%012d\n" % number)  # long enough to be no TLS
                answer = _lines(connection)
                if answer.startswith("HTTP/"):
                    return DENIED, answer.split("\r\n")[0]  # by a sidecar that expects a request
                if answer:
                    name, port = answer.split()
                    return (name, int(port)), {}
                closed = "closed"
        except _CLOSED as failed:
            closed = repr(failed)
        self._machine.assert_live(closed)
        return DENIED, closed

    def _dial(self, call):
        if call.machine is None or self._identity is None:
            return self._machine.namespace.connect(call.address, call.port, timeout=8)
        name = ".".join((call.service[1], call.service[0], CLUSTER))
        return self._identity.dial(self._machine, call.address, call.port, name)

    def _http(self, call, number):
        if call.machine is not None or "upgrade" in call.headers:
            connection = _http_over(self._dial(call))
            try:
                return self._ask(connection, call, number)
            finally:
                connection.close()
        at = call.address, call.port
        connection = self._open.get(at)
        if connection is not None and connection.sock is not None:
            try:
                return self._ask(connection, call, number)
            except _CLOSED + (http.client.BadStatusLine,):
                connection.close()  # Envoy closes connections of a chain that it replaced
        self._open[at] = connection = _http_over(self._dial(call))
        try:
            return self._ask(connection, call, number)
        except BaseException:
            connection.close()
            raise

    def host(self, call):
        """The host that an HTTP request names."""
        if call.service is not None and call.machine is not None:
            return ".".join(reversed(call.service))
        return call.host or self._hosts.get(call.address, call.address)

    def _ask(self, connection, call, number):
        connection.putrequest(call.method, call.path, skip_host=True, skip_accept_encoding=True)
        connection.putheader("host", self.host(call))
        connection.putheader("x-call", str(number))
        for name, value in header_lines(call):
            connection.putheader(name, value)
        connection.putheader("content-length", "0")
        connection.endheaders()
        response = connection.getresponse()
        response.read()
        return response.status, response.headers


class Gateway(Caller):
    """Makes the calls of a host outside of the mesh, from one of its addresses."""

    def __init__(self, namespace, address):
        super().__init__(self, None, {})
        self.namespace, self._host, self._address = self, namespace, address

    def connect(self, address, port, timeout):
        opened = self._host.open_socket()
        opened.settimeout(timeout)
        try:
            opened.bind((self._address, 0))
            opened.connect((address, port))
        except OSError:
            opened.close()
            raise
        return opened

    def assert_live(self, seen):
        """A gateway has no Envoy."""


def _http_over(opened):
    """An HTTP connection that never opens another socket, which would lie outside the namespace."""
    made = http.client.HTTPConnection("unused")
    made.sock, made.auto_open = opened, 0
    return made


def _lines(connection):
    """Two lines, or less if the other side closes."""
    data = b""
    while data.count(b"\n") < 2 and (came := connection.recv(200)):
        data += came
    return data.decode()


def identity_in(certificate_header):
    """(namespace, account) of the caller as the proxy told it to the application."""
    found = re.search(r"URI=spiffe://cluster\.local/ns/([^/;,]+)/sa/([^/;,]+)", certificate_header)
    return found and found.groups()
