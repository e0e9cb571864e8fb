"""The real cert-manager over a test's cluster, and issuers for the mesh."""

import base64
import signal
import sys

from lib.kube import mesh

TOOLS = mesh.ROOT / "build/tools/cert-manager"
APPROVER = "certificaterequests-approver"


class CertManager:
    """The controller, as an administrator outside of the cluster's pods."""

    CONTROLLERS = ["issuers", "clusterissuers", "certificaterequests-issuer-ca"]

    def __init__(self, cluster):
        if not (TOOLS / "bin/controller").exists():
            sys.exit(f"{TOOLS / 'bin/controller'} is missing: tools/setup --kubernetes builds it")
        self.cluster, self.process = cluster, None

    def set_up(self):
        """Its kinds, itself, and the issuers."""
        self.install()
        self.start()
        self.add_issuers()

    def install(self):
        self.cluster.kubectl("apply", "-f", TOOLS / "crds")
        self.cluster.kubectl("wait", "--for=condition=Established", "crd", "--all")

    def start(self, approves=True):
        """`approves`: without being asked, as it does unless its approver is turned off."""
        controllers = self.CONTROLLERS + [APPROVER] * approves
        self.process = self.cluster._start(
            "cert-manager",
            TOOLS / "bin/controller",
            f"--kubeconfig={self.cluster.kubeconfig}",
            "--leader-elect=false",
            f"--controllers={','.join(controllers)}",
            "--metrics-listen-address=127.0.0.1:9402",
            "--v=1",
        )

    def stop(self):
        self.process.end(signal.SIGKILL)

    def add_issuers(self):
        """Issuer and ClusterIssuer `osm-ca`, over one CA."""
        pki = self.cluster.pki
        data = {
            name: base64.b64encode(path.read_bytes()).decode()
            for name, path in (("tls.crt", pki.ca), ("tls.key", pki.ca_key))
        }
        api = self.cluster.api
        for ns in (mesh.SYSTEM, "kube-system"):
            api.apply(
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "type": "kubernetes.io/tls",
                    "metadata": {"name": "osm-ca", "namespace": ns},
                    "data": data,
                }
            )
        for kind, ns in (("Issuer", mesh.SYSTEM), ("ClusterIssuer", None)):
            metadata = {"name": "osm-ca", **({"namespace": ns} if ns else {})}
            api.apply(
                {
                    "apiVersion": "cert-manager.io/v1",
                    "kind": kind,
                    "metadata": metadata,
                    "spec": {"ca": {"secretName": "osm-ca"}},
                }
            )
            api.wait_for(
                "is ready",
                kind,
                ns,
                "osm-ca",
                lambda o: any(
                    c["type"] == "Ready" and c["status"] == "True" for c in o.get("status", {}).get("conditions", [])
                ),
                40,
            )
