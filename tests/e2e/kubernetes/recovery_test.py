#!/usr/bin/python3
"""The runbooks of docs/recover.md end disasters under load: the CA's Secret lost, damaged or replaced
without a backup; the mount of Vault lost, replaced and restored; the Issuer of cert-manager lost; etcd
restored from an old backup; webhooks deleted while no daemon runs.
"""

import shutil
import signal
import sys
import time

from lib.kube import kubecase, mesh, shop
from lib.kube import kubeobjects as k8s
from lib.kube.api import ApiError
from lib.kube.cert_manager import CertManager
from lib.kube.rotation import CERTIFICATE, IDLE, RotationCase, documented_commands
from lib.kube.vault_service import install_with_vault
from lib.mesh import objects
from lib.mesh.vault_server import documented_commands as documented_commands_of_vault
from lib.net.processes import FairClock, NotYet, wait_for

SHOP = f"{shop.SHOP}/books-bought"
PAGE = mesh.ROOT / "docs/recover.md"
# An attempt to connect takes 5 s at most, the next comes 4 s later, and this machine is busy.
NOTICED = 25


def commands(heading):
    return documented_commands(heading, PAGE)


class Recovery(RotationCase):
    def setUp(self):
        super().setUp()
        self.wait_for_steady_load()
        self.since, self.before = time.time(), self.envoys()

    def check_nobody_was_disturbed(self):
        self.assertLessEqual(self.before.items(), self.envoys().items())
        self.judge(self.since)

    def check_a_pod_is_served(self, name, ca):
        pod = self.start_idle_pod(name)
        self.wait_for_answer(pod, 200, SHOP)
        self.assertTrue(self.signed_by(self.files_of(pod)[CERTIFICATE], ca))

    def declare_the_next_root(self):
        for command in documented_commands()[:2]:
            self.shell(command)

    def replace_the_root(self):
        """Without a backup of the CA, which is lost."""
        self.declare_the_next_root()
        ca = self.root_in("mesh-2027-ca")
        self.wait_for_states(timeout=150, mesh_2027="signing", own="inactive")
        self.shell(commands("Replace the root of a lost CA")[0])
        self.assertIsNone(self.api.find("Secret", mesh.SYSTEM, "osm-ca-bundle"))
        self.check_a_pod_is_served("replaced", ca)
        self.wait_until_taken_up(ca)
        self.check_all_is_of(ca)
        self.check_nobody_was_disturbed()

    def refused_pod(self):
        """Why no pod can be made, or None."""
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "refused-", "namespace": "bookbuyer"},
            "spec": {"serviceAccountName": "bookbuyer", "containers": [k8s.shell_container("app", IDLE)]},
        }
        try:
            made = self.api.request("POST", "/api/v1/namespaces/bookbuyer/pods", pod, timeout=40)
        except ApiError as refused:
            return refused.message
        self.api.delete("Pod", "bookbuyer", made["metadata"]["name"])
        return None


class SecretTest(Recovery):
    """The Secret of the mesh's own CA is lost."""

    def lose(self):
        self.api.delete("Secret", mesh.SYSTEM, "osm-ca-bundle")

    def start_in_vain(self, app, message):
        """A further pod of a daemon ends with this message. Result: its name."""
        known = {p["metadata"]["name"] for p in self.pods(mesh.SYSTEM, app)}
        self.api.patch("Deployment", mesh.SYSTEM, app, {"spec": {"replicas": 2}})
        new = wait_for(
            "there is another pod", lambda: {p["metadata"]["name"] for p in self.pods(mesh.SYSTEM, app)} - known, 20
        ).pop()
        self.agent.expect_restarts(mesh.SYSTEM, new, app)

        def told():
            log = self.rig.directory / f"pod.{mesh.SYSTEM}.{new}.{app}.log"
            return log.exists() and message in log.read_text(errors="replace")

        wait_for(f"the new {app} says that it {message}", told, 30)
        return new

    def scale(self, replicas):
        for name in ("osm-controller", "osm-injector"):
            self.api.patch("Deployment", mesh.SYSTEM, name, {"spec": {"replicas": replicas}})

    def test_0_webhooks_are_deleted_while_no_daemon_runs(self):
        delete, restore = commands("Webhooks that block the cluster")
        policy = objects.target(
            "bookstore",
            "late",
            "bookstore-v1",
            [("bookbuyer", "late")],
            ("HTTPRouteGroup", "bookstore", ["books-bought"]),
        )
        ca = self.root_in("osm-ca-bundle")
        self.scale(0)
        wait_for("no daemon is left", lambda: not self.agent.pods(mesh.SYSTEM, "osm-"), 60)
        self.assertIn('failed calling webhook "osm-inject.k8s.io"', self.refused_pod())
        with self.assertRaisesRegex(ApiError, 'failed calling webhook "osm-validator.k8s.io"'):
            self.api.apply(policy)
        self.shell(delete)
        wait_for("pods are created again", lambda: self.refused_pod() is None, 30)
        wait_for("policies are stored again", lambda: self.api.apply(policy), retry=(ApiError,))
        self.scale(1)
        self.shell(restore)
        self.check_a_pod_is_served("after-webhooks", ca)
        self.check_nobody_was_disturbed()

    def test_1_a_lost_secret_is_restored(self):
        backup, restore = commands("The CA's Secret")[0], commands("Restore the Secret")
        ca = self.root_in("osm-ca-bundle")
        self.shell(backup)
        for damage, message in (
            (self.lose, "is gone"),
            (
                lambda: self.api.patch("Secret", mesh.SYSTEM, "osm-ca-bundle", {"data": {"private.key": None}}),
                "is missing",
            ),
        ):
            with self.subTest(message):
                damage()
                self.check_a_pod_is_served("without-" + message.replace(" ", "-"), ca)
                self.start_in_vain("osm-controller", message)
                self.assertEqual({"(own)": "signing"}, self.record())
                self.shell(restore[0])
                self.assertEqual(ca, self.root_in("osm-ca-bundle"))
                self.api.patch("Deployment", mesh.SYSTEM, "osm-controller", {"spec": {"replicas": 1}})
                self.assertIn("successfully rolled out", self.shell(restore[1]))
        self.check_a_pod_is_served("restored", ca)
        self.check_all_is_of(ca)
        self.check_nobody_was_disturbed()

    def test_2_the_root_of_a_lost_secret_is_replaced(self):
        self.lose()
        self.replace_the_root()


