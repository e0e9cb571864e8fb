"""Load of several clients: each lane makes the calls of lib.mesh.reference that it is given, one after
another without end, and records each.

A lane keeps its connections, as a client with keep-alive does, or makes one for each call. It follows
HTTP: a connection whose answer says so, or that was closed while it rested, is not used again. A call
whose connection ends while it waits for the answer has failed.
"""

import collections
import select
import socket
import threading
import time

from lib.mesh.reference import DENIED

# `call`: its index. `begun`, `ended`: time.monotonic(). `outcome`: DENIED, or (machine, port) that answered.
# `how`: a status, or how the connection ended. `lane`: the lane's name. `opened`: when a kept connection was
# opened, or None for a new one.
Record = collections.namedtuple("Record", "call begun ended outcome how lane opened", defaults=(None,))
_PATIENCE = 10.0  # seconds, for an answer


class Lane:
    """`namespace`: it runs there. `source`: address that it dials from, or None. `pause`: seconds
    between two calls."""

    def __init__(self, name, namespace, keeps, pause, source=None):
        self.name, self.records = name, []
        self._namespace, self._keeps, self._pause, self._source = namespace, keeps, pause, source
        self._calls, self._open, self._opened = (), {}, None
        self._end, self._given, self._lock = threading.Event(), threading.Event(), threading.Lock()
        self._failed = None
        self._thread = threading.Thread(target=lambda: namespace.inside(self._run), daemon=True)
        self._thread.start()

    def give(self, calls):
        """The calls from now on, as (index, Call) pairs. Records and connections begin anew."""
        with self._lock:
            self._calls, self.records = tuple(calls), []
            self._given.set()

    def given(self):
        return self._calls

    def taken(self):
        """The records so far. Failure: the lane's mistake, if it ended by one."""
        if self._failed:
            raise self._failed
        with self._lock:
            return list(self.records)

    def stop(self):
        self._end.set()
        self._given.set()
        self._thread.join()

    # -- its thread -----------------------------------------------------------------------------
    def _run(self):
        made = None
        try:
            self._given.wait()
            while not self._end.is_set():
                with self._lock:
                    calls, records = self._calls, self.records
                if records is not made:
                    self._hang_up()
                    made = records
                for index, call in calls:
                    records.append(self._made(index, call))
                    if self._end.wait(self._pause) or self.records is not records:
                        break
                if not calls:
                    self._end.wait(self._pause)
        except Exception as failed:  # a thread that ends would report no failure at all
            self._failed = failed
        finally:
            self._hang_up()

    def _made(self, index, call):
        begun, self._opened = time.monotonic(), None
        try:
            outcome, how = (self._tcp if call.kind == "tcp" else self._http)(call)
        except OSError as failed:
            outcome, how = DENIED, repr(failed)
        return Record(index, begun, time.monotonic(), outcome, how, self.name, self._opened)

    def _hang_up(self):
        for opened, _ in self._open.values():
            opened.close()
        self._open = {}

    def _dial(self, call):
        source = (self._source, 0) if self._source else None
        opened = socket.create_connection((call.address, call.port), _PATIENCE, source)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened

    def _tcp(self, call):
        with self._dial(call) as opened:
            opened.sendall(b"line\n")
            answer = b""
            while b"\n" not in answer and (came := opened.recv(200)):
                answer += came
        if answer.startswith(b"HTTP/"):
            return DENIED, repr(answer)  # by a sidecar that expects a request
        return (_answerer(answer), "") if b"\n" in answer else (DENIED, "closed")

    def _http(self, call):
        at = call.address, call.port
        opened, since = self._open.pop(at, (None, None))
        if opened is not None and _was_closed(opened):
            opened.close()
            opened = None
        fresh = opened is None
        if fresh:
            since, opened = time.monotonic(), self._dial(call)
        else:
            self._opened = since
        try:
            status, fields, body = _asked(opened, call)
        except OSError as failed:
            opened.close()
            raise type(failed)(f"{failed!r} on a {'new' if fresh else 'kept'} connection") from failed
        if self._keeps and fields.get("connection") != "close":
            self._open[at] = opened, since
        else:
            opened.close()
        if status == 200 and "x-from" in fields:
            return _answerer(fields["x-from"].encode()), ""
        return DENIED, f"{status} {body.decode('latin-1')[:100]}".strip()


def _answerer(said):
    name, port = said.split()
    return name.decode(), int(port)


def _was_closed(opened):
    poller = select.poll()
    poller.register(opened, select.POLLIN)
    return bool(poller.poll(0))  # nothing was asked, so that only the end can come


def _asked(opened, call):
    """(status, header fields, body) of one request. Failure: OSError."""
    lines = [f"{call.method} {call.path} HTTP/1.1", f"host: {call.host}"]
    lines += [f"{name}: {value}" for name, value in call.headers.items()]
    if call.method == "POST":
        lines.append("content-length: 0")
    opened.sendall("\r\n".join((*lines, "", "")).encode("latin-1"))
    data = b""
    while b"\r\n\r\n" not in data:
        if not (came := opened.recv(65536)):
            raise ConnectionError(f"closed with {data[:80]!r} in place of an answer")
        data += came
    head, _, body = data.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
    left = int(fields.get("content-length", 0)) - len(body)
    while left > 0 and (came := opened.recv(65536)):
        body += came
        left -= len(came)
    return int(first.split(" ")[1]), fields, body
