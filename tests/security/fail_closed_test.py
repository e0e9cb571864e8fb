#!/usr/bin/python3
"""What cannot be fetched gives nobody anything (docs/security.md, threat 14).

usage: fail_closed_test.py --bin DIRECTORY
"""
import contextlib
import os
import shutil
import ssl

from lib.mesh import attacked as mesh
from lib.net import http2


class FailClosed(mesh.MeshTest):
    def restart(self):
        self.controller = self.start()
        self.ads = self.controller.addresses["ads_address"]

    def allowed(self):
        return self.osm("policy", "check", "shop/web", "shop/api")[0] == 0

    def test_a_mesh_that_becomes_unreadable_keeps_its_policy_and_grants_nothing_new(self):
        self.assertTrue(self.allowed())
        self.write_text("shop.yaml", "kind: [unclosed\n")
        mesh.wait_for("the problem", lambda: self.controller.log("shop.yaml:"))
        self.assertTrue(self.allowed())
        self.assertNotEqual(self.osm("policy", "check", "shop/api", "shop/web")[0], 0)
        self.assert_served()
        # Restarted, it knows no policy at all: not ready, and no proxy is configured.
        self.assertEqual(self.controller.stop(), 0)
        self.restart()
        self.assertEqual(self.controller.http("/health/ready")[0], 503)
        with self.connect(self.web) as connection:
            self.assertEqual(connection.status(connection.open(body=http2.CLUSTERS)), 14)

    def test_a_mesh_directory_that_vanishes_is_no_empty_mesh(self):
        shutil.move(self.mesh, self.folder / "elsewhere")
        mesh.wait_for("the problem", lambda: self.controller.log("unreadable") or
                      "unreadable-source" in self.osm("problems")[1], 30)
        self.assertTrue(self.allowed())
        self.assertNotEqual(self.osm("policy", "check", "shop/api", "shop/web")[0], 0)

    def test_a_broken_mesh_config_at_the_start_is_not_permissive_mode(self):
        self.assertEqual(self.controller.stop(), 0)
        self.write_text("config.yaml", "apiVersion: config.openservicemesh.io/v1alpha2\n"
                        "kind: MeshConfig\nmetadata: {name: osm-mesh-config, namespace: osm-system}\n"
                        "spec: {traffic: {enablePermissiveTrafficPolicyMode: 'true'}}\n")
        self.restart()
        self.assertEqual(self.controller.http("/health/ready")[0], 503)
        with self.connect(self.web) as connection:
            self.assertEqual(connection.status(connection.open(body=http2.CLUSTERS)), 14)

    def test_a_ca_that_cannot_be_read_is_not_replaced(self):
        self.assertEqual(self.controller.stop(), 0)
        ca = self.state / "ca" / "ca.pem"
        before = ca.read_text()
        for content, mode in ((before[:200], 0o600), ("", 0o600), (before, 0o644)):
            ca.write_text(content)
            ca.chmod(mode)
            line = self.refused()
            self.assertIn("ca", line)
            self.assertEqual(ca.read_text(), content)
        ca.write_text(before)
        ca.chmod(0o600)
        self.restart()
        self.controller.wait_until_ready()

    def test_proxies_of_another_ca_stay_strangers_after_the_state_is_lost(self):
        self.assertEqual(self.controller.stop(), 0)
        shutil.rmtree(self.state)
        self.restart()
        self.controller.wait_until_ready()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.folder / "roots.pem")
        self.roots = self.folder / "roots.pem"
        pem = (self.state / "ca" / "ca.pem").read_text()
        start = pem.index("-----BEGIN CERTIFICATE")
        self.roots.write_text(pem[start:pem.index("-----END CERTIFICATE", start)] +
                              "-----END CERTIFICATE-----\n")
        with self.assertRaises((OSError, ssl.SSLError)):
            with self.connect(self.web) as connection:
                connection.status(connection.open(body=http2.CLUSTERS))


if __name__ == "__main__":
    mesh.run()
