#!/usr/bin/python3
"""A log that nobody reads, and a full disk, stop no part of osm-controller and osm-injector; dropped lines are
counted.

usage: log_test.py --bin DIRECTORY
"""

import contextlib
import fcntl
import http.client
import os
import signal
import subprocess

from lib.kube import small_api
from lib.kube.pki import Pki
from lib.mesh import admin, objects
from lib.mesh.daemon import DaemonTest, run
from lib.mesh.xds_client import CLUSTER
from lib.mesh.xds_proxy import XdsProxy
from lib.net import http2
from lib.net.ports import free_ports
from lib.net.processes import wait_for

QUEUE = 1 << 20  # bytes of lines that wait: JsonLog::kMaxWaitingBytes
NAME = "x" * 240  # of an object, which a line about its problem has
BROKEN = QUEUE // len(NAME)  # a line has it twice


class Log(DaemonTest):
    def start_with(self, stderr):
        """Starts a controller that logs to this descriptor, and waits until it is ready."""
        self.write("shop.yaml", *objects.shop())
        self.ads = f"127.0.0.1:{free_ports(1)[0]}"
        self.run_until_ready(
            stderr, "osm-controller", "--mesh-dir", self.mesh, "--state-dir", self.state, "--ads-address", self.ads
        )

    def start_injector_with(self, stderr):
        """The same, of an injector."""
        pki = Pki(self.folder / "pki")
        port = self.enterContext(small_api.serving(pki, small_api.small_api()))
        kubeconfig = small_api.kubeconfig(self.folder / "kubeconfig", pki, port)
        self.run_until_ready(
            stderr, "osm-injector", "--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0", "--native-sidecars", "off"
        )

    def run_until_ready(self, stderr, program, *flags):
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        command = (self.bin / program, *flags, "--log-level", "debug", "--http-address", self.address)
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

    def connect(self, machine):
        """The machine's proxy, which acknowledges what it gets."""
        out = self.folder / machine
        code, _, error = self.osm("vm", "bootstrap", machine, "-n", "shop", "--controller", self.ads, "--out", out)
        self.assertEqual(code, 0, error)
        return XdsProxy(
            http2.PatientConnection.tls(self.ads, out / "cacert.pem", (out / "sds_cert.pem", out / "sds_key.pem"))
        )

    def problems(self):
        return len(admin.ask(self.state, "GET", "/v1/problems")[1]["problems"])

    def unread_pipe(self):
        """The end of a full pipe that is written to."""
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(write, False)
        with contextlib.suppress(BlockingIOError):
            while os.write(write, b"x" * 4096):
                pass
        os.set_blocking(write, True)
        return write

    def assert_alive_and_ready(self):
        self.assertEqual([self.get(path)[0] for path in ("/health/alive", "/health/ready")], [200, 200])

    def assert_everything_goes_on(self):
        """More is logged than waits: lines about problems, and about each snapshot. A proxy that comes then is
        configured, and gets each change."""
        broken = [
            {"apiVersion": "v1", "kind": "Nothing", "metadata": {"name": f"{NAME}{number}"}} for number in range(BROKEN)
        ]
        self.write("broken.yaml", *broken, wait=False)
        wait_for("the problems are told", lambda: self.problems() >= BROKEN, 60, 0.25)
        wait_for("dropped lines are counted", lambda: self.metric("osm_log_lines_dropped_total") > 1, 60)
        with contextlib.closing(self.connect("web-1")) as proxy:
            proxy.wait_until_configured()
            for number in range(1, 4):
                name = f"more-{number}"
                service = objects.service("shop", name, f"10.9.1.{number}", 80, 8080, selector={"app": "api"})
                self.write(f"{name}.yaml", service, wait=False)
                wait_for(name, lambda name=name: any(name in cluster for cluster in proxy.names(CLUSTER)), 20)
        self.assert_alive_and_ready()

    def test_nobody_reads_the_log(self):
        write = self.unread_pipe()
        self.start_with(write)
        os.close(write)
        self.assert_everything_goes_on()
        self.assertEqual(self.end(), 0)

    def test_the_disk_of_the_log_is_full(self):
        with open("/dev/full", "w") as full:
            self.start_with(full)
        self.assert_everything_goes_on()
        self.assertEqual(self.end(), 0)

    def test_nobody_reads_the_log_of_the_injector(self):
        write = self.unread_pipe()
        self.start_injector_with(write)
        os.close(write)
        self.assert_alive_and_ready()
        self.assertEqual(self.end(), 0)

    def test_the_disk_of_the_log_of_the_injector_is_full(self):
        with open("/dev/full", "w") as full:
            self.start_injector_with(full)
        wait_for("dropped lines are counted", lambda: self.metric("osm_log_lines_dropped_total") > 1, 30)
        self.assert_alive_and_ready()
        self.assertEqual(self.end(), 0)


if __name__ == "__main__":
    run()
