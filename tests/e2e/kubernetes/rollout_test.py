#!/usr/bin/python3
"""Under a steady load, Deployments are rolled and the control plane is killed: nobody notices."""
import os
import signal
import time

from lib.kube import kubecase, mesh, shop
from lib.kube.under_load import UnderLoad
from lib.net.processes import wait_for


class Rolled(UnderLoad):
    REPLICAS, DRAIN = 2, 3

    def roll(self):
        self.wait_for_steady_load()
        since = time.time()
        self.restart("bookstore", "bookstore-v1", "bookstore-v2")
        self.judge(since)


class RolloutTest(Rolled):
    def test_a_rolling_update_loses_no_request(self):
        self.roll()

    def test_a_controller_that_is_killed_loses_no_request_and_catches_up(self):
        self.wait_for_steady_load()
        pod, = self.agent.pods(mesh.SYSTEM, "osm-controller")
        before = pod.containers[0].process.pid
        since = time.time()
        os.kill(before, signal.SIGKILL)
        wait_for("it runs again", lambda: pod.containers[0].process.pid != before)
        self.api.wait_for("is ready", "Pod", mesh.SYSTEM, pod.name, lambda p: any(
            c["type"] == "Ready" and c["status"] == "True" for c in p["status"]["conditions"]))
        # What is changed afterwards reaches the proxies.
        self.cluster.kubectl("apply", "-f", shop.FILES / "steps/split.yaml")
        self.addCleanup(self.cluster.kubectl, "apply", "-f", shop.FILES / "mesh/split.yaml")

        def shifted():
            answers = [self.buyer.get(f"{shop.SHOP}/books-bought")[1] for _ in range(40)]
            return sum('"version":"v2"' in a for a in answers) >= 29

        wait_for("the new split is in effect", shifted, 30)
        self.judge(since)


class ContainerSidecarTest(Rolled):
    """As before Kubernetes 1.29: every container is told to end at once, Envoy too."""

    @staticmethod
    def install(installed):
        installed.install()
        installed.stop_native_sidecars()

    def test_a_rolling_update_loses_no_request(self):
        self.assertIn("envoy", [c.name for c in self.buyer.run.containers])
        self.roll()


if __name__ == "__main__":
    kubecase.main()
