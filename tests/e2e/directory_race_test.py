#!/usr/bin/python3
"""Twenty processes that race for the CA in one directory end with one CA."""

import pathlib
import stat
import sys
import tempfile
import unittest

from lib.mesh.racing import check_races

BIN = pathlib.Path("build/release/bin")


class DirectoryRace(unittest.TestCase):
    def test_racing_processes_end_with_one_ca(self):
        with tempfile.TemporaryDirectory() as folder:
            check_races(self, lambda n: [BIN / "ca_racer", "directory", f"{folder}/ca-{n}"])
            for ca in pathlib.Path(folder).iterdir():
                # The files that the killed process had begun are gone, and only its owner reads the
                # rest.
                self.assertEqual(["ca.pem"], [p.name for p in ca.iterdir()])
                self.assertEqual(0o600, stat.S_IMODE((ca / "ca.pem").stat().st_mode))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--bin"]:
        BIN = pathlib.Path(sys.argv[2]).resolve()
        del sys.argv[1:3]
    if "--envoy" in sys.argv:
        at = sys.argv.index("--envoy")
        del sys.argv[at : at + 2]
    unittest.main()
