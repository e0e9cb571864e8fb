#!/usr/bin/python3
"""`osm install` on a cluster copes with a dry run, a second run, changed values, conflicts and a time-out;
an autoscaler follows a load, and disruption budgets hold in a drained node. Helm installs, upgrades, rolls
back and removes the chart.
"""

import itertools
import json
import re
import threading

from lib.kube import kubecase, mesh
from lib.kube import kubeobjects as k8s
from lib.kube.api import MERGE, ApiError, path_of
from lib.mesh import meshcase, objects
from lib.net.processes import NotYet, wait_for

HELM = mesh.ROOT / "build/tools/helm/bin/helm"
VALUES = "ConfigMap osm-system/osm-values"
CONFIGS = "meshconfigs.config.openservicemesh.io"


class Case(kubecase.KubeCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.agent.images.update(mesh.images(meshcase._programs))

    def install(self, *arguments, code=0, command="install"):
        ran = self.cluster.run(meshcase._programs.osm, command, *map(str, arguments))
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        return ran.stdout if code == 0 else ran.stderr

    def changes(self, *arguments, command="install"):
        """{"Deployment osm-system/osm-injector": "changed"} without what stayed as it was."""
        told = json.loads(self.install("-o", "json", *arguments, command=command))
        return {o["object"]: o["change"] for o in told["objects"] if o["change"] != "unchanged"}

    def replicas(self, name, ns="osm-system"):
        return self.api.get("Deployment", ns, name)["spec"]["replicas"]

    def check_a_pod_is_injected(self, ns, mesh_name="osm"):
        namespace = mesh.namespace(ns)
        namespace["metadata"]["labels"]["openservicemesh.io/monitored-by"] = mesh_name
        self.api.apply(namespace)
        self.addCleanup(self.api.delete, "Namespace", None, ns)
        wait_for("its ServiceAccount is made", lambda: self.api.find("ServiceAccount", ns, "default"))
        shown = self.api.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "app", "namespace": ns},
                "spec": {"containers": [k8s.shell_container("app", "exec sleep 600")]},
            },
            dryRun="All",
        )
        self.assertIn("envoy", [c["name"] for c in shown["spec"]["initContainers"]])
        self.assertIn("osm-init:", shown["spec"]["initContainers"][0]["image"])


