#!/usr/bin/python3
"""The controller serves valid proxy certificates of known workloads only, and Envoy reports the refusals."""

import datetime
import os
import time

from lib.mesh import meshcase, objects
from lib.mesh.authority import Authority
from lib.mesh.rig import PROXY_UID

UUID = "11111111-2222-4333-8444-555555555555"
STRANGER = "99999999-2222-4333-8444-555555555555"
PROXY = "spiffe://cluster.local/osm/proxy"


class Identity(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.machine = self.add_machine("client", "10.200.0.11")
        self.rig.mesh.write(
            "machine-client.yaml",
            objects.namespace("client"),
            objects.account("client", "client"),
            objects.machine("client", "client", "10.200.0.11", "client", uuid=UUID),
        )
        self.rig.start_controller()
        self.machine.bootstrap()
        self.mesh = Authority(self.rig.directory / "mesh-ca", self.rig.state / "ca" / "ca.pem")
        self.now = datetime.datetime.now(datetime.timezone.utc)

    def present(self, uri, authority=None, since=-1, until=1, name=f"{UUID}.client.client"):
        """Starts the proxy with a certificate for `uri`, valid from and to so many hours from now."""
        hours = datetime.timedelta(hours=1)
        certificate, key = (authority or self.mesh).issue(name, uri, self.now + since * hours, self.now + until * hours)
        for file, content in (("sds_cert.pem", certificate), ("sds_key.pem", key)):
            path = self.machine.directory / file
            path.write_text(content)
            os.chown(path, PROXY_UID, PROXY_UID)
        self.machine.start_proxy(wait=False)

    def refused(self, log, timeout=10):
        """Envoy's log up to `log`."""
        try:
            self.machine.proxy.wait_for_log(log, timeout)
            proxies = self.rig.admin("GET", "/v1/proxies")["proxies"]
            self.assertNotIn(UUID, {p["uuid"] for p in proxies})
            return self.machine.proxy.text()
        finally:
            self.machine.stop_proxy()
            self.machine.proxy.log.unlink()

    def turned_away(self):
        """Refused in the handshake. gRPC 1.51 closes the connection without sending OpenSSL's alert,
        so that Envoy can only tell that it ended; the controller's log has the reason."""
        verified = self.rig.controller.text().count("certificate verify failed")
        text = self.refused("gRPC config stream to osm-controller closed")
        self.assertRegex(
            text,
            r"closed[^\n]*: 14, [^\n]*reset reason: "
            r"(connection termination|remote connection failure)",
        )
        self.assertGreater(self.rig.controller.text().count("certificate verify failed"), verified)

    def test_only_a_valid_proxy_certificate_of_a_known_workload_is_served(self):
        own = f"{PROXY}/{UUID}/client/client"
        with self.subTest("another CA: no handshake"):
            self.present(own, Authority(self.rig.directory / "other-ca"))
            self.turned_away()
        with self.subTest("an expired certificate: no handshake"):
            self.present(own, since=-3, until=-2)
            self.turned_away()
        with self.subTest("a workload that nobody knows: UNAVAILABLE, after five seconds"):
            began = time.monotonic()
            self.present(f"{PROXY}/{STRANGER}/client/client")
            text = self.refused("unknown-proxy", 15)
            self.assertGreaterEqual(time.monotonic() - began, 5)
            self.assertRegex(text, r"closed[^\n]*: 14, [^\n]*unknown-proxy")
        with self.subTest("the account of another: PERMISSION_DENIED"):
            self.present(f"{PROXY}/{UUID}/client/other")
            self.assertRegex(self.refused("identity-mismatch"), r"closed[^\n]*: 7, [^\n]*identity-mismatch")
        for kind, uri in (
            ("a workload's", "spiffe://cluster.local/ns/client/sa/client"),
            ("an administrator's", "spiffe://cluster.local/osm/admin"),
            ("the controller's own", "spiffe://cluster.local/osm/controller"),
            ("a proxy's of another trust domain", f"spiffe://example.org/osm/proxy/{UUID}/client/client"),
        ):
            with self.subTest(f"{kind} certificate: PERMISSION_DENIED"):
                self.present(uri)
                self.assertRegex(
                    self.refused("wrong-certificate-kind"), r"closed[^\n]*: 7, [^\n]*wrong-certificate-kind"
                )
        with self.subTest("the right one, made in the same way, is served"):
            self.present(own)
            self.machine.wait_until_live()
            self.wait_until_synced(1)

    def test_a_controller_with_another_identity_is_not_believed(self):
        for name in ("bootstrap.yaml", "validation_context_sds_secret.yaml"):
            file = self.machine.directory / name
            text = file.read_text()
            pinned = 'exact: "spiffe://cluster.local/osm/controller"'
            self.assertEqual(text.count(pinned), 1)
            file.write_text(text.replace(pinned, 'exact: "spiffe://cluster.local/osm/other"'))
        self.machine.start_proxy(wait=False, extra=["--component-log-level", "connection:debug"])
        self.machine.proxy.wait_for_log("CERTIFICATE_VERIFY_FAILED")
        self.assertEqual(self.rig.admin("GET", "/v1/proxies")["proxies"], [])


if __name__ == "__main__":
    meshcase.main()