class VaultTest(Recovery):
    """Vault loses the mount that signs for the mesh."""

    @staticmethod
    def install(installed):
        VaultTest.vault = install_with_vault(VaultTest.rig, installed)

    def set_aside(self, name):
        """Vault's storage, of which an administrator has a copy."""
        shutil.copytree(self.vault.directory / "data", self.vault.directory / name)

    def restart_vault(self, change):
        self.vault.stop()
        change()
        self.vault.start()
        self.vault.unseal()

    def restore_vault(self):
        data = self.vault.directory / "data"
        shutil.rmtree(data)
        (self.vault.directory / "backup").rename(data)

    def wait_for_problem(self, text):
        def told():
            problems = self.shell("osm problems || true")
            if text not in problems:
                raise NotYet(problems)
            return True

        wait_for(f"osm problems says '{text}'", told, 90, interval=2)

    def test_a_lost_mount_is_restored(self):
        ca = (self.vault.directory / "root.pem").read_text()
        self.restart_vault(lambda: self.set_aside("backup"))
        with self.subTest("the mount is gone"):
            self.vault.run("vault secrets disable pki; vault secrets disable pki-root")
            self.assertIn("Vault", self.refused_pod())
            self.wait_for_problem("Vault")
        with self.subTest("another root is in its place"):
            for block in ("authorities", "role"):
                self.vault.run(documented_commands_of_vault()[block])
            wait_for(
                "pods are refused for it",
                lambda: "does not end at a root of the trust bundle" in (self.refused_pod() or ""),
                90,
                interval=2,
            )
            self.wait_for_problem("other roots than the mesh trusts")
        with self.subTest("Vault's backup is restored"):
            # It does not know the daemons' present tokens.
            self.restart_vault(self.restore_vault)
            self.vault.run("vault lease revoke -prefix auth/kubernetes/login")
            wait_for("pods are taken again", lambda: self.refused_pod() is None, 100, interval=2)
            for command in commands("Vault"):
                self.shell(command)
        self.check_a_pod_is_served("restored", ca)
        self.check_nobody_was_disturbed()


class CertManagerTest(Recovery):
    """The Issuer that signs for the mesh is lost with its Secret."""

    @staticmethod
    def install(installed):
        installed.cluster.api.apply(k8s.namespace(mesh.SYSTEM))
        CertManager(installed.cluster).set_up()
        installed.install("osm.certificateProvider.kind=cert-manager")

    def lose(self):
        self.api.delete("Issuer", mesh.SYSTEM, "osm-ca")
        self.api.delete("Secret", mesh.SYSTEM, "osm-ca")
        self.assertIsNotNone(self.refused_pod())

    def test_2_the_root_of_a_lost_issuer_is_replaced(self):
        self.lose()
        self.declare_the_next_root()
        self.wait_for_states(mesh_2027="signing")
        self.check_a_pod_is_served("replaced", self.root_in("mesh-2027-ca"))
        self.check_nobody_was_disturbed()

    def test_1_a_lost_issuer_is_restored(self):
        backup, restore = commands("cert-manager")
        self.shell(backup)
        ca = self.cluster.pki.ca.read_text()
        self.lose()
        self.shell(restore)
        wait_for("pods are taken again", lambda: self.refused_pod() is None, 60, interval=1)
        for command in commands("Vault"):
            self.assertIn("successfully rolled out", self.shell(command))
        self.check_a_pod_is_served("restored", ca)
        self.check_nobody_was_disturbed()


