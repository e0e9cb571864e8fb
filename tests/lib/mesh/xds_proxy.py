"""A proxy without an Envoy: it asks for what an Envoy asks for, over delta xDS, and acknowledges,
refuses or keeps silent as a test tells it. A thread of its own speaks on the stream."""

import collections
import enum
import select
import socket
import threading

from google.protobuf import descriptor, descriptor_pool, symbol_database

from lib.mesh.xds_client import CLUSTER, DELTA, ENDPOINTS, LISTENER, ROUTES, SECRET, discovery, request
from lib.net import messages
from lib.net.processes import NotYet, wait_for

Cluster = messages.load("envoy/config/cluster/v3/cluster.proto").Cluster
Listener = messages.load("envoy/config/listener/v3/listener.proto").Listener
RouteConfiguration = messages.load("envoy/config/route/v3/route.proto").RouteConfiguration
# Types of the messages inside listeners and clusters that name other resources.
messages.load("envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.proto")
messages.load("envoy/extensions/transport_sockets/tls/v3/tls.proto")

_HCM = "envoy.extensions.filters.network.http_connection_manager.v3"
_SECRETS = "envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig"
_MESSAGES = {CLUSTER: Cluster, LISTENER: Listener, ROUTES: RouteConfiguration}
_NAMED = (ENDPOINTS, ROUTES, SECRET)  # asked for by name


class Mode(enum.Enum):
    ACKNOWLEDGE = "acknowledge"
    REFUSE = "refuse"
    SILENT = "silent"


def named_in(message, found):
    """Adds to `found` ({type: names}) the resources that a message names, also inside of Anys."""
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Any":
        inner = _unpacked(message)
        if inner is not None:
            named_in(inner, found)
        return
    if name == Cluster.DESCRIPTOR.full_name and message.type == Cluster.EDS:
        found[ENDPOINTS].add(message.eds_cluster_config.service_name or message.name)
    elif name == f"{_HCM}.Rds":
        found[ROUTES].add(message.route_config_name)
    elif name == _SECRETS:
        found[SECRET].add(message.name)
    for field, value in message.ListFields():
        if field.type != descriptor.FieldDescriptor.TYPE_MESSAGE:
            continue
        if field.label != descriptor.FieldDescriptor.LABEL_REPEATED:
            named_in(value, found)
        elif field.message_type.GetOptions().map_entry:
            for each in value.values():
                if hasattr(each, "DESCRIPTOR"):
                    named_in(each, found)
        else:
            for each in value:
                named_in(each, found)


def _unpacked(packed):
    """The message in an Any, or None if it is of a type that names no resources."""
    try:
        kind = descriptor_pool.Default().FindMessageTypeByName(packed.type_url.rpartition("/")[2])
    except KeyError:
        return None
    return symbol_database.Default().GetPrototype(kind).FromString(packed.value)


