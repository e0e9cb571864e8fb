#!/usr/bin/python3
"""A state directory that another user controls is refused, and a CA that was lost or replaced beside its
record; a CA that ends soon is a problem.

usage: state_test.py --bin DIRECTORY
"""

import datetime
import json
import os
import shutil
import stat

from lib.mesh.authority import certify
from lib.mesh.daemon import DaemonTest, run
from lib.net.processes import wait_for


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


class StateDirectory(DaemonTest):
    def test_a_state_directory_that_others_may_write_to_is_refused(self):
        self.state.mkdir()
        for wrong in (0o777, 0o1777, 0o770, 0o702):
            with self.subTest(oct(wrong)):
                self.state.chmod(wrong)
                message = self.refused()
                self.assertIn(f"--state-dir {self.state}: mode {wrong:04o}", message)
                self.assertIn(f"chmod 700 '{self.state}'", message)
                self.assertEqual(mode(self.state), wrong)
                self.assertEqual(list(self.state.iterdir()), [], "something was written")
        self.state.chmod(0o755)  # others may look: the files are private
        self.assertEqual(self.start().stop(), 0)

    def test_a_state_directory_of_another_user_is_refused(self):
        self.assertEqual(os.geteuid(), 0, "only root gives files away: run this as root")
        self.state.mkdir(mode=0o700)
        os.chown(self.state, 1500, 1500)
        message = self.refused()
        self.assertIn(f"--state-dir {self.state}: belongs to uid 1500", message)
        self.assertIn(f"chown 0 '{self.state}'", message)
        self.assertEqual(list(self.state.iterdir()), [], "something was written")

    def test_a_new_state_directory_and_its_new_parents_are_private(self):
        state = self.folder / "a" / "b" / "state"
        old = os.umask(0)
        try:
            self.assertEqual(self.start(state=state).stop(), 0)
        finally:
            os.umask(old)
        for made in (state, state.parent, state.parent.parent):
            self.assertEqual(mode(made), 0o700, made)

    def test_a_symbolic_link_to_a_private_directory_is_followed(self):
        (self.folder / "disk").mkdir(mode=0o700)
        self.state.symlink_to(self.folder / "disk")
        self.assertEqual(self.start().stop(), 0)
        (self.folder / "disk").chmod(0o777)
        self.assertIn("mode 0777", self.refused())


class LostCa(DaemonTest):
    def setUp(self):
        super().setUp()
        self.assertEqual(self.start().stop(), 0)
        self.ca, self.record = self.state / "ca" / "ca.pem", self.state / "rotation.json"
        self.pem = self.ca.read_text()

    def import_flags(self, pem):
        key, certificate = pem.split("-----BEGIN CERTIFICATE")
        (self.folder / "key.pem").write_text(key)
        (self.folder / "cert.pem").write_text("-----BEGIN CERTIFICATE" + certificate)
        return ["--ca-cert", self.folder / "cert.pem", "--ca-key", self.folder / "key.pem"]

    def check_lost(self, message):
        self.assertIn(f"certificate authority {self.ca}", message)
        self.assertIn(str(self.record), message)
        self.assertIn("restore", message)
        self.assertIn("delete", message)

    def test_a_lost_ca_stops_the_start_until_it_is_restored(self):
        for folder in (self.ca, self.ca.parent):
            shutil.rmtree(folder) if folder.is_dir() else folder.unlink()
            with self.subTest(folder.name):
                self.check_lost(self.refused())
                self.assertFalse(self.ca.exists(), "another CA was made")
        self.ca.write_text(self.pem)
        self.ca.chmod(0o600)
        self.assertEqual(self.start().stop(), 0)
        self.assertEqual(self.ca.read_text(), self.pem)

    def test_a_lost_ca_is_restored_by_importing_it_and_no_other_is_imported(self):
        self.assertEqual(self.start(state=self.folder / "elsewhere").stop(), 0)
        other = (self.folder / "elsewhere" / "ca" / "ca.pem").read_text()
        self.ca.unlink()
        self.check_lost(self.refused(*self.import_flags(other)))
        self.assertFalse(self.ca.exists(), "another CA was stored")
        self.assertEqual(self.start(*self.import_flags(self.pem)).stop(), 0)

    def test_another_ca_in_the_place_of_the_recorded_one_stops_the_start(self):
        self.assertEqual(self.start(state=self.folder / "elsewhere").stop(), 0)
        shutil.copy(self.folder / "elsewhere" / "ca" / "ca.pem", self.ca)
        other = self.ca.read_text()
        self.check_lost(self.refused())
        self.assertEqual(self.ca.read_text(), other, "nothing is changed on disk")

    def test_without_the_record_the_mesh_begins_anew(self):
        self.ca.unlink()
        self.record.unlink()
        self.assertEqual(self.start().stop(), 0)
        self.assertNotEqual(self.ca.read_text(), self.pem)
        self.assertEqual(json.loads(self.record.read_text())["roots"][0]["state"], "signing")


class RootEnd(DaemonTest):
    def test_a_root_that_ends_soon_is_a_problem_a_metric_and_a_log_line(self):
        now = datetime.datetime.now(datetime.timezone.utc)
        end = (now + datetime.timedelta(days=29)).replace(microsecond=0)
        certificate, key = certify(
            self.folder,
            "root",
            ["subjectKeyIdentifier=hash", "basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign"],
            now,
            end,
        )
        controller = self.start("--ca-cert", certificate, "--ca-key", key)
        [line] = wait_for(
            "the log line", lambda: [line for line in list(controller.lines) if line.get("code") == "root-ending"]
        )
        self.assertEqual(line["level"], "warning")
        self.assertIn(f"root (own): its CA ends on {end:%Y-%m-%dT%H:%M:%SZ}", line["message"])
        self.assertEqual(controller.metric('osm_root_not_after_seconds{root="(own)"}'), end.timestamp())
        self.assertEqual(controller.metric('osm_problems{code="root-ending",severity="warning"}'), 1)
        code, out, _ = self.osm("problems")
        self.assertEqual(code, 0)
        self.assertIn("rotate to another root", out)
        [root] = controller.admin("/v1/roots")[1]["roots"]
        self.assertEqual(root["not_after"], f"{end:%Y-%m-%dT%H:%M:%S}.000Z")
        self.assertEqual(controller.stop(), 0)


if __name__ == "__main__":
    run()
