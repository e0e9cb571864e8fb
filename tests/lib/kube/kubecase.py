"""`KubeCase` (a cluster per class) and `MeshCase` (one with the mesh in it), the bases of the tests on
Kubernetes.
"""

import http.client
import json
import os
import pathlib
import ssl
import subprocess
import sys
import time
import unittest

from lib.kube import kubeobjects as k8s
from lib.kube import mesh
from lib.kube.api import now_micro
from lib.kube.cluster import Cluster, kubectl_program
from lib.kube.node_agent import Image, NodeAgent
from lib.mesh import meshcase, objects
from lib.mesh.rig import Rig
from lib.net.processes import NotYet, wait_for

_HERE = pathlib.Path(__file__).resolve().parent
main = meshcase.main


def test_images():
    """The programs that the tests' own images stand for."""
    return {
        "e2e/http-app": Image(
            ["/usr/bin/python3", "/app/http_app.py"], files={"/app/http_app.py": _HERE / "apps/http_app.py"}, user=1501
        ),
        "e2e/shell": Image(["/bin/sh"]),
    }


class KubeCase(unittest.TestCase):
    """A cluster with two nodes for all tests of a class; each test has namespaces of its own.

    A container that is restarted fails the class, unless the test that makes it so has told the
    agent before: `expect_restarts`."""

    maxDiff = None
    DOMAIN = "cluster.local"  # of the cluster's DNS
    NUMBER = 0  # of a cluster that another one is joined with, which has other networks

    @classmethod
    def setUpClass(cls):
        cls.rig = Rig(meshcase._programs)
        cls.rig.failed = True  # until setUpClass is over: its logs are kept, too
        cls.addClassCleanup(cls._close)
        cls.cluster = Cluster(cls.rig, cls.NUMBER).start()
        cls.api = cls.cluster.api
        cls.agent = NodeAgent(cls.cluster, test_images(), domain=cls.DOMAIN).start()
        print(f"the cluster was up in {cls.cluster.started_in:.1f} s", file=sys.stderr)

    @classmethod
    def tearDownClass(cls):
        try:
            cls.check_at_the_end()
        except AssertionError:
            cls.rig.failed = True
            raise

    @classmethod
    def check_at_the_end(cls):
        """AssertionError: something went wrong that no test of the class looked at."""
        cls.agent.check_restarts()

    @classmethod
    def _close(cls):
        if hasattr(cls, "agent"):
            cls.agent.close()
        if hasattr(cls, "cluster"):
            cls.cluster.stop()
        cls.rig.close()

    def setUp(self):
        if not hasattr(type(self), "any_failed"):
            type(self).rig.failed = type(self).any_failed = False
        self.addCleanup(self._note_failure)

    def _note_failure(self):
        result = self._outcome.result
        if any(getattr(test, "test_case", test) is self for test, _ in result.failures + result.errors):
            type(self).rig.failed = type(self).any_failed = True
            print("\n".join(self.agent.notes[-20:]), file=sys.stderr)

    @classmethod
    def begin_restart(cls, ns, name):
        """Does what `kubectl rollout restart` does. kubectl refuses a second restart within a
        second; this does not."""
        cls.api.patch(
            "Deployment",
            ns,
            name,
            {"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": now_micro()}}}}},
        )

    @classmethod
    def restart(cls, ns, *names):
        """Restarts Deployments, until all pods are new."""
        for name in names:
            cls.begin_restart(ns, name)
        for name in names:
            cls.wait_until_available(ns, name)

    def shell(self, script):
        """Runs an administrator's commands, with kubectl and osm, in the cluster's directory."""
        programs = pathlib.Path(kubectl_program()).parent, meshcase._programs.osm.parent
        environment = {
            **os.environ,
            "KUBECONFIG": str(self.cluster.kubeconfig),
            "HOME": str(self.cluster.directory),
            "PATH": ":".join([*map(str, programs), os.environ["PATH"]]),
        }
        ran = subprocess.run(
            self.cluster.namespace.command("bash", "-euo", "pipefail", "-c", script),
            env=environment,
            cwd=self.cluster.directory,
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertEqual(0, ran.returncode, f"{script}\n{ran.stdout}{ran.stderr}")
        return ran.stdout

    # -- asking ---------------------------------------------------------------------------------
    @classmethod
    def pods(cls, ns, app=None):
        """Pods that are not about to end."""
        selector = {"labelSelector": f"app={app}"} if app else {}
        return [p for p in cls.api.list("Pod", ns, **selector) if "deletionTimestamp" not in p["metadata"]]

    @classmethod
    def wait_until_available(cls, ns, name, timeout=40):
        """A Deployment whose newest pods are all there, and no others."""

        def available(obj):
            status, wanted = obj.get("status", {}), obj["spec"]["replicas"]
            return status.get("observedGeneration") == obj["metadata"]["generation"] and all(
                status.get(f, 0) == wanted for f in ("replicas", "updatedReplicas", "availableReplicas")
            )

        try:
            return cls.api.wait_for("is available", "Deployment", ns, name, available, timeout)
        except AssertionError as late:
            pods = {p["metadata"]["name"]: p["status"] for p in cls.api.list("Pod", ns)}
            raise AssertionError(f"{late}\npods: {json.dumps(pods)[:3000]}") from late

    @classmethod
    def get(cls, pod, port=k8s.PORT, path="/"):
        """(status, object) of a request that the node sends to a pod."""
        status, body = cls.cluster.namespace.http(pod["status"]["podIP"], port, "GET", path)
        return status, json.loads(body)

    @classmethod
    def fetch_from(cls, pod, url):
        """(status, body) of what the app in `pod` gets from `url`."""
        status, answer = cls.get(pod, path=f"/fetch?url={url}")
        return answer["status"], answer["body"]

    @classmethod
    def wait_until_made_anew(cls, before, timeout):
        """Until another object has the place of `before`, which was deleted."""
        kind, meta = before["kind"], before["metadata"]

        def another():
            found = cls.api.find(kind, meta.get("namespace"), meta["name"])
            return found and found["metadata"]["uid"] != meta["uid"]

        wait_for(f"{kind} {meta['name']} is made anew", another, timeout)

    @classmethod
    def wait_for_slices(cls, ns, service, addresses, timeout=20):
        """Until the ready endpoints of a Service are these addresses."""

        def same():
            slices = cls.api.list("EndpointSlice", ns, labelSelector=f"kubernetes.io/service-name={service}")
            ready = {
                a
                for s in slices
                for e in s["endpoints"] or []
                if e["conditions"].get("ready", True)
                for a in e["addresses"]
            }
            if ready != set(addresses):
                raise NotYet(sorted(ready))
            return True

        wait_for(f"the slices of {ns}/{service} hold {sorted(addresses)}", same, timeout)


class MeshCase(KubeCase):
    """A cluster with the mesh in it. Every Envoy is watched; what no daemon may ever have been
    refused by RBAC is looked for at the end."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.agent.images.update(mesh.images(meshcase._programs))
        cls.proxies = {}
        cls.agent.observe = cls._observe
        cls.mesh = mesh.Mesh(cls.cluster, cls.agent)
        begun = time.monotonic()
        cls.install(cls.mesh)
        print(f"the mesh was up {time.monotonic() - begun:.1f} s later", file=sys.stderr)

    @staticmethod
    def install(installed):
        installed.install()

    @classmethod
    def _observe(cls, run, up):
        if not any(c.name == "envoy" for c in run.init_all + run.containers):
            return
        if up:
            cls.proxies[run] = mesh.InjectedPod(run)
            cls.rig.watcher.watch(cls.proxies[run])
        elif run in cls.proxies:
            cls.rig.watcher.forget(cls.proxies.pop(run))

    @classmethod
    def check_at_the_end(cls):
        cls.rig.watcher.stop()
        super().check_at_the_end()
        cls.rig.watcher.check()

        def allowed():
            asked = {account: cls.cluster.requests_of(account) for account in ("osm-controller", "osm-injector")}
            if not asked["osm-controller"]:
                raise AssertionError(f"{cls.cluster.audit_log} holds no request of osm-controller")
            # A namespace that is being deleted takes nothing new, whoever writes it.
            kept = {
                n["metadata"]["name"]
                for n in cls.api.list("Namespace", None)
                if "deletionTimestamp" not in n["metadata"]
            }
            refused = {
                account: {
                    (verb, resource, ns)
                    for (verb, resource, ns), codes in requests.items()
                    if codes[-1] == 403 and (verb != "create" or not ns or ns in kept)
                }
                for account, requests in asked.items()
            }
            if any(refused.values()):
                raise NotYet(refused)
            return True

        # An API server that has just started refuses some of what it allows a moment later.
        wait_for("RBAC allows what the daemons need", allowed, 15, interval=0.5)

    def start_clients(self, ns, *servers, protocol="http"):
        """A client that may call the servers of its namespace, which goes with the test. Result:
        its pod."""
        rule = ("TCPRoute", "all", None) if protocol == "tcp" else ("HTTPRouteGroup", "all", ["all"])
        self.api.apply(
            mesh.namespace(ns),
            *(k8s.account(ns, a) for a in ("client", *servers)),
            objects.routes(ns, "all", all={}),
            objects.tcp_route(ns, "all", k8s.PORT),
            *(objects.target(ns, a, a, [(ns, "client")], rule) for a in servers),
            *(k8s.service(ns, a, protocol=protocol) for a in servers),
            *(k8s.deployment(ns, a, account=a) for a in ("client", *servers)),
        )
        self.addCleanup(self.api.delete, "Namespace", None, ns)
        for name in ("client", *servers):
            self.wait_until_available(ns, name)
        return self.pod_of(ns, "client")

    # -- asking ---------------------------------------------------------------------------------
    def conditions(self, kind, ns, name):
        """{type: (status, observedGeneration)} of a policy; empty: nobody has looked at it."""
        status = self.api.get(kind, ns, name).get("status", {})
        return {c["type"]: (c["status"], c["observedGeneration"]) for c in status.get("conditions", [])}

    def wait_until_programmed(self, kind, ns, name):
        """Until all proxies that it concerns have applied the policy as it is now."""

        def told():
            generation = self.api.get(kind, ns, name)["metadata"]["generation"]
            now = self.conditions(kind, ns, name)
            if now != {t: ("True", generation) for t in ("Accepted", "Programmed")}:
                raise NotYet(now)
            return True

        wait_for(f"{kind} {ns}/{name} is programmed", told, 30)

    @classmethod
    def pod_of(cls, ns, app):
        """The InjectedPod of the newest pod of an app that does not end."""
        pods = sorted(cls.pods(ns, app), key=lambda p: p["metadata"]["creationTimestamp"])
        return cls.mesh.run_of(pods[-1])

    @classmethod
    def wait_for_answer(cls, pod, wanted, url, timeout=20, **more):
        """Until the app in a pod gets status `wanted` from HOST:PORT/PATH, as InjectedPod.get
        tells it (0: its sidecar closed the connection)."""

        def seen():
            got = pod.get(url, **more)
            if got[0] != wanted:
                raise NotYet(got)
            return got[1] or "-"

        return wait_for(f"{pod.name} gets {wanted} from {url}", seen, timeout, interval=0.1)

    @classmethod
    def ask_webhook(cls, app, port, path, body, content_type, method="POST"):
        """(status, object) that a daemon's webhook answers somebody who is no API server."""
        (pod,) = cls.pods(mesh.SYSTEM, app)
        address = pod["status"]["podIP"]
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPConnection(address, port, timeout=10)
        connection.sock = context.wrap_socket(cls.cluster.namespace.connect(address, port, 10))
        try:
            connection.request(method, path, body, {"Content-Type": content_type})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()
