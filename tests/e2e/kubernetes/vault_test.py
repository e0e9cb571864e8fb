#!/usr/bin/env python3
"""Vault as the CA of a mesh on Kubernetes, both real: the daemons log in as their ServiceAccounts,
and Vault asks the API server who they are."""
import json
import os
import pathlib
import sys

import kubecase
import kubeobjects as k8s
import mesh
import objects
from netns import Switch
from processes import wait_for
from vault_server import PORT, Vault, documented_commands

VAULT = pathlib.Path(os.environ.get("OSM_VAULT", mesh._ROOT / "build/tools/vault/bin/vault"))
MANIFESTS = mesh._ROOT / "deploy/kubernetes-vault"
IDLE = "trap 'exit 0' TERM; while :; do sleep 0.1; done"


class VaultOnKubernetes(kubecase.MeshCase):
    @staticmethod
    def install(installed):
        if not VAULT.exists():
            sys.exit(f"{VAULT} is missing: tools/setup --vault builds it")
        cluster, rig = installed.cluster, VaultOnKubernetes.rig
        vault = Vault(rig, VAULT, cluster.pki, Switch.ADDRESS, "DNS:vault.vault.svc")
        VaultOnKubernetes.vault = vault
        for block in ("authorities", "role", "token"):
            vault.run(documented_commands()[block])
        VaultOnKubernetes.let_vault_ask(cluster, vault)

        cluster.kubectl("apply", "-f", mesh.MANIFESTS / "namespace.yaml")
        ports = [{"name": "https", "port": PORT}]
        cluster.api.apply(
            k8s.namespace("vault"),
            {"apiVersion": "v1", "kind": "Service", "metadata": {
                "name": "vault", "namespace": "vault"},
             "spec": {"clusterIP": "None", "ports": ports}},
            {"apiVersion": "v1", "kind": "Endpoints", "metadata": {
                "name": "vault", "namespace": "vault"},
             "subsets": [{"addresses": [{"ip": Switch.ADDRESS}], "ports": ports}]},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
                "name": "vault-ca", "namespace": mesh.SYSTEM},
             "data": {"ca.pem": pathlib.Path(cluster.pki.ca).read_text()}})
        cluster.kubectl("apply", "-k", MANIFESTS)
        installed.wait_until_up("osm-controller", "osm-injector")

    @staticmethod
    def let_vault_ask(cluster, vault):
        """The documented commands, but that this Vault is no pod: it is told where the API server
        is, and as whom to ask it for TokenReviews."""
        cluster.api.apply(
            k8s.account("kube-system", "vault"),
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
             "metadata": {"name": "vault"},
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                         "name": "system:auth-delegator"},
             "subjects": [{"kind": "ServiceAccount", "name": "vault",
                           "namespace": "kube-system"}]})
        reviewer = vault.directory / "reviewer"
        reviewer.write_text(cluster.api.token_of("kube-system", "vault"))
        here = "kubernetes_host=https://kubernetes.default.svc"
        commands = documented_commands()["kubernetes"]
        if commands.count(here) != 1:
            raise AssertionError(f"the documented commands do not say {here}")
        vault.run(commands.replace(here, f"kubernetes_host={cluster.server} "
                                         f"kubernetes_ca_cert=@{cluster.pki.ca} "
                                         f'token_reviewer_jwt="$(cat {reviewer})"'))

    def daemon_log(self, app):
        run = self.mesh.run_of(self.pods(mesh.SYSTEM, app)[0]).run
        return self.agent.log_of(run, app).read_text(errors="replace")

    def test_daemons_log_in_as_themselves_and_pods_speak_mutual_tls_below_vaults_root(self):
        for app in ("osm-controller", "osm-injector"):
            self.assertIn('"logged in to Vault"', self.daemon_log(app))
            self.assertNotIn("hvs.", self.daemon_log(app))
        self.api.apply(mesh.namespace("shop"), *(k8s.account("shop", a) for a in (
            "server", "client")), k8s.service("shop", "server"),
            k8s.deployment("shop", "server", account="server"),
            k8s.deployment("shop", "client", [k8s.shell_container("app", IDLE)], account="client"),
            objects.routes("shop", "routes", all={"pathRegex": "/.*", "methods": ["*"]}),
            objects.target("shop", "access", "server", [("shop", "client")],
                           ("HTTPRouteGroup", "routes", ["all"])))
        for name in ("server", "client"):
            self.wait_until_available("shop", name)
        client, server = (self.pod_of("shop", a) for a in ("client", "server"))
        self.wait_for_answer(client, 200, f"server.shop:{k8s.PORT}/", timeout=40)
        certificates = json.loads(server.admin("/certs")[1])["certificates"]
        roots = {ca["serial_number"] for c in certificates for ca in c.get("ca_cert", [])}
        self.assertEqual(1, len(roots), certificates)
        self.assertIsNone(self.api.find("Secret", mesh.SYSTEM, "osm-ca-bundle"))

        with self.subTest("whose account is not of the role is not let in"):
            token = self.api.token_of("shop", "client")
            with self.assertRaisesRegex(RuntimeError, "403|not authorized"):
                self.vault.ask("PUT", "auth/kubernetes/login",
                               {"role": "openservicemesh", "jwt": token})
        with self.subTest("all of Vault's tokens are revoked: the daemons log in anew"):
            def logins():
                return self.daemon_log("osm-controller").count('"logged in to Vault"')

            before = logins()
            self.vault.run("vault lease revoke -prefix auth/kubernetes/login")
            wait_for("the controller has logged in again", lambda: logins() > before, 90,
                     interval=0.5)
            self.wait_for_answer(client, 200, f"server.shop:{k8s.PORT}/")


if __name__ == "__main__":
    kubecase.main()
