#!/usr/bin/python3
"""A root is replaced under load, with a killed controller; the old root is refused afterwards; a silent
proxy is left behind.
"""

import json
import os
import re
import shutil
import signal

from lib.mesh import meshcase, objects
from lib.mesh.renewal import keep_renewing
from lib.mesh.rig import PROXY_UID
from lib.mesh.roots import RootCase
from lib.net.processes import NotYet, wait_for

HOST, PORT = "server.server", meshcase.PORT


class RootRotation(RootCase):
    def setUp(self):
        super().setUp()
        self.client, self.server = self.add_client_and_server()
        self.start_mesh()
        self.serve(self.server)
        self.wait_for_status(self.client, 200, HOST)
        self.old_files = self.rig.directory / "old-files"
        shutil.copytree(self.client.directory, self.old_files)

    def test_a_root_follows_another_without_a_failed_request(self):
        load = meshcase.Load(self.client)
        self.addCleanup(load.stop)
        before = self.rig.admin("GET", "/v1/certificates")["certificates"]
        osm = self.rotate("next")
        self.wait_for_states(next="signing", own="draining")

        with self.subTest("what drains waits for proxies whose own certificate is of it"):
            wait_for(
                "its reason is told",
                lambda: re.search(
                    r"certificate of another root \(client/client, server/server\)",
                    self.roots()["(own)"]["waiting_for"],
                ),
            )
            self.assertIn("draining", self.rig.osm("certificate", "status"))
        with self.subTest("a controller that is killed goes on where it was"):
            self.rig.stop_controller(signal.SIGKILL)
            self.rig.start_controller()
            self.wait_until_synced()
            self.wait_for_states(next="signing", own="draining")
        with self.subTest("every leaf is another one"):
            old = {c["fingerprint"] for c in before}
            new = self.rig.admin("GET", "/v1/certificates")["certificates"]
            self.assertFalse(old & {c["fingerprint"] for c in new})

        for machine in (self.client, self.server):
            keep_renewing(machine)  # a proxy certificate of the new root, and both roots to trust
        load.check(self, more=10)
        self.wait_for_states(next="signing", own="inactive", timeout=90)
        self.assert_followed_to_the_end(osm)
        self.wait_until_synced()
        load.check(self, more=10)
        load.stop()
        self.assertEqual(load.failures, [])

        with self.subTest("who comes with a certificate of the old root is turned away"):
            self.client.stop_proxy()
            for file in ("sds_cert.pem", "sds_key.pem"):
                shutil.copy2(self.old_files / file, self.client.directory / file)
                os.chown(self.client.directory / file, PROXY_UID, PROXY_UID)
            verified = self.rig.controller.text().count("certificate verify failed")
            self.client.start_proxy(wait=False)
            wait_for(
                "the controller to refuse it",
                lambda: self.rig.controller.text().count("certificate verify failed") > verified,
                20,
            )
            self.assertNotIn("client", self.proxies())
            self.client.stop_proxy()

    def test_a_stolen_root_is_distrusted_though_a_silent_proxy_holds_the_rotation(self):
        self.client.freeze_proxy()
        before = self.leaves()
        self.rig.mesh.write("roots.yaml", objects.root("next"), wait=False)
        self.wait_for_states(next="validating", own="signing")
        wait_for("the silent proxy is named", lambda: "client/client" in self.roots()["next"]["waiting_for"])
        shown = self.rig.osm("certificate", "distrust", "(own)")
        self.assertIn("2 proxies connected here have certificates of it", shown)
        self.assertIn("Nothing has changed", shown)
        self.wait_for_states(next="validating", own="signing")
        self.assertIn("not trusted any more", self.rig.osm("certificate", "distrust", "(own)", "--now"))
        self.wait_for_states(next="signing", own="inactive")
        with self.subTest("the other proxy goes on with certificates of the next root, bootstrapped again"):
            # Its certificate was the stolen root's as well, since the next one did not sign before.
            self.server.stop_proxy(signal.SIGKILL)
            self.server.bootstrap()
            self.server.start_proxy()
            wait_for("the server's proxy shows another certificate", lambda: not self.leaves() & before, 40)
        with self.subTest("the silent one has only the stolen root's, and is turned away"):

            def refusals():
                # A stream on the connection that it had needs no handshake. In a handshake each knows only
                # roots that the other has no certificate of: who looks first refuses.
                text = self.rig.controller.text()
                return text.count('"invalid-certificate"') + text.count("Handshake failed")

            self.client.thaw_proxy()
            wait_for("its stream is recalled", lambda: "client" not in self.proxies(), 60)
            refused = refusals()
            wait_for("it is refused", lambda: refusals() > refused, 60)
            self.assertNotIn("client", self.proxies())

    def leaves(self):
        """Serial numbers of the certificates that the server's Envoy shows to other proxies."""
        shown = json.loads(self.server.admin("/certs")[1])["certificates"]
        return {
            c["serial_number"]
            for group in shown
            for c in group.get("cert_chain", [])
            if "/osm/proxy/" not in str(c["subject_alt_names"])
        }

    def test_machines_that_renew_themselves_need_nobody_for_two_roots_in_a_row(self):
        renewers = [keep_renewing(machine) for machine in (self.client, self.server)]
        load = meshcase.Load(self.client)
        self.addCleanup(load.stop)
        states = {"own": "inactive"}
        for name in ("next", "last"):
            osm = self.rotate(name)
            self.wait_for_states(**states, **{name: "signing"}, timeout=120)
            self.assert_followed_to_the_end(osm)
            states[name] = "inactive"
        self.wait_until_synced()
        load.stop()
        self.assertEqual(load.failures, [])
        for process in renewers:
            self.assertTrue(process.running())
            self.assertEqual(process.text().count(": renewed;"), 2, process.text())

    def test_the_signing_root_is_not_given_up_for_one_that_cannot_be_used(self):
        (self.rig.state / "roots").mkdir(exist_ok=True)
        (self.rig.state / "roots" / "next").write_text("where its CA is to be")
        self.rig.mesh.write("roots.yaml", objects.root("next"))
        wait_for("its fault is told", lambda: "roots/next" in self.roots().get("next", {}).get("waiting_for", ""))
        self.assertEqual(self.roots()["(own)"]["state"], "signing")
        self.wait_for_status(self.client, 200, HOST)


