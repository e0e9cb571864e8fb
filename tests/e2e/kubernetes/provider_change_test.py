#!/usr/bin/env python3
"""Under load the mesh's CA becomes a real Vault's, then the real cert-manager's: no request
fails."""
import pathlib
import time

import kubecase
import mesh
import shop
from cert_manager import CertManager
from netns import Switch
from rotation import RotationCase, root
from vault_server import PORT as VAULT_PORT
from vault_service import start_vault

SHOP = f"{shop.SHOP}/books-bought"
CERT_MANAGER_RBAC = mesh._ROOT / "deploy/kubernetes-cert-manager/rbac.yaml"


class ProviderChange(RotationCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.vault = start_vault(cls.rig, cls.cluster)
        CertManager(cls.cluster).set_up()

    def change_to(self, name, provider, before, ca):
        """Declares the next root, until the one before is forgotten."""
        self.api.apply(root(name, provider))
        key = name.replace("-", "_")
        self.wait_for_states(timeout=100, **{key: "signing"})
        if before != "own":
            self.api.patch("MeshRootCertificate", mesh.SYSTEM, before.replace("_", "-"),
                           {"spec": {"role": "inactive"}})
        self.wait_for_states(timeout=120, **{key: "signing", before: "inactive"})
        self.check_all_is_of(ca)
        self.wait_until_taken_up(ca)
        pod = self.start_idle_pod(f"after-{name}")
        self.wait_for_answer(pod, 200, SHOP)

    def test_tresor_then_vault_then_cert_manager(self):
        self.wait_for_steady_load()
        since, before = time.time(), self.envoys()
        self.change_to("by-vault", self.vault_provider(), "own",
                       (self.vault.directory / "root.pem").read_text())
        self.cluster.kubectl("apply", "-f", CERT_MANAGER_RBAC)
        self.change_to("by-cert-manager", {"certManager": {"issuerName": "osm-ca"}}, "by_vault",
                       pathlib.Path(self.cluster.pki.ca).read_text())
        self.assertLessEqual(before.items(), self.envoys().items())
        self.judge(since)

    def vault_provider(self):
        """With a token in a Secret, which nobody ever shows."""
        token = (self.vault.directory / "vault-token").read_text().strip()
        self.api.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {
            "name": "vault-token", "namespace": mesh.SYSTEM}, "stringData": {"token": token}})
        self.grant_secret("vault-token")
        self.addCleanup(self.check_that_nobody_shows, token)
        return {"vault": {"host": Switch.ADDRESS, "port": VAULT_PORT, "role": "openservicemesh",
                          "caBundle": pathlib.Path(self.cluster.pki.ca).read_text(),
                          "token": {"secretKeyRef": {"name": "vault-token", "key": "token",
                                                     "namespace": mesh.SYSTEM}}}}

    def check_that_nobody_shows(self, token):
        for app in ("osm-controller", "osm-injector"):
            for run in self.agent.pods(mesh.SYSTEM, app):
                log = self.agent.log_of(run, app).read_text(errors="replace")
                self.assertNotIn(token, log)
                self.assertNotIn("hvs.", log)


if __name__ == "__main__":
    kubecase.main()
