#!/usr/bin/python3
"""Rolling updates and a killed controller under load lose no request, with and without native sidecars."""

import os
import signal
import time

from lib.kube import kubecase, mesh, shop
from lib.kube.under_load import UnderLoad
from lib.net.processes import wait_for


class RolloutTest(UnderLoad):
    REPLICAS, DRAIN = 2, 3

    def use_sidecars(self, native):
        """Puts Envoy into every pod's init containers, or, as before Kubernetes 1.29, among its
        containers, which are all told to end at once."""
        if native != any(c.name == "envoy" for c in self.buyer.run.init_all):
            self.mesh.use_native_sidecars(native)
            self.restart("ledger", "ledger")
            self.restart("bookwarehouse", "bookwarehouse")
            self.restart("bookstore", "bookstore-v1", "bookstore-v2")
            self.restart("bookbuyer", "load")
            self.follow_load()
        self.wait_for_steady_load()

    def roll(self):
        since = time.time()
        self.restart("bookstore", "bookstore-v1", "bookstore-v2")
        self.judge(since)

    def test_a_rolling_update_loses_no_request(self):
        self.use_sidecars(native=True)
        self.roll()

    def test_a_rolling_update_with_sidecars_among_the_containers_loses_no_request(self):
        self.use_sidecars(native=False)
        for app in ("bookstore", "load"):
            ns = "bookbuyer" if app == "load" else app
            for pod in self.pods(ns, app):
                self.assertIn("envoy", [c["name"] for c in pod["spec"]["containers"]])
        self.roll()

    def daemons(self):
        return {p["metadata"]["uid"] for app in ("osm-controller", "osm-injector") for p in self.pods(mesh.SYSTEM, app)}

    def test_an_upgrade_and_its_rollback_replace_all_daemons_and_lose_no_request(self):
        self.use_sidecars(native=True)
        since = time.time()
        for level in ("debug", "info"):
            before = self.daemons()
            # The flag of native sidecars is the test's.
            mesh.osm(
                self.cluster,
                "upgrade",
                "--timeout",
                "90s",
                "--force-conflicts",
                "--set",
                f"osm.controllerLogLevel={level}",
            )
            self.assertEqual(set(), before & self.daemons())
            wait_for(
                "its proxies are connected",
                lambda: "in the mesh" in mesh.osm(self.cluster, "check"),
                30,
                retry=(RuntimeError,),
            )
        self.judge(since)

    def test_a_controller_that_is_killed_loses_no_request_and_catches_up(self):
        self.use_sidecars(native=True)
        (pod,) = self.agent.pods(mesh.SYSTEM, "osm-controller")
        before = pod.containers[0].process.pid
        self.agent.expect_restarts(pod.ns, pod.name, "osm-controller")
        since = time.time()
        os.kill(before, signal.SIGKILL)
        wait_for("it runs again", lambda: pod.containers[0].process.pid != before)
        self.api.wait_for(
            "is ready",
            "Pod",
            mesh.SYSTEM,
            pod.name,
            lambda p: any(c["type"] == "Ready" and c["status"] == "True" for c in p["status"]["conditions"]),
        )
        # A later change reaches the proxies.
        self.addCleanup(self.cluster.kubectl, "apply", "-f", shop.FILES / "mesh/split.yaml")
        self.cluster.kubectl("apply", "-f", shop.FILES / "steps/split.yaml")

        def shifted():
            answers = [self.buyer.get(f"{shop.SHOP}/books-bought")[1] for _ in range(40)]
            return sum('"version":"v2"' in a for a in answers) >= 29

        wait_for("the new split is in effect", shifted, 30)
        self.judge(since)


if __name__ == "__main__":
    kubecase.main()
