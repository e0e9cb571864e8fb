#!/usr/bin/python3
"""`osm install` and charts/osm on a cluster: what they create, change and leave alone."""
import json
import re

from lib.kube import kubecase, mesh
from lib.kube import kubeobjects as k8s
from lib.mesh import meshcase, objects
from lib.net.processes import wait_for

HELM = mesh.ROOT / "build/tools/helm/bin/helm"
CHART = mesh.ROOT / "charts/osm"
class Case(kubecase.KubeCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.agent.images.update(mesh.images(meshcase._programs))

    def install(self, *arguments, code=0):
        ran = self.cluster.run(meshcase._programs.osm, "install", *map(str, arguments))
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        return ran.stdout if code == 0 else ran.stderr

    def changes(self, *arguments):
        """{"Deployment osm-system/osm-injector": "changed"} without what stayed as it was."""
        told = json.loads(self.install("-o", "json", *arguments))
        return {o["object"]: o["change"] for o in told["objects"] if o["change"] != "unchanged"}

    def replicas(self, name, ns="osm-system"):
        return self.api.get("Deployment", ns, name)["spec"]["replicas"]

    def check_a_pod_is_injected(self, ns, mesh_name="osm"):
        namespace = mesh.namespace(ns)
        namespace["metadata"]["labels"]["openservicemesh.io/monitored-by"] = mesh_name
        self.api.apply(namespace)
        self.addCleanup(self.api.delete, "Namespace", None, ns)
        wait_for("its ServiceAccount is made", lambda: self.api.find("ServiceAccount", ns, "default"))
        shown = self.api.create({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "app", "namespace": ns},
            "spec": {"containers": [k8s.shell_container("app", "exec sleep 600")]}}, dryRun="All")
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

    def test_2_the_mesh_is_up_when_the_command_ends(self):
        text = self.install("--timeout", "60s")
        self.assertRegex(text, r"(?m)^created +Deployment osm-system/osm-controller$")
        self.assertIn("OSM is up in namespace osm-system", text)
        self.assertIn("kubectl label namespace <name> openservicemesh.io/monitored-by=osm", text)
        for name in ("osm-controller", "osm-injector"):
            self.assertEqual(len(self.agent.pods("osm-system", name)), 2)
        self.assertIsNotNone(self.api.find("MeshConfig", "osm-system", "osm-mesh-config"))
        self.check_a_pod_is_injected("shop")

    def test_3_a_second_run_changes_nothing(self):
        self.assertEqual(self.changes(), {})

    def test_4_a_changed_value_changes_its_object_only(self):
        self.assertEqual(self.changes("--set", "osm.injector.replicaCount=1"),
                         {"Deployment osm-system/osm-injector": "changed"})
        self.assertEqual(self.changes(), {"Deployment osm-system/osm-injector": "changed"})
        self.assertEqual(self.replicas("osm-injector"), 2)

    def test_5_an_autoscaler_owns_the_number_of_replicas(self):
        scaled = ("--set", "OpenServiceMesh.injector.autoScale.enable=true,"
                           "OpenServiceMesh.injector.autoScale.minReplicas=1")
        self.assertEqual(self.changes(*scaled),
                         {"HorizontalPodAutoscaler osm-system/osm-injector": "created",
                          "Deployment osm-system/osm-injector": "changed"})
        self.assertEqual(self.replicas("osm-injector"), 2)  # as before, not the default of 1
        self.cluster.kubectl("scale", "-n", "osm-system", "deployment/osm-injector", "--replicas=3")
        self.assertEqual(self.changes(*scaled), {})
        self.assertEqual(self.replicas("osm-injector"), 3)
        self.assertEqual(self.changes(),
                         {"HorizontalPodAutoscaler osm-system/osm-injector": "deleted",
                          "Deployment osm-system/osm-injector": "changed"})
        self.assertEqual(self.replicas("osm-injector"), 2)

    def test_6_a_field_of_somebody_else_is_a_conflict(self):
        self.cluster.kubectl("set", "resources", "-n", "osm-system", "deployment/osm-injector",
                             "--limits=memory=300M")
        error = self.install(code=1)
        self.assertIn("kubectl", error)
        self.assertIn("--force-conflicts", error)
        self.install("--force-conflicts")
        self.assertEqual(self.changes(), {})

    def test_7_a_mesh_has_one_namespace(self):
        error = self.install("--osm-namespace", "elsewhere", code=1)
        self.assertIn("a mesh of this name is installed in namespace osm-system", error)
        self.assertIsNone(self.api.find("Namespace", None, "elsewhere"))

    def test_8_a_cluster_that_is_not_there_and_a_mesh_that_does_not_come_up_are_told(self):
        error = self.install("--kubeconfig", "/none", code=1)
        self.assertIn("/none", error)
        error = self.install("--set", "osm.image.tag=none,osm.image.registry=nowhere.example",
                             "--timeout", "2s", code=1)
        self.assertRegex(error, r"waiting: Deployment osm-system/osm-\w+: \d of 2 pods are available")
        self.assertIn("kubectl get pods,events", error)
        self.install()

    def uninstall(self, *arguments, code=0):
        ran = self.cluster.run(meshcase._programs.osm, "uninstall", *arguments)
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        return ran.stdout + ran.stderr

    def test_9_nothing_is_left_but_the_users_policies(self):
        self.api.apply(mesh.namespace("store"), objects.target(
            "store", "all", "server", [("store", "client")], ("TCPRoute", "all", None)))
        self.addCleanup(self.api.delete, "Namespace", None, "store")
        wait_for("its ServiceAccount is made", lambda: self.api.find("ServiceAccount", "store", "default"))
        self.assertIn("nothing is deleted", self.uninstall(code=1))  # nobody answers the question
        self.install("--set", "osm.enableReconciler=true")  # it restores what is deleted
        self.assertIn("has installed no mesh blue",
                      self.uninstall("--force", "--mesh-name", "blue", code=1))
        self.assertIn("run the command again", self.uninstall("--force", "--timeout", "0s", code=1))
        text = self.uninstall("--force")
        self.assertLess(text.index("MutatingWebhookConfiguration libosm-webhook-osm"),
                        text.index("Deployment osm-system/osm-injector"))
        self.api.create({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "app", "namespace": "store"},
            "spec": {"containers": [k8s.shell_container("app", "exec sleep 600")],
                     "terminationGracePeriodSeconds": 1}})  # no webhook refuses it
        self.assertIsNotNone(self.api.find("TrafficTarget", "store", "all"))
        self.assertIn("has installed no mesh osm", self.uninstall("--force", code=1))
        self.api.delete("Namespace", None, "store")
        wait_for("the namespace is gone", lambda: not self.api.find("Namespace", None, "store"), 30)

        self.install("--no-wait")
        self.uninstall("--force", "--delete-crds")
        wait_for("nothing is left", lambda: self.everything() <= self.before, 30, interval=1)