class InstallTest(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.before = cls.everything()

    @classmethod
    def everything(cls):
        """Names of all objects of the cluster that people and programs keep."""
        kinds = cls.cluster.kubectl("api-resources", "--verbs=list", "-o", "name").split()
        kinds = [k for k in kinds if not k.startswith(("events", "componentstatuses"))]
        return set(cls.cluster.kubectl("get", ",".join(kinds), "-A", "-o", "name").split())

    def test_1_a_dry_run_changes_nothing(self):
        text = self.install("--dry-run", "--set", "osm.meshName=two")
        self.assertIn("name: libosm-webhook-two", text)
        self.assertIsNone(self.api.find("Namespace", None, "osm-system"))
        items = json.loads(self.install("--dry-run", "-o", "json"))["items"]
        self.assertEqual(items[0]["kind"], "Namespace")
        self.assertIn(
            "`osm install` has installed no mesh in namespace osm-system", self.install(command="upgrade", code=1)
        )

    def store_in_an_old_version(self):
        """A MeshConfig of a cluster that an OSM of before v1.1 served: its CRD has two versions."""
        crd = next(o for o in mesh.rendered() if o["metadata"]["name"] == CONFIGS)
        del crd["metadata"]["labels"]["app.kubernetes.io/version"]
        (new,) = crd["spec"]["versions"]
        old = {**new, "name": "v1alpha1", "storage": True}
        crd["spec"]["versions"] = [{**new, "storage": False}, old]
        self.api.apply(crd)
        # kubectl refuses to wait for a CRD that has no conditions yet.
        wait_for(
            "the CRD is served",
            lambda: (
                self.cluster.kubectl("wait", "--for=condition=Established", "crd", CONFIGS, check=False).returncode == 0
            ),
        )
        wait_for(
            "the kind is served",
            lambda: self.api.apply(
                {
                    "apiVersion": "config.openservicemesh.io/v1alpha2",
                    "kind": "MeshConfig",
                    "metadata": {"name": "old", "namespace": "default"},
                    "spec": {},
                }
            ),
            retry=(ApiError,),
        )
        crd["spec"]["versions"] = [new, {**old, "storage": False}]
        self.api.apply(crd)

    def test_2_the_mesh_is_up_when_the_command_ends(self):
        self.store_in_an_old_version()
        text = self.install("--timeout", "60s", "--force-conflicts")  # the CRD is the test's
        self.assertEqual(
            ["v1alpha2"], self.api.get("CustomResourceDefinition", None, CONFIGS)["status"]["storedVersions"]
        )
        self.api.delete("MeshConfig", "default", "old", missing_ok=False)
        self.assertRegex(text, r"(?m)^created +Deployment osm-system/osm-controller$")
        self.assertIn("OSM is up in namespace osm-system", text)
        self.assertIn("osm namespace add <name> --mesh-name osm", text)
        for name in ("osm-controller", "osm-injector"):
            self.assertEqual(len(self.agent.pods("osm-system", name)), 2)
        self.assertIsNotNone(self.api.find("MeshConfig", "osm-system", "osm-mesh-config"))
        self.check_a_pod_is_injected("shop")

    def test_3_a_second_run_changes_nothing(self):
        before = self.versions()
        self.assertEqual(self.changes(), {})
        self.assertEqual(self.versions(), before)

    def versions(self):
        """resourceVersion of each object of the mesh that no controller writes."""
        return {
            (kind, o["metadata"]["name"]): o["metadata"]["resourceVersion"]
            for kind in ("ConfigMap", "ServiceAccount", "Service", "Role")
            for o in self.api.list(kind, "osm-system")
            if o["metadata"]["name"] not in ("osm-root-rotation", "osm-last-mesh-config")  # controllers' records
        }

    def test_3b_a_status_that_is_written_meanwhile_is_no_change(self):
        budget = path_of("PodDisruptionBudget", "osm-system", "osm-injector", "status")
        ended = threading.Event()

        def write():
            for number in itertools.takewhile(lambda _: not ended.is_set(), itertools.count()):
                self.api.request("PATCH", budget, {"status": {"expectedPods": number}}, MERGE)
            self.api.close()  # this thread's connection

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(3):
                self.assertEqual(self.changes(), {})
        finally:
            ended.set()
            writer.join()

    def test_4_a_changed_value_changes_its_object_only(self):
        self.assertEqual(
            self.changes("--set", "osm.injector.replicaCount=1"),
            {VALUES: "changed", "Deployment osm-system/osm-injector": "changed"},
        )
        self.assertEqual(self.changes(command="upgrade"), {})
        self.assertEqual(
            self.changes("--set", "osm.controllerLogLevel=debug", command="upgrade"),
            {
                VALUES: "changed",
                "Deployment osm-system/osm-controller": "changed",
                "Deployment osm-system/osm-injector": "changed",
            },
        )
        self.assertEqual(self.replicas("osm-injector"), 1)
        self.assertEqual(
            self.changes("--reset-values", command="upgrade"),
            {
                VALUES: "changed",
                "Deployment osm-system/osm-controller": "changed",
                "Deployment osm-system/osm-injector": "changed",
            },
        )
        self.assertEqual(self.replicas("osm-injector"), 2)
        self.assertEqual(self.changes(), {VALUES: "changed"})  # the mesh's name was written out

    def test_5_an_autoscaler_owns_the_number_of_replicas(self):
        scaled = (
            "--set",
            "OpenServiceMesh.injector.autoScale.enable=true,OpenServiceMesh.injector.autoScale.minReplicas=1",
        )
        self.assertEqual(
            self.changes(*scaled), {VALUES: "changed", "HorizontalPodAutoscaler osm-system/osm-injector": "created"}
        )
        self.assertEqual(self.replicas("osm-injector"), 2)  # as before, not the default of 1
        self.cluster.kubectl("scale", "-n", "osm-system", "deployment/osm-injector", "--replicas=3")
        self.assertEqual(self.changes(*scaled), {})
        self.assertEqual(self.replicas("osm-injector"), 3)
        self.assertEqual(
            self.changes(),
            {
                VALUES: "changed",
                "HorizontalPodAutoscaler osm-system/osm-injector": "deleted",
                "Deployment osm-system/osm-injector": "changed",
            },
        )
        self.assertEqual(self.replicas("osm-injector"), 2)

    def test_5b_the_autoscaler_follows_the_load(self):
        usage = self.cluster.start_autoscaling()
        self.addCleanup(self.cluster.stop_autoscaling)
        self.install(
            "--set",
            "osm.injector.autoScale.enable=true,"
            "osm.injector.autoScale.minReplicas=1,osm.injector.autoScale.maxReplicas=3",
        )
        usage.write_text("600m")  # of the 300m that a pod requests
        wait_for("the load adds replicas", lambda: self.replicas("osm-injector") == 3, 60)
        usage.write_text("1m")
        wait_for("no load takes them away", lambda: self.replicas("osm-injector") == 1, 60)

        # A PodDisruptionBudget keeps the last pod.
        def only_pod():
            pods = self.pods("osm-system", "osm-injector")
            return pods[0] if len(pods) == 1 else None

        pod = wait_for("one pod is left", only_pod, 30)
        # The controller of budgets may still count the pods that are gone.
        wait_for(
            "no pod may be evicted",
            lambda: (
                self.api.get("PodDisruptionBudget", "osm-system", "osm-injector")["status"]["disruptionsAllowed"] == 0
            ),
            30,
        )
        with self.assertRaises(ApiError) as refused:
            self.evict(pod)
        self.assertEqual(refused.exception.code, 429)
        self.assertIn("disruption budget", str(refused.exception))
        self.install()
        self.assertEqual(self.replicas("osm-injector"), 2)

    def evict(self, pod):
        meta = {key: pod["metadata"][key] for key in ("name", "namespace")}
        self.api.request(
            "POST",
            path_of("Pod", meta["namespace"], meta["name"], "eviction"),
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta},
        )

    def test_5c_a_node_can_be_drained(self):
        node = self.pods("osm-system", "osm-controller")[0]["spec"]["nodeName"]
        self.addCleanup(self.cluster.kubectl, "uncordon", node)
        self.cluster.kubectl(
            "drain",
            node,
            "--pod-selector=app in (osm-controller,osm-injector)",
            "--delete-emptydir-data",
            "--timeout=60s",
        )
        for name in ("osm-controller", "osm-injector"):
            self.wait_until_available("osm-system", name)
            self.assertNotIn(node, [p["spec"]["nodeName"] for p in self.pods("osm-system", name)])

    def test_6_a_field_of_somebody_else_is_a_conflict(self):
        self.cluster.kubectl("set", "resources", "-n", "osm-system", "deployment/osm-injector", "--limits=memory=300M")
        error = self.install(code=1)
        self.assertIn("kubectl", error)
        self.assertIn("--force-conflicts", error)
        # What the new values no longer ask for is needed until the new programs run.
        binding = ("ClusterRoleBinding", None, "osm-injector-secrets-osm")
        self.install("--set", "osm.secretsByNamespace=true", code=1)
        self.assertIsNotNone(self.api.find(*binding))
        self.install("--force-conflicts", "--set", "osm.secretsByNamespace=true")
        self.assertIsNone(self.api.find(*binding))
        self.install("--force-conflicts")
        self.assertEqual(self.changes(), {})

    def test_7_a_mesh_has_one_namespace(self):
        error = self.install("--osm-namespace", "elsewhere", code=1)
        self.assertIn("a mesh of this name is installed in namespace osm-system", error)
        self.assertIsNone(self.api.find("Namespace", None, "elsewhere"))
        error = self.install("--set", "osm.meshName=two", code=1, command="upgrade")
        self.assertIn("namespace osm-system has mesh osm", error)

    def test_7_values_of_another_version_are_told_where_they_are(self):
        labels = self.api.get("ConfigMap", "osm-system", "osm-values")["metadata"]["labels"]
        self.api.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "osm-values", "namespace": "osm-system", "labels": labels},
                "data": {"values.json": '{"osm": {"later": 1}}'},
            },
            manager="osm-install",
        )
        error = self.install(code=2, command="upgrade")
        self.assertIn("value osm.later: there is no such value", error)
        self.assertIn("in ConfigMap osm-system/osm-values, and --reset-values leaves them", error)
        self.assertEqual(self.changes(), {VALUES: "changed"})

    def test_8_a_cluster_that_is_not_there_and_a_mesh_that_does_not_come_up_are_told(self):
        error = self.install("--kubeconfig", "/none", code=4)
        self.assertIn("/none", error)
        error = self.install(
            "--set", "osm.image.tag=none,osm.image.registry=nowhere.example", "--timeout", "2s", code=5
        )
        self.assertRegex(error, r"waiting: Deployment osm-system/osm-\w+: \d of 2 pods are available")
        self.assertIn("kubectl get pods,events", error)
        self.install()

    def uninstall(self, *arguments, code=0):
        ran = self.cluster.run(meshcase._programs.osm, "uninstall", *arguments)
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        return ran.stdout + ran.stderr

    def outside_of_namespaces(self):
        return {
            (kind, o["metadata"]["uid"])
            for kind in (
                "MutatingWebhookConfiguration",
                "ValidatingWebhookConfiguration",
                "ValidatingAdmissionPolicy",
                "ValidatingAdmissionPolicyBinding",
                "ClusterRole",
                "ClusterRoleBinding",
            )
            for o in self.api.list(kind, None)
        }

    def test_9_nothing_is_left_but_the_users_policies(self):
        self.api.apply(
            mesh.namespace("store"),
            objects.target("store", "all", "server", [("store", "client")], ("TCPRoute", "all", None)),
        )
        self.addCleanup(self.api.delete, "Namespace", None, "store")
        wait_for("its ServiceAccount is made", lambda: self.api.find("ServiceAccount", "store", "default"))
        self.assertIn("nothing is deleted", self.uninstall(code=1))  # nobody answers the question
        self.install("--set", "osm.enableReconciler=true")  # it restores what is deleted
        before = self.outside_of_namespaces()
        self.assertIn(
            "mesh osm is installed in namespace osm-system (",
            self.uninstall("--force", "--osm-namespace", "store", code=1),
        )
        self.assertEqual(before, self.outside_of_namespaces())
        self.assertIn("has installed no mesh blue", self.uninstall("--force", "--mesh-name", "blue", code=1))
        self.assertIn("run the command again", self.uninstall("--force", "--timeout", "0s", code=5))
        text = self.uninstall("--force")
        self.assertLess(
            text.index("MutatingWebhookConfiguration libosm-webhook-osm"),
            text.index("Deployment osm-system/osm-injector"),
        )
        self.api.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "app", "namespace": "store"},
                "spec": {
                    "containers": [k8s.shell_container("app", "exec sleep 600")],
                    "terminationGracePeriodSeconds": 1,
                },
            }
        )  # no webhook refuses it
        self.assertIsNotNone(self.api.find("TrafficTarget", "store", "all"))
        self.assertIn("has installed no mesh osm", self.uninstall("--force", code=1))
        self.api.delete("Namespace", None, "store")
        wait_for("the namespace is gone", lambda: not self.api.find("Namespace", None, "store"), 30)

        wait_for("no namespace is left", lambda: not self.api.find("Namespace", None, "osm-system"), 30)
        self.api.apply(k8s.namespace("osm-system"))  # somebody else's
        self.install("--no-wait")
        told = json.loads(self.uninstall("--force", "--delete-crds", "-o", "json"))
        self.assertEqual(("osm", "osm-system"), (told["mesh"], told["namespace"]))
        self.assertIn("CustomResourceDefinition meshconfigs.config.openservicemesh.io", told["deleted"])

        there = self.api.get("Namespace", None, "osm-system")["metadata"]
        self.assertNotIn("deletionTimestamp", there)
        self.api.delete("Namespace", None, "osm-system")

        def nothing():
            left = self.everything() - self.before
            if left:
                raise NotYet(sorted(left))
            return True

        # A kind that goes while it is listed is an error.
        wait_for("nothing is left", nothing, 40, interval=1, retry=(RuntimeError,))


