#!/usr/bin/python3
"""What a proxy with a genuine certificate gets when it asks for the secrets of others, on both
variants of a real stream: nothing (docs/security.md, threat 5).

usage: sds_test.py --bin DIRECTORY
"""
import re
import struct
import subprocess

from lib.mesh import attacked as mesh
from lib.mesh.xds_client import field, fields
from lib.net import http2

SECRET = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
OWN = ["root-cert", "service-cert"]
API = f"{mesh.DOMAIN}/ns/shop/sa/api"
# What Envoy and the original call secrets, and what somebody would try who knows neither.
GUESSES = ["*", "tls_sds", "validation_context_sds", "ca", "ca.pem", "osm-ca-bundle",
           "proxy-cert", "controller", "osm-controller", "osm-controller.osm-system",
           "service-cert ", "SERVICE-CERT", "service-cert/", "service-cert/../service-cert",
           "service-cert\0shop/api", "root-cert:shop/api", "root-cert-for-mtls-inbound:shop/api",
           "root-cert-for-mtls-outbound:shop/api", "root-cert-https:shop/api"]
GUESSES += [prefix + name for prefix in ("", "service-cert:", "service-cert/", "service-cert|")
            for name in ("api", "shop/api", "api.shop", "api.shop.cluster.local", "shop/api|8080",
                         API)]
PRIVATE = re.compile(rb"-----BEGIN PRIVATE KEY-----.*?-----END PRIVATE KEY-----", re.S)


class Stream:
    """One ADS stream of secrets. `seen`: every byte that came."""

    def __init__(self, connection, delta):
        self.connection, self.delta, self.seen, self.waiting = connection, delta, b"", b""
        self.stream = connection.open(
            http2.ADS.replace("StreamAggregated", "DeltaAggregated") if delta else http2.ADS)

    def send(self, body):
        self.connection.send(http2.frame(http2.DATA, 0, self.stream, http2.message(body)))

    def ask(self, names, nonce=b""):
        """For these: beside those asked for before with delta, in their place without."""
        numbers = (3, 2, 6) if self.delta else (3, 4, 5)  # names, type URL, nonce
        body = b"".join(field(numbers[0], name) for name in names) + field(numbers[1], SECRET)
        self.send(body + (field(numbers[2], nonce) if nonce else b""))

    def response(self):
        """({name: Secret's fields}, nonce) of the next response."""
        message = fields(self._message())
        resources = message.get(2, [])
        if self.delta:
            resources = [fields(r)[2][0] for r in resources]
        secrets = [fields(fields(any_)[2][0]) for any_ in resources]
        return {s[1][0].decode(): s for s in secrets}, message[5][0]

    def _message(self):
        while len(self.waiting) < 5 or len(self.waiting) < 5 + self._length():
            kind, flags, of, payload = self.connection.frame()
            headers = self.connection.table.read(payload) if kind == http2.HEADERS else {}
            if of == self.stream and "grpc-status" in headers:
                raise ConnectionError(f"the stream ended: {headers}")
            if of == self.stream and kind == http2.DATA:
                self.waiting += payload
        end = 5 + self._length()
        message, self.waiting = self.waiting[5:end], self.waiting[end:]
        self.seen += message
        return message

    def _length(self):
        return struct.unpack("!I", self.waiting[1:5])[0]


def inline(source):
    """The text of a DataSource."""
    parts = fields(source)
    return (parts.get(2) or parts.get(3))[0]


def names_of(chain):
    return subprocess.run(["openssl", "x509", "-noout", "-ext", "subjectAltName"], input=chain,
                          capture_output=True, check=True).stdout.decode()


class Sds(mesh.MeshTest):
    def serial(self, name):
        listed = self.controller.admin("/v1/certificates")[1]["certificates"]
        return next((c["serial_number"] for c in listed if c["common_name"] == name), None)

    def rotate(self, name):
        code, _, err = self.osm("certificate", "rotate", name)
        self.assertEqual(code, 0, err)

    def check_delta_or_not(self, delta):
        api = Stream(self.connect(self.proxy("api-1")), delta)
        self.addCleanup(api.connection.close)
        api.ask(OWN)
        while b"PRIVATE KEY" not in api.seen:  # so there is something to steal
            api.response()
        stolen = PRIVATE.search(api.seen).group()
        name = {side: f"{side}.shop.cluster.local" for side in ("api", "web")}
        self.assertTrue(self.serial(name["api"]), name)

        thief = Stream(self.connect(self.web), delta)
        self.addCleanup(thief.connection.close)
        thief.ask(GUESSES)
        thief.ask(GUESSES + OWN)
        held, nonce = {}, b""
        while set(OWN) - set(held):
            secrets, nonce = thief.response()
            held |= secrets
        self.assertEqual(set(held), set(OWN))
        own_certificate = fields(held["service-cert"][2][0])
        self.assertIn("URI:" + f"{mesh.DOMAIN}/ns/shop/sa/web", names_of(inline(own_certificate[1][0])))

        # A renewal of the other's reaches the other; ours, made after it, comes first here.
        thief.ask([] if delta else GUESSES + OWN, nonce)
        before = thief.seen
        self.rotate(name["api"])
        self.rotate(name["web"])
        secrets, _ = thief.response()
        self.assertEqual(set(secrets), {"service-cert"})
        self.assertNotEqual(PRIVATE.findall(thief.seen[len(before):]), [])

        keys = set(PRIVATE.findall(thief.seen))
        self.assertEqual(len(keys), 2)  # ours, before and after
        self.assertNotIn(stolen, keys)
        for chain in re.findall(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----",
                                thief.seen, re.S):
            self.assertNotIn(API, names_of(chain))

    def test_state_of_the_world_gives_a_proxy_its_own_secrets_whatever_it_asks_for(self):
        self.check_delta_or_not(delta=False)

    def test_delta_gives_a_proxy_its_own_secrets_whatever_it_asks_for(self):
        self.check_delta_or_not(delta=True)


if __name__ == "__main__":
    mesh.run()
