#!/usr/bin/python3
"""systemd understands every unit; the controller, interception, Envoy and renewal start by the command
lines of their units, with the user, rights and writable directories that the units give, and stop in time;
traffic stays redirected while Envoy is stopped.

usage: units_test.py --bin DIRECTORY --envoy FILE
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from lib.mesh import objects
from lib.net.netns import Switch, delete_stale
from lib.net.processes import wait_for
from lib.systemd import Manager, Root

SOURCE = pathlib.Path(__file__).resolve().parents[2]
UNITS = SOURCE / "deploy/systemd"
USERS = {"osm": 61500, "osm-envoy": 1500}
MACHINE, ADDRESS = "web-1", "10.200.0.11"
OPTIONS = None


class Units(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="osm-units-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.folder.chmod(0o755)
        delete_stale()
        cls.switch = Switch(f"osm-{os.getpid()}-units")
        cls.addClassCleanup(cls.switch.namespace.delete)
        cls.machine = cls.switch.plug_in(MACHINE, ADDRESS)
        cls.addClassCleanup(cls.machine.delete)
        programs = [OPTIONS.bin / "osm", OPTIONS.bin / "osm-controller", OPTIONS.envoy]
        cls.root = Root(cls.folder, programs, USERS)
        cls.root.install(UNITS)
        cls.etc = cls.root.path("/etc/osm")
        (cls.etc / "mesh").mkdir()
        (cls.etc / "mesh/shop.yaml").write_text(
            "\n---\n".join(
                map(
                    json.dumps,
                    [
                        objects.namespace("shop"),
                        objects.account("shop", "web"),
                        objects.machine("shop", MACHINE, ADDRESS, "web", {"app": "web"}),
                    ],
                )
            )
        )
        shutil.copy(UNITS / "controller.env", cls.etc)
        cls.here = Manager(cls.root, cls.switch.namespace.command())
        cls.there = Manager(cls.root, cls.machine.command())

    def start(self, manager, unit):
        log = self.folder / f"{unit.name}.log"
        process = manager.start(unit, log)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        self.addCleanup(lambda: None if self._outcome.success else sys.stderr.write(log.read_text()[-4000:]))
        return process

    def start_controller(self):
        unit = self.root.unit("osm-controller.service")
        process = self.start(self.here, unit)

        def ready():
            self.assertIsNone(process.poll(), "osm-controller ended")
            return self.switch.namespace.http("127.0.0.1", 9091, "GET", "/health/ready")[0] == 200

        wait_for("the controller is ready", ready, 30)
        return unit, process

    def osm(self, *arguments):
        """Standard output of the command, as root on the controller's machine."""
        ran = subprocess.run(
            [OPTIONS.bin / "osm", *arguments, "--state-dir", self.root.path("/var/lib/osm")],
            capture_output=True,
            text=True,
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout

    def status(self, process, field):
        return re.search(rf"^{field}:\s+(.*)$", pathlib.Path(f"/proc/{process.pid}/status").read_text(), re.M)[
            1
        ].split()

    def assert_confined(self, process, user):
        self.assertEqual(set(self.status(process, "Uid")), {str(USERS[user])})
        for field in ("CapEff", "CapPrm", "CapBnd"):
            self.assertEqual(int(self.status(process, field)[0], 16), 0, field)
        self.assertEqual(self.status(process, "NoNewPrivs"), ["1"])

    def bootstrap(self):
        """The machine's directory, at the path that its files name."""
        directory = self.etc / MACHINE
        if not directory.exists():
            made = self.folder / "made"
            self.osm(
                "vm",
                "bootstrap",
                MACHINE,
                "-n",
                "shop",
                "--controller",
                f"{Switch.ADDRESS}:15128",
                "--out",
                str(made),
                "--owner",
                str(USERS["osm-envoy"]),
            )
            for file in made.iterdir():
                if file.suffix in (".yaml", ".sh"):
                    file.write_text(file.read_text().replace(str(made), f"/etc/osm/{MACHINE}"))
            made.rename(directory)
        return directory

    def test_systemd_understands_every_unit(self):
        script = self.etc / "verified/intercept.sh"
        script.parent.mkdir()
        script.write_text("#!/bin/sh\n")
        script.chmod(0o700)
        units = [
            path.name.replace("@.", "@verified.") for path in UNITS.iterdir() if path.suffix in (".service", ".timer")
        ]
        self.assertEqual(len(units), 5)
        ran = self.root.verify(*units)
        about = [line for line in ran.stderr.splitlines() if "osm" in line]
        self.assertEqual((ran.returncode, about), (0, []), ran.stderr)
        broken = self.root.path("/usr/lib/systemd/system/osm-broken.service")
        broken.write_text("[Service]\nExecStart=/usr/bin/osm-absent\nRestrt=always\n")
        self.addCleanup(broken.unlink)
        ran = self.root.verify(broken.name)
        self.assertIn("osm-absent", ran.stderr)
        self.assertIn("Restrt", ran.stderr)

    def test_the_controller_starts_as_its_user_and_stops_in_time(self):
        unit, process = self.start_controller()
        self.assert_confined(process, "osm")
        state = self.root.path("/var/lib/osm")
        self.assertEqual((state.stat().st_uid, state.stat().st_mode & 0o777), (USERS["osm"], 0o700))
        authority = (state / "ca/ca.pem").read_bytes()
        limits = pathlib.Path(f"/proc/{process.pid}/limits").read_text()
        self.assertRegex(limits, rf"Max open files\s+{self.here.descriptors(unit)} ")
        self.assertEqual(self.here.stop(unit, process), 0)
        unit, process = self.start_controller()
        self.assertEqual((state / "ca/ca.pem").read_bytes(), authority)
        self.assertEqual(self.here.stop(unit, process), 0)

    def test_the_time_to_stop_is_longer_than_streams_take_to_end(self):
        page = (SOURCE / "docs/run.md").read_text()
        longest = int(re.search(r"ends its streams a few at a time: ten at once, and all within (\d+) s", page)[1])
        unit = self.root.unit("osm-controller.service")
        self.assertGreaterEqual(unit.seconds("TimeoutStopSec"), longest + 5)

    def test_a_machine_starts_its_interception_and_its_sidecar_and_renews(self):
        controller, serving = self.start_controller()
        directory = self.bootstrap()
        intercept = self.root.unit("osm-intercept@.service", MACHINE)
        envoy = self.root.unit("osm-envoy@.service", MACHINE)
        for once in range(2):  # a start repeats what a crash left
            ran = self.there.run(intercept)
            self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("OSM_PROXY_OUTBOUND", self.machine.run("iptables-save", "-t", "nat").stdout)
        self.assertIn("OSM_PROXY_INBOUND", self.machine.run("ip6tables-save").stdout)

        sidecar = self.start(self.there, envoy)
        wait_for("Envoy is ready", lambda: self.machine.http("127.0.0.1", 15000, "GET", "/ready")[0] == 200, 30)
        self.assert_confined(sidecar, "osm-envoy")
        wait_for("the mesh serves it", lambda: "SYNCED" in self.osm("proxy", "list"), 20)
        self.renew(directory)

        self.assertEqual(self.there.stop(envoy, sidecar), 0)
        self.assertIn(
            "OSM_PROXY_OUTBOUND",
            self.machine.run("iptables-save", "-t", "nat").stdout,
            "traffic leaves around the mesh while Envoy is stopped",
        )
        ran = self.there.run(intercept, "ExecStop")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertNotIn("OSM_PROXY", self.machine.run("iptables-save").stdout)
        self.assertEqual(self.here.stop(controller, serving), 0)

    def renew(self, directory):
        """Both ways, since the line alone finds a certificate that is current."""
        unit = self.root.unit("osm-renew@.service", MACHINE)
        ran = self.there.run(unit)
        self.assertEqual((ran.returncode, "current" in ran.stdout), (0, True), ran.stdout + ran.stderr)
        before = (directory / "sds_key.pem").read_bytes()
        ran = self.there.run(unit, more=["--force"])
        self.assertEqual(ran.returncode, 0, ran.stderr)
        key = directory / "sds_key.pem"
        self.assertNotEqual(key.read_bytes(), before)
        self.assertEqual((key.stat().st_uid, key.stat().st_mode & 0o777), (USERS["osm-envoy"], 0o600))

    def test_the_timer_starts_the_renewal_of_its_machine(self):
        timer = self.root.unit("osm-renew@.timer", MACHINE)
        self.assertEqual(timer.one("Unit"), "")  # the service of the same name
        self.assertTrue(self.root.path("/usr/lib/systemd/system/osm-renew@.service").exists())
        self.assertLessEqual(timer.seconds("OnUnitActiveSec"), 600)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--envoy", type=pathlib.Path, required=True)
    OPTIONS, rest = parser.parse_known_args()
    OPTIONS.bin, OPTIONS.envoy = OPTIONS.bin.resolve(), OPTIONS.envoy.resolve()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
