#!/usr/bin/python3
"""examples/minimal has at most 40 lines and eight names of libosm, and configures its proxies.

usage: minimal_test.py --bin DIR
"""

import pathlib
import re
import subprocess
import unittest

import example

SOURCE = pathlib.Path(__file__).parents[2] / "examples" / "minimal" / "main.cpp"
MESH = """\
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {openservicemesh.io/monitored-by: osm}}
---
apiVersion: v1
kind: Service
metadata: {name: server, namespace: shop}
spec:
  clusterIP: 10.96.0.12
  selector: {app: server}
  ports: [{name: http, port: 14001}]
---
apiVersion: workload.openservicemesh.io/v1alpha1
kind: VirtualMachine
metadata: {name: server, namespace: shop, labels: {app: server}}
spec: {address: 10.200.0.12, serviceAccount: server}
---
apiVersion: workload.openservicemesh.io/v1alpha1
kind: VirtualMachine
metadata: {name: client, namespace: shop, labels: {app: client}}
spec: {address: 10.200.0.11, serviceAccount: client}
---
apiVersion: specs.smi-spec.io/v1alpha4
kind: HTTPRouteGroup
metadata: {name: reads, namespace: shop}
spec: {matches: [{name: get, pathRegex: ".*", methods: [GET]}]}
"""
PERMISSION = """\
apiVersion: access.smi-spec.io/v1alpha3
kind: TrafficTarget
metadata: {name: client-to-server, namespace: shop}
spec:
  destination: {kind: ServiceAccount, name: server, namespace: shop}
  sources: [{kind: ServiceAccount, name: client, namespace: shop}]
  rules: [{kind: HTTPRouteGroup, name: reads, matches: [get]}]
"""


class MinimalSource(unittest.TestCase):
    def test_it_has_at_most_forty_lines_and_eight_names_of_libosm(self):
        text = SOURCE.read_text()
        self.assertLessEqual(len(text.splitlines()), 40)
        names = set(re.findall(r"\bosm(?:::\w+)+", text))
        self.assertIn("osm::ControlPlane::start", names)
        self.assertLessEqual(len(names), 8, names)
        self.assertNotIn("using ", text)  # which would hide names


class Minimal(example.ExampleCase):
    def start_mesh(self):
        self.mesh = self.directory / "mesh"
        self.mesh.mkdir()
        (self.mesh / "shop.yaml").write_text(MESH)
        self.ca = self.directory / "ca"
        with open(self.directory / "log", "w") as log:
            self.program = subprocess.Popen(
                [example.BIN / "minimal", "127.0.0.1:0", self.mesh, self.ca],
                stderr=log,
                stdout=subprocess.PIPE,
                text=True,
            )
        self.addCleanup(self.end)  # SIGTERM, and exit status 0
        self.address = self.program.stdout.readline().strip()
        self.assertRegex(self.address, r"^127\.0\.0\.1:\d+$", self.log())

    def configuration(self, workload):
        done = self.run_program("minimal_proxy", self.address, self.mesh, self.ca, workload)
        self.assertEqual(done.returncode, 0, done.stderr + self.log())
        return done.stdout.splitlines()

    def test_proxies_get_what_the_directory_says_and_sigterm_ends_it(self):
        self.start_mesh()
        self.assertIn("CDS shop/server|14001|local", self.configuration("server"))
        self.assertNotIn("CDS shop/server|14001", self.configuration("client"))
        with self.subTest("a changed directory"):
            (self.mesh / "permission.yaml").write_text(PERMISSION)
            self.wait_for(lambda: "CDS shop/server|14001" in self.configuration("client"), True)

    def test_a_fault_is_one_sentence_and_a_failure(self):
        self.assertEqual(self.run_program("minimal").returncode, 2)
        done = self.run_program("minimal", "nowhere", self.directory, self.directory / "ca")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nowhere", done.stderr)


if __name__ == "__main__":
    example.main()
