#!/usr/bin/python3
"""The demo passes each step and leaves nothing behind, also after Ctrl-C."""

import pathlib
import re
import signal
import subprocess
import sys
import unittest

from lib.mesh import meshcase
from lib.net.netns import pids_in
from lib.net.processes import wait_for

DEMO = pathlib.Path(__file__).parent.parent.parent / "examples/bookstore/demo.py"


def namespaces_of(pid):
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    return re.findall(rf"^(osm-{pid}-\S+)", listed, re.M)


def leftovers(pid):
    return (
        namespaces_of(pid)
        + list(pathlib.Path("/etc/netns").glob(f"osm-{pid}-*"))
        + list(pathlib.Path("/tmp").glob(f"osm-{pid}-*"))
    )


class DemoCase(unittest.TestCase):
    def start(self, *arguments):
        programs = meshcase._programs
        demo = subprocess.Popen(
            [sys.executable, DEMO, "--bin", programs.osm.parent, "--envoy", programs.envoy, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.addCleanup(demo.kill)
        self.addCleanup(demo.stdout.close)
        return demo

    def output_of(self, *arguments):
        """What a demo prints that passes each step and leaves nothing behind."""
        demo = self.start(*arguments)
        output, _ = demo.communicate()
        print(output)
        self.assertEqual(demo.returncode, 0)
        self.assertRegex(output, r"(\d+) of \1 steps held")
        self.assertEqual(leftovers(demo.pid), [])
        return output


class Demo(DemoCase):
    def test_every_step_holds_and_nothing_is_left(self):
        self.output_of()

    def test_ctrl_c_in_the_middle_leaves_nothing(self):
        for how in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(how.name):
                demo = self.start()
                wait_for("proxies run", lambda: len([n for n in namespaces_of(demo.pid) if pids_in(n)]) >= 4, 30)
                inside = [p for n in namespaces_of(demo.pid) for p in pids_in(n)]
                demo.send_signal(how)
                demo.communicate()
                self.assertNotEqual(demo.returncode, 0)
                self.assertEqual(leftovers(demo.pid), [])
                self.assertEqual(
                    [
                        p
                        for p in inside
                        if pathlib.Path(f"/proc/{p}/ns").exists() and pathlib.Path(f"/proc/{p}/cmdline").read_bytes()
                    ],
                    [],
                )

    def test_the_printed_command_ends_a_kept_demo_and_leaves_nothing(self):
        demo = self.start("--keep")
        wait_for("proxies run", lambda: len([n for n in namespaces_of(demo.pid) if pids_in(n)]) >= 4, 30)
        demo.send_signal(signal.SIGINT)
        output, _ = demo.communicate()
        self.assertNotEqual(namespaces_of(demo.pid), [])
        directory = re.search(r"--stop (\S+)", output)[1]
        subprocess.run([sys.executable, DEMO, "--stop", directory], check=True, timeout=60)
        self.assertEqual(leftovers(demo.pid), [])


if __name__ == "__main__":
    meshcase.main()
