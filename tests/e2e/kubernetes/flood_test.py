#!/usr/bin/python3
"""A flood of forged reviews leaves few Secrets and other namespaces alone; with client verification only
the API server is answered.
"""

import functools
import itertools
import json
import ssl
import threading

from lib.kube import kubecase, mesh
from lib.kube import kubeobjects as k8s
from lib.kube.api import ApiError
from lib.kube.cluster import API_PORT
from lib.kube.pki import Pki
from lib.net.processes import NotYet, wait_for

PREFIX = "envoy-bootstrap-config-"
BURST, WAITING = 5, 20  # of a rate of 1 a second; Secrets without a pod in a namespace


class FloodCase(kubecase.MeshCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.wait_until_available(mesh.SYSTEM, "osm-injector")  # with its new flags
        wait_for("one injector is left", lambda: len(cls.agent.pods(mesh.SYSTEM, "osm-injector")) == 1, 40)

    def namespace(self, name):
        self.api.apply(mesh.namespace(name))
        wait_for("its ServiceAccount is made", lambda: self.api.find("ServiceAccount", name, "default"))
        return name

    def secrets(self, ns):
        return sum(s["metadata"]["name"].startswith(PREFIX) for s in self.api.list("Secret", ns))

    @staticmethod
    def pod(ns, name="app"):
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": ns},
            "spec": {"containers": [k8s.shell_container("app", "exec sleep 600")], "terminationGracePeriodSeconds": 1},
        }

    def forge(self, ns, uid):
        """The answer to a review with this uid, sent by somebody who is no API server."""
        review = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": uid,
                "operation": "CREATE",
                "namespace": ns,
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "object": self.pod(ns),
            },
        }
        status, answer = self.ask_webhook(
            "osm-injector", 9090, "/mutate-pod-creation", json.dumps(review), "application/json"
        )
        self.assertEqual(200, status)
        return answer["response"]


class FloodTest(FloodCase):
    @staticmethod
    def install(installed):
        installed.install()
        for flag, value in (
            ("--max-injections-per-second-per-namespace", 1),
            ("--max-waiting-secrets-per-namespace", WAITING),
        ):
            installed.set_argument("osm-injector", flag, value)

    def limited(self):
        """{limit: refusals} of the injector's metrics."""
        return self.labelled("osm_injector_limited_total")

    def labelled(self, name):
        """{label's value: value} of a metric of the injector."""
        (pod,) = self.pods(mesh.SYSTEM, "osm-injector")
        _, text = self.cluster.namespace.http(pod["status"]["podIP"], 9091, "GET", "/metrics")
        return {
            line.split('"')[1]: float(line.rpartition(" ")[2])
            for line in text.splitlines()
            if line.startswith(f"{name}{{")
        }

    def test_admissions_that_wait_are_counted(self):
        # Each admission waits for the write of its Secret: more of them than there are threads.
        namespaces = [self.namespace(f"busy-{n}") for n in range(8)]
        (injector,) = self.pods(mesh.SYSTEM, "osm-injector")
        rule = ("INPUT", "-p", "tcp", "-s", injector["status"]["podIP"], "--dport", str(API_PORT), "-j", "DROP")
        self.cluster.namespace.run("iptables", "-I", *rule)
        self.addCleanup(self.cluster.namespace.run, "iptables", "-D", *rule, check=False)
        clients = [
            threading.Thread(target=self.forge, args=(ns, f"{ns}-{n}")) for ns in namespaces for n in range(BURST)
        ]
        self.addCleanup(lambda: [c.join() for c in clients])
        for client in clients:
            client.start()
        waiting = functools.partial(self.labelled, "osm_queue_length")
        wait_for("admissions wait", lambda: waiting()["admissions"] > 0, 30, interval=0)
        self.cluster.namespace.run("iptables", "-D", *rule)
        wait_for("none waits", lambda: waiting()["admissions"] == 0, 30)

    def test_a_flood_of_fresh_uids_leaves_few_secrets_and_other_namespaces_alone(self):
        ns, quiet = self.namespace("flooded"), self.namespace("quiet")
        uids = itertools.count()

        def refused_for(flag):
            def refused():
                response = self.forge(ns, f"flood-{next(uids)}")
                if response["allowed"] or flag not in response["status"]["message"]:
                    raise NotYet(response.get("status"))
                return response["status"]

            status = wait_for(f"{flag} refuses", refused, 60, interval=0)
            self.assertEqual((429, "TooManyRequests"), (status["code"], status["reason"]))
            return status

        refused_for("--max-injections-per-second-per-namespace")
        self.assertGreaterEqual(self.secrets(ns), BURST)
        refused_for("--max-waiting-secrets-per-namespace")
        # Counts of the controller are in tens, so a few more come before the flood ends for good.
        wait_for(
            "a hundred are refused in a row",
            lambda: not any(self.forge(ns, f"flood-{next(uids)}")["allowed"] for _ in range(100)),
            60,
            interval=0,
        )
        self.assertLessEqual(self.secrets(ns), WAITING + 10)
        self.assertGreater(self.limited()["namespace_secrets"], 50)
        self.assertGreater(self.limited()["namespace_rate"], 0)

        # The API server hands the refusal on, and its clients know that they may try again.
        with self.assertRaises(ApiError) as refused:
            self.api.create(self.pod(ns))
        self.assertEqual((429, "TooManyRequests"), (refused.exception.code, refused.exception.reason))
        self.assertIn("--max-waiting-secrets-per-namespace", refused.exception.message)
        made = self.api.create(self.pod(quiet), dryRun="All")
        self.assertIn("osm-proxy-uuid", made["metadata"]["labels"])
        self.api.create(self.pod(quiet))
        self.assertEqual(1, self.secrets(quiet))


