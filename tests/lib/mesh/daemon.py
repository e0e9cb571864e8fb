"""Real processes of the daemons, for their tests. Ports are the kernel's choice."""
import contextlib
import http.client
import json
import os
import pathlib
import queue
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

MONITORED = {"openservicemesh.io/monitored-by": "osm"}


def namespace(name):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": MONITORED}}


def mesh_config(**spec):
    return {"apiVersion": "config.openservicemesh.io/v1alpha2", "kind": "MeshConfig",
            "metadata": {"name": "osm-mesh-config", "namespace": "osm-system"}, "spec": spec}


def account(ns, name):
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": ns, "name": name}}


def service(ns, name, cluster_ip, port=80):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": ns, "name": name},
            "spec": {"clusterIP": cluster_ip, "selector": {"app": name},
                     "ports": [{"port": port, "targetPort": 8080, "appProtocol": "http"}]}}


def machine(ns, name, app, address, service_account):
    return {"apiVersion": "workload.openservicemesh.io/v1alpha1", "kind": "VirtualMachine",
            "metadata": {"namespace": ns, "name": name, "labels": {"app": app}},
            "spec": {"address": address, "serviceAccount": service_account}}


def routes(ns, name):
    return {"apiVersion": "specs.smi-spec.io/v1alpha4", "kind": "HTTPRouteGroup",
            "metadata": {"namespace": ns, "name": name},
            "spec": {"matches": [{"name": "read", "pathRegex": "/books.*", "methods": ["GET"]}]}}


def target(ns, name, source, destination, route_group):
    def reference(text):
        return {"kind": "ServiceAccount", "namespace": text.split("/")[0], "name": text.split("/")[1]}
    return {"apiVersion": "access.smi-spec.io/v1alpha3", "kind": "TrafficTarget",
            "metadata": {"namespace": ns, "name": name},
            "spec": {"destination": reference(destination), "sources": [reference(source)],
                     "rules": [{"kind": "HTTPRouteGroup", "name": route_group, "matches": ["read"]}]}}


def wait_for(what, condition, timeout=20):
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout} s: {what}")
        time.sleep(0.01)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(str(self.path))


class Controller:
    """A running osm-controller. Its log is parsed line by line: each must be JSON."""

    def __init__(self, program, mesh, state, *flags):
        self.state = pathlib.Path(state)
        self.process = subprocess.Popen(
            [program, "--mesh-dir", mesh, "--state-dir", state, "--ads-address", "127.0.0.1:0",
             "--http-address", "127.0.0.1:0", *flags], stderr=subprocess.PIPE, text=True)
        self.lines, self.started = [], queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.addresses = self.started.get(timeout=30)
        if self.addresses is None:
            raise AssertionError(f"the controller ended: {self.lines}")

    def _read(self):
        for text in self.process.stderr:
            try:
                line = json.loads(text)
            except ValueError:
                line = {"message": text, "level": "not JSON"}
            self.lines.append(line)
            if line["message"] == "osm-controller started":
                self.started.put(line)
        self.started.put(None)

    def log(self, part):
        return [line for line in list(self.lines) if part in line["message"]]

    def http(self, path, method="GET"):
        connection = http.client.HTTPConnection(self.addresses["http_address"], timeout=20)
        with contextlib.closing(connection):
            connection.request(method, path)
            response = connection.getresponse()
            return response.status, response.read().decode()

    def admin(self, path, method="GET", body=None):
        with contextlib.closing(UnixConnection(self.state / "admin.sock")) as connection:
            connection.request(method, path, json.dumps(body) if body is not None else None)
            response = connection.getresponse()
            return response.status, json.loads(response.read())

    def wait_until_ready(self):
        wait_for("ready", lambda: self.http("/health/ready")[0] == 200)

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


class DaemonTest(unittest.TestCase):
    bin = None  # set by run()

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="osm-daemons-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.mesh, self.state = self.folder / "mesh", self.folder / "state"
        self.mesh.mkdir()

    def write(self, name, *objects):
        self.write_text(name, "\n---\n".join(json.dumps(o, indent=1) for o in objects) + "\n")

    def write_text(self, name, text):
        """As an editor does it: a new file moved over the old one."""
        fresh = self.folder / f"{name}.new"
        fresh.write_text(text)
        os.rename(fresh, self.mesh / name)

    def start(self, *flags, state=None):
        controller = Controller(self.bin / "osm-controller", self.mesh, state or self.state, *flags)
        self.addCleanup(lambda: controller.process.poll() is None and controller.process.kill())
        return controller

    def refused(self, mesh=None, ads="127.0.0.1:0", http="127.0.0.1:0"):
        """What a controller that cannot start says."""
        done = subprocess.run(
            [self.bin / "osm-controller", "--mesh-dir", mesh or self.mesh, "--state-dir",
             self.state, "--ads-address", ads, "--http-address", http],
            capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr.splitlines()[-1]

    def osm(self, *arguments, state=None, env=None):
        """(exit code, stdout, stderr) of the command."""
        if state is None and "--help" not in arguments:
            state = self.state
        if state is not None:
            arguments = [*arguments, "--state-dir", state]
        done = subprocess.run([self.bin / "osm", *arguments], capture_output=True, text=True,
                              timeout=60, env=env)
        return done.returncode, done.stdout, done.stderr


def run():
    import argparse
    import sys
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    options, rest = parser.parse_known_args()
    DaemonTest.bin = options.bin.resolve()
    unittest.main(module="__main__", argv=[sys.argv[0], *rest], verbosity=2)
