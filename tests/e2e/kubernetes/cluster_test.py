#!/usr/bin/python3
"""The test cluster runs, probes, replaces and ends pods as Kubernetes documents, and leaves nothing behind."""

import json
import os
import pathlib
import re
import subprocess
import time

from lib.kube import kubecase
from lib.kube import kubeobjects as k8s
from lib.kube.api import ApiError
from lib.kube.container_run import Backoff
from lib.net.processes import NotYet, wait_for


class ClusterTest(kubecase.KubeCase):
    @classmethod
    def _close(cls):
        super()._close()
        check_nothing_is_left_of(cls.rig)

    def test_pods_end_with_their_namespace(self):
        self.api.apply(k8s.namespace("left"), k8s.deployment("left", "app", replicas=2))
        self.wait_until_available("left", "app")
        networks = {p.namespace.name for p in self.agent.pods("left")}
        self.assertEqual(2, len(networks & set(os.listdir("/run/netns"))))
        self.api.delete("Namespace", None, "left")
        self.api.wait_until_gone("Namespace", None, "left")
        wait_for("the pods' networks are gone", lambda: not networks & set(os.listdir("/run/netns")))

    def test_a_deployment_becomes_available_and_its_slices_hold_its_pods(self):
        self.api.apply(k8s.namespace("web"), k8s.service("web", "shop"), k8s.deployment("web", "shop", replicas=2))
        self.wait_until_available("web", "shop")
        pods = self.pods("web", "shop")
        self.assertEqual(2, len(pods))
        self.assertEqual({"node-1", "node-2"}, {p["spec"]["nodeName"] for p in pods})
        self.wait_for_slices("web", "shop", [p["status"]["podIP"] for p in pods])
        for pod in pods:
            self.assertEqual(pod["metadata"]["name"], self.get(pod)[1]["pod"])

    def test_pods_reach_each_other_by_address_and_by_name(self):
        self.api.apply(
            k8s.namespace("talk"),
            k8s.service("talk", "server", port=80, target=8080),
            k8s.deployment("talk", "server"),
            k8s.deployment("talk", "client"),
        )
        self.wait_until_available("talk", "server")
        self.wait_until_available("talk", "client")
        (client,) = self.pods("talk", "client")
        (server,) = self.pods("talk", "server")
        status, body = self.fetch_from(client, f"http://{server['status']['podIP']}:8080/x")
        self.assertEqual(200, status, body)
        seen = json.loads(body)
        self.assertEqual((server["metadata"]["name"], client["status"]["podIP"]), (seen["pod"], seen["client"]))

        def by_name():
            status, body = self.fetch_from(client, "http://server.talk/y")
            if status != 200:
                raise NotYet(body)
            return json.loads(body)

        # kube-proxy's rules, and an address that is not masqueraded.
        seen = wait_for("the name of the service leads to its pod", by_name, 20)
        self.assertEqual((server["metadata"]["name"], client["status"]["podIP"]), (seen["pod"], seen["client"]))

    def test_a_rolling_update_replaces_every_pod(self):
        self.api.apply(k8s.namespace("roll"), k8s.service("roll", "shop"), k8s.deployment("roll", "shop", replicas=2))
        self.wait_until_available("roll", "shop")
        old = {p["metadata"]["uid"] for p in self.pods("roll", "shop")}
        self.api.apply(k8s.deployment("roll", "shop", [k8s.http_container(version="v2")], replicas=2))
        self.wait_until_available("roll", "shop")
        pods = self.pods("roll", "shop")
        self.assertEqual(set(), old & {p["metadata"]["uid"] for p in pods})
        self.assertEqual({"v2"}, {self.get(p)[1]["version"] for p in pods})
        wait_for("the old pods are gone", lambda: len(self.api.list("Pod", "roll")) == 2)

    def test_a_deployment_is_restarted_twice_within_a_second(self):
        idle = k8s.shell_container("app", "trap 'exit 0' TERM; while :; do sleep 0.05; done")
        self.api.apply(k8s.namespace("twice"), k8s.deployment("twice", "app", [idle]))
        self.wait_until_available("twice", "app")
        while time.time() % 1 > 0.1:  # so that both are within one second of the clock
            time.sleep(0.01)
        for _ in range(2):
            self.begin_restart("twice", "app")
        self.assertEqual(3, self.wait_until_available("twice", "app")["metadata"]["generation"])

    def test_a_job_with_a_native_sidecar_completes_in_order(self):
        shared = {"name": "shared", "mountPath": "/shared"}
        sidecar = k8s.shell_container(
            "sidecar",
            "trap 'echo sidecar-end >>/shared/order; exit 0' TERM\n"
            "echo sidecar >>/shared/order; touch /tmp/up; while :; do sleep 0.05; done",
            restartPolicy="Always",
            volumeMounts=[shared],
            startupProbe={"exec": {"command": ["test", "-e", "/tmp/up"]}, "periodSeconds": 1},
        )
        first = k8s.shell_container("first", "echo first >>/shared/order", volumeMounts=[shared])
        work = k8s.shell_container("work", "echo work >>/shared/order; cat /shared/order", volumeMounts=[shared])
        self.api.apply(
            k8s.namespace("work"),
            k8s.job(
                "work", "once", [work], initContainers=[first, sidecar], volumes=[{"name": "shared", "emptyDir": {}}]
            ),
        )
        self.api.wait_for(
            "is complete",
            "Job",
            "work",
            "once",
            lambda job: any(
                c["type"] == "Complete" and c["status"] == "True" for c in job.get("status", {}).get("conditions", [])
            ),
            40,
        )
        (pod,) = self.api.list("Pod", "work")
        self.assertEqual("Succeeded", pod["status"]["phase"])
        log = self.rig.directory / f"pod.work.{pod['metadata']['name']}.work.log"
        self.assertEqual(["first", "sidecar", "work"], log.read_text().split())
        order = self.agent.pod("work", pod["metadata"]["name"]).volume_paths["shared"] / "order"
        self.assertEqual("sidecar-end", order.read_text().split()[-1])

    def test_a_pod_waits_for_the_secret_it_mounts_and_sees_it_change(self):
        def secret(text):
            return {
                "apiVersion": "v1",
                "kind": "Secret",
                "stringData": {"file": text},
                "metadata": {"name": "late", "namespace": "secrets"},
            }

        app = k8s.http_container(volumeMounts=[{"name": "late", "mountPath": "/etc/late"}])
        self.api.apply(
            k8s.namespace("secrets"),
            k8s.deployment("secrets", "app", [app], volumes=[{"name": "late", "secret": {"secretName": "late"}}]),
        )
        pod = wait_for("the pod is made", lambda: self.pods("secrets", "app"))[0]
        self.api.wait_for(
            "says what it waits for",
            "Pod",
            "secrets",
            pod["metadata"]["name"],
            lambda p: any('secret "late" not found' in c.get("message", "") for c in p["status"]["conditions"]),
        )
        self.api.apply(secret("one"))
        self.wait_until_available("secrets", "app")
        (pod,) = self.pods("secrets", "app")
        self.assertEqual("one", self.get(pod, path="/file?path=/etc/late/file")[1]["text"])
        self.api.apply(secret("two"))
        wait_for(
            "the mounted file changes", lambda: self.get(pod, path="/file?path=/etc/late/file")[1]["text"] == "two"
        )

    def test_the_kubelet_restarts_a_container_that_fails_its_liveness_probe(self):
        app = k8s.shell_container(
            "app",
            "while :; do sleep 0.05; done",
            livenessProbe={"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1},
        )
        self.api.apply(k8s.namespace("live"), k8s.deployment("live", "app", [app]))
        pod = wait_for("the pod is made", lambda: self.pods("live", "app"))[0]
        name = pod["metadata"]["name"]
        self.agent.expect_restarts("live", name, "app")

        def app(pod):
            return (pod["status"].get("containerStatuses") or [{"restartCount": 0}])[0]

        self.api.wait_for("was restarted", "Pod", "live", name, lambda p: app(p)["restartCount"] == 1)
        waits = self.api.wait_for(
            "waits the second time",
            "Pod",
            "live",
            name,
            lambda p: app(p)["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff",
        )
        self.assertEqual(1, app(waits)["restartCount"])

    def test_a_containers_capabilities_are_an_engines(self):
        change = "iptables -t nat -N OSM_TEST && echo changed || echo refused"
        admin = {"capabilities": {"add": ["NET_ADMIN"]}}
        containers = [k8s.shell_container("plain", change), k8s.shell_container("admin", change, securityContext=admin)]
        self.api.apply(k8s.namespace("caps"), k8s.job("caps", "try", containers))
        self.api.wait_for("is complete", "Job", "caps", "try", lambda job: job.get("status", {}).get("succeeded") == 1)
        (pod,) = self.api.list("Pod", "caps")
        for container, outcome in (("plain", "refused"), ("admin", "changed")):
            log = self.rig.directory / f"pod.caps.{pod['metadata']['name']}.{container}.log"
            self.assertEqual(outcome, log.read_text().split()[-1])

    def test_an_account_may_do_what_rbac_grants_and_nothing_else(self):
        self.api.apply(
            k8s.namespace("accounts"),
            k8s.account("accounts", "reader"),
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {"name": "read", "namespace": "accounts"},
                "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "read", "namespace": "accounts"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "read"},
                "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "accounts"}],
            },
        )
        reader = self.cluster.as_account("accounts", "reader")
        wait_for("the grant is known", lambda: reader.list("Pod", "accounts") == [], retry=(ApiError,))
        with self.assertRaises(ApiError) as refused:
            reader.list("Secret", "accounts")
        self.assertEqual(403, refused.exception.code)

    def test_pods_survive_that_the_api_server_is_away(self):
        self.api.apply(k8s.namespace("away"), k8s.deployment("away", "app"))
        self.wait_until_available("away", "app")
        (pod,) = self.pods("away", "app")
        self.addCleanup(lambda: self.cluster.api_server_runs() or self.cluster.start_api_server())
        self.cluster.stop_api_server()
        self.assertEqual(200, self.get(pod)[0])
        self.cluster.start_api_server()
        self.api.apply(k8s.deployment("away", "app", replicas=2))
        self.wait_until_available("away", "app")
        self.assertIn(pod["metadata"]["uid"], {p["metadata"]["uid"] for p in self.pods("away")})


class BackoffTest(kubecase.unittest.TestCase):
    def test_restarts_wait_as_a_kubelets_do(self):
        backoff = Backoff()
        self.assertEqual([0, 10, 20, 40, 80, 160, 300, 300], [backoff.after(599) for _ in range(8)])
        self.assertEqual([0, 10], [backoff.after(600), backoff.after(1)])


def check_nothing_is_left_of(rig):
    """AssertionError: the cluster of a rig is closed, and something of it is still there. The
    directory of a test that failed stays."""
    left = [n for n in os.listdir("/run/netns") if n.startswith(rig.prefix)]
    left += [m for m in pathlib.Path("/proc/self/mounts").read_text().splitlines() if str(rig.directory) in m]
    left += [p for p in processes() if str(rig.directory) in p]
    left += [rig.directory] if rig.directory.exists() and not rig.failed else []
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    left += re.findall(r" pod\d+[@:]", links)
    if left:
        raise AssertionError(f"left behind: {left}")


def processes():
    """Command lines of all processes."""
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                pass  # it has just ended


if __name__ == "__main__":
    kubecase.main()
