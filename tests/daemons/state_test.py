#!/usr/bin/python3
"""The state directory: who may write to it.

usage: state_test.py --bin DIRECTORY
"""
import os
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


if __name__ == "__main__":
    run()