class EtcdTest(Recovery):
    """The cluster's etcd comes back from an old backup."""

    @staticmethod
    def install(installed):
        installed.install("osm.osmController.replicaCount=2")

    def back_up_etcd(self):
        self.cluster.processes["etcd"].end(signal.SIGTERM)
        shutil.copytree(self.cluster.directory / "etcd", self.cluster.directory / "backup")
        self.cluster.start_etcd()
        self.cluster.wait_for_api()

    def restore_etcd(self):
        """And restarts the programs of Kubernetes, as its documentation says."""
        for name in ("kube-proxy", "kube-controller-manager", "kube-apiserver", "etcd"):
            self.cluster.processes[name].end(signal.SIGKILL)
        shutil.rmtree(self.cluster.directory / "etcd")
        (self.cluster.directory / "backup").rename(self.cluster.directory / "etcd")
        self.cluster.start_etcd()
        self.cluster.start_api_server(wait=False)
        self.cluster.start_controller_manager()
        self.cluster.start_proxy(self.agent.nodes[0])
        self.cluster.wait_for_api()

    def permission(self, account):
        return [
            objects.target(
                "bookstore",
                f"{account}-{v}",
                f"bookstore-{v}",
                [("bookbuyer", account)],
                ("HTTPRouteGroup", "bookstore", ["books-bought"]),
            )
            for v in ("v1", "v2")
        ]

    def start_guest(self, name):
        self.api.apply(
            k8s.account("bookbuyer", name),
            k8s.deployment("bookbuyer", name, [k8s.shell_container("app", IDLE)], account=name),
        )
        self.wait_until_available("bookbuyer", name)
        return self.pod_of("bookbuyer", name)

    def revision(self):
        found = self.api.request("GET", "/api/v1/namespaces?limit=1")
        return int(found["metadata"]["resourceVersion"])

    def use_up(self, revisions):
        for number in range(revisions):
            self.api.apply(
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "any", "namespace": "default"},
                    "data": {"number": str(number)},
                }
            )

    def test_an_old_backup_of_etcd(self):
        withdrawn, granted = map(self.start_guest, ("withdrawn", "granted"))
        self.api.apply(*self.permission("withdrawn"))
        self.wait_for_answer(withdrawn, 200, SHOP)
        self.before = self.envoys()
        ca = self.root_in("osm-ca-bundle")
        daemons = {p["metadata"]["uid"] for p in self.pods(mesh.SYSTEM)}
        self.back_up_etcd()
        backed_up = self.revision()
        for target in self.permission("withdrawn"):
            self.api.delete("TrafficTarget", "bookstore", target["metadata"]["name"])
        self.api.apply(*self.permission("granted"))
        self.wait_for_refusal(withdrawn)
        self.wait_for_answer(granted, 200, SHOP)
        self.use_up(300)
        lost = self.revision()
        self.restore_etcd()
        clock = FairClock()
        self.assertLess(self.revision(), lost)
        self.assertGreaterEqual(self.revision(), backed_up)
        self.wait_for_answer(withdrawn, 200, SHOP, timeout=60)
        self.wait_for_refusal(granted)
        took = clock.seconds()
        print(f"as in the backup {took:.1f} s after the API server was back", file=sys.stderr)
        self.assertLess(took, NOTICED)
        with self.subTest("what is changed now is followed"):
            for target in self.permission("withdrawn"):
                self.api.delete("TrafficTarget", "bookstore", target["metadata"]["name"])
            self.wait_for_refusal(withdrawn)
            self.api.apply(*self.permission("granted"))
            self.wait_for_answer(granted, 200, SHOP)
            self.wait_until_programmed("TrafficTarget", "bookstore", "granted-v1")
        with self.subTest("no daemon was restarted, and the runbook says that all is well"):
            self.shell(commands("The cluster's etcd")[0])
            self.assertEqual(daemons, {p["metadata"]["uid"] for p in self.pods(mesh.SYSTEM)})
        self.check_a_pod_is_served("restored", ca)
        self.check_all_is_of(ca)
        self.check_nobody_was_disturbed()

    def wait_for_refusal(self, pod):
        def refused():
            got = pod.get(SHOP)
            if got[0] not in (0, 403, 404):
                raise NotYet(got)
            return True

        wait_for(f"{pod.name} is refused", refused, 60, interval=0.1)


if __name__ == "__main__":
    kubecase.main()