class ClientVerificationTest(FloodCase):
    @staticmethod
    def install(installed):
        cluster = installed.cluster
        cluster.webhook_pki = Pki(cluster.directory / "webhook-pki")
        installed.install()
        cluster.api.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "osm-webhook-client-ca", "namespace": mesh.SYSTEM},
                "data": {"ca.crt": cluster.webhook_pki.ca.read_text()},
            }
        )
        installed.apply("osm.webhookClientCAConfigMap=osm-webhook-client-ca")

    def admission_configuration(self):
        """The API server's: the certificate that it shows to the injector."""
        shown = self.cluster.webhook_pki.user("kube-apiserver")
        users = self.cluster.directory / "webhook-users.json"
        users.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "users": [
                        {
                            "name": f"osm-injector.{mesh.SYSTEM}.svc:9090",
                            "user": {"client-certificate": str(shown.certificate), "client-key": str(shown.key)},
                        }
                    ],
                }
            )
        )
        version = "apiserver.config.k8s.io/v1"
        path = self.cluster.directory / "admission.json"
        path.write_text(
            json.dumps(
                {
                    "apiVersion": version,
                    "kind": "AdmissionConfiguration",
                    "plugins": [
                        {
                            "name": "MutatingAdmissionWebhook",
                            "configuration": {
                                "apiVersion": version,
                                "kind": "WebhookAdmissionConfiguration",
                                "kubeConfigFile": str(users),
                            },
                        }
                    ],
                }
            )
        )
        return path

    def test_only_the_api_server_is_answered(self):
        ns = self.namespace("verified")
        with self.assertRaises(ApiError) as refused:  # it does not show a certificate yet
            self.api.create(self.pod(ns))
        self.assertIn("osm-inject.k8s.io", refused.exception.message)
        self.cluster.stop_api_server()
        self.cluster.start_api_server(f"--admission-control-config-file={self.admission_configuration()}")
        wait_for("pods get their sidecars", lambda: self.api.create(self.pod(ns), dryRun="All"), 30, retry=(ApiError,))
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            self.forge(ns, "forged")
        self.assertEqual(0, self.secrets(ns))
        # A new API server refuses everybody for a moment; the case ends by looking for refusals.
        renewed = self.renewed()
        wait_for("the controller renews its Lease", lambda: self.renewed() != renewed, 40, interval=0.5)

    def renewed(self):
        return self.api.get("Lease", mesh.SYSTEM, "osm-controller-osm")["spec"]["renewTime"]


if __name__ == "__main__":
    kubecase.main()
