#!/usr/bin/python3
"""Pods get sidecars by the API server's own webhook call: probes, hooks, jobs, Secrets, refusals, warnings,
dry runs, containers that another webhook adds, old nodes, metrics and PodSecurity restricted. 300 idle
connections stop neither webhook, and the API server asks many times over one connection.
"""

import base64
import contextlib
import json
import ssl

from lib.kube import kubecase, later_webhook, mesh
from lib.kube import kubeobjects as k8s
from lib.kube.api import ApiError
from lib.mesh import objects
from lib.mesh.prometheus import Prometheus, alert_rules
from lib.net.processes import FairClock, wait_for

PREFIX = "envoy-bootstrap-config-"
IDLE = "trap 'exit 0' TERM; while :; do sleep 0.1; done"


class InjectionTest(kubecase.MeshCase):
    def namespace(self, name, **more):
        self.api.apply(mesh.namespace(name, **more))
        wait_for("its ServiceAccount is made", lambda: self.api.find("ServiceAccount", name, "default"))
        return name

    def secrets(self, ns):
        return [s["metadata"] for s in self.api.list("Secret", ns) if s["metadata"]["name"].startswith(PREFIX)]

    def names(self, pod):
        return [c["name"] for kind in ("initContainers", "containers") for c in pod["spec"].get(kind) or []]

    def pod(self, ns, name, containers, **annotations):
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": ns, "annotations": annotations},
            "spec": {"containers": containers, "terminationGracePeriodSeconds": 5},
        }

    def test_a_sidecar_comes_before_everything_and_its_secret_is_the_pods(self):
        ns = self.namespace("plain")
        self.api.apply(k8s.deployment(ns, "app", [k8s.shell_container("app", IDLE)]))
        self.wait_until_available(ns, "app")
        (pod,) = self.pods(ns, "app")
        self.assertEqual(["osm-init", "envoy", "app"], self.names(pod))
        uuid = pod["metadata"]["labels"]["osm-proxy-uuid"]
        (secret,) = self.secrets(ns)
        self.assertEqual(PREFIX + uuid, secret["name"])
        owned = wait_for(
            "the Secret is owned by its pod",
            lambda: self.api.get("Secret", ns, secret["name"])["metadata"].get("ownerReferences"),
            20,
        )
        self.assertEqual(pod["metadata"]["uid"], owned[0]["uid"])
        self.api.delete("Deployment", ns, "app")
        wait_for("the Secret goes with its pod", lambda: not self.secrets(ns), 60)

    def test_probes_of_every_kind_are_answered_through_the_sidecar(self):
        ns = self.namespace("probes")
        period = {"periodSeconds": 1}
        probed = k8s.http_container(
            "app",
            startupProbe={"tcpSocket": {"port": "http"}, **period},
            livenessProbe={"httpGet": {"path": "/live", "port": 8080}, **period},
        )
        other = k8s.http_container(
            "other",
            port=8081,
            ports=[{"containerPort": 8081}],
            readinessProbe={"tcpSocket": {"port": 8081}, **period},
            livenessProbe={"exec": {"command": ["true"]}, **period},
        )
        self.api.apply(k8s.deployment(ns, "app", [probed, other]))
        self.wait_until_available(ns, "app")
        (pod,) = self.pods(ns, "app")
        rewritten = {c["name"]: c for c in pod["spec"]["containers"]}
        self.assertNotEqual(8080, rewritten["app"]["livenessProbe"]["httpGet"]["port"])
        self.assertEqual(["true"], rewritten["other"]["livenessProbe"]["exec"]["command"])
        restarts = sum(c["restartCount"] for c in pod["status"]["containerStatuses"])
        self.assertEqual(0, restarts)

    def grpc_pod(self, ns, name, service):
        return self.pod(
            ns,
            name,
            [
                {
                    "name": "app",
                    "image": "e2e/grpc-health",
                    "ports": [{"containerPort": 9000}],
                    "startupProbe": {"grpc": {"port": 9000}, "periodSeconds": 1, "failureThreshold": 60},
                    "readinessProbe": {"grpc": {"port": 9000, "service": service}, "periodSeconds": 1},
                }
            ],
        )

    def test_grpc_probes_tell_what_the_health_service_says(self):
        ns = self.namespace("grpc")
        for service in ("up", "down"):
            self.api.create(self.grpc_pod(ns, service, service))

        def app(pod):
            return (pod["status"].get("containerStatuses") or [{}])[0]

        self.api.wait_for("serves", "Pod", ns, "up", lambda p: app(p).get("ready"), 60)
        # Its startup probe, which asks for the whole server, has passed: only the service is down.
        down = self.api.wait_for("has started", "Pod", ns, "down", lambda p: app(p).get("started"))
        run = mesh.InjectedPod(self.agent.pod(ns, "down"))
        asked = wait_for(
            "the sidecar has asked for the service",
            lambda: run.stats("cluster.app_readiness_cluster.health_check.failure").values(),
        )
        self.assertGreater(sum(asked), 0)
        self.assertFalse(app(down)["ready"])
        self.assertFalse(app(self.api.get("Pod", ns, "down"))["ready"])

    def test_hooks_reach_their_container_and_are_nobody_elses_to_send(self):
        ns = self.namespace("hooks")
        self.api.create(
            self.pod(
                ns,
                "app",
                [
                    k8s.http_container(
                        "app",
                        lifecycle={
                            "postStart": {"httpGet": {"path": "/hook/started", "port": "http"}},
                            "preStop": {"httpGet": {"path": "/hook/stopping?soon=1", "port": 8080}},
                        },
                    )
                ],
            )
        )
        pod = self.api.wait_for(
            "is ready", "Pod", ns, "app", lambda p: (p["status"].get("containerStatuses") or [{}])[0].get("ready"), 60
        )
        log = self.agent.log_of(self.agent.pod(ns, "app"), "app")
        self.assertIn("hook /hook/started\n", log.read_text())
        self.assertEqual(0, pod["status"]["containerStatuses"][0]["restartCount"])
        hook = pod["spec"]["containers"][0]["lifecycle"]["preStop"]["httpGet"]
        uuid = pod["metadata"]["labels"]["osm-proxy-uuid"]
        known, _, key = hook["path"].split("?")[0].rpartition("/")
        self.assertNotEqual(uuid, key)
        for path in (known, f"{known}/", f"{known}/{uuid}", "/hook/stopping"):
            status, _ = self.cluster.namespace.http(pod["status"]["podIP"], hook["port"], "GET", path)
            self.assertEqual(404, status, path)
        self.assertNotIn("stopping", log.read_text())
        self.api.delete("Pod", ns, "app")
        wait_for("the hook has arrived", lambda: "hook /hook/stopping?soon=1\n" in log.read_text(), 20)

    def test_alert_rules_and_dashboards_find_their_metrics_on_kubernetes(self):
        ns = self.namespace("watched")
        self.api.apply(k8s.deployment(ns, "app", [k8s.shell_container("app", IDLE)]))
        self.wait_until_available(ns, "app")
        daemons = {
            f"{pod['status']['podIP']}:9091": {
                "__meta_kubernetes_pod_label_app": app,
                "__meta_kubernetes_pod_container_port_name": "http",
                "__meta_kubernetes_namespace": mesh.SYSTEM,
                "__meta_kubernetes_pod_name": pod["metadata"]["name"],
            }
            for app in ("osm-controller", "osm-injector")
            for pod in self.pods(mesh.SYSTEM, app)
        }
        prometheus = Prometheus(self.rig, daemons, "kubernetes.yaml", namespace=self.cluster.namespace)
        wait_for(
            "the rules for pods find both programs",
            lambda: (
                {labels["job"] for labels, value in prometheus.query("up") if value == 1}
                == {"osm-controller", "osm-injector"}
            ),
            20,
        )
        rules = alert_rules()["osm-kubernetes"]
        self.assertEqual(prometheus.unknown(rule["expr"] for rule in rules), set())
        wait_for("no panel is empty", lambda: not prometheus.empty("kubernetes"), 15)

    def webhook(self, *request):
        return self.ask_webhook("osm-injector", 9090, "/mutate-pod-creation", *request)

    def test_the_webhook_tells_http_and_reviews_apart(self):
        self.assertEqual(415, self.webhook("{}", "text/plain")[0])
        self.assertEqual(400, self.webhook("", "application/json")[0])
        self.assertEqual(405, self.webhook("{}", "application/json", "PUT")[0])
        status, review = self.webhook("{}", "application/json; charset=utf-8")
        self.assertEqual((200, False), (status, review["response"]["allowed"]))
        self.assertIn("apiVersion", review["response"]["status"]["message"])

    def crowd(self, stack, app, port):
        """300 connections to a webhook that ask nothing: half of them after the TLS handshake, half
        of them before."""
        (pod,) = self.pods(mesh.SYSTEM, app)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        for i in range(300):
            raw = self.cluster.namespace.connect(pod["status"]["podIP"], port, 10)
            stack.enter_context(context.wrap_socket(raw) if i < 150 else raw)

    def test_idle_connections_do_not_stop_admissions(self):
        ns = self.namespace("crowded")
        pod = self.pod(ns, "app", [k8s.shell_container("app", IDLE)])
        routes = objects.routes(ns, "routes", all={"pathRegex": "/", "methods": ["*"]})
        for app, port, path, obj in (
            ("osm-injector", 9090, "/mutate-pod-creation", pod),
            ("osm-controller", 9093, "/validate", routes),
        ):
            with self.subTest(app), contextlib.ExitStack() as stack:
                self.crowd(stack, app, port)
                for _ in range(10):
                    # The API server may reuse a connection from before; this one is new.
                    clock = FairClock()
                    self.assertEqual(200, self.ask_webhook(app, port, path, "{}", "application/json")[0])
                    self.api.create(obj, dryRun="All")
                    self.assertLess(clock.seconds(), 3)

    def test_the_api_server_keeps_its_connections_to_the_webhook(self):
        ns = self.namespace("kept")
        pod = self.pod(ns, "app", [k8s.shell_container("app", IDLE)])
        (injector,) = self.pods(mesh.SYSTEM, "osm-injector")

        def counted(metric):
            _, text = self.cluster.namespace.http(injector["status"]["podIP"], 9091, "GET", "/metrics")
            return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(metric))

        metrics = "osm_injector_requests_total", "osm_webhook_handshakes_total"
        self.api.create(pod, dryRun="All")
        before = [counted(m) for m in metrics]
        self.assertGreater(before[1], 0)
        for _ in range(50):
            self.api.create(pod, dryRun="All")
        admissions, handshakes = (counted(m) - b for m, b in zip(metrics, before))
        self.assertGreaterEqual(admissions, 50)
        self.assertLess(handshakes, admissions / 4)  # a connection of more than 10 s is replaced

    def test_without_an_api_server_the_webhook_gives_no_key_and_no_pod(self):
        ns = self.namespace("forged")
        review = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "forged",
                "operation": "CREATE",
                "namespace": ns,
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "object": self.pod(ns, "app", [k8s.shell_container("app", IDLE)]),
            },
        }
        status, answer = self.webhook(json.dumps(review), "application/json")
        self.assertEqual((200, True), (status, answer["response"]["allowed"]))
        patch = base64.b64decode(answer["response"]["patch"]).decode()
        (secret,) = self.secrets(ns)  # where its namespace's readers of Secrets alone see it
        self.assertIn(secret["name"], patch)
        for text in self.api.get("Secret", ns, secret["name"])["data"].values():
            self.assertNotIn(text, patch)
            self.assertNotIn(json.dumps(base64.b64decode(text).decode())[1:-1], patch)
        self.assertIsNone(secret.get("ownerReferences"))  # so it is collected
        self.assertEqual([], self.api.list("Pod", ns))
        # A pod without its sidecar would be worse than none.
        review["request"]["namespace"] = "default"
        _, answer = self.webhook(json.dumps(review), "application/json")
        self.assertFalse(answer["response"]["allowed"])
        self.assertIn("Namespace default: it is not known to be in the mesh", answer["response"]["status"]["message"])

    def test_a_probe_that_fails_behind_the_sidecar_is_seen(self):
        ns = self.namespace("failing")
        nothing = k8s.shell_container(
            "app",
            IDLE,
            readinessProbe={"httpGet": {"path": "/", "port": 9}, "periodSeconds": 1},
            livenessProbe={"tcpSocket": {"port": 9}, "periodSeconds": 1, "failureThreshold": 2},
        )
        self.api.apply(k8s.deployment(ns, "app", [nothing]))
        pod = wait_for("the pod is made", lambda: self.pods(ns, "app"))[0]
        self.agent.expect_restarts(ns, pod["metadata"]["name"], "app")
        self.api.wait_for(
            "was restarted",
            "Pod",
            ns,
            pod["metadata"]["name"],
            lambda p: (p["status"].get("containerStatuses") or [{"restartCount": 0}])[0]["restartCount"],
        )
        ready = {
            c["type"]: c["status"] for c in self.api.get("Pod", ns, pod["metadata"]["name"])["status"]["conditions"]
        }["Ready"]
        self.assertEqual("False", ready)

    def test_gateways_outside_of_the_mesh_are_admitted_while_their_service_has_them(self):
        ns, edge = self.namespace("inside"), "edge"
        self.api.apply(
            k8s.namespace(edge),
            k8s.deployment(ns, "server"),
            k8s.service(ns, "server"),
            k8s.deployment(edge, "gateway"),
            k8s.service(edge, "gateway"),
            k8s.deployment(edge, "other"),
        )
        for where, name in ((ns, "server"), (edge, "gateway"), (edge, "other")):
            self.wait_until_available(where, name)
        (server,) = self.pods(ns, "server")
        (gateway,) = self.pods(edge, "gateway")
        (other,) = self.pods(edge, "other")
        url = f"http://{server['status']['podIP']}:{k8s.PORT}/"

        def wait_for_answer(pod, status):
            wait_for(f"{pod['metadata']['name']} gets {status}", lambda: self.fetch_from(pod, url)[0] == status, 30)

        self.assertEqual(0, self.fetch_from(gateway, url)[0])
        self.api.apply(
            objects.ingress_backend(
                ns, "in", {("server", k8s.PORT): {"protocol": "http"}}, ("Service", "gateway", edge)
            )
        )
        wait_for_answer(gateway, 200)
        self.assertEqual(403, self.fetch_from(other, url)[0])
        self.api.patch("Service", edge, "gateway", {"spec": {"selector": {"app": "other"}}})
        wait_for_answer(other, 200)
        wait_for_answer(gateway, 403)
        self.api.patch("Deployment", edge, "other", {"spec": {"replicas": 0}})
        self.wait_until_available(edge, "other")
        self.api.wait_for(
            "says that nobody is admitted",
            "IngressBackend",
            ns,
            "in",
            lambda made: "admits nobody" in str(made.get("status", {})),
            30,
        )

    def test_a_job_ends_and_its_sidecar_with_it(self):
        ns = self.namespace("jobs")
        self.api.apply(k8s.job(ns, "once", [k8s.shell_container("work", "echo done")]))
        self.api.wait_for("is complete", "Job", ns, "once", lambda job: job.get("status", {}).get("succeeded") == 1, 60)
        (pod,) = self.api.list("Pod", ns)
        self.assertEqual(["osm-init", "envoy", "work"], self.names(pod))
        self.assertEqual("Succeeded", pod["status"]["phase"])

    def shown(self, ns, **annotations):
        """Init containers and containers of a pod as it would be created."""
        made = self.api.create(self.pod(ns, "shown", [k8s.shell_container("app", IDLE)], **annotations), dryRun="All")
        return tuple([c["name"] for c in made["spec"].get(kind) or []] for kind in ("initContainers", "containers"))

    def test_a_namespace_that_enforces_restricted_needs_the_cni_plugin(self):
        made = mesh.namespace("strict")
        made["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "restricted"
        self.api.apply(made)
        pod = self.pod("strict", "app", [k8s.http_container()])
        pod["spec"]["containers"][0]["securityContext"] = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        with self.assertRaises(ApiError) as refused:
            self.api.create(pod)
        self.assertIn("osm-init", refused.exception.message)
        self.assertNotIn("envoy", refused.exception.message)

    def test_a_node_that_is_too_old_for_native_sidecars_decides_unless_the_pod_does(self):
        ns, key = self.namespace("older"), "openservicemesh.io/native-sidecar"
        native, ordinary = (["osm-init", "envoy"], ["app"]), (["osm-init"], ["app", "envoy"])
        self.assertEqual(native, self.shown(ns))
        self.assertEqual(ordinary, self.shown(ns, **{key: "disabled"}))
        node, now = self.agent.nodes[1], self.agent.kubelet_version
        self.addCleanup(self.agent.set_kubelet_version, node, now)
        self.agent.set_kubelet_version(node, "v1.28.15")
        wait_for("sidecars are ordinary containers", lambda: self.shown(ns) == ordinary, 10)
        job = k8s.job(ns, "once", [k8s.shell_container("work", "echo done")])
        job["spec"]["template"]["metadata"]["annotations"][key] = "enabled"
        self.api.apply(job)
        self.api.wait_for("is complete", "Job", ns, "once", lambda job: job.get("status", {}).get("succeeded") == 1, 60)
        self.agent.set_kubelet_version(node, now)
        wait_for("sidecars are native again", lambda: self.shown(ns) == native, 10)

    def test_an_annotation_that_says_nothing_refuses_the_pod_and_names_itself(self):
        ns = self.namespace("refused")
        key = "openservicemesh.io/sidecar-injection"
        with self.assertRaises(ApiError) as refused:
            self.api.create(self.pod(ns, "wrong", [k8s.shell_container("app", IDLE)], **{key: "maybe"}))
        self.assertIn(key, refused.exception.message)
        self.assertIn("enabled", refused.exception.message)

    def test_an_account_with_a_dot_is_refused_with_the_remedy(self):
        ns = self.namespace("dotted")
        self.api.apply(k8s.account(ns, "book.store"))
        pod = self.pod(ns, "web", [k8s.shell_container("app", IDLE)])
        pod["spec"]["serviceAccountName"] = "book.store"
        with self.assertRaises(ApiError) as refused:
            self.api.create(pod)
        for words in (
            f"pod {ns}/web",
            "account 'book.store'",
            "has a dot",
            "use another account",
            "openservicemesh.io/sidecar-injection: disabled",
        ):
            self.assertIn(words, refused.exception.message)
        pod["metadata"]["annotations"]["openservicemesh.io/sidecar-injection"] = "disabled"
        self.assertEqual(["app"], self.names(self.api.create(pod)))
        self.assertEqual([], self.secrets(ns))

    def test_pods_that_cannot_have_a_sidecar_get_none_and_kubectl_says_why(self):
        ns = self.namespace("warned")
        for name, spec, reason in (
            ("host", {"hostNetwork": True}, "spec.hostNetwork is true"),
            ("windows", {"os": {"name": "windows"}}, "it is for Windows"),
        ):
            with self.subTest(name):
                pod = self.pod(ns, name, [k8s.shell_container("app", IDLE)])
                pod["spec"].update(spec)
                ran = self.cluster.kubectl(
                    "create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(pod), check=False
                )
                self.assertEqual(0, ran.returncode, ran.stderr)
                self.assertIn("Warning: the pod gets no sidecar", ran.stderr)
                self.assertIn(reason, ran.stderr)
                self.assertEqual(["app"], self.names(json.loads(ran.stdout)))

    def test_a_container_of_a_later_webhook_is_behind_the_sidecar(self):
        ns = self.namespace("reinvoked")
        webhook = later_webhook.start(self.cluster, ns, self.addCleanup)
        for name, probe in (("plain", None), ("probed", {"tcpSocket": {"port": 81}})):
            with self.subTest(name):
                webhook.add(
                    {
                        "name": "late",
                        "image": "e2e/shell",
                        "command": ["/bin/sh", "-c", IDLE],
                        **({"readinessProbe": probe} if probe else {}),
                    }
                )
                made = self.api.create(self.pod(ns, name, [k8s.shell_container("app", IDLE)]))
                self.assertEqual(["osm-init", "envoy", "late", "app"], self.names(made))
                uuid = made["metadata"]["labels"]["osm-proxy-uuid"]
                self.assertEqual(
                    [PREFIX + uuid], [v["secret"]["secretName"] for v in made["spec"]["volumes"] if "secret" in v]
                )
                self.assertIn(PREFIX + uuid, [s["name"] for s in self.secrets(ns)])
                (late,) = (c for c in made["spec"]["containers"] if c["name"] == "late")
                if probe:
                    self.assertEqual(15902, late["readinessProbe"]["httpGet"]["port"])
                else:
                    self.assertEqual(1, len(self.secrets(ns)))

    def test_without_opting_in_a_pod_gets_no_sidecar(self):
        ns = self.namespace("outside")
        key = "openservicemesh.io/sidecar-injection"
        without = self.api.create(self.pod(ns, "without", [k8s.shell_container("app", IDLE)], **{key: "disabled"}))
        self.assertEqual(["app"], self.names(without))
        elsewhere = self.namespace("elsewhere", monitored=False)
        outside = self.api.create(self.pod(elsewhere, "app", [k8s.shell_container("app", IDLE)]))
        self.assertEqual(["app"], self.names(outside))
        self.assertEqual([], self.secrets(ns) + self.secrets(elsewhere))

    def test_metrics_of_a_sidecar_are_announced_and_those_of_an_application_stay(self):
        ns = "measured"
        self.namespace(ns)
        self.api.apply(objects.namespace(ns, annotations={**mesh.INJECTED, "openservicemesh.io/metrics": "enabled"}))
        own = {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"}
        sidecars = {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": "15010",
            "prometheus.io/path": "/stats/prometheus",
        }
        for name, annotations, wanted in (("plain", {}, sidecars), ("own", own, own)):
            with self.subTest(name):
                made = self.api.create(self.pod(ns, name, [k8s.shell_container("app", IDLE)], **annotations))
                self.assertEqual(
                    wanted,
                    {
                        key: value
                        for key, value in made["metadata"]["annotations"].items()
                        if key.startswith("prometheus.io/")
                    },
                )
                ports = {
                    port["name"]: port["containerPort"]
                    for kind in ("initContainers", "containers")
                    for container in made["spec"].get(kind) or []
                    for port in container.get("ports") or []
                }
                self.assertEqual(15010, ports["proxy-metrics"])

                def read():
                    address = self.api.get("Pod", ns, name)["status"].get("podIP")
                    return address and self.cluster.namespace.http(address, 15010, "GET", "/stats/prometheus")

                status, page = wait_for("its sidecar shows statistics", read, 60)
                self.assertEqual(200, status)
                self.assertIn("envoy_server_live{} 1", page)

    def test_a_dry_run_shows_the_sidecar_and_leaves_nothing(self):
        ns = self.namespace("dry")
        shown = self.api.create(self.pod(ns, "app", [k8s.shell_container("app", IDLE)]), dryRun="All")
        self.assertIn("envoy", self.names(shown))
        self.assertEqual([], self.secrets(ns))

    def apply_webhook(self):
        self.mesh.apply()
        self.mesh.wait_until_up("osm-injector")

    def test_a_webhook_that_is_deleted_is_told_of_and_used_again_when_it_is_applied(self):
        name = "libosm-webhook-osm"
        (pod,) = self.pods(mesh.SYSTEM, "osm-injector")

        def metrics():
            return self.cluster.namespace.http(pod["status"]["podIP"], 9091, "GET", "/metrics")[1]

        self.addCleanup(self.apply_webhook)
        self.api.delete("MutatingWebhookConfiguration", None, name)
        wait_for("it is a problem", lambda: "run `osm upgrade" in metrics(), 5)
        self.assertIn(f'kind="MutatingWebhookConfiguration",name="{name}"}} 0', metrics())
        wait_for(
            "an Event tells",
            lambda: (
                name
                in [
                    e["regarding"]["name"]
                    for e in self.api.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
                ]
            ),
            5,
        )
        self.apply_webhook()
        ns = self.namespace("later")
        shown = self.api.create(self.pod(ns, "app", [k8s.shell_container("app", IDLE)]), dryRun="All")
        self.assertIn("envoy", self.names(shown))

    def test_no_key_is_in_a_log(self):
        ns = self.namespace("keys")
        self.api.apply(k8s.deployment(ns, "app", [k8s.shell_container("app", IDLE)]))
        self.wait_until_available(ns, "app")
        logs = {log.name: log.read_text(errors="replace") for log in self.rig.directory.glob("*.log")}
        self.assertTrue(any(text for name, text in logs.items() if "osm-injector" in name), logs)
        for name, text in logs.items():
            self.assertNotIn("PRIVATE KEY", text, name)
        events = json.dumps(self.api.list("Event", ns))
        self.assertNotIn("PRIVATE KEY", events)


if __name__ == "__main__":
    kubecase.main()
