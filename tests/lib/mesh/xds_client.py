"""An ADS client with a proxy's certificate, for requests that Envoy would not send."""

import contextlib
import socket
import threading
import types

from lib.net import http2, messages
from lib.net.processes import wait_for

discovery = messages.load("envoy/service/discovery/v3/discovery.proto")
Secret = messages.load("envoy/extensions/transport_sockets/tls/v3/secret.proto").Secret

CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
ENDPOINTS = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
ROUTES = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
SECRET = "type.googleapis.com/" + Secret.DESCRIPTOR.full_name
_SERVICE = "/envoy.service.discovery.v3.AggregatedDiscoveryService/"
_INVALID_ARGUMENT = 3  # gRPC's status, as Envoy has it in a refusal
STATE_OF_THE_WORLD, DELTA = _SERVICE + "StreamAggregatedResources", _SERVICE + "DeltaAggregatedResources"


def request(type_url, names=(), nonce="", delta=False, held=None, unsubscribed=(), refusal=None):
    """A request's bytes. With delta the names are subscribed to, beside those of before and without
    `unsubscribed`, and `held` are the versions of resources that an earlier stream brought, by name.
    `refusal`: the reason for which the response with `nonce` is refused."""
    if delta:
        made = discovery.DeltaDiscoveryRequest(
            resource_names_subscribe=names, resource_names_unsubscribe=unsubscribed, initial_resource_versions=held
        )
    else:
        made = discovery.DiscoveryRequest(resource_names=names)
    made.type_url, made.response_nonce = type_url, nonce
    if refusal is not None:
        made.error_detail.code, made.error_detail.message = _INVALID_ARGUMENT, refusal
    return made.SerializeToString()


CLUSTERS, DELTA_CLUSTERS = request(CLUSTER), request(CLUSTER, delta=True)


class AdsStream:
    """One ADS stream on a connection of its own. `seen`: every message that came, as bytes."""

    def __init__(self, connection, delta=False):
        self.connection, self.delta, self.seen = connection, delta, b""
        self.stream = connection.open(DELTA if delta else STATE_OF_THE_WORLD)

    def ask(self, type_url, names=(), nonce="", held=None):
        """For these: beside those asked for before with delta, in their place without."""
        self.connection.write(self.stream, request(type_url, names, nonce, self.delta, held))

    def response(self):
        """The next response's `type_url`, `nonce`, `versions` (with delta by name, else one), and
        `resources` as the bytes of each."""
        data = self.connection.message(self.stream)
        self.seen += data
        if self.delta:
            came = discovery.DeltaDiscoveryResponse.FromString(data)
            resources = [r.resource.value for r in came.resources]
            versions = {r.name: r.version for r in came.resources}
        else:
            came = discovery.DiscoveryResponse.FromString(data)
            resources, versions = [r.value for r in came.resources], came.version_info
        return types.SimpleNamespace(type_url=came.type_url, nonce=came.nonce, versions=versions, resources=resources)

    def secrets(self):
        """({name: Secret}, nonce) of the next response."""
        came = self.response()
        return {s.name: s for s in map(Secret.FromString, came.resources)}, came.nonce

    def hold(self):
        """Leaves the stream open, whatever comes, until close(): pings are answered, and the GOAWAY
        that sends later streams elsewhere is ignored."""
        self.connection.socket.settimeout(None)
        threading.Thread(target=_answer_pings, args=(self.connection.socket,), daemon=True).start()

    def close(self):
        with contextlib.suppress(OSError):
            self.connection.socket.shutdown(socket.SHUT_RDWR)  # also for the thread of hold()
        self.connection.close()


def _answer_pings(opened):
    data = b""
    try:
        while came := opened.recv(65536):
            data += came
            while len(data) >= 9 + (size := int.from_bytes(data[:3], "big")):
                kind, flags, payload = data[3], data[4], data[9 : 9 + size]
                if kind == 6 and not flags & 1:
                    opened.sendall(data[:4] + b"\1\0\0\0\0" + payload)
                data = data[9 + size :]
    except (OSError, ValueError):
        return  # close() was called, or the controller ended it


def inline(source):
    """The content of a DataSource."""
    return source.inline_bytes or source.inline_string.encode()


class WorkloadCertificate:
    """A workload's own, valid certificate and key, as its proxy gets them."""

    def __init__(self, machine, address, port, directory):
        # The proxy's own stream comes back at any time, and ends this one.
        secrets = wait_for(
            "the controller sends the secrets",
            lambda: self._ask(AdsStream(as_proxy(machine, address, port))),
            retry=(http2.Ended,),
        )
        pair = secrets["service-cert"].tls_certificate
        trusted = secrets["root-cert"].validation_context.trusted_ca
        self.chain, self.key = (directory / f"{machine.name}.{p}.pem" for p in ("chain", "key"))
        self.roots = directory / f"{machine.name}.roots.pem"
        for path, source in ((self.chain, pair.certificate_chain), (self.key, pair.private_key), (self.roots, trusted)):
            path.touch(mode=0o600)
            path.write_bytes(inline(source))

    @staticmethod
    def _ask(stream):
        secrets = {}
        try:
            stream.ask(SECRET, ["service-cert", "root-cert"])
            while len(secrets) < 2:
                secrets |= stream.secrets()[0]
        finally:
            stream.close()
        return secrets

    def dial(self, machine, address, port, server_name):
        """A TLS connection straight to another machine's port, past the own proxy."""
        context = http2.client_context(self.roots, (self.chain, self.key), alpn="osm")
        return context.wrap_socket(machine.namespace.connect(address, port, uid=1500), server_hostname=server_name)


def as_proxy(machine, address, port):
    """A connection to the controller as the proxy of `machine`: its certificate, user and network."""
    d = machine.directory
    context = http2.client_context(d / "cacert.pem", (d / "sds_cert.pem", d / "sds_key.pem"))
    tls = context.wrap_socket(machine.namespace.connect(address, port, timeout=10, uid=1500))
    names = dict(tls.getpeercert()["subjectAltName"])
    assert names.get("URI", "").endswith("/osm/controller"), names
    return http2.Connection(tls)
