#!/usr/bin/python3
"""`osm namespace`, `osm metrics` and `osm mesh list` change and list the namespaces and meshes of a
cluster, and refuse those that may not join. Requests and policies have full names, in a cluster whose DNS
has another domain; the first call of docs/kubernetes.md has its output.
"""

import json
import re
import shlex
import subprocess

from lib.kube import kubecase, mesh
from lib.kube import kubeobjects as k8s
from lib.kube.node_agent import Image
from lib.kube.rotation import documented_commands
from lib.mesh import meshcase, objects
from lib.net.processes import NotYet, wait_for

PAGE = mesh.ROOT / "docs/kubernetes.md"
MESH, IGNORE = "openservicemesh.io/monitored-by", "openservicemesh.io/ignore"
INJECTION, METRICS = "openservicemesh.io/sidecar-injection", "openservicemesh.io/metrics"
SCRAPED = {"prometheus.io/scrape": "true", "prometheus.io/port": "15010", "prometheus.io/path": "/stats/prometheus"}


def general(text):
    """An output without the parts that differ at each run: names of pods, times, addresses."""
    for varying in (
        r"(?<=-)[a-z0-9]{6,10}-[a-z0-9]{5}\b",
        r"\d{4}-\d\d-\d\dT\S+",
        r"\d+(\.\d+){3}",
        r"(?<=after )\d+(?= ms)",
        r"(?<=generation )\d+",
    ):
        text = re.sub(varying, "*", text)
    return re.sub(r" +", " ", text).strip()


