#!/usr/bin/python3
"""osm-controller tells of missing CRDs and webhooks, which the opt-in reconciler creates; it refuses bad
policies, writes conditions and repairs lost ones; `osm status` lists nothing.
"""

import base64
import collections
import json
import subprocess
import sys
import threading

from lib.kube import kubecase, mesh
from lib.kube import kubeobjects as k8s
from lib.kube.api import ApiError
from lib.mesh import objects
from lib.net.processes import FairClock, wait_for

TARGETS = "traffictargets.access.smi-spec.io"


class ControllerTest(kubecase.MeshCase):
    @staticmethod
    def install(installed):
        installed.install_controller()

    def namespace(self, name):
        self.api.apply(mesh.namespace(name), k8s.account(name, "server"), k8s.account(name, "client"))
        return name

    def condition(self, ns, name, kind="TrafficTarget", condition="Accepted"):
        found = self.api.get(kind, ns, name).get("status", {}).get("conditions", [])
        return {c["type"]: c for c in found}[condition]

    def test_the_mesh_config_comes_from_its_preset(self):
        config = wait_for("there is a MeshConfig", lambda: self.api.find("MeshConfig", mesh.SYSTEM, "osm-mesh-config"))
        self.assertIs(False, config["spec"]["traffic"]["enableEgress"])

    def test_a_policy_that_no_proxy_could_use_is_refused_with_its_field(self):
        ns = self.namespace("refused")
        wrong = objects.target(ns, "elsewhere", "server", [(ns, "client")], ("HTTPRouteGroup", "routes", None))
        wrong["spec"]["destination"]["namespace"] = "another"

        message = self.refusal(wrong)
        self.assertIn("spec.destination.namespace", message)
        self.assertIn("osm-validator", message)

    def refusal(self, wrong):
        """The webhook's answer about it."""

        def refused():
            try:
                self.api.create(wrong, dryRun="All")
            except ApiError as answer:
                return answer.message
            return None

        return wait_for("the webhook refuses it", refused)

    def test_asking_for_a_status_lists_nothing(self):
        ns = self.namespace("asked")
        self.api.apply(
            objects.routes(ns, "routes", all={}),
            objects.target(ns, "server", "server", [(ns, "client")], ("HTTPRouteGroup", "routes", ["all"])),
        )
        wait_for("it is in use", lambda: self.condition(ns, "server")["status"] == "True", retry=(KeyError,))

        def requests(verb):
            return {
                (resource, where): len(codes)
                for (did, resource, where), codes in self.cluster.requests_of("osm-controller").items()
                if did == verb and resource != "secrets"
            }

        lists, gets = requests("list"), requests("get").get((TARGETS, ns), 0)
        for value in range(5):
            self.api.patch("TrafficTarget", ns, "server", {"metadata": {"annotations": {"changed": str(value)}}})
            mesh.osm(self.cluster, "status", "traffictarget", f"{ns}/server", "--wait")
        self.assertGreaterEqual(requests("get").get((TARGETS, ns), 0), gets + 5)
        self.assertEqual(lists, requests("list"))

    def test_a_status_that_is_lost_is_written_again(self):
        ns = self.namespace("lost")
        target = objects.target(ns, "server", "server", [(ns, "client")], ("HTTPRouteGroup", "routes", ["all"]))
        self.api.apply(objects.routes(ns, "routes", all={}), target)

        def written(condition="Programmed"):
            return self.condition(ns, "server", condition=condition)

        def wait_until_written(after):
            return wait_for(
                f"the status is there after {after}",
                lambda: written("Accepted")["status"] == "True" and written()["message"] == message,
                10,
                retry=(KeyError,),
            )

        message = wait_for("its status is there", lambda: written()["message"], retry=(KeyError,))
        self.api.patch("TrafficTarget", ns, "server", {"status": None}, subresource="status")
        wait_until_written("it was wiped")
        stale = [{**written(c), "message": "stale", "status": "False"} for c in ("Accepted", "Programmed")]
        self.api.patch("TrafficTarget", ns, "server", {"status": {"conditions": stale}}, subresource="status")
        wait_until_written("a former leader wrote it late")
        uid = self.api.get("TrafficTarget", ns, "server")["metadata"]["uid"]
        file = self.rig.directory / "lost.json"
        file.write_text(json.dumps(target))
        self.cluster.kubectl("replace", "--force", "-f", file)
        self.assertNotEqual(uid, self.api.get("TrafficTarget", ns, "server")["metadata"]["uid"])
        wait_until_written("it was replaced by force")

    def test_a_second_policy_of_one_backend_is_refused(self):
        ns = self.namespace("twice")

        def backend(name, protocol="http"):
            return {
                "apiVersion": "policy.openservicemesh.io/v1alpha1",
                "kind": "IngressBackend",
                "metadata": {"name": name, "namespace": ns},
                "spec": {
                    "backends": [{"name": "server", "port": {"number": 80, "protocol": protocol}}],
                    "sources": [{"kind": "IPRange", "name": "10.0.0.0/8"}],
                },
            }

        wait_for("the kind is there", lambda: self.api.apply(backend("first")), 30, retry=(ApiError,))
        self.assertIn(
            "IngressBackend twice/first already has backend server port 80 and is used", self.refusal(backend("second"))
        )
        self.assertIn("add an AuthenticatedPrincipal", self.refusal(backend("second", "https")))

    def test_reviews_go_on_while_controllers_follow_one_another(self):
        ns = self.namespace("reviewed")
        target = objects.target(ns, "server", "server", [(ns, "client")], ("HTTPRouteGroup", "routes", None))
        asked, refused, over = 0, [], threading.Event()

        def ask():
            nonlocal asked
            while not over.is_set():
                asked += 1
                try:
                    self.api.create(target, dryRun="All")
                except ApiError as answer:
                    refused.append(answer.message)

        wait_for("the webhook is there", lambda: self.api.create(target, dryRun="All"), retry=(ApiError,))
        asker = threading.Thread(target=ask)
        asker.start()
        try:
            for _ in range(2):
                self.restart(mesh.SYSTEM, "osm-controller")
        finally:
            over.set()
            asker.join()
        self.assertEqual([], refused)
        self.assertGreater(asked, 50)

    def test_a_root_certificate_that_would_show_its_token_is_refused(self):
        vault = {"host": "10.0.0.1", "role": "mesh", "tokenFile": "/token", "protocol": "http"}
        self.assertIn(
            "http would show the token to the network",
            self.refusal(
                {
                    "apiVersion": "config.openservicemesh.io/v1alpha2",
                    "kind": "MeshRootCertificate",
                    "metadata": {"name": "next", "namespace": mesh.SYSTEM},
                    "spec": {"role": "inactive", "provider": {"vault": vault}},
                }
            ),
        )

    def test_the_key_of_a_declared_root_is_kept_in_the_meshs_namespace_only(self):
        self.api.apply(
            {
                "apiVersion": "config.openservicemesh.io/v1alpha2",
                "kind": "MeshRootCertificate",
                "metadata": {"name": "elsewhere", "namespace": mesh.SYSTEM},
                "spec": {
                    "role": "passive",
                    "provider": {"tresor": {"ca": {"secretRef": {"name": "elsewhere-ca", "namespace": "default"}}}},
                },
            }
        )

        def refused():
            found = self.api.get("MeshRootCertificate", mesh.SYSTEM, "elsewhere")
            return f"kept in {mesh.SYSTEM} only" in found.get("status", {}).get("message", "")

        wait_for("its status says so", refused, 30, interval=0.5)
        self.assertIsNone(self.api.find("Secret", "default", "elsewhere-ca"))
        self.api.delete("MeshRootCertificate", mesh.SYSTEM, "elsewhere")

    def test_a_denylist_counts_in_the_meshs_namespace_only(self):
        ns = self.namespace("denied")
        self.assertIn(
            f"create it in namespace {mesh.SYSTEM}", self.refusal(objects.denylist("list", [(ns, "client")], ns=ns))
        )
        self.api.apply(objects.denylist("list", [(ns, "client")]))
        self.addCleanup(self.api.delete, "Denylist", mesh.SYSTEM, "list")
        accepted = wait_for(
            "it has a condition", lambda: self.condition(mesh.SYSTEM, "list", "Denylist"), retry=(KeyError,)
        )
        self.assertEqual("True", accepted["status"], accepted)

    def test_an_account_is_denied_by_a_command(self):
        ns = self.namespace("refused")
        name = f"account.{ns}.client"
        told = mesh.osm(self.cluster, "deny", "account", f"{ns}/client", "--reason", "stolen")
        self.assertIn(f"Denylist {mesh.SYSTEM}/{name}: Applied", told)
        spec = self.api.get("Denylist", mesh.SYSTEM, name)["spec"]
        self.assertEqual(spec["serviceAccounts"], [{"namespace": ns, "name": "client"}])
        mesh.osm(self.cluster, "deny", "account", f"{ns}/client", "--reason", "stolen twice")
        self.assertEqual(self.api.get("Denylist", mesh.SYSTEM, name)["spec"]["reason"], "stolen twice")
        mesh.osm(self.cluster, "deny", "remove", f"{ns}/client")
        self.assertIsNone(self.api.find("Denylist", mesh.SYSTEM, name))

    def test_the_outcome_of_a_policy_is_in_its_conditions(self):
        ns = self.namespace("told")
        self.api.apply(
            objects.routes(ns, "routes", all={"pathRegex": "/.*", "methods": ["*"]}),
            objects.target(ns, "access", "server", [(ns, "client")], ("HTTPRouteGroup", "routes", ["all"])),
        )
        accepted = wait_for("it has a condition", lambda: self.condition(ns, "access"), retry=(KeyError,))
        self.assertEqual("True", accepted["status"], accepted)
        self.assertIn("proxies", self.condition(ns, "access", condition="Programmed")["message"])

    def tells(self, kind, name):
        """The problem of osm-controller about an object of the cluster, once it is a metric, a
        problem and an Event."""
        (pod,) = self.pods(mesh.SYSTEM, "osm-controller")

        def told():
            _, text = self.cluster.namespace.http(pod["status"]["podIP"], 9091, "GET", "/metrics")
            (present,) = [
                line
                for line in text.splitlines()
                if line.startswith("osm_cluster_object_present") and f'"{name}"' in line
            ]
            (problem,) = [
                line
                for line in text.splitlines()
                if line.startswith("osm_problem{") and f"{kind}" in line and name in line
            ]
            events = self.api.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
            note, *_ = [e["note"] for e in events["items"] if e["regarding"]["name"] == name]
            self.assertTrue(present.endswith(" 0"), present)
            self.assertIn(note, problem)
            return note

        clock = FairClock()
        note = wait_for(f"{name} is told of", told, 20, retry=(ValueError,))
        self.assertLess(clock.seconds(), 5)
        return note

    def test_a_kind_or_a_webhook_that_is_deleted_is_told_of_with_the_command_to_run(self):
        validator = "libosm-validator-osm"
        for kind, name in (("CustomResourceDefinition", TARGETS), ("ValidatingWebhookConfiguration", validator)):
            self.api.delete(kind, None, name)
            self.assertIn("osm upgrade --osm-namespace osm-system", self.tells(kind, name))
            self.assertIsNone(self.api.find(kind, None, name))
        self.mesh.install_controller()
        ns = self.namespace("again")

        def usable():
            return self.api.apply(
                objects.target(ns, "access", "server", [(ns, "client")], ("HTTPRouteGroup", "routes", ["all"]))
            )

        wait_for("it can be used again", usable, 30, retry=(ApiError,))
        (pod,) = self.pods(mesh.SYSTEM, "osm-controller")
        wait_for(
            "the problems are gone",
            lambda: (
                "osm upgrade" not in self.cluster.namespace.http(pod["status"]["podIP"], 9091, "GET", "/metrics")[1]
            ),
        )

    def test_the_reconciler_creates_what_is_deleted(self):
        of_reconciler = [
            o for o in mesh.rendered("osm.enableReconciler=true") if o["metadata"]["name"].startswith("osm-reconciler")
        ]
        self.api.apply(*of_reconciler)
        self.wait_until_available(mesh.SYSTEM, "osm-reconciler")
        columns = "/spec/versions/0/additionalPrinterColumns"
        self.api.patch("CustomResourceDefinition", None, TARGETS, [{"op": "remove", "path": columns}])
        wait_for(
            "its columns are back",
            lambda: self.api.get("CustomResourceDefinition", None, TARGETS)["spec"]["versions"][0].get(
                "additionalPrinterColumns"
            ),
            30,
        )
        for kind, name in (
            ("CustomResourceDefinition", TARGETS),
            ("ValidatingWebhookConfiguration", "libosm-validator-osm"),
        ):
            before = self.api.get(kind, None, name)
            self.api.delete(kind, None, name)
            self.wait_until_made_anew(before, 60)
        self.mesh.wait_until_up("osm-controller")
        for each in of_reconciler:
            self.api.delete(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])

    def test_a_webhook_that_is_switched_off_is_switched_on_again(self):
        name = "libosm-validator-osm"
        self.api.patch(
            "ValidatingWebhookConfiguration",
            None,
            name,
            [
                {"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"},
                {"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": ""},
            ],
        )

        def whole():
            hook = self.api.get("ValidatingWebhookConfiguration", None, name)["webhooks"][0]
            return hook["failurePolicy"] == "Fail" and hook["clientConfig"].get("caBundle")

        wait_for("it is as it was", whole, 30)

    def test_a_gateways_certificate_is_kept_in_the_secret_that_mesh_config_names(self):
        self.api.apply(k8s.namespace("ingress"))
        name = ("Secret", "ingress", "client")
        names = ["gateway.example", "other.example"]

        def configure(gateway):
            self.api.patch(
                "MeshConfig", mesh.SYSTEM, "osm-mesh-config", {"spec": {"certificate": {"ingressGateway": gateway}}}
            )

        mesh.grant_gateway(self.cluster, "ingress")
        wait_for("there is a MeshConfig", lambda: self.api.find("MeshConfig", mesh.SYSTEM, "osm-mesh-config"))
        self.addCleanup(configure, None)
        configure({"subjectAltNames": names, "secret": {"name": "client", "namespace": "ingress"}})
        secret = wait_for("the Secret is made", lambda: self.api.find(*name), 30)
        self.assertEqual("kubernetes.io/tls", secret["type"])
        self.assertEqual({"ca.crt", "tls.crt", "tls.key"}, set(secret["data"]))

        def alternative_names(secret):
            shown = subprocess.run(
                ["openssl", "x509", "-noout", "-ext", "subjectAltName"],
                check=True,
                text=True,
                input=base64.b64decode(secret["data"]["tls.crt"]).decode(),
                capture_output=True,
            )
            return set(shown.stdout.splitlines()[1].strip().split(", "))

        identity = "URI:spiffe://cluster.local/osm/gateway/gateway.example"
        self.assertEqual({identity, *("DNS:" + n for n in names)}, alternative_names(secret))
        configure({"subjectAltNames": names[:1]})
        self.api.wait_for("is written again", *name, lambda s: alternative_names(s) == {identity, "DNS:" + names[0]})
        configure(None)
        self.api.wait_until_gone(*name)

    def test_its_webhook_tells_http_and_reviews_apart(self):
        def ask(*request):
            return self.ask_webhook("osm-controller", 9093, "/validate", *request)

        self.assertEqual(415, ask("{}", "text/plain")[0])
        self.assertEqual(400, ask("", "application/json")[0])
        self.assertEqual(405, ask("{}", "application/json", "PUT")[0])
        status, review = ask("[]", "application/json")
        self.assertEqual((200, False), (status, review["response"]["allowed"]))

    def test_its_log_holds_no_key(self):
        log = self.mesh.log("osm-controller")
        self.assertIn("{", log)
        self.assertNotIn("PRIVATE KEY", log)
        secret = self.api.get("Secret", mesh.SYSTEM, "osm-ca-bundle")
        for value in secret["data"].values():
            self.assertNotIn(value[40:100], log)
        for line in base64.b64decode(secret["data"]["private.key"]).decode().splitlines():
            if not line.startswith("-----"):
                self.assertNotIn(line, log)


class RestTest(kubecase.MeshCase):
    """A controller at rest asks the API server less than once a second, and lists nothing."""

    def test_a_controller_at_rest_asks_less_than_once_a_second_and_lists_nothing(self):
        ns = "rest"
        self.start_clients(ns, "server")
        wait_for(
            "its policy is applied",
            lambda: self.conditions("TrafficTarget", ns, "server")["Programmed"][0] == "True",
            60,
            retry=(KeyError,),
        )

        requests = collections.Counter(
            (verb, resource)
            for _, verb, resource in wait_for(
                "a minute of rest is logged",
                self.cluster.settled_minute("osm-controller"),
                240,
                interval=1,
                retry=(json.JSONDecodeError,),
            )
        )
        print(f"requests of a minute at rest: {dict(requests)}", file=sys.stderr)
        asked = collections.Counter({r: n for r, n in requests.items() if r[0] != "watch"})
        self.assertLess(asked.total(), 60)
        self.assertEqual({("update", "leases"), ("patch", "leases")}, {r for r in asked if r[1] == "leases"})
        self.assertFalse([r for r in asked if r[0] == "list"])


if __name__ == "__main__":
    kubecase.main()