class HelmTest(Case):
    def helm(self, *arguments):
        ran = self.cluster.run(HELM, *map(str, arguments))
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return ran.stdout

    def test_a_release_is_installed_upgraded_rolled_back_and_removed(self):
        release = ("mesh", mesh.CHART, "-n", "mesh-system", "--set", "osm.meshName=two", "--wait", "--timeout", "60s")
        self.helm("install", *release, "--create-namespace")
        self.check_a_pod_is_injected("shop", "two")
        self.helm("upgrade", *release, "--set", "osm.injector.replicaCount=3")
        self.assertEqual(self.replicas("osm-injector", "mesh-system"), 3)
        self.helm("rollback", "mesh", "1", "-n", "mesh-system", "--wait", "--timeout", "60s")
        self.assertEqual(self.replicas("osm-injector", "mesh-system"), 2)
        self.check_a_pod_is_injected("store", "two")
        hooks = self.api.get("MutatingWebhookConfiguration", None, "libosm-webhook-two")["webhooks"]
        self.assertTrue(all(h["clientConfig"].get("caBundle") for h in hooks))
        ran = self.cluster.run(
            meshcase._programs.osm, "uninstall", "--force", "--mesh-name", "two", "--osm-namespace", "mesh-system"
        )
        self.assertEqual(ran.returncode, 1, ran.stdout)  # Helm's, which Helm removes
        self.assertEqual(self.replicas("osm-injector", "mesh-system"), 2)
        self.helm("uninstall", "mesh", "-n", "mesh-system", "--wait", "--timeout", "60s")
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ClusterRole"):
            left = [o["metadata"]["name"] for o in self.api.list(kind, None) if re.search("osm", o["metadata"]["name"])]
            self.assertEqual(left, [])
        self.assertIsNotNone(self.api.find("CustomResourceDefinition", None, "traffictargets.access.smi-spec.io"))


if __name__ == "__main__":
    kubecase.main()
