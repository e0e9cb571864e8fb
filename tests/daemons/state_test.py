#!/usr/bin/python3
"""The state directory: who may write to it, and a CA that was lost from it.

usage: state_test.py --bin DIRECTORY
"""
import json
import os
import shutil
import stat

from lib.mesh.daemon import DaemonTest, run


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


if __name__ == "__main__":
    run()
