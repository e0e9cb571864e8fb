#!/usr/bin/python3
"""The CA moves to Vault, to cert-manager and to another trust domain under load, and no request fails."""

import json
import pathlib
import time

from lib.kube import kubecase, mesh, shop
from lib.kube.cert_manager import CertManager
from lib.kube.rotation import RotationCase, documented_commands, openssl, root
from lib.kube.vault_service import start_vault
from lib.mesh.vault_server import PORT as VAULT_PORT
from lib.net.netns import Switch
from lib.net.processes import wait_for

SHOP = f"{shop.SHOP}/books-bought"


class ProviderChange(RotationCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.vault = start_vault(cls.rig, cls.cluster)
        CertManager(cls.cluster).set_up()
        for app in ("osm-controller", "osm-injector"):
            cls.mesh.set_argument(app, "--vault-allowed-host", Switch.ADDRESS)

    def change_to(self, name, provider, before, ca=None, **spec):
        """Declares the next root, until the one before is forgotten. `ca`: its own Secret's."""
        declared = root(name, provider)
        declared["spec"] |= spec
        self.api.apply(declared)
        key = name.replace("-", "_")
        if ca:
            self.pin(name, ca)
        self.wait_for_states(timeout=100, **{key: "signing"})
        if before != "own":
            self.api.patch("MeshRootCertificate", mesh.SYSTEM, before.replace("_", "-"), {"spec": {"role": "inactive"}})
        self.wait_for_states(timeout=120, **{key: "signing", before: "inactive"})
        ca = ca or self.root_in(f"{name}-ca")
        self.check_all_is_of(ca)
        self.wait_until_taken_up(ca)
        pod = self.start_idle_pod(f"after-{name}")
        self.wait_for_answer(pod, 200, SHOP)

    def pin(self, name, ca):
        """A root of Vault or cert-manager is trusted once its object lists the fingerprint."""
        shown = openssl("x509", "-noout", "-fingerprint", "-sha256", text=ca).split("=")[1]
        plain = shown.replace(":", "").lower()

        def message():
            status = self.api.get("MeshRootCertificate", mesh.SYSTEM, name).get("status", {})
            return plain in status.get("message", "")

        wait_for("its status names the fingerprint", message, 60, interval=0.5)
        self.assertEqual("inactive", self.record().get(name, "inactive"))
        self.api.patch("MeshRootCertificate", mesh.SYSTEM, name, {"spec": {"rootFingerprints": [shown]}})

    def trust_domains(self):
        """Certificates that the sidecars show to each other and to the control plane."""
        names = {
            san["uri"]
            for pod in self.live_proxies()
            for group in json.loads(pod.admin("/certs")[1])["certificates"]
            for shown in group.get("cert_chain", [])
            for san in shown["subject_alt_names"]
            if "uri" in san
        }
        return {name.split("/")[2] for name in names}

    def test_tresor_then_vault_then_cert_manager_then_another_trust_domain(self):
        self.wait_for_steady_load()
        since, before = time.time(), self.envoys()
        self.change_to("by-vault", self.vault_provider(), "own", (self.vault.directory / "root.pem").read_text())
        self.shell(documented_commands("Another CA provider")[-1])
        self.change_to(
            "by-cert-manager",
            {"certManager": {"issuerName": "osm-ca"}},
            "by_vault",
            pathlib.Path(self.cluster.pki.ca).read_text(),
        )
        self.assertEqual({"cluster.local"}, self.trust_domains())
        self.judge(since)
        since = time.time()
        self.grant_secret("elsewhere-ca")
        self.change_to(
            "elsewhere",
            {"tresor": {"ca": {"secretRef": {"name": "elsewhere-ca", "namespace": mesh.SYSTEM}}}},
            "by_cert_manager",
            trustDomain="new.example",
        )
        self.assertEqual({"new.example"}, self.trust_domains())
        self.assertLessEqual(before.items(), self.envoys().items())
        # Its chain is another one: Envoy lets open TCP connections end (docs/certificates.md).
        self.judge(since, but=["tcp: End of file"])

    def vault_provider(self):
        """With a token in a Secret, which nobody ever shows."""
        token = (self.vault.directory / "vault-token").read_text().strip()
        self.api.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "vault-token", "namespace": mesh.SYSTEM},
                "stringData": {"token": token},
            }
        )
        self.grant_secret("vault-token")
        self.addCleanup(self.check_that_nobody_shows, token)
        return {
            "vault": {
                "host": Switch.ADDRESS,
                "port": VAULT_PORT,
                "role": "openservicemesh",
                "caBundle": pathlib.Path(self.cluster.pki.ca).read_text(),
                "token": {"secretKeyRef": {"name": "vault-token", "key": "token", "namespace": mesh.SYSTEM}},
            }
        }

    def check_that_nobody_shows(self, token):
        for app in ("osm-controller", "osm-injector"):
            for run in self.agent.pods(mesh.SYSTEM, app):
                log = self.agent.log_of(run, app).read_text(errors="replace")
                self.assertNotIn(token, log)
                self.assertNotIn("hvs.", log)


if __name__ == "__main__":
    kubecase.main()
