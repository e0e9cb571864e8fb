#!/usr/bin/python3
"""The real cert-manager signs for daemons and pods; denials and approval by hand are followed."""

import json
import os
import unittest

from lib.kube import kubecase, mesh
from lib.kube import kubeobjects as k8s
from lib.kube.api import ApiError
from lib.kube.cert_manager import CertManager
from lib.mesh import meshcase, objects
from lib.net.processes import NotYet, wait_for

IDLE = "trap 'exit 0' TERM; while :; do sleep 0.1; done"


class CertManagerCase(kubecase.MeshCase):
    @classmethod
    def install(cls, installed):
        cluster = installed.cluster
        cluster.api.apply(k8s.namespace(mesh.SYSTEM))
        cls.cert_manager = CertManager(cluster)
        cls.cert_manager.set_up()
        installed.install("osm.certificateProvider.kind=cert-manager")

    # -- asking ---------------------------------------------------------------------------------
    def requests(self):
        return {r["metadata"]["name"]: r for r in self.api.list("CertificateRequest", mesh.SYSTEM)}

    def decide(self, name, condition):
        self.api.patch(
            "CertificateRequest",
            mesh.SYSTEM,
            name,
            {"status": {"conditions": [{"type": condition, "status": "True", "reason": "e2e", "message": "by hand"}]}},
            subresource="status",
        )

    def start_controller(self, name, *more):
        """Another controller, on the cluster's own machine, as the same ServiceAccount."""
        kubeconfig = self.cluster.kubeconfig_of_account(mesh.SYSTEM, "osm-controller")
        state = self.rig.directory / f"{name}-state"
        process = self.rig.start(
            name,
            self.cluster.namespace.command(
                meshcase._programs.controller,
                "--kubeconfig",
                kubeconfig,
                "--state-dir",
                state,
                "--certificate-manager",
                "cert-manager",
                "--ads-address",
                "127.0.0.1:15128",
                "--http-address",
                "127.0.0.1:9091",
                "--validator-address",
                "127.0.0.1:9093",
                *more,
            ),
        )
        self.addCleanup(process.end)
        return process

    def ready(self, process):
        def answers():
            if not process.running():
                raise AssertionError(process.tail())
            return self.cluster.namespace.http("127.0.0.1", 9091, "GET", "/health/ready")[0] == 200

        wait_for(f"{process.name} is ready", answers, 40)

    def without_approver(self):
        self.cert_manager.stop()
        self.cert_manager.start(approves=False)

        def back():
            self.cert_manager.stop()
            self.cert_manager.start()

        self.addCleanup(back)

    def new_request(self, known):
        """The first that is not among `known`: other tests, and the mesh, make requests too."""
        return wait_for(
            "a request is made",
            lambda: [r for name, r in self.requests().items() if name not in known],
            30,
            interval=0.1,
        )[0]

    def wait_for_reason(self, process, *words, timeout=30):
        """Until a controller that starts says that it waits, and why. It ends on a signal."""

        def told():
            status, body = self.cluster.namespace.http("127.0.0.1", 9091, "GET", "/health/ready")
            if status != 503 or not all(word in body for word in words):
                raise NotYet((status, body))
            return True

        wait_for(f"the start waits: {words}", told, timeout, retry=(OSError,))
        self.assertEqual(0, process.end())


class CertManagerTest(CertManagerCase):
    def test_pods_speak_mutual_tls_with_certificates_of_cert_manager(self):
        known = set(self.requests())
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

        # Whom the proxies trust is cert-manager's CA and nobody else.
        certificates = json.loads(server.admin("/certs")[1])["certificates"]
        roots = {ca["serial_number"] for c in certificates for ca in c.get("ca_cert", [])}
        self.assertEqual(1, len(roots), certificates)
        names = [
            name for c in certificates for leaf in c.get("cert_chain", []) for name in leaf.get("subject_alt_names", [])
        ]
        self.assertIn({"uri": "spiffe://cluster.local/ns/shop/sa/server"}, names)
        self.assertIsNone(self.api.find("Secret", mesh.SYSTEM, "osm-ca-bundle"))
        wait_for("no request is left", lambda: not set(self.requests()) - known, 20)

    def test_a_cluster_issuer_signs_as_well(self):
        known = set(self.requests())
        process = self.start_controller("by-cluster-issuer", "--cert-manager-issuer-kind", "ClusterIssuer")
        self.ready(process)
        self.assertIn("ClusterIssuer osm-ca", process.text())
        wait_for("no request is left", lambda: not set(self.requests()) - known, 20)

    def test_a_denial_is_told_with_its_reason_while_the_start_waits(self):
        self.without_approver()
        known = set(self.requests())
        process = self.start_controller("denied")
        name = self.new_request(known)["metadata"]["name"]
        self.decide(name, "Denied")
        self.wait_for_reason(process, "denied by an approver", "by hand")
        self.assertNotIn(name, self.requests())

    def test_requests_approved_by_hand_are_signed(self):
        self.without_approver()
        process = self.start_controller("approved")
        approved = set()

        def up():
            for name in set(self.requests()) - approved:
                approved.add(name)
                self.decide(name, "Approved")
            if not process.running():
                raise AssertionError(process.tail())
            return self.cluster.namespace.http("127.0.0.1", 9091, "GET", "/health/ready")[0] == 200

        wait_for("the controller is ready", up, 60, interval=0.1, retry=(ApiError,))
        self.assertGreaterEqual(len(approved), 2)  # the first, and its own


@unittest.skipUnless(os.environ.get("OSM_TEST_LONG"), "each waits for the deadline of 60 s")
class CertManagerDeadlineTest(CertManagerCase):
    """Missing approvals and missing issuers are reported after the deadline of a minute.

    Options of cert_manager::Issuer that the daemons lack.
    """

    def test_unapproved_requests_time_out_and_leave_nothing(self):
        self.without_approver()
        known = set(self.requests())
        process = self.start_controller("late")
        request = self.new_request(known)
        self.assertEqual(
            {"app.kubernetes.io/name": "openservicemesh.io", "app.kubernetes.io/component": "certificate-request"},
            request["metadata"]["labels"],
        )
        self.wait_for_reason(process, "within 60 s", "it is not approved", timeout=90)
        self.assertNotIn(request["metadata"]["name"], self.requests())

    def test_an_issuer_that_is_not_there_is_named(self):
        process = self.start_controller("no-issuer", "--cert-manager-issuer-name", "nobody")
        self.wait_for_reason(process, "Issuer osm-system/nobody", "not found", timeout=90)


if __name__ == "__main__":
    kubecase.main()