class Stragglers(RootCase):
    """Who does not answer, or never came, holds a rotation for a bounded time."""

    def test_a_rotation_goes_on_without_a_silent_proxy_and_names_it(self):
        self.rig.controller_flags += ("--rotation-max-wait", "20")
        client, server = self.add_client_and_server()
        silent = self.add_machine("silent", "10.200.0.13")
        self.rig.mesh.write(
            "silent.yaml",
            objects.target("server", "also", "server", [("silent", "silent")], ("HTTPRouteGroup", "routes", ["books"])),
        )
        self.rig.mesh.write(
            "never.yaml",
            objects.namespace("never"),
            objects.account("never", "never"),
            objects.machine("never", "never", "10.200.0.14", "never"),
        )
        self.start_mesh()
        self.serve(server)
        for machine in (client, silent):
            self.wait_for_status(machine, 200, HOST)
        for machine in (client, server):
            keep_renewing(machine)
        silent.freeze_proxy()
        load = meshcase.Load(client)
        self.addCleanup(load.stop)
        self.rig.mesh.write("roots.yaml", objects.root("next"), wait=False)
        self.wait_for_states(next="validating", own="signing")

        def named():
            waits = self.roots()["next"]["waiting_for"]
            if "silent/silent" not in waits:
                raise NotYet(waits)
            return True

        wait_for("the silent proxy is named", named)
        self.wait_for_states(next="signing", own="inactive", timeout=90)
        with self.subTest("its name stays, for whoever mends the machine"):
            left = self.roots()["next"]["left_behind"]
            self.assertIn("silent/silent", left)
            self.assertNotIn("client/client", left)
            self.assertNotIn("never/never", left)
            self.assertIn("went on without", self.rig.osm("certificate", "status"))
            self.assertIn("root rotation goes on without some proxies", self.rig.controller.text())
        load.stop()
        self.assertEqual(load.failures, [])
        with self.subTest("the machine comes back with new bootstrap files"):
            silent.stop_proxy(signal.SIGKILL)
            silent.bootstrap()
            silent.start_proxy()
            wait_for("it is connected", lambda: "silent" in self.proxies())


if __name__ == "__main__":
    meshcase.main()
