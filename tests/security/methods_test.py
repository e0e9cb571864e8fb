#!/usr/bin/python3
"""Every gRPC method there is, with every kind of credentials (docs/security.md, threats 8 and 11).

usage: methods_test.py --bin DIRECTORY
"""

import json
import re

from lib.mesh import attacked
from lib.mesh.daemon import run
from lib.mesh.xds_client import CLUSTERS, DELTA, DELTA_CLUSTERS, STATE_OF_THE_WORLD
from lib.net.http2 import CLOSED
from lib.net.messages import WHEEL
from lib.net.processes import wait_for

AGGREGATED = "/envoy.service.discovery.v3.AggregatedDiscoveryService/"
STREAMS = {STATE_OF_THE_WORLD, DELTA}
CERTIFICATES = "/openservicemesh.certificate.v1.ProxyCertificateService/"
RENEW = CERTIFICATES + "RenewCertificate"
DRAIN = CERTIFICATES + "DrainMachine"
SERVED = STREAMS | {RENEW, DRAIN}
# Services that servers offer by habit.
HABITS = {
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.channelz.v1.Channelz/GetTopChannels",
    "/grpc.channelz.v1.Channelz/GetServers",
}
ODDITIES = {
    "/",
    "//",
    "/a",
    "/a/b/c",
    AGGREGATED,
    AGGREGATED + "StreamAggregatedResources/",
    AGGREGATED.lower() + "StreamAggregatedResources",
    "/../" + AGGREGATED[1:] + "x",
    CERTIFICATES,
    RENEW + "/",
    RENEW.lower(),
    CERTIFICATES + "StreamAggregatedResources",
    AGGREGATED + "RenewCertificate",
}
INVALID_ARGUMENT, PERMISSION_DENIED, UNIMPLEMENTED = 3, 7, 12  # of gRPC; None: a reset stream


def methods_of_the_envoy_api():
    found = set()
    for path in WHEEL.rglob("*_pb2_grpc.py"):
        found.update(re.findall(r"'(/envoy[\w.]+/\w+)'", path.read_text()))
    return found


