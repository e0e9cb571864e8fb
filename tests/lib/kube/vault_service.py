"""A real Vault beside a test's cluster, where pods find it as vault.vault.svc; set up by the
commands that docs/certificates.md shows."""

import os
import pathlib
import sys

from lib.kube import kubeobjects as k8s
from lib.kube import mesh
from lib.mesh.vault_server import PORT, Vault, documented_commands
from lib.net.netns import Switch

PROGRAM = pathlib.Path(os.environ.get("OSM_VAULT", mesh.ROOT / "build/tools/vault/bin/vault"))


def start_vault(rig, cluster):
    """A Vault that the mesh's CA is in; `vault-token` in its directory is a token for machines."""
    if not PROGRAM.exists():
        sys.exit(f"{PROGRAM} is missing: tools/setup --vault builds it")
    vault = Vault(rig, PROGRAM, cluster.pki, Switch.ADDRESS, "DNS:vault.vault.svc")
    for block in ("authorities", "role", "token"):
        vault.run(documented_commands()[block])
    ports = [{"name": "https", "port": PORT}]
    cluster.api.apply(
        k8s.namespace("vault"),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "vault", "namespace": "vault"},
            "spec": {"clusterIP": "None", "ports": ports},
        },
        {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": "vault", "namespace": "vault"},
            "subsets": [{"addresses": [{"ip": Switch.ADDRESS}], "ports": ports}],
        },
    )
    return vault


def let_vault_ask(cluster, vault):
    """Kubernetes auth. The documented commands, but that this Vault is no pod: it is told where the
    API server is, and as whom to ask it for TokenReviews."""
    cluster.api.apply(
        k8s.account("kube-system", "vault"),
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "vault"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "system:auth-delegator",
            },
            "subjects": [{"kind": "ServiceAccount", "name": "vault", "namespace": "kube-system"}],
        },
    )
    reviewer = vault.directory / "reviewer"
    reviewer.write_text(cluster.api.token_of("kube-system", "vault"))
    here = "kubernetes_host=https://kubernetes.default.svc"
    commands = documented_commands()["kubernetes"]
    if commands.count(here) != 1:
        raise AssertionError(f"the documented commands do not say {here}")
    vault.run(
        commands.replace(
            here,
            f"kubernetes_host={cluster.server} "
            f"kubernetes_ca_cert=@{cluster.pki.ca} "
            f'token_reviewer_jwt="$(cat {reviewer})"',
        )
    )


def install_with_vault(rig, installed):
    """The mesh, whose daemons log in to a Vault as their ServiceAccounts. Result: the Vault."""
    cluster = installed.cluster
    vault = start_vault(rig, cluster)
    let_vault_ask(cluster, vault)
    cluster.api.apply(k8s.namespace(mesh.SYSTEM))
    cluster.api.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "vault-ca", "namespace": mesh.SYSTEM},
            "data": {"ca.pem": pathlib.Path(cluster.pki.ca).read_text()},
        }
    )
    installed.install(
        "osm.certificateProvider.kind=vault", "osm.vault.host=vault.vault.svc", "osm.vault.caConfigMap=vault-ca"
    )
    return vault
