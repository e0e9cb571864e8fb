#!/usr/bin/python3
"""Answers to a proxy with a genuine certificate that asks for the secrets of others, on both
variants of a real stream: nothing (docs/security.md, threat 5).

usage: sds_test.py --bin DIRECTORY
"""

import re

from lib.mesh import attacked
from lib.mesh.authority import openssl
from lib.mesh.daemon import run
from lib.mesh.xds_client import SECRET, AdsStream, inline

OWN = ["root-cert", "service-cert"]
API = f"{attacked.DOMAIN}/ns/shop/sa/api"
# Names of secrets in Envoy and in the original, and guesses of an attacker.
GUESSES = [
    "*",
    "tls_sds",
    "validation_context_sds",
    "ca",
    "ca.pem",
    "osm-ca-bundle",
    "proxy-cert",
    "controller",
    "osm-controller",
    "osm-controller.osm-system",
    "service-cert ",
    "SERVICE-CERT",
    "service-cert/",
    "service-cert/../service-cert",
    "service-cert\0shop/api",
    "root-cert:shop/api",
    "root-cert-for-mtls-inbound:shop/api",
    "root-cert-for-mtls-outbound:shop/api",
    "root-cert-https:shop/api",
]
GUESSES += [
    prefix + name
    for prefix in ("", "service-cert:", "service-cert/", "service-cert|")
    for name in ("api", "shop/api", "api.shop", "api.shop.cluster.local", "shop/api|8080", API)
]
PRIVATE = re.compile(rb"-----BEGIN PRIVATE KEY-----.*?-----END PRIVATE KEY-----", re.S)


def names_of(chain):
    return openssl("x509", "-noout", "-ext", "subjectAltName", input=chain.decode())


class Sds(attacked.MeshTest):
    def serial(self, name):
        listed = self.controller.admin("/v1/certificates")[1]["certificates"]
        return next((c["serial_number"] for c in listed if c["common_name"] == name), None)

    def rotate(self, name):
        code, _, err = self.osm("certificate", "rotate", name)
        self.assertEqual(code, 0, err)

    def check_delta_or_not(self, delta):
        api = AdsStream(self.connect(self.proxy("api-1")), delta)
        self.addCleanup(api.close)
        api.ask(SECRET, OWN)
        while b"PRIVATE KEY" not in api.seen:  # so there is something to steal
            api.secrets()
        stolen = PRIVATE.search(api.seen).group()
        name = {side: f"{side}.shop.cluster.local" for side in ("api", "web")}
        self.assertTrue(self.serial(name["api"]), name)

        thief = AdsStream(self.connect(self.web), delta)
        self.addCleanup(thief.close)
        thief.ask(SECRET, GUESSES)
        thief.ask(SECRET, GUESSES + OWN)
        held, nonce = {}, ""
        while set(OWN) - set(held):
            secrets, nonce = thief.secrets()
            held |= secrets
        self.assertEqual(set(held), set(OWN))
        own_chain = inline(held["service-cert"].tls_certificate.certificate_chain)
        self.assertIn(f"URI:{attacked.DOMAIN}/ns/shop/sa/web", names_of(own_chain))

        # A renewal of the other's reaches the other; ours, made after it, comes first here.
        thief.ask(SECRET, [] if delta else GUESSES + OWN, nonce)
        before = thief.seen
        self.rotate(name["api"])
        self.rotate(name["web"])
        secrets, _ = thief.secrets()
        self.assertEqual(set(secrets), {"service-cert"})
        self.assertNotEqual(PRIVATE.findall(thief.seen[len(before) :]), [])

        keys = set(PRIVATE.findall(thief.seen))
        self.assertEqual(len(keys), 2)  # ours, before and after
        self.assertNotIn(stolen, keys)
        chains = re.findall(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", thief.seen, re.S)
        self.assertGreaterEqual(len(chains), 3)  # the root's, and ours before and after
        for chain in chains:
            self.assertNotIn(API, names_of(chain))

    def test_state_of_the_world_gives_a_proxy_its_own_secrets_whatever_it_asks_for(self):
        self.check_delta_or_not(delta=False)

    def test_delta_gives_a_proxy_its_own_secrets_whatever_it_asks_for(self):
        self.check_delta_or_not(delta=True)


if __name__ == "__main__":
    run()
