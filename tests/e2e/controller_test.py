#!/usr/bin/python3
"""A start that fails names the cause and the remedy; the state directory is private."""

import re
import signal

from lib.mesh import meshcase, objects
from lib.mesh.rig import ADS_PORT, HTTP_PORT
from lib.net.netns import Switch
from lib.net.processes import CommandFailed


class Controller(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.rig.mesh.write("mesh.yaml", objects.namespace("client"))

    def start_fails(self):
        """Exit status and output of a controller that does not come up."""
        self.rig.start_controller(wait=False)
        status = self.rig.controller.popen.wait(10)
        text = self.rig.controller.text()
        self.rig.controller.log.unlink()
        self.assertNotEqual(status, 0, text)
        return text

    def test_it_starts_ends_on_sigterm_and_starts_again(self):
        for _ in range(3):
            self.rig.start_controller()
            self.assertEqual(self.rig.controller_http("/health/alive")[0], 200)
            self.assertIn("osm_", self.rig.controller_http("/metrics")[1])
            self.assertIn("version", self.rig.controller_http("/version")[1])
            self.assertEqual(self.rig.stop_controller(), 0)
        self.rig.start_controller()
        self.assertEqual(self.rig.stop_controller(signal.SIGINT), 0)

    def test_the_state_is_its_users_alone(self):
        self.rig.start_controller()
        for path, mode in (("ca", 0o700), ("ca/ca.pem", 0o600), ("admin.sock", 0o600)):
            self.assertEqual((self.rig.state / path).stat().st_mode & 0o777, mode, path)

    def test_a_damaged_ca_stops_the_start_and_says_what_to_do(self):
        self.rig.start_controller()
        self.rig.stop_controller()
        ca = self.rig.state / "ca" / "ca.pem"
        whole = ca.read_text()
        for what, damage in (
            ("damaged", lambda: ca.write_text(whole[:100])),
            ("readable by others", lambda: ca.chmod(0o644)),
            ("a directory", lambda: (ca.unlink(), ca.mkdir())),
        ):
            with self.subTest(what):
                damage()
                text = self.start_fails()
                self.assertIn(str(ca), text)
                self.assertNotIn("PRIVATE KEY", text)
                for line in whole.splitlines()[1:4]:
                    self.assertNotIn(line, text)
                if ca.is_file():
                    ca.write_text(whole)
                    ca.chmod(0o600)

    def test_a_full_disk_stops_the_start_and_says_what_to_do(self):
        self.rig.state.mkdir()
        script = (
            f"mount -t tmpfs -o size=4k,nr_inodes=64,mode=0700 none {self.rig.state} && "
            f"mkdir -m 700 {self.rig.state}/ca && "
            f"dd if=/dev/zero of={self.rig.state}/full bs=4k count=1 2>/dev/null && exec "
        )
        # `ip netns exec` has a mount namespace of its own: the host never sees the tmpfs.
        failed = self.rig.start(
            "full-disk",
            self.rig.switch.namespace.command(
                "sh",
                "-c",
                script + f"{self.rig.programs.controller} --mesh-dir {self.rig.mesh.path} "
                f"--state-dir {self.rig.state} --ads-address {Switch.ADDRESS}:{ADS_PORT} "
                f"--http-address {Switch.ADDRESS}:{HTTP_PORT}",
            ),
        )
        self.assertNotEqual(failed.popen.wait(10), 0)
        self.assertRegex(failed.text(), "(?i)no space left on device")
        self.assertRegex(failed.text(), "(?i)free space|disk full")

    def test_a_port_that_is_taken_stops_the_start_and_is_named(self):
        taken = self.rig.switch.namespace.open_socket()
        self.addCleanup(taken.close)
        taken.bind((Switch.ADDRESS, ADS_PORT))
        taken.listen()
        self.assertRegex(self.start_fails(), rf"{re.escape(Switch.ADDRESS)}:{ADS_PORT}")

    def test_osm_says_why_it_cannot_reach_a_controller(self):
        with self.assertRaises(CommandFailed) as failed:
            self.rig.osm("proxy", "list")
        self.assertIn("admin.sock", str(failed.exception))


if __name__ == "__main__":
    meshcase.main()
