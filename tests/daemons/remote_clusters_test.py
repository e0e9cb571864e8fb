#!/usr/bin/python3
"""A kubeconfig that cannot be used is left out alone and told by name, and a cluster that is away keeps no
controller from starting.

usage: remote_clusters_test.py --bin DIRECTORY
"""

import json
import re
import subprocess

from lib.mesh.daemon import DaemonTest, run
from lib.net.processes import wait_for

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "a",
    "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "a", "user": {"token": "secret-token"}}],
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
}


class RemoteClusters(DaemonTest):
    def test_each_fault_is_told_with_its_file_and_the_rest_serves(self):
        clusters = self.folder / "clusters"
        (clusters / "..data").mkdir(parents=True)  # as in a Secret's volume
        (clusters / "north").write_text(json.dumps(KUBECONFIG))
        (clusters / "west").write_text("clusters: [")
        (clusters / "East_1").write_text(json.dumps(KUBECONFIG))
        (clusters / "south").write_text(json.dumps(KUBECONFIG))
        controller = self.start("--remote-clusters", clusters, "--cluster-name", "south")
        controller.wait_until_ready()

        def told():
            text = " ".join(self.osm("problems")[1].split())
            return text if "https://127.0.0.1:1" in text else None

        problems = wait_for("the cluster does not answer", told, 20)
        self.assertIn(f"{clusters}/west", problems)
        self.assertIn(f"{clusters}/East_1", problems)
        self.assertIn("must be a DNS label of at most 52 bytes", problems)
        self.assertIn(f"{clusters}/south", problems)
        self.assertIn("(--cluster-name)", problems)
        self.assertNotIn("secret-token", problems + json.dumps(controller.lines))
        self.assertNotIn("..data", problems)
        series = 'osm_endpoints_provider_synced{provider="kubernetes-north"}'
        self.assertEqual(0, controller.metric(series))
        page = controller.http("/metrics")[1]
        # Another cluster's informers are told from those of the controller's own.
        stale = re.findall(r"^osm_kubernetes_watch_staleness_seconds\{([^}]*)\}", page, re.M)
        self.assertTrue(stale, page)
        for labels in stale:
            self.assertIn('remote_cluster="north"', labels)
        self.assertNotIn("kubernetes-west", page)
        self.assertEqual(0, controller.stop())

    def test_a_directory_that_is_missing_is_told(self):
        controller = self.start("--remote-clusters", self.folder / "none")
        controller.wait_until_ready()
        problems = " ".join(self.osm("problems")[1].split())
        self.assertIn(f"{self.folder}/none", problems)
        self.assertIn("correct --remote-clusters", problems)

    def test_a_name_that_is_no_label_is_wrong_usage(self):
        for name in ("East", "a.b", "a" * 53):
            code, _, error = self.osm_controller("--cluster-name", name)
            self.assertEqual(2, code)
            self.assertIn("is not a DNS label of at most 52 bytes", error)

    def osm_controller(self, *flags):
        done = subprocess.run(
            [self.bin / "osm-controller", "--mesh-dir", self.mesh, *flags], capture_output=True, text=True, timeout=20
        )
        return done.returncode, done.stdout, done.stderr


if __name__ == "__main__":
    run()
