#!/usr/bin/python3
"""A real API server and the real cert-manager pass their contracts.

They are etcd, kube-apiserver and cert-manager's controller, without other controllers and without nodes.
"""

from contract import real

from lib.kube import kubeobjects as k8s
from lib.kube import mesh
from lib.kube.cert_manager import CertManager
from lib.kube.cluster import Cluster
from lib.kube.pki import Pki

ETCD = "127.0.0.1:2379"
CRDS = mesh.CHART / "crds"


class ApiServer(Cluster):
    """A cluster in which nobody writes but the tests."""

    def start(self):
        self._make_network()
        self.pki = Pki(self.directory / "pki")
        self.start_etcd()
        self.admin = self.pki.user("admin", "system:masters")
        self.api = self.as_user(self.admin)
        self.kubeconfig = self.kubeconfig_of("admin", self.admin)
        self.serving = self.pki.server("kube-apiserver", f"IP:{self.address}", "IP:127.0.0.1")
        self.start_api_server()
        return self


class KubernetesContracts(real.ContractCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster = ApiServer(cls.rig).start()
        cls.addClassCleanup(cls.cluster.stop)
        cls.settings = {"OSM_CONTRACT_KUBECONFIG": cls.cluster.kubeconfig}

    def test_a_real_api_server_keeps_the_contract(self):
        self.cluster.kubectl("apply", "-f", CRDS / "traffictargets.yaml")
        self.cluster.kubectl("wait", "--for=condition=Established", "crd", "--all")
        self.run_contract("kube_api", self.settings | {"OSM_CONTRACT_KUBE_ETCD": ETCD})

    def test_a_real_cert_manager_keeps_the_contract(self):
        self.cluster.api.apply(k8s.namespace(mesh.SYSTEM))
        cert_manager = CertManager(self.cluster)
        cert_manager.set_up()
        self.addCleanup(cert_manager.stop)
        self.run_contract("cert_manager", self.settings, "--test-suite=*by itself*")
        cert_manager.stop()
        cert_manager.start(approves=False)
        self.run_contract("cert_manager", self.settings, "--test-suite-exclude=*by itself*")


if __name__ == "__main__":
    real.main()
