#!/usr/bin/python3
"""Pods under PodSecurity restricted call each other over mutual TLS; a pod whose node had no plugin never
starts; `osm uninstall` takes the plugin from the nodes.

The test calls the plugins of the node's configuration as a container runtime does.
"""

import json
import os
import subprocess

from lib.kube import kubecase, mesh
from lib.kube import kubeobjects as k8s
from lib.mesh import objects
from lib.net.processes import NotYet, wait_for

NS, EARLY = "strict", "early"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 1600,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def restricted(deployment):
    for container in deployment["spec"]["template"]["spec"]["containers"]:
        container["securityContext"] = SECURITY
    return deployment


class CniTest(kubecase.MeshCase):
    @classmethod
    def install(cls, installed):
        cls.programs = cls.rig.directory / "cni/bin"
        cls.conf = cls.rig.directory / "cni/net.d"
        cls.conf.mkdir(parents=True)
        cls.list = cls.conf / "10-pods.conflist"
        # The test itself stands for the first plugin.
        cls.list.write_text(json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "network"}]}))
        cls.before = cls.list.read_text()
        cls.failures = []
        installed.install("osm.cni.enable=true", f"osm.cni.binDir={cls.programs}", f"osm.cni.confDir={cls.conf}")
        wait_for("the nodes have the plugin", lambda: "osm-cni" in cls.list.read_text(), 30)

    @classmethod
    def _observe(cls, run, up):
        if up and run.ns != EARLY:
            cls.call_plugins(run)
        super()._observe(run, up)

    @classmethod
    def call_plugins(cls, run):
        listed = json.loads(cls.list.read_text())
        for plugin in listed["plugins"][1:]:
            annotations = run.obj["metadata"].get("annotations") or {}
            configuration = {
                **plugin,
                "cniVersion": listed["cniVersion"],
                "name": listed["name"],
                "prevResult": {"cniVersion": listed["cniVersion"], "ips": [{"address": f"{run.address}/32"}]},
            }
            if plugin["capabilities"]["io.kubernetes.cri.pod-annotations"]:
                configuration["runtimeConfig"] = {"io.kubernetes.cri.pod-annotations": annotations}
            ran = subprocess.run(
                [cls.programs / plugin["type"]],
                input=json.dumps(configuration),
                capture_output=True,
                text=True,
                env={
                    "CNI_COMMAND": "ADD",
                    "CNI_CONTAINERID": run.uid,
                    "CNI_NETNS": f"/run/netns/{run.namespace.name}",
                    "CNI_IFNAME": "eth0",
                    "CNI_PATH": str(cls.programs),
                },
            )
            if ran.returncode != 0:
                cls.failures.append(ran.stdout + ran.stderr)

    def namespace(self, name):
        made = mesh.namespace(name)
        made["metadata"]["labels"] |= RESTRICTED
        self.api.apply(made, k8s.account(name, "server"), k8s.account(name, "client"))

    def test_a_namespace_that_enforces_restricted_is_in_the_mesh(self):
        self.namespace(NS)
        self.api.apply(
            k8s.service(NS, "server"),
            restricted(k8s.deployment(NS, "server", account="server")),
            restricted(k8s.deployment(NS, "client", account="client")),
            objects.routes(NS, "all", everything={"pathRegex": "/.*", "methods": ["*"]}),
        )
        for name in ("server", "client"):
            self.wait_until_available(NS, name)
        client, server = self.pod_of(NS, "client"), self.pod_of(NS, "server")
        self.assertEqual([], self.failures)
        self.wait_for_answer(client, 0, f"server.{NS}:{k8s.PORT}/x")
        self.api.apply(
            objects.target(NS, "access", "server", [(NS, "client")], ("HTTPRouteGroup", "all", ["everything"]))
        )
        self.wait_for_answer(client, 200, f"server.{NS}:{k8s.PORT}/x")
        # Who is not in the mesh has no certificate.
        with self.assertRaises(ConnectionError):
            self.cluster.namespace.http(server.run.address, k8s.PORT, "GET", "/x")
        self.assertIn("OSM_PROXY_OUTBOUND", client.run.namespace.run("iptables-save").stdout)
        for pod in (client, server):
            (init,) = [c for c in pod.run.obj["spec"]["initContainers"] if c["name"] == "osm-init"]
            self.assertEqual({"drop": ["ALL"]}, init["securityContext"]["capabilities"])

    def test_a_pod_whose_node_had_no_plugin_never_starts(self):
        self.namespace(EARLY)
        self.api.apply(restricted(k8s.deployment(EARLY, "server", account="server")))

        def ended():
            for run in self.agent.pods(EARLY):
                self.agent.expect_restarts(EARLY, run.name, "osm-init")
                log = self.agent.log_of(run, "osm-init")
                if log.exists() and "not redirected to its sidecar" in log.read_text():
                    return run
            raise NotYet("no pod has ended its osm-init")

        run = wait_for("osm-init says why", ended, 40)
        self.assertFalse(any(c.running() for c in run.containers))
        self.assertIn("osm-cni pod", self.agent.log_of(run, "osm-init").read_text())
        self.api.delete("Namespace", None, EARLY)

    def test_z_uninstalling_takes_the_plugin_from_the_nodes(self):
        self.assertIn("osm-cni", self.list.read_text())
        mesh.osm(self.cluster, "uninstall", "--force")
        self.assertEqual(json.loads(self.before), json.loads(self.list.read_text()))
        self.assertEqual([], os.listdir(self.programs))


if __name__ == "__main__":
    kubecase.main()
