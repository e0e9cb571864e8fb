"""Runs a contract's program against a real server, in the network namespace of a rig."""

import argparse
import pathlib
import subprocess
import sys
import unittest

from lib.mesh.rig import Rig

_bin = None


def main():
    """--bin is the directory of the programs; the other arguments are unittest's."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--bin", default="build/release/bin")
    options, rest = parser.parse_known_args()
    global _bin
    _bin = pathlib.Path(options.bin).resolve()
    unittest.main("__main__", argv=[sys.argv[0], "-v", *rest])


class _NoMesh:
    """A rig without a mesh needs neither Envoy nor the daemons."""

    @staticmethod
    def check():
        pass


class ContractCase(unittest.TestCase):
    """One rig per class. The logs of a failed class are kept, and their directory is printed."""

    @classmethod
    def setUpClass(cls):
        cls.rig = Rig(_NoMesh)
        cls.rig.failed = True  # until a test has passed
        cls.addClassCleanup(cls.rig.close)
        cls.any_failed = False

    def run_contract(self, server, settings, *arguments):
        """Every test case of a contract, or those that doctest's `arguments` choose."""
        ran = subprocess.run(
            self.rig.switch.namespace.command(
                "env", *(f"{name}={value}" for name, value in settings.items()), _bin / f"{server}_contract", *arguments
            ),
            capture_output=True,
            text=True,
            timeout=120,
        )
        print(ran.stdout, ran.stderr, sep="", file=sys.stderr)
        type(self).any_failed |= ran.returncode != 0
        type(self).rig.failed = type(self).any_failed
        self.assertEqual(ran.returncode, 0, f"{server}_contract failed; its output is above")
        # A filter that matches nothing passes, too.
        self.assertNotRegex(ran.stdout, r"test cases: +0 ")
