#!/usr/bin/python3
"""A machine is drained, taken back and leaves the mesh under load: no request fails, and no file or
iptables chain stays.
"""

import json
import os
import subprocess
import threading

from lib.mesh import meshcase, objects
from lib.mesh.rig import PROXY_UID
from lib.net.processes import wait_for

HOST = "server.server"
PORT = meshcase.PORT
NAT, FILTER = ("iptables", "-t", "nat", "-S"), ("iptables", "-t", "filter", "-S")


class Requests:
    """Requests of the client, one after another: which machine answered each, or why none did."""

    def __init__(self, machine):
        self.answers, self.failures = [], []
        self._machine, self._end = machine, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._end.wait(0.01):
            try:
                status, body = self._machine.get(HOST, PORT, "/books-bought")
            except Exception as failed:  # a thread that ends would report no failure at all
                status, body = None, repr(failed)
            if status == 200:
                self.answers.append(json.loads(body)["version"])
            else:
                self.failures.append((status, body))

    def next(self, count):
        """The machines that answer the next `count` requests."""
        begin = len(self.answers)
        wait_for(f"{count} more answers", lambda: len(self.answers) >= begin + count, 30)
        return set(self.answers[begin : begin + count])

    def stop(self):
        self._end.set()
        self._thread.join()


class Leave(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client, self.one = self.add_client_and_server()
        self.rig.mesh.write(
            "second.yaml", objects.machine("server", "server-2", "10.200.0.13", "server", {"app": "server"})
        )
        self.two = self.rig.add_vm("server-2", "server", "10.200.0.13")
        self.start_mesh()
        self.serve(self.one, version="one")
        self.serve(self.two, version="two")
        self.wait_for_status(self.client, 200, HOST)
        self.wait_until_synced()
        self.requests = Requests(self.client)
        self.addCleanup(self.requests.stop)
        self.wait_for_both()

    def wait_for_both(self):
        wait_for("both machines answer", lambda: self.requests.next(20) == {"one", "two"}, 30)

    def drain(self, machine, *more):
        return self.rig.osm("vm", "drain", machine.name, "-n", machine.ns, *more)

    def leave_command(self, machine, grace="1s"):
        return machine.namespace.command(
            self.rig.programs.osm, "vm", "leave", "--dir", machine.directory, "--grace", grace
        )

    def leave(self, machine, *more):
        return subprocess.run([*self.leave_command(machine), *more], capture_output=True, text=True, timeout=60)

    def rules(self, machine):
        return "".join(machine.namespace.run(*command).stdout for command in (NAT, FILTER))

    def drained(self):
        file = self.rig.state / "drained-machines.json"
        record = json.loads(file.read_text() if file.exists() else '{"machines": []}')
        return [machine["name"] for machine in record["machines"]]

    def test_a_drained_machine_gets_no_request_until_it_is_taken_back(self):
        told = self.drain(self.one)
        self.assertIn("server/server is drained", told)
        self.requests.next(3)  # Envoy's worker has the endpoints a moment after it acknowledged
        self.assertEqual({"two"}, self.requests.next(60))
        self.assertIn("server", self.proxies())  # it is still served
        self.assertEqual(["server"], self.drained())

        with self.subTest("a controller that starts again does not forget it"):
            self.rig.stop_controller()
            self.rig.start_controller()
            self.wait_until_synced()
            self.assertEqual({"two"}, self.requests.next(60))

        self.assertIn("taken back", self.drain(self.one, "--undo"))
        self.wait_for_both()
        self.assertEqual([], self.drained())
        self.requests.stop()
        self.assertEqual([], self.requests.failures)

    def test_a_machine_leaves_and_nothing_of_the_mesh_stays_on_it(self):
        self.assertIn("OSM_PROXY", self.rules(self.two))
        for name in ("workload_key.pem", "workload_cert.pem", "workload_roots.pem", "grpc_bootstrap.json"):
            (self.two.directory / name).write_text("of a gRPC library")
        left = self.leave(self.two)
        self.assertEqual((0, ""), (left.returncode, left.stderr))
        self.assertIn("delete the machine's VirtualMachine", left.stdout)
        self.assertEqual({"one"}, self.requests.next(60))
        self.assertFalse(self.two.directory.exists())
        self.assertNotIn("OSM_PROXY", self.rules(self.two))
        self.assertEqual(["server-2"], self.drained())
        self.two.stop_proxy()
        self.rig.mesh.remove("second.yaml")
        wait_for("the machine to go", lambda: "server-2" not in self.proxies())
        self.assertEqual({"one"}, self.requests.next(20))
        self.requests.stop()
        self.assertEqual([], self.requests.failures)

    def test_root_runs_the_script_that_was_checked_and_no_other(self):
        script, proof = self.two.directory / "intercept.sh", self.rig.directory / "proof"
        os.chown(self.two.directory, PROXY_UID, PROXY_UID)
        refused = self.leave(self.two)
        self.assertEqual(3, refused.returncode, refused.stderr)
        self.assertIn(f"{self.two.directory}: is not root's alone", refused.stderr)
        self.assertEqual([], self.drained())
        os.chown(self.two.directory, 0, 0)
        whole = script.read_bytes()
        script.unlink()
        script.symlink_to("/bin/true")
        self.assertEqual(3, self.leave(self.two).returncode)
        script.unlink()
        script.write_bytes(whole)
        script.chmod(0o700)

        leaving = subprocess.Popen(
            self.leave_command(self.two, "10s"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        wait_for("the machine to be drained", lambda: self.drained() == ["server-2"], 30)
        other = self.two.directory / "other"
        other.write_text(f"#!/bin/sh\nid > {proof}\n")
        other.chmod(0o700)
        other.rename(script)
        _, told = leaving.communicate(timeout=60)
        self.assertEqual((0, ""), (leaving.returncode, told))
        self.assertFalse(proof.exists())
        self.assertNotIn("OSM_PROXY", self.rules(self.two))
        self.requests.stop()
        self.two.stop_proxy()

    def test_without_an_answer_a_machine_leaves_by_force_only(self):
        self.rig.stop_controller()
        refused = self.leave(self.two, "--timeout", "1s")
        self.assertNotEqual(0, refused.returncode)
        self.assertIn(self.rig.ads_address, refused.stderr)
        self.assertTrue((self.two.directory / "sds_key.pem").exists())
        self.assertIn("OSM_PROXY", self.rules(self.two))
        (self.two.directory / "notes.txt").write_text("somebody's own")
        self.requests.stop()  # nobody could tell the client
        left = self.leave(self.two, "--timeout", "1s", "--force")
        self.assertEqual(0, left.returncode, left.stderr)
        self.assertIn("Not drained", left.stdout)
        self.assertNotIn("OSM_PROXY", self.rules(self.two))
        self.assertEqual(["notes.txt"], [path.name for path in self.two.directory.iterdir()])
        self.two.stop_proxy()

    def test_who_is_no_machine_of_the_mesh_cannot_be_drained(self):
        with self.assertRaisesRegex(Exception, "the mesh has no VirtualMachine server/nobody"):
            self.rig.osm("vm", "drain", "nobody", "-n", "server")
        self.assertEqual({"one", "two"}, self.requests.next(60))


if __name__ == "__main__":
    meshcase.main()
