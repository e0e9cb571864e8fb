#!/usr/bin/python3
"""Twenty processes that race for the Secret of the CA end with one CA."""

from lib.kube import kubecase, mesh
from lib.kube import kubeobjects as k8s
from lib.mesh import meshcase
from lib.mesh.racing import check_races


class CaRaceTest(kubecase.KubeCase):
    def test_racing_processes_end_with_one_ca(self):
        self.api.apply(k8s.namespace(mesh.SYSTEM))
        self.api.apply(*(o for o in mesh.rendered() if o["kind"] == "ServiceAccount" or "Role" in o["kind"]))
        kubeconfig = self.cluster.kubeconfig_of_account(mesh.SYSTEM, "osm-controller")
        racer = meshcase._programs.bin / "ca_racer"
        # RBAC names one Secret, so each round has the name again.
        rounds = []

        def command_of(number):
            if number not in rounds:
                rounds.append(number)
                self.api.delete("Secret", mesh.SYSTEM, "osm-ca-bundle")
            return self.cluster.namespace.command(racer, "secret", kubeconfig, mesh.SYSTEM, "osm-ca-bundle")

        check_races(self, command_of)
        secret = self.api.get("Secret", mesh.SYSTEM, "osm-ca-bundle")
        self.assertEqual({"ca.crt", "private.key"}, set(secret["data"]))


if __name__ == "__main__":
    kubecase.main()
