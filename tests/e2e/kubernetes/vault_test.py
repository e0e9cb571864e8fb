#!/usr/bin/python3
"""A real Vault signs for daemons and pods, which log in as their ServiceAccounts."""

import json

from lib.kube import kubecase, mesh
from lib.kube import kubeobjects as k8s
from lib.kube.api import ApiError, Credentials
from lib.kube.vault_service import install_with_vault
from lib.mesh import objects
from lib.net.processes import wait_for

IDLE = "trap 'exit 0' TERM; while :; do sleep 0.1; done"


class VaultOnKubernetes(kubecase.MeshCase):
    @staticmethod
    def install(installed):
        VaultOnKubernetes.vault = install_with_vault(VaultOnKubernetes.rig, installed)

    def daemon_log(self, app):
        run = self.mesh.run_of(self.pods(mesh.SYSTEM, app)[0]).run
        return self.agent.log_of(run, app).read_text(errors="replace")

    def assert_not_let_in(self, token):
        with self.assertRaisesRegex(RuntimeError, "403|not authorized|invalid audience"):
            self.vault.ask("PUT", "auth/kubernetes/login", {"role": "openservicemesh", "jwt": token})

    def test_daemons_log_in_as_themselves_and_pods_speak_mutual_tls_below_vaults_root(self):
        for app in ("osm-controller", "osm-injector"):
            self.assertIn('"logged in to Vault"', self.daemon_log(app))
            self.assertNotIn("hvs.", self.daemon_log(app))
        self.api.apply(
            mesh.namespace("shop"),
            *(k8s.account("shop", a) for a in ("server", "client")),
            k8s.service("shop", "server"),
            k8s.deployment("shop", "server", account="server"),
            k8s.deployment("shop", "client", [k8s.shell_container("app", IDLE)], account="client"),
            objects.routes("shop", "routes", all={"pathRegex": "/.*", "methods": ["*"]}),
            objects.target("shop", "access", "server", [("shop", "client")], ("HTTPRouteGroup", "routes", ["all"])),
        )
        for name in ("server", "client"):
            self.wait_until_available("shop", name)
        client, server = (self.pod_of("shop", a) for a in ("client", "server"))
        self.wait_for_answer(client, 200, f"server.shop:{k8s.PORT}/", timeout=40)
        certificates = json.loads(server.admin("/certs")[1])["certificates"]
        roots = {ca["serial_number"] for c in certificates for ca in c.get("ca_cert", [])}
        self.assertEqual(1, len(roots), certificates)
        self.assertIsNone(self.api.find("Secret", mesh.SYSTEM, "osm-ca-bundle"))

        with self.subTest("whose account is not of the role is not let in"):
            self.assert_not_let_in(self.api.token_of("shop", "client", audience="vault"))
        daemon = mesh.SYSTEM, "osm-controller"
        with self.subTest("what a daemon shows to Vault is of no use on the API server, and the other way round"):
            self.assert_not_let_in(self.api.token_of(*daemon))
            thief = self.cluster.as_user(Credentials(token=self.api.token_of(*daemon, audience="vault")))
            with self.assertRaisesRegex(ApiError, "401"):
                thief.get("Namespace", None, mesh.SYSTEM)
        with self.subTest("all of Vault's tokens are revoked: the daemons log in anew"):

            def logins():
                return self.daemon_log("osm-controller").count('"logged in to Vault"')

            before = logins()
            self.vault.run("vault lease revoke -prefix auth/kubernetes/login")
            wait_for("the controller has logged in again", lambda: logins() > before, 90, interval=0.5)
            self.wait_for_answer(client, 200, f"server.shop:{k8s.PORT}/")


if __name__ == "__main__":
    kubecase.main()
