#!/usr/bin/python3
"""A log that nobody reads, and a full disk, stop no part of the controller; dropped lines are counted.

usage: log_test.py --bin DIRECTORY
"""

import contextlib
import fcntl
import http.client
import os
import signal
import subprocess

from lib.mesh import admin, objects
from lib.mesh.daemon import DaemonTest, run
from lib.net.ports import free_ports
from lib.net.processes import wait_for

BROKEN = 60  # objects; a line about one has more than 100 bytes


class Log(DaemonTest):
    def start_with(self, stderr):
        """Starts a controller that logs to this descriptor, and waits until it is ready."""
        self.write("mesh.yaml", objects.namespace("shop"))
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        command = (
            self.bin / "osm-controller",
            *("--mesh-dir", self.mesh, "--state-dir", self.state, "--log-level", "debug"),
            *("--ads-address", "127.0.0.1:0", "--http-address", self.address),
        )
        self.process = subprocess.Popen(command, stderr=stderr)
        self.addCleanup(self.end, signal.SIGKILL)
        wait_for("ready", lambda: self.get("/health/ready")[0] == 200, 30)

    def end(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(30)

    def get(self, path):
        with contextlib.closing(http.client.HTTPConnection(self.address, timeout=10)) as connection:
            try:
                connection.request("GET", path)
                response = connection.getresponse()
                return response.status, response.read().decode()
            except OSError as failure:
                return 0, str(failure)

    def metric(self, name):
        page = self.get("/metrics")[1]
        return float(page.split(f"\n{name} ")[1].split()[0]) if f"\n{name} " in page else 0

    def assert_everything_goes_on(self):
        """More is logged than a page of a pipe holds: lines about problems, and about each snapshot."""
        broken = ({"apiVersion": "v1", "kind": "Nothing", "metadata": {"name": f"x{i}"}} for i in range(BROKEN))
        self.write("broken.yaml", *broken, wait=False)
        for number in range(1, 20):
            before = self.metric("osm_mesh_generation")
            self.write("service.yaml", objects.service("shop", "web", f"10.9.0.{number}", 80), wait=False)
            wait_for("the mesh has the change", lambda then=before: self.metric("osm_mesh_generation") > then, 20)
        self.assertGreaterEqual(len(admin.ask(self.state, "GET", "/v1/problems")[1]["problems"]), BROKEN)
        self.assertEqual([self.get(path)[0] for path in ("/health/alive", "/health/ready")], [200, 200])

    def test_nobody_reads_the_log(self):
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(write, False)
        with contextlib.suppress(BlockingIOError):
            while os.write(write, b"x" * 4096):
                pass
        os.set_blocking(write, True)
        self.start_with(write)
        os.close(write)
        self.assert_everything_goes_on()
        self.assertEqual(self.end(), 0)

    def test_the_disk_of_the_log_is_full(self):
        with open("/dev/full", "w") as full:
            self.start_with(full)
        self.assert_everything_goes_on()
        wait_for("dropped lines are counted", lambda: self.metric("osm_log_lines_dropped_total") > 1, 30)
        self.assertEqual(self.end(), 0)


if __name__ == "__main__":
    run()
