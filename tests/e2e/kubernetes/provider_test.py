#!/usr/bin/python3
"""The provider of pods passes the conformance suite on real API servers."""

import pathlib
import subprocess
import unittest

from lib.kube import kubecase
from lib.kube.cluster import Cluster
from lib.mesh import meshcase
from lib.mesh.rig import Rig


class ProviderTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rig = Rig(meshcase._programs)
        cls.addClassCleanup(cls.rig.close)
        cls.cluster = Cluster(cls.rig)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()

    def test_every_clause_of_the_contract_holds(self):
        program = pathlib.Path(meshcase._programs.bin) / "kubernetes_conformance"
        ran = subprocess.run(
            self.cluster.namespace.command(program, self.cluster.kubeconfig, self.cluster.start_other_api_server()),
            capture_output=True,
            text=True,
            timeout=600,
        )
        self.assertEqual(0, ran.returncode, ran.stdout + ran.stderr)
        self.assertRegex(ran.stdout, r"(?m)^passed +merge\b")


if __name__ == "__main__":
    kubecase.main()