class Methods(attacked.MeshTest):
    def setUp(self):
        super().setUp()
        self.methods = methods_of_the_envoy_api()
        self.assertGreater(len(self.methods), 40)
        self.assertLess(STREAMS, self.methods)
        self.methods |= HABITS | ODDITIES | SERVED

    def statuses(self, identity):
        """{method: gRPC status} of a call with one empty message."""
        out = {}
        for method in sorted(self.methods):
            with self.connect(identity) as connection:
                try:
                    out[method] = connection.status(connection.open(method, b"", end=True))
                except CLOSED:
                    out[method] = "no connection"
        return out

    def test_without_a_certificate_of_the_meshs_ca_no_method_is_reached(self):
        uri = f"{attacked.DOMAIN}/osm/proxy/{self.uuid('web-1')}/shop/web"
        strangers = {
            "none": None,
            "foreign": self.issued("foreign", uri),
            "expired": self.issued("expired", uri, 3, -1, self.state / "ca" / "ca.pem"),
            "not yet": self.issued("future", uri, -1, 2, self.state / "ca" / "ca.pem"),
        }
        for kind, identity in strangers.items():
            with self.subTest(kind):
                self.assertEqual(set(self.statuses(identity).values()), {"no connection"})
        self.assertFalse(self.controller.log("proxy connected"))
        self.assert_served()  # it was the certificates that were refused
        wait_for("the line that was looked for", lambda: self.controller.log("proxy connected"))

    def test_a_proxy_is_served_the_aggregated_methods_and_its_own_certificate_only(self):
        for method, status in self.statuses(self.web).items():
            with self.subTest(method):
                if method not in SERVED:
                    # A path that is no method's may cost the stream instead.
                    self.assertIn(status, (UNIMPLEMENTED, None) if method in ODDITIES else (UNIMPLEMENTED,))
        for method, request in ((STATE_OF_THE_WORLD, CLUSTERS), (DELTA, DELTA_CLUSTERS)):
            with self.connect(self.web) as connection:
                self.assertTrue(connection.message(connection.open(method, request)), method)

    def test_a_proxy_learns_of_itself_alone_whatever_it_asks(self):
        self.proxy("api-1")
        with self.connect(self.web) as connection:
            body = connection.message(connection.open(RENEW, b"", end=True))
        self.assertIn(f"/osm/proxy/{self.uuid('web-1')}/shop/web".encode(), body)
        for other in ("shop/api", "api-1", self.uuid("api-1")):
            self.assertNotIn(other.encode(), body)
        for nonsense in (b"\xff\xff\xff", b"\x12\x03abc", b"\x12\xff\xff\x7f"):
            with self.connect(self.web) as connection:
                self.assertEqual(connection.status(connection.open(RENEW, nonsense, end=True)), INVALID_ARGUMENT)
        self.assertFalse(self.controller.log("proxy certificate renewed"))

    def test_a_proxy_drains_its_own_machine_whatever_it_asks(self):
        self.proxy("api-1")
        for nonsense in (b"\xff\xff\xff", b"\x12\xff\xff\x7f"):
            with self.connect(self.web) as connection:
                self.assertEqual(connection.status(connection.open(DRAIN, nonsense, end=True)), INVALID_ARGUMENT)
        # Fields that no such message has, with another machine's name, are no request about it.
        named = b"".join(
            bytes([10 + 8 * n, len(value)]) + value
            for n, value in enumerate((b"shop", b"api-1", self.uuid("api-1").encode()))
        )
        with self.connect(self.web) as connection:
            body = connection.message(connection.open(DRAIN, named, end=True))
        self.assertNotIn(b"api-1", body)
        drained = json.loads((self.state / "drained-machines.json").read_text())["machines"]
        self.assertEqual(
            [("shop", "web-1", self.uuid("web-1"))], [(m["namespace"], m["name"], m["uuid"]) for m in drained]
        )

    def test_a_certificate_of_the_mesh_that_is_no_proxys_is_refused(self):
        ca = self.state / "ca" / "ca.pem"
        others = {
            "workload": f"{attacked.DOMAIN}/ns/shop/sa/web",
            "controller": f"{attacked.DOMAIN}/osm/controller",
            "foreign domain": f"spiffe://evil.local/osm/proxy/{self.uuid('web-1')}/shop/web",
            "suffix": f"{attacked.DOMAIN}/osm/proxy/{self.uuid('web-1')}/shop/web/x",
        }
        for kind, uri in others.items():
            with self.subTest(kind):
                found = self.statuses(self.issued(kind.replace(" ", "-"), uri, pem=ca))
                for method, status in found.items():
                    if method in SERVED:
                        self.assertEqual(status, PERMISSION_DENIED, method)
                    else:
                        self.assertIn(status, (UNIMPLEMENTED, None), method)
        self.assertFalse(self.controller.log("proxy connected"))

    def test_a_certificate_of_the_mesh_with_two_uris_is_refused(self):
        ca = self.state / "ca" / "ca.pem"
        web = f"{attacked.DOMAIN}/osm/proxy/{self.uuid('web-1')}/shop/web"
        api = f"{attacked.DOMAIN}/osm/proxy/{self.uuid('api-1')}/shop/api"
        workload = f"{attacked.DOMAIN}/ns/shop/sa/web"
        pairs = {
            "same": [web, web],
            "proxies": [web, api],
            "proxy-and-workload": [web, workload],
            "workload-and-proxy": [workload, web],
        }
        for label, uris in pairs.items():
            identity = self.issued(label, uris, pem=ca)
            for method in sorted(SERVED):
                with self.subTest(label, method=method), self.connect(identity) as connection:
                    status = connection.status(connection.open(method, b"", end=True))
                    self.assertEqual(status, PERMISSION_DENIED)
        self.assertFalse(self.controller.log("proxy connected"))
        # The same CA and the same openssl: only the second URI was refused.
        self.assert_served(self.issued("one", [web], pem=ca))
        wait_for("the line that was looked for", lambda: self.controller.log("proxy connected"))


if __name__ == "__main__":
    run()