class HelmTest(Case):
    def helm(self, *arguments):
        ran = self.cluster.run(HELM, *map(str, arguments))
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return ran.stdout

    def test_a_release_is_installed_upgraded_rolled_back_and_removed(self):
        release = ("mesh", CHART, "-n", "mesh-system", "--set", "osm.meshName=two", "--wait",
                   "--timeout", "60s")
        self.helm("install", *release, "--create-namespace")
        self.check_a_pod_is_injected("shop", "two")
        self.helm("upgrade", *release, "--set", "osm.injector.replicaCount=3")
        self.assertEqual(self.replicas("osm-injector", "mesh-system"), 3)
        self.helm("rollback", "mesh", "1", "-n", "mesh-system", "--wait", "--timeout", "60s")
        self.assertEqual(self.replicas("osm-injector", "mesh-system"), 2)
        self.check_a_pod_is_injected("store", "two")
        hooks = self.api.get("MutatingWebhookConfiguration", None, "libosm-webhook-two")["webhooks"]
        self.assertTrue(all(h["clientConfig"].get("caBundle") for h in hooks))
        ran = self.cluster.run(meshcase._programs.osm, "uninstall", "--force", "--mesh-name", "two",
                               "--osm-namespace", "mesh-system")
        self.assertEqual(ran.returncode, 1, ran.stdout)  # Helm's, which Helm removes
        self.assertEqual(self.replicas("osm-injector", "mesh-system"), 2)
        self.helm("uninstall", "mesh", "-n", "mesh-system", "--wait", "--timeout", "60s")
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ClusterRole"):
            left = [o["metadata"]["name"] for o in self.api.list(kind, None)
                    if re.search("osm", o["metadata"]["name"])]
            self.assertEqual(left, [])
        self.assertIsNotNone(self.api.find("CustomResourceDefinition", None,
                                           "traffictargets.access.smi-spec.io"))


if __name__ == "__main__":
    kubecase.main()
