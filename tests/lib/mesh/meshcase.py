"""`MeshCase`, the base of the end-to-end tests: their command line, a mesh that ends with each test, load
and waits.
"""

import argparse
import sys
import threading
import time
import unittest

from lib.mesh import objects
from lib.mesh.rig import REFUSED, XDS, Programs, Rig
from lib.net.ports import listening
from lib.net.processes import NotYet, wait_for

PORT = 14001
# Every proxy is sent clusters and listeners, be they none; of the rest only what it asks for.
SETTLED = {"CDS": ("SYNCED",), "LDS": ("SYNCED",)}
_programs = None


def main():
    """--bin and --envoy say where the programs are; the rest is unittest's."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--envoy", default="build/tools/envoy/envoy/_bin/envoy")
    options, rest = parser.parse_known_args()
    global _programs
    _programs = Programs(options.bin, options.envoy)
    unittest.main("__main__", argv=[sys.argv[0], "-v", *rest])


class Load:
    """Requests of one machine, one after another, until it is stopped.

    `failures`: (when, answer or exception) of each request that was not answered 200.
    """

    def __init__(self, machine, host="server.server", interval=0.01):
        self.requests, self.failures, self._end = 0, [], threading.Event()
        self._machine, self._host, self._interval = machine, host, interval
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._end.wait(self._interval):
            try:
                answer = self._machine.get(self._host, PORT, "/books-bought")
            except Exception as failed:  # a thread that ends would report no failure at all
                answer = None, repr(failed)
            self.requests += 1
            if answer[0] != 200:
                self.failures.append((time.time(), answer))

    def check(self, test, more=3):
        """`more` requests from now are answered, and none failed so far."""
        before = self.requests
        wait_for("a few more requests", lambda: self.requests >= before + more)
        test.assertEqual(self.failures, [])

    def stop(self):
        self._end.set()
        self._thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class MeshCase(unittest.TestCase):
    """A rig per test. Logs of a failed one are kept, and their directory is named."""

    maxDiff = None
    make_rig = Rig

    def setUp(self):
        self.rig = self.make_rig(_programs)
        self.addCleanup(self._close)

    def _close(self):
        result = self._outcome.result
        self.rig.failed = any(getattr(test, "test_case", test) is self for test, _ in result.failures + result.errors)
        try:
            self.rig.watcher.check()  # of every run
        except AssertionError:
            self.rig.failed = True
            raise
        finally:
            self.rig.close()

    def add_machine(self, name, address, ns=None, labels=None):
        """A machine of account `name` in a namespace of its own, and the objects that say so."""
        ns = ns or name
        self.rig.mesh.write(
            f"machine-{name}.yaml",
            objects.namespace(ns),
            objects.account(ns, name),
            objects.machine(ns, name, address, name, labels),
        )
        return self.rig.add_vm(name, ns, address)

    def add_client_and_server(self):
        """Two machines, and the policy by which the one may read the other's books."""
        client = self.add_machine("client", "10.200.0.11")
        server = self.add_machine("server", "10.200.0.12")
        self.rig.mesh.write(
            "server.yaml",
            objects.service("server", "server", "10.96.0.12", PORT),
            objects.routes("server", "routes", books={"pathRegex": "/books-bought", "methods": ["GET"]}),
            objects.target(
                "server", "access", "server", [("client", "client")], ("HTTPRouteGroup", "routes", ["books"])
            ),
        )
        return client, server

    @staticmethod
    def ask_ledger(machine, address, port):
        """The ledger's answer to `machine` on a new connection, or REFUSED."""
        try:
            with machine.namespace.connect(address, port) as connection:
                connection.sendall(b"x\n")
                return connection.recv(100) or REFUSED
        except ConnectionError as closed:
            machine.assert_live(closed)
            return REFUSED

    def start_mesh(self, extra=()):
        """The controller, then every machine added so far. `extra`: arguments of each Envoy."""
        self.rig.start_controller()
        machines = self.rig.machines.values()
        for machine in machines:
            machine.bootstrap()
        for machine in machines:
            machine.start_proxy(wait=False, extra=extra)
        for machine in machines:
            machine.wait_until_live()

    def serve(self, machine, port=PORT, version="v1"):
        return machine.run(
            "app",
            self.rig.programs.bookstore,
            "serve",
            "--service",
            machine.name,
            "--version",
            version,
            "--listen",
            f"127.0.0.1:{port}",
        )

    def start_ledger(self, machine, port=7000):
        """A server of lines over TCP, which listens when this returns."""
        ledger = machine.run("ledger", self.rig.programs.bookstore, "ledger", "--listen", f"127.0.0.1:{port}")
        wait_for("the ledger listens", lambda: port in listening(ledger.pid), 10)

    def wait_for_status(self, machine, wanted, host, path="/books-bought", port=PORT, timeout=10):
        """Until `machine` gets `wanted`, a status or REFUSED, for a GET."""

        def seen():
            got = machine.get(host, port, path)
            if got[0] != wanted:
                raise NotYet(got)
            return True

        shown = "refused" if wanted == REFUSED else wanted
        wait_for(f"{machine.name} gets {shown} from {host}{path}", seen, timeout)

    def wait_until_synced(self, count=None):
        def synced():
            proxies = self.proxies()
            owing = [
                f"{name} {kind} {t['state']}"
                for name, p in proxies.items()
                for kind, t in p["types"].items()
                if t["state"] not in SETTLED.get(kind, ("SYNCED", "NOT SENT"))
            ]
            self.assertEqual({p["xds"] for p in proxies.values()} - {XDS}, set())
            if owing or len(proxies) != (count or len(self.rig.machines)):
                raise NotYet(f"connected: {sorted(proxies)}; {', '.join(owing)}")
            return True

        wait_for("every proxy is connected and in sync", synced)

    def proxies(self):
        """{workload name: what the controller knows of its proxy}."""
        return {p["name"].split("/")[-1]: p for p in self.rig.admin("GET", "/v1/proxies")["proxies"]}