class XdsProxy:
    """`connection`: an http2.Connection with the proxy's certificate, which this closes. `mode`: until the
    first order."""

    def __init__(self, connection, mode=Mode.ACKNOWLEDGE):
        self.resources = {kind: {} for kind in (CLUSTER, LISTENER, *_NAMED)}  # {type: {name: message's bytes}}
        self.ended = None  # the exception that ended the stream
        self._connection, self._stream = connection, connection.open(DELTA)
        connection.socket.settimeout(None)
        self._mode, self._reason, self._left, self._objects_to = mode, "", None, None
        self._owed = collections.deque()  # responses without an answer
        self._asked = {kind: set() for kind in _NAMED}
        self._heard = set()  # types that a response was taken of
        self._changed = threading.Condition()
        self._waker, self._wakened = socket.socketpair()
        self._closed = False
        for kind in (CLUSTER, LISTENER):
            self._send(kind)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    # -- orders ---------------------------------------------------------------------------------
    def acknowledge(self):
        """Takes each response from now on, and those that have no answer yet."""
        self._order(Mode.ACKNOWLEDGE)

    def refuse(self, reason, responses=None, containing=None):
        """Refuses each of them, or so many; after these it acknowledges. `containing`: only those with a
        resource for which containing(type, bytes) is true."""
        self._order(Mode.REFUSE, reason, responses, containing)

    def fall_silent(self):
        """Answers nothing, as an Envoy that hangs."""
        self._order(Mode.SILENT)

    def close(self):
        if self._closed:
            return
        self._closed = True
        self._order(None)
        self._thread.join()
        self._connection.close()
        for end in (self._waker, self._wakened):
            end.close()

    # -- questions ------------------------------------------------------------------------------
    def names(self, kind):
        with self._changed:
            return sorted(self.resources[kind])

    def owes(self):
        """Number of responses without an answer."""
        with self._changed:
            self._check_stream()
            return len(self._owed)

    def wait_until_configured(self, timeout=20):
        """Until it has clusters and listeners, be they none, and all that these name."""

        def configured():
            with self._changed:
                self._check_stream()
                missing = {kind: self._asked[kind] - self.resources[kind].keys() for kind in _NAMED}
                if any(missing.values()) or not {CLUSTER, LISTENER} <= self._heard or self._owed:
                    raise NotYet((missing, self._heard, len(self._owed)))
                return True

        wait_for("the proxy is configured", configured, timeout)

    def wait_until_ended(self, timeout=20):
        wait_for("the proxy's stream ends", lambda: self.ended, timeout)

    def _check_stream(self):
        if self.ended:
            raise AssertionError(f"the stream ended: {self.ended!r}")

    # -- the thread -----------------------------------------------------------------------------
    def _order(self, mode, reason="", responses=None, containing=None):
        with self._changed:
            self._mode, self._reason, self._left, self._objects_to = mode, reason, responses, containing
        self._waker.send(b"\0")

    def _run(self):
        try:
            while True:
                self._take()
                with self._changed:
                    if self._mode is None:
                        return
                    self._answer()
                if not self._connection.socket.pending():
                    readable, _, _ = select.select([self._connection.socket, self._wakened], [], [])
                    if self._wakened in readable:
                        self._wakened.recv(64)
                        continue
                self._connection.advance()
        except OSError as ended:  # also http2.Ended and ssl.SSLError
            with self._changed:
                self.ended = ended

    def _take(self):
        while (came := self._connection.received(self._stream)) is not None:
            with self._changed:
                self._owed.append(discovery.DeltaDiscoveryResponse.FromString(came))

    def _answer(self):
        while self._owed and self._mode is not Mode.SILENT:
            response = self._owed.popleft()
            if self._mode is Mode.REFUSE and self._refuses(response):
                self._send(response.type_url, nonce=response.nonce, refusal=self._reason)
                self._left = None if self._left is None else self._left - 1
                if self._left == 0:
                    self._mode = Mode.ACKNOWLEDGE
                continue
            self._heard.add(response.type_url)
            held = self.resources.setdefault(response.type_url, {})
            held.update((r.name, r.resource.value) for r in response.resources)
            for name in response.removed_resources:
                held.pop(name, None)
            self._send(response.type_url, nonce=response.nonce)
            if response.type_url in _MESSAGES:
                self._follow_names()

    def _refuses(self, response):
        objects_to, kind = self._objects_to, response.type_url
        return not objects_to or any(objects_to(kind, r.resource.value) for r in response.resources)

    def _follow_names(self):
        """Subscribes to what the clusters, listeners and routes name now."""
        found = {kind: set() for kind in _NAMED}
        for kind, message in _MESSAGES.items():
            for content in self.resources[kind].values():
                named_in(message.FromString(content), found)
        for kind, names in found.items():
            new, gone = names - self._asked[kind], self._asked[kind] - names
            self._asked[kind] = names
            for name in gone:
                self.resources[kind].pop(name, None)
            if new or gone:
                self._send(kind, sorted(new), unsubscribed=sorted(gone))

    def _send(self, kind, names=(), **more):
        self._connection.write(self._stream, request(kind, names, delta=True, **more))