class CommandsTest(kubecase.MeshCase):
    DOMAIN = "example.internal"

    @classmethod
    def install(cls, installed):
        installed.install(f"osm.clusterDomain={cls.DOMAIN}")

    def osm(self, *arguments, code=0):
        ran = self.cluster.run(meshcase._programs.osm, *arguments)
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        return ran.stdout if code == 0 else ran.stdout + ran.stderr

    def osm_json(self, *arguments):
        return json.loads(self.osm(*arguments, "-o", "json"))

    def make(self, name, **labels):
        self.api.apply(k8s.namespace(name, **labels))
        self.addCleanup(self.api.delete, "Namespace", None, name)
        wait_for("its ServiceAccount is made", lambda: self.api.find("ServiceAccount", name, "default"))

    def marks(self, name):
        """(labels, annotations) of a namespace that belong to the mesh."""
        metadata = self.api.get("Namespace", None, name)["metadata"]
        return tuple(
            {k: v for k, v in metadata.get(what, {}).items() if k.startswith("openservicemesh.io/")}
            for what in ("labels", "annotations")
        )

    def has_sidecar(self, ns):
        """True if a new pod of the namespace would get one."""
        pod = self.api.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "any", "namespace": ns},
                "spec": {"containers": [k8s.shell_container("app", "exec sleep 1")]},
            },
            dryRun="All",
        )
        return "envoy" in json.dumps(pod["spec"])

    def wait_for_sidecars(self, ns, wanted=True):
        """The API server and the injector follow a namespace with a delay."""
        wait_for("new pods get a sidecar, or none", lambda: self.has_sidecar(ns) == wanted)

    def listed(self, *arguments):
        return {n["name"]: n for n in self.osm_json("namespace", "list", *arguments)["namespaces"]}

    def test_sidecars_find_the_controller_by_the_clusters_domain(self):
        client = self.start_clients("web", "server")
        self.assertNotIn("cluster.local", client.run.hosts_file.read_text())
        # Without a controller a sidecar has no listener, and answers nobody.
        self.wait_for_answer(client, 200, f"server.web.svc:{k8s.PORT}")
        client = self.start_clients("bank", "server", protocol="tcp")
        self.wait_for_answer(client, 200, f"server.bank.svc.{self.DOMAIN}:{k8s.PORT}")

    def test_requests_and_policies_name_services_by_the_clusters_domain(self):
        client = self.start_clients("mall", "api", "other")
        api, other = (f"{name}.mall.svc.{self.DOMAIN}" for name in ("api", "other"))
        url = f"{api}:{k8s.PORT}"

        def server():
            return json.loads(self.wait_for_answer(client, 200, url))["pod"]

        self.assertTrue(server().startswith("api-"))
        self.api.apply(objects.split("mall", "all", api, **{other: 1}))
        wait_for("the split is obeyed", lambda: server().startswith("other-"))
        unknown = client.get(url, headers={"Host": "api.example"})
        self.assertEqual(unknown[0], 404)
        foreign = "api.mall.svc.cluster.local"
        self.assertEqual(client.get(url, headers={"Host": foreign}), unknown)
        asked = "policy", "explain", "mall/client", "mall/api", "--port", str(k8s.PORT), "--host"
        self.osm(*asked, api)
        self.assertIn(foreign, self.osm(*asked, foreign, code=3))
        self.api.apply(
            objects.upstream_setting(
                "mall", "once", api, rateLimit={"local": {"http": {"requests": 1, "unit": "hour"}}}
            )
        )
        self.wait_for_answer(client, 429, url)

    def test_an_added_namespace_is_in_the_mesh_until_it_is_removed(self):
        self.make("shop")
        self.assertFalse(self.has_sidecar("shop"))
        told = self.osm("namespace", "add", "shop")
        self.assertIn("Namespace [shop] successfully added to mesh [osm]", told)
        self.assertIn("kubectl rollout restart deployment -n shop", told)
        self.assertEqual(self.marks("shop"), ({MESH: "osm"}, {INJECTION: "enabled"}))
        self.wait_for_sidecars("shop")
        self.assertIn("is in mesh [osm] already", self.osm("namespace", "add", "shop"))
        self.osm("namespace", "add", "shop", "--disable-sidecar-injection")
        self.assertEqual(self.marks("shop"), ({MESH: "osm"}, {INJECTION: "disabled"}))
        self.wait_for_sidecars("shop", False)
        self.osm("metrics", "enable", "--namespace", "shop")
        self.assertIn("kubectl rollout restart", self.osm("namespace", "remove", "shop"))
        self.assertEqual(self.marks("shop"), ({}, {}))
        self.assertIn("is not in mesh osm", self.osm("namespace", "remove", "shop", code=1))

    def test_a_namespace_that_may_not_join_stays_as_it_is(self):
        for name in ("blue", "ignored", "free"):
            self.make(name)
        self.osm("namespace", "add", "blue", "--mesh-name", "blue")
        self.osm("namespace", "ignore", "ignored")
        self.assertEqual(self.marks("ignored"), ({IGNORE: "true"}, {}))
        for name, says in (
            ("blue", "osm namespace remove blue --mesh-name blue"),
            ("ignored", "kubectl label namespace ignored openservicemesh.io/ignore-"),
            (mesh.SYSTEM, "has a control plane"),
            ("absent", "kubectl create namespace absent"),
        ):
            with self.subTest(name):
                before = None if name == "absent" else self.marks(name)
                self.assertIn(says, self.osm("namespace", "add", name, code=1))
                self.assertEqual(before, None if name == "absent" else self.marks(name))
        self.assertIn("but in mesh blue", self.osm("namespace", "remove", "blue", code=1))
        self.assertEqual(set(self.listed("--mesh-name", "blue")), {"blue"})
        reader = self.cluster.kubeconfig_of_account("free", "default")
        self.osm("namespace", "add", "free", "--kubeconfig", str(reader), code=3)
        self.assertEqual(self.marks("free"), ({}, {}))

    def test_lists_show_who_takes_part(self):
        self.make("plain")
        self.api.apply(k8s.deployment("plain", "old"))
        self.wait_until_available("plain", "old")
        self.osm("namespace", "add", "plain")
        self.wait_for_sidecars("plain")
        self.api.apply(k8s.deployment("plain", "new"))
        self.wait_until_available("plain", "new")
        listed = self.listed("--mesh-name", "osm")["plain"]
        self.assertEqual(
            (listed["mesh"], listed["sidecar_injection"], listed["pods"], listed["pods_with_sidecar"]),
            ("osm", "enabled", 2, 1),
        )
        self.assertRegex(self.osm("namespace", "list"), r"(?m)^plain +osm +enabled +- +2 +1$")
        [shown] = self.osm_json("mesh", "list")["meshes"]
        pods = [p["metadata"]["name"] for p in self.pods(mesh.SYSTEM, "osm-controller")]
        self.assertEqual(
            (shown["name"], shown["namespace"], shown["controllers"]),
            ("osm", mesh.SYSTEM, [{"name": name, "ready": True} for name in pods]),
        )
        self.assertRegex(shown["version"], r"^\d+\.\d+\.\d+$")
        self.assertIn("plain", shown["namespaces"])
        self.assertRegex(self.osm("mesh", "list"), r"(?m)^osm +osm-system +\d\S+ +1/1 +.*plain")
        # And the proxies that serve them.
        wait_for("its proxy is listed", lambda: "plain/new-" in self.osm("proxy", "list"))

    def test_metrics_are_scraped_from_running_and_new_pods_until_they_are_disabled(self):
        for name in ("metered", "other"):
            self.make(name)
        self.osm("namespace", "add", "metered", "other")
        self.wait_for_sidecars("metered")
        self.api.apply(
            k8s.deployment("metered", "web"),
            k8s.deployment("metered", "own", annotations={"prometheus.io/port": "8080"}),
        )
        for name in ("web", "own"):
            self.wait_until_available("metered", name)

        def scraped(app):
            [pod] = self.pods("metered", app)
            return {k: v for k, v in pod["metadata"].get("annotations", {}).items() if k.startswith("prometheus.io/")}

        self.assertEqual(scraped("web"), {})
        told = self.osm("metrics", "enable", "--namespace", "metered,other")
        self.assertIn("Metrics successfully enabled in namespace [other]", told)
        self.assertEqual(self.marks("other")[1][METRICS], "enabled")
        self.assertEqual(scraped("web"), SCRAPED)
        self.assertEqual(scraped("own"), {"prometheus.io/port": "8080"})  # the application's
        self.osm("metrics", "disable", "--namespace", "metered")
        self.assertNotIn(METRICS, self.marks("metered")[1])
        self.assertEqual((scraped("web"), scraped("own")), ({}, {"prometheus.io/port": "8080"}))
        self.make("outside")
        self.assertIn("osm namespace add outside", self.osm("metrics", "enable", "--namespace", "outside", code=1))

    def run_inside(self, command):
        """Output and exit code of `kubectl exec`, as the node's agent runs it."""
        words = shlex.split(command)
        self.assertEqual(["kubectl", "exec", "-n"], words[:3])
        pod = self.pod_of(words[3], words[4].removeprefix("deployment/")).run
        (container,) = (c for c in pod.containers if c.name == words[6])
        ran = subprocess.run(container.enter(words[8:]), capture_output=True, text=True, timeout=20)
        return ran.stdout + ran.stderr, ran.returncode

    def test_the_first_call_is_refused_and_then_allowed_as_the_page_says(self):
        self.agent.images.update({"python": Image(["python3"]), "curlimages/curl": Image(["curl"])})
        section = re.search(r"^## First call$(.*?)^## ", PAGE.read_text(), re.M | re.S)[1]
        listed, refused, denied, allowed = map(general, re.findall(r"^```text\n(.*?)^```", section, re.M | re.S))
        join, make, show, call, explain, allow, ask, remove = documented_commands("First call", PAGE)
        self.shell(join)
        self.shell(make)

        def both_sidecars():
            if (shown := general(self.shell(show))) != listed:
                raise NotYet(shown)
            return True

        wait_for("the list of proxies is as on the page", both_sidecars)
        said, code = self.run_inside(call)
        self.assertEqual((refused, 7), (general(said), code))
        self.assertEqual(denied, general(self.osm(*shlex.split(explain)[1:], code=3)))
        self.shell(allow)
        self.assertEqual(allowed, general(self.shell(ask)))
        self.assertEqual(("200\n", 0), self.run_inside(call))
        self.assertEqual(("404\n", 0), self.run_inside(call.replace("curl ", "curl -X POST ")))
        self.shell(remove)


if __name__ == "__main__":
    kubecase.main()
