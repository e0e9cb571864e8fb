#!/usr/bin/python3
"""A controller is restored with the commands of docs/run.md, before, during and after a root rotation.

usage: restore_test.py --bin DIRECTORY
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

from lib.mesh import objects
from lib.mesh.daemon import DaemonTest, run
from lib.net.processes import wait_for

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/run.md"


def documented_commands():
    """The page's commands: (back up, restore)."""
    blocks = re.findall(r"^<!-- a test runs this block -->\n```sh\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    if len(blocks) != 2:
        raise AssertionError(f"{PAGE}: {len(blocks)} blocks are marked for this test, not 2")
    return blocks


def documented_files():
    """The page's table of the state directory: {file or directory: is it to be backed up}."""
    rows = re.findall(r"^\| `([\w./-]+)` \|.*\| (yes|no) \|$", PAGE.read_text(), re.M)
    return {name: kept == "yes" for name, kept in rows}


class Restore(DaemonTest):
    def setUp(self):
        super().setUp()
        self.backup = self.folder / "backup"
        self.backup.mkdir()
        self.machine = self.folder / "web-1"
        self.write("namespace.yaml", objects.namespace("shop"))

    # -- steps ----------------------------------------------------------------------------------
    def start_controller(self, *flags):
        self.controller = self.start(*flags)
        self.controller.wait_until_ready()

    def add_machines(self):
        self.write("shop.yaml", *objects.shop())
        wait_for("the machines are known", lambda: self.controller.metric("osm_mesh_workloads") == 2)

    def bootstrap(self, out):
        code, _, err = self.osm(
            "vm", "bootstrap", "web-1", "-n", "shop", "--controller", "192.0.2.1:15128", "--out", out
        )
        self.assertEqual((code, err), (0, ""))
        return (out / "cacert.pem").read_text()

    def roots(self):
        code, out, err = self.osm("certificate", "status", "-o", "json")
        self.assertEqual((code, err), (0, ""))
        return {root["name"]: root["state"] for root in json.loads(out)["roots"]}

    def rotate(self, *wait):
        return self.osm("certificate", "rotate", "--mesh-dir", self.mesh, "--name", "next", *wait)[0]

    def run_documented(self, command):
        for told, ours in (("/var/lib/osm", self.state), ("/backup", self.backup)):
            self.assertIn(told, command)
            command = command.replace(told, str(ours))
        subprocess.run(["sh", "-euc", command], check=True)

    def files_of_state(self):
        """The entries of the state directory, as the page writes them."""
        names = {"ca": "ca/ca.pem", "roots": "roots/"}
        return {names.get(path.name, path.name) for path in self.state.iterdir()}

    def lose_and_restore(self):
        """Backs up a running controller, kills it, deletes its state and follows the page."""
        back_up, restore = documented_commands()
        self.run_documented(back_up)
        told = documented_files()
        kept = {name for name, is_kept in told.items() if is_kept}
        self.assertLessEqual(self.files_of_state(), set(told), f"not in the table of {PAGE}")
        self.controller.stop(signal.SIGKILL)
        before = self.contents()
        shutil.rmtree(self.state)
        self.state.mkdir(mode=0o700)
        self.run_documented(restore)
        self.assertEqual(self.contents(), before)
        self.assertEqual(self.files_of_state() - kept, set())
        self.start_controller()

    def contents(self):
        """Files that the page tells to back up, with their modes."""
        skipped = {name for name, is_kept in documented_files().items() if not is_kept}
        return {
            str(path.relative_to(self.state)): (oct(path.stat().st_mode), path.read_bytes())
            for path in self.state.rglob("*")
            if path.is_file() and path.name not in skipped
        }

    def assert_machine_is_served(self, trusted):
        """With its old files the machine verifies the controller, and is let in; the CA is the same."""
        ran = subprocess.run(
            [
                self.bin / "osm",
                "vm",
                "renew",
                "--dir",
                self.machine,
                "--force",
                "--controller",
                self.controller.addresses["ads_address"],
            ],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertEqual(self.bootstrap(self.folder / "another"), trusted)

    # -- tests ----------------------------------------------------------------------------------
    def test_a_controller_is_restored_before_any_root_rotation(self):
        self.start_controller()
        self.add_machines()
        trusted = self.bootstrap(self.machine)
        self.lose_and_restore()
        self.assertEqual(self.roots(), {"(own)": "signing"})
        self.assert_machine_is_served(trusted)
        self.assertEqual(self.controller.stop(), 0)

    def test_a_controller_is_restored_after_a_root_rotation(self):
        self.start_controller()
        first = (self.state / "ca/ca.pem").read_text()
        self.assertEqual(self.rotate("--wait", "60s"), 0)  # nobody is connected: nothing to wait for
        states = {"(own)": "inactive", "next": "signing"}
        wait_for("the rotation has ended", lambda: self.roots() == states)
        self.add_machines()
        trusted = self.bootstrap(self.machine)
        self.assertNotIn(trusted.strip(), first)
        self.lose_and_restore()
        self.assertEqual(self.roots(), states)
        self.assert_machine_is_served(trusted)
        self.assertEqual(self.controller.stop(), 0)

    def test_a_controller_is_restored_during_a_root_rotation(self):
        self.start_controller()
        self.add_machines()
        self.bootstrap(self.machine)
        self.assertEqual(self.rotate("--wait", "1s"), 5)  # it waits for two proxies
        trusted = self.bootstrap(self.folder / "web-1-again")
        states = {"(own)": "signing", "next": "validating"}
        self.assertEqual(self.roots(), states)
        self.lose_and_restore()
        self.assertEqual(self.roots(), states)
        self.assert_machine_is_served(trusted)
        self.assertEqual(self.controller.stop(), 0)

    def test_the_table_names_files_that_exist(self):
        self.start_controller("--join-address", "127.0.0.1:0")
        self.assertEqual(self.rotate("--wait", "60s"), 0)
        self.add_machines()
        self.write("config.yaml", objects.mesh_config())
        for command in (["token", "web-1", "--controller", "192.0.2.1:15128"], ["drain", "web-1"]):
            code, _, err = self.osm("vm", *command, "-n", "shop")
            self.assertEqual(code, 0, err)
        missing = documented_files()
        wait_for("every file of the table is there", lambda: self.files_of_state() == set(missing))
        self.assertEqual(os.stat(self.state / "ca/ca.pem").st_mode & 0o777, 0o600)
        self.assertEqual(self.controller.stop(), 0)


if __name__ == "__main__":
    run()
