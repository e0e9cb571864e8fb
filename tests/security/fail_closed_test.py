#!/usr/bin/python3
"""A lost source allows nothing new (docs/security.md, threat 14).

usage: fail_closed_test.py --bin DIRECTORY
"""

import shutil

from lib.mesh import attacked
from lib.mesh.daemon import run
from lib.net.http2 import CLOSED
from lib.net.processes import wait_for

UNAVAILABLE = 14  # gRPC's


class FailClosed(attacked.MeshTest):
    def restart(self):
        self.controller = self.start()
        self.ads = self.controller.addresses["ads_address"]

    def allowed(self):
        return self.osm("policy", "check", "shop/web", "shop/api")[0] == 0

    def assert_denied(self, source, destination):
        code, out, err = self.osm("policy", "check", source, destination)
        self.assertEqual((code, err), (3, ""))
        self.assertTrue(out.startswith("DENIED"), out)

    def assert_never_ready(self, problem):
        """Once it has seen the problem, a controller without a mesh configures nobody."""
        wait_for("the problem", lambda: self.controller.log(problem))
        status, body = self.controller.http("/health/ready")
        self.assertEqual(status, 503)
        self.assertIn("mesh specification", body)
        self.assertEqual(self.status_of(self.web), UNAVAILABLE)

    def test_a_mesh_that_becomes_unreadable_keeps_its_policy_and_grants_nothing_new(self):
        self.assertTrue(self.allowed())
        self.write_text("shop.yaml", "kind: [unclosed\n")
        wait_for("the problem", lambda: self.controller.log("shop.yaml:"))
        self.assertTrue(self.allowed())
        self.assert_denied("shop/api", "shop/web")
        self.assert_served()
        # Restarted, it knows no policy at all: not ready, and no proxy is configured.
        self.assertEqual(self.controller.stop(), 0)
        self.restart()
        self.assert_never_ready("shop.yaml:")

    def test_a_mesh_directory_that_vanishes_is_no_empty_mesh(self):
        shutil.move(self.mesh, self.folder / "elsewhere")
        wait_for("the problem", lambda: "unreadable-source" in self.osm("problems")[1], 30)
        self.assertTrue(self.allowed())
        self.assert_denied("shop/api", "shop/web")

    def test_a_broken_mesh_config_at_the_start_is_not_permissive_mode(self):
        self.assertEqual(self.controller.stop(), 0)
        self.write_text(
            "config.yaml",
            "apiVersion: config.openservicemesh.io/v1alpha2\n"
            "kind: MeshConfig\nmetadata: {name: osm-mesh-config, namespace: osm-system}\n"
            "spec: {traffic: {enablePermissiveTrafficPolicyMode: 'true'}}\n",
        )
        self.restart()
        self.assert_never_ready("osm-mesh-config")

    def test_a_ca_that_cannot_be_read_is_not_replaced(self):
        self.assertEqual(self.controller.stop(), 0)
        ca = self.state / "ca" / "ca.pem"
        before = ca.read_text()
        for what, content, mode, why in (
            ("half of it", before[:200], 0o600, "no unencrypted PEM private key"),
            ("nothing", "", 0o600, "no unencrypted PEM private key"),
            ("readable for others", before, 0o644, "mode 0644 lets its group or others use it"),
        ):
            with self.subTest(what):
                ca.write_text(content)
                ca.chmod(mode)
                line = self.refused()
                self.assertIn(f"certificate authority {ca}", line)
                self.assertIn(why, line)
                self.assertEqual(ca.read_text(), content)
        ca.write_text(before)
        ca.chmod(0o600)
        self.restart()
        self.controller.wait_until_ready()

    def test_proxies_of_another_ca_stay_refused_after_the_state_is_lost(self):
        self.assertEqual(self.controller.stop(), 0)
        shutil.rmtree(self.state)
        self.restart()
        self.controller.wait_until_ready()
        renewed = self.proxy("api-1")
        self.roots = self.folder / "api-1" / "cacert.pem"  # the stranger is not who gives up
        with self.assertRaises(CLOSED):
            self.status_of(self.web)
        wait_for(
            "the refusal",
            lambda: [line for line in self.controller.log("gRPC") if "certificate verify failed" in line["detail"]],
        )
        self.assert_served(renewed)


if __name__ == "__main__":
    run()
