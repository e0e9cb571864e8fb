#!/usr/bin/python3
"""A root is replaced under load with two controllers, one killed; running sidecars follow from their
Secrets. A newer version of the mesh was there before.
"""

import os
import re
import signal
import time

from lib.kube import kubecase, mesh, shop
from lib.kube.rotation import (
    BUNDLE,
    CERTIFICATE,
    KEY,
    RENEW_AFTER,
    VOLUME,
    RotationCase,
    certificates_in,
    documented_commands,
    serial_of,
)
from lib.net.processes import wait_for

NEXT = "mesh-2027"
SHOP = f"{shop.SHOP}/books-bought"
REFUSED = "certificate verify failed"
NEWER, TARGETS = "99.0.0", "traffictargets.access.smi-spec.io"
HOOKS = (
    ("MutatingWebhookConfiguration", "libosm-webhook-osm", 20),
    ("ValidatingWebhookConfiguration", "libosm-validator-osm", 10),
)


class RootRotation(RotationCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.leave_objects_of_a_newer_version()

    @staticmethod
    def install(installed):
        installed.install("osm.osmController.replicaCount=2")

    @classmethod
    def leave_objects_of_a_newer_version(cls):
        """The cluster as after `osm upgrade` of a newer version and a rollback of the programs alone,
        such as `kubectl rollout undo`."""
        version = {"op": "add", "path": "/metadata/labels/app.kubernetes.io~1version", "value": NEWER}
        cls.api.patch("CustomResourceDefinition", None, TARGETS, [version])
        for kind, name, _ in HOOKS:
            cls.api.patch(
                kind, None, name, [version, {"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 7}]
            )
        values = cls.api.get("ConfigMap", mesh.SYSTEM, "osm-values")
        labels = values["metadata"]["labels"] | {"app.kubernetes.io/version": NEWER}
        cls.api.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "data": values["data"],
                "metadata": {"name": "osm-values", "namespace": mesh.SYSTEM, "labels": labels},
            },
            manager="osm-install",
        )

    def check_the_rollback(self):
        """`osm upgrade` of this version, after the programs of it have rotated a root."""
        for kind, name, _ in HOOKS:
            self.assertEqual(7, self.api.get(kind, None, name)["webhooks"][0]["timeoutSeconds"])
        told = mesh.osm(self.cluster, "upgrade", "--timeout", "60s")
        self.assertIn(f"version {NEWER} to ", told)
        self.assertRegex(told, rf"(?m)^kept +CustomResourceDefinition {TARGETS}$")
        self.assertRegex(told, r"(?m)^unchanged +Deployment osm-system/osm-controller$")
        for kind, name, seconds in HOOKS:
            found = self.api.get(kind, None, name)
            self.assertNotEqual(NEWER, found["metadata"]["labels"]["app.kubernetes.io/version"])
            self.assertEqual(seconds, found["webhooks"][0]["timeoutSeconds"])

    def test_a_proxy_certificate_is_renewed_in_its_secret(self):
        self.wait_for_steady_load()
        since, before = time.time(), self.envoys()
        pod = self.pod_of("bookstore", "bookstore")
        secret, old = self.secret_of(pod), serial_of(self.files_of(pod)[CERTIFICATE])
        self.api.patch(
            "Secret", "bookstore", secret, {"metadata": {"annotations": {RENEW_AFTER: "2020-01-01T00:00:00Z"}}}
        )
        # A new leader looks at all Secrets at once, and the present one within a minute.
        leader = self.leader()
        self.api.delete("Pod", leader.ns, leader.name)

        def renewed():
            serial = serial_of(self.files_of(pod)[CERTIFICATE])
            return None if serial == old else serial

        new = wait_for("the Secret has another certificate", renewed, 100, interval=1)
        annotations = self.api.get("Secret", "bookstore", secret)["metadata"]["annotations"]
        for days, check in ((17, self.assertGreater), (20, self.assertLessEqual)):  # of 30
            check(
                annotations[RENEW_AFTER], time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + days * 86400))
            )

        def taken_up():
            serials = self.in_use(pod)[0]
            return new in serials and old not in serials

        wait_for("Envoy has it, and the old one no more", taken_up, 20)
        self.wait_until_available(mesh.SYSTEM, "osm-controller")
        self.assertEqual(before, self.envoys())
        self.judge(since)

    def test_a_root_follows_another_without_a_failed_request(self):
        self.wait_for_steady_load()
        since, before = time.time(), self.envoys()
        old_files = self.files_of(self.quiet)
        own = self.root_in("osm-ca-bundle")
        self.assertEqual({"(own)": "signing"}, self.record())

        # As of a kubelet that is late: this sidecar goes on with the old certificate.
        self.quiet.run.volumes.refresh = lambda: None
        declare = documented_commands()[1]
        (rotate,) = documented_commands("Rotate on Kubernetes by one command")
        with self.subTest("what is not granted is told, and nothing happens"):
            self.shell(declare.partition("kubectl wait")[0])
            wait_for(
                "it says what to do",
                lambda: (
                    "get and create that Secret"
                    in self.api.get("MeshRootCertificate", mesh.SYSTEM, NEXT)["status"]["message"]
                ),
                20,
                retry=(KeyError,),
            )
            self.wait_for_states(own="signing", mesh_2027="inactive")
        with self.subTest("one command grants and follows it, with a kubeconfig only"):
            self.shell(f"{rotate.splitlines()[0]} --wait 1ms || test $? = 5")
            self.wait_for_states(mesh_2027="signing", own="draining")
        ca = self.root_in(f"{NEXT}-ca")
        self.wait_for_states(mesh_2027="signing", own="draining")
        with self.subTest("kubectl shows it"):
            # The status is written after the state that the admin API tells.
            wait_for(
                "the state signing",
                lambda: re.search(rf"{NEXT} +active +signing", self.cluster.kubectl("get", "mrc", "-n", mesh.SYSTEM)),
                20,
            )
        with self.subTest("running sidecars take their new certificates up, and trust both roots"):
            self.wait_until_taken_up(ca, but={self.quiet.name})
            bundle = certificates_in(self.files_of(self.quiet)[BUNDLE])
            self.assertEqual({serial_of(own), serial_of(ca)}, set(map(serial_of, bundle)))
            self.assertEqual(before, self.envoys())
        with self.subTest("a pod that is made meanwhile is served"):
            late = self.start_idle_pod("late")
            self.wait_for_answer(late, 200, SHOP)
            self.assertTrue(self.signed_by(self.files_of(late)[CERTIFICATE], ca))
        with self.subTest("it waits for the sidecar that has the old certificate, and says so"):
            wait_for("it is named", lambda: self.quiet.name in self.roots()["(own)"]["waiting_for"], 40)
        with self.subTest("another replica goes on when the one that takes the steps is killed"):
            holder, leader = self.holder(), self.leader()
            self.agent.expect_restarts(leader.ns, leader.name, "osm-controller")
            os.kill(leader.containers[0].process.pid, signal.SIGKILL)
            wait_for("another one takes the steps", lambda: self.holder() != holder, 40)
            self.wait_until_available(mesh.SYSTEM, "osm-controller")
            self.wait_for_states(mesh_2027="signing", own="draining")

        del self.quiet.run.volumes.refresh
        self.wait_for_states(timeout=100, mesh_2027="signing", own="inactive")
        self.check_all_is_of(ca)
        with self.subTest("the older version is installed again"):
            self.check_the_rollback()
            self.wait_until_webhooks_trust(ca)
        self.wait_until_taken_up(ca)
        self.assertLessEqual(before.items(), self.envoys().items())
        self.wait_for_answer(late, 200, SHOP)
        self.judge(since)
        self.check_that_the_old_certificate_is_refused(old_files)

    def check_that_the_old_certificate_is_refused(self, old_files):
        """A sidecar that starts with what its Secret held before the rotation."""
        run, paths = self.quiet.run, self.quiet.run.volumes
        self.rig.watcher.forget(self.proxies.pop(run))  # its Envoy is killed below
        run.volumes.refresh = lambda: None
        self.addCleanup(wait_for, "the refused pod is gone", run.gone.is_set, 60)
        self.addCleanup(self.api.delete, "Deployment", "bookbuyer", "quiet")
        path = run.volume_paths[VOLUME]
        files = paths._written[path]
        paths._write(
            path,
            {
                name: (old_files[name].encode() if name in (CERTIFICATE, KEY) else content, mode)
                for name, (content, mode) in files.items()
            },
        )
        refused = self.refusals()
        envoy = next(c for c in run.init_all if c.name == "envoy")
        self.agent.expect_restarts(run.ns, run.name, "envoy")
        envoy.signal(signal.SIGKILL)
        wait_for("the controllers refuse it", lambda: self.refusals() > refused, 20)
        connected = self.osm("proxy", "list")["proxies"]
        self.assertNotIn(self.quiet.name, [p["name"] for p in connected])

    def refusals(self):
        return sum(
            self.agent.log_of(run, "osm-controller").read_text(errors="replace").count(REFUSED)
            for run in self.agent.pods(mesh.SYSTEM, "osm-controller")
        )


if __name__ == "__main__":
    kubecase.main()
