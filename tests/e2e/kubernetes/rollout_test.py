#!/usr/bin/env python3
"""Under a steady load, Deployments are rolled and the control plane is killed: nobody notices."""
import json
import os
import signal
import sys
import time

import kubecase
import mesh
import shop
from processes import wait_for

sys.path.append(str(shop.FILES))
from bookstore import Load  # noqa: E402  (the demo's judge of a load)


class UnderLoad(kubecase.MeshCase):
    """The bookstore, and a client that never rests."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        shop.install(cls, replicas=2, drain=3)
        cls.api.apply(shop.load())
        cls.wait_until_available("bookbuyer", "load")
        cls.buyer = cls.pod_of("bookbuyer", "load")
        cls.report = cls.buyer.run.volume_paths["report"] / "report.json"
        # A connection of before the mesh was whole may have been closed again: not judged.
        wait_for("the load is up", cls.steady, 60)

    def judge(self, since):
        """Requests since then; none of them failed, and no connection of the client broke."""
        def told():
            report = json.loads(self.report.read_text())
            return report if max(s["t"] for s in report["seconds"]) > time.time() - 2 else None

        time_up = time.time()
        wait_for("some seconds have passed since", lambda: time.time() > time_up + 5, 10)
        report = wait_for("the report is recent", told)
        failures = [f"{f['what']} {f['t'] - since:+.2f} s" for f in report["failures"]
                    if f["t"] >= since]
        requests = sum(s["requests"] for s in report["seconds"] if s["t"] >= since)
        lines = sum(s["lines"] for s in report["seconds"] if s["t"] >= since)
        print(f"{requests} requests, {lines} lines, {len(failures)} failures", file=sys.stderr)
        self.assertEqual([], failures)
        self.assertGreater(requests, 100)
        self.assertGreater(lines, 10)

    @classmethod
    def steady(cls):
        """Whether requests and lines alike were answered in the last seconds, and none failed."""
        report = json.loads(cls.report.read_text())
        last = [s for s in report["seconds"] if time.time() - 4 < s["t"] < time.time() - 1]
        return len(last) >= 2 and all(
            s["requests"] > 50 and s["lines"] > Load.STREAMS for s in last) and not [
                f for f in report["failures"] if f["t"] > time.time() - 3]

    def wait_for_steady_load(self):
        wait_for("the load is answered", self.steady, 30)

    def roll(self):
        self.wait_for_steady_load()
        since = time.time()
        self.restart("bookstore", "bookstore-v1", "bookstore-v2")
        self.judge(since)


class RolloutTest(UnderLoad):
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


class ContainerSidecarTest(UnderLoad):
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
