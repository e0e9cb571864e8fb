"""Running the examples' programs."""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

from lib.net import processes
from lib.net.processes import NotYet

BIN = None  # set by main()
ROOT = pathlib.Path(__file__).resolve().parents[2]


class ExampleCase(unittest.TestCase):
    def run(self, result=None):
        with tempfile.TemporaryDirectory(prefix="osm-example-") as directory:
            self.directory = pathlib.Path(directory)
            return super().run(result)

    def run_program(self, program, *arguments):
        return subprocess.run([BIN / program, *map(str, arguments)], capture_output=True, text=True, timeout=120)

    def start(self, program, *arguments):
        """Runs it until the test's end. It prints the address of its page when it is ready."""
        log = open(self.directory / "log", "w")
        self.program = subprocess.Popen(
            [BIN / program, *map(str, arguments)], stderr=log, stdout=subprocess.PIPE, text=True
        )
        log.close()
        self.addCleanup(self.end)
        self.page = self.program.stdout.readline().strip()
        self.assertRegex(self.page, r"^http://127\.0\.0\.1:\d+$", self.log())

    def end(self):
        self.program.terminate()
        self.assertEqual(self.program.wait(30), 0, self.log())
        self.program.stdout.close()

    def log(self):
        return (self.directory / "log").read_text()

    def get(self, target):
        try:
            with urllib.request.urlopen(self.page + target, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def wait_for(self, look, expected, deadline=20):
        """Until look() gives what is expected."""

        def as_expected():
            if (seen := look()) != expected:
                raise NotYet(seen)
            return True

        try:
            processes.wait_for(f"{expected!r}", as_expected, deadline)
        except processes.Timeout as late:
            self.fail(f"{late}\n{self.log()}")


def main():
    global BIN
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    options, rest = parser.parse_known_args()
    BIN = options.bin.resolve()
    unittest.main(argv=[sys.argv[0], *rest])
