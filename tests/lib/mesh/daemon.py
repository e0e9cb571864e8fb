"""osm-controller and `osm` as processes without a mesh around them. Ports are the kernel's choice."""

import contextlib
import http.client
import json
import pathlib
import queue
import re
import signal
import subprocess
import tempfile
import threading
import unittest

from lib.mesh import admin, objects
from lib.mesh.rig import MeshDirectory
from lib.net.processes import wait_for


class Daemon:
    """A running daemon. Its log is parsed line by line: each must be JSON. `first` is the message
    of the line that has its addresses."""

    def __init__(self, program, *flags, first="started"):
        self.first = first
        self.process = subprocess.Popen(
            [program, "--http-address", "127.0.0.1:0", *flags], stderr=subprocess.PIPE, text=True
        )
        self.lines, self.started = [], queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.addresses = self.started.get(timeout=30)
        if self.addresses is None:
            raise AssertionError(f"the daemon ended: {self.lines}")

    def _read(self):
        for text in self.process.stderr:
            try:
                line = json.loads(text)
            except ValueError:
                line = {"message": text, "level": "not JSON"}
            self.lines.append(line)
            if self.first in line["message"]:
                self.started.put(line)
        self.started.put(None)

    def log(self, part):
        return [line for line in list(self.lines) if part in line["message"]]

    def http(self, path, method="GET", headers=None):
        connection = http.client.HTTPConnection(self.addresses["http_address"], timeout=20)
        with contextlib.closing(connection):
            connection.request(method, path, headers=headers or {})
            response = connection.getresponse()
            return response.status, response.read().decode()

    def metric(self, series):
        found = re.search(rf"^{re.escape(series)} (\S+)$", self.http("/metrics")[1], re.M)
        return float(found.group(1)) if found else None

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(20)
        self.reader.join(20)
        self.process.stderr.close()
        return code


class Controller(Daemon):
    """A running osm-controller of a directory."""

    def __init__(self, program, mesh, state, *flags):
        self.state = pathlib.Path(state)
        super().__init__(
            program,
            "--mesh-dir",
            mesh,
            "--state-dir",
            state,
            "--ads-address",
            "127.0.0.1:0",
            *flags,
            first="osm-controller started",
        )

    def admin(self, path, method="GET", body=None):
        return admin.ask(self.state, method, path, body)

    def wait_until_ready(self):
        wait_for("ready", lambda: self.http("/health/ready")[0] == 200, 20)


class DaemonTest(unittest.TestCase):
    bin = None  # set by run()

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="osm-daemons-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.mesh, self.state = self.folder / "mesh", self.folder / "state"
        self.controllers = []
        directory = MeshDirectory(self.mesh, self.wait_until_acknowledged)
        self.write, self.write_text, self.remove = directory.write, directory.write_text, directory.remove

    def wait_until_acknowledged(self, objects):
        running = [controller.state for controller in self.controllers if controller.process.poll() is None]
        return admin.wait_until_acknowledged(running, objects)

    def start(self, *flags, state=None):
        controller = Controller(self.bin / "osm-controller", self.mesh, state or self.state, *flags)
        self.controllers.append(controller)
        self.addCleanup(lambda: controller.process.poll() is None and controller.stop(signal.SIGKILL))
        return controller

    def refused(self, *flags, mesh=None, ads="127.0.0.1:0", http="127.0.0.1:0"):
        """The last line of a controller that cannot start."""
        done = subprocess.run(
            [
                self.bin / "osm-controller",
                "--mesh-dir",
                mesh or self.mesh,
                "--state-dir",
                self.state,
                "--ads-address",
                ads,
                "--http-address",
                http,
                *flags,
            ],
            capture_output=True,
            text=True,
            timeout=30,
        )
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertNotIn("PRIVATE", done.stderr)
        return done.stderr.splitlines()[-1]

    def osm(self, *arguments, state=None, env=None):
        """(exit code, stdout, stderr) of the command. `state`: its --state-dir; False: none."""
        if state is None and "--help" not in arguments:
            state = self.state
        if state:
            arguments = [*arguments, "--state-dir", state]
        done = subprocess.run([self.bin / "osm", *arguments], capture_output=True, text=True, timeout=60, env=env)
        return done.returncode, done.stdout, done.stderr


class ShopTest(DaemonTest):
    """A controller with the shop's mesh. It must end well."""

    FLAGS = ()

    def setUp(self):
        super().setUp()
        self.write_mesh()
        self.controller = self.start(*self.FLAGS)
        self.controller.wait_until_ready()

    def tearDown(self):
        code = self.controller.stop()
        last = "\n".join(line["message"].rstrip() for line in self.controller.lines[-60:])
        self.assertEqual(code, 0, last if code else None)

    def write_mesh(self):
        self.write("shop.yaml", *objects.shop())

    def bootstrap(self, name, out, *flags, controller="192.0.2.1:15128"):
        """`osm vm bootstrap` of a machine of the shop: (exit code, stdout, stderr)."""
        return self.osm("vm", "bootstrap", name, "-n", "shop", "--controller", controller, "--out", out, *flags)


def run():
    import argparse
    import sys

    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    options, rest = parser.parse_known_args()
    DaemonTest.bin = options.bin.resolve()
    unittest.main(module="__main__", argv=[sys.argv[0], *rest], verbosity=2)
