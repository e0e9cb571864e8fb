#!/usr/bin/python3
"""Two replicas of osm-controller: what they say of an object is true of the proxies of both, and a
namespace that leaves the mesh."""
import signal

from lib.kube import kubecase
from lib.kube import kubeobjects as k8s, mesh
from lib.mesh import objects
from lib.net.processes import NotYet, wait_for

NS, SMI = "shop", ("HTTPRouteGroup", "routes", ["all"])
URL = f"server.{NS}:{k8s.PORT}/x"
CONTROLLER_HTTP = 9091
COMPONENT = "app.kubernetes.io/component=replica"
NEW_STREAMS = "replica.openservicemesh.io/new-streams"


class ReplicasTest(kubecase.MeshCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        idle = k8s.shell_container("app", "trap 'exit 0' TERM; while :; do sleep 0.1; done")
        cls.api.apply(mesh.namespace(NS), *(k8s.account(NS, a) for a in ("server", "client")),
                      k8s.service(NS, "server"), k8s.deployment(NS, "server", account="server"),
                      objects.routes(NS, "routes", all={"pathRegex": "/.*", "methods": ["*"]}),
                      objects.target(NS, "access", "server", [(NS, "client")], SMI))
        cls.wait_until_available(NS, "server")
        cls.api.apply(k8s.deployment(NS, "client", [idle], replicas=2, account="client"))
        cls.wait_until_available(NS, "client")
        cls.scale(2)
        cls.wait_until_both_serve()

    @classmethod
    def scale(cls, replicas):
        cls.cluster.kubectl("scale", "-n", mesh.SYSTEM, "deployment/osm-controller",
                            f"--replicas={replicas}")
        cls.wait_until_available(mesh.SYSTEM, "osm-controller")

    @classmethod
    def proxies_of(cls, pod):
        """Number of proxies that are connected to a replica."""
        status, body = cls.cluster.namespace.http(pod["status"]["podIP"], CONTROLLER_HTTP, "GET",
                                                  "/metrics")
        assert status == 200, body
        return sum(float(line.split()[-1]) for line in body.splitlines()
                   if line.startswith("osm_proxy_connect_count"))

    @classmethod
    def wait_until_both_serve(cls):
        """A new connection reaches a random replica: clients are replaced until both have
        one."""
        def split():
            counts = sorted(map(cls.proxies_of, cls.pods(mesh.SYSTEM, "osm-controller")))
            if counts not in ([1, 2], [1.0, 2.0]):
                cls.restart(NS, "client")
                raise NotYet(counts)
            return counts

        wait_for("each replica has proxies", split, 90)

    def programmed(self):
        found = self.api.get("TrafficTarget", NS, "access").get("status", {}).get("conditions", [])
        return {c["type"]: c for c in found}["Programmed"]

    def wait_for_programmed(self, status, message, timeout=60):
        def seen():
            now = self.programmed()
            if now["status"] != status or message not in now["message"]:
                raise NotYet(now)
            return now

        return wait_for(f"Programmed is {status}, {message}", seen, timeout, retry=(KeyError,))

    def change(self, *accounts):
        self.api.apply(objects.target(NS, "access", "server", [(NS, a) for a in accounts], SMI))

    def replicas(self):
        """{pod name: container} of both, and the name of who writes."""
        holder = self.api.get("Lease", mesh.SYSTEM, "osm-controller-osm")["spec"]["holderIdentity"]
        runs = {p["metadata"]["name"]: self.agent.pod(mesh.SYSTEM, p["metadata"]["name"])
                for p in self.pods(mesh.SYSTEM, "osm-controller")}
        return ({name: run.containers[0] for name, run in runs.items()},
                next(name for name in runs if holder.startswith(name)))

    def test_each_replica_has_a_lease_of_its_own(self):
        leases = self.api.list("Lease", mesh.SYSTEM, labelSelector=COMPONENT)
        pods = [p["metadata"]["name"] for p in self.pods(mesh.SYSTEM)]  # the injector, too
        held = [lease["spec"]["holderIdentity"] for lease in leases]
        self.assertEqual(sorted(pods), sorted(h.rpartition("-")[0] for h in held))

    def test_a_new_stream_is_published_on_its_replicas_lease(self):
        def published():
            return [lease for lease in self.api.list("Lease", mesh.SYSTEM, labelSelector=COMPONENT)
                    if lease["metadata"].get("annotations", {}).get(NEW_STREAMS, "").startswith("1 ")]

        wait_for("no stream is new any more", lambda: not published(), 60)
        self.addCleanup(self.wait_until_both_serve)
        self.restart(NS, "client")
        wait_for("a replica says that a stream is new", published)

    def test_proxies_of_both_are_counted(self):
        self.change("client")
        self.wait_for_programmed("True", "3/3 proxies")

    def test_a_replica_that_lags_is_waited_for(self):
        self.change("client")
        self.wait_for_programmed("True", "3/3 proxies")
        containers, writes = self.replicas()
        other = next(c for name, c in containers.items() if name != writes)
        other.signal(signal.SIGSTOP)
        try:
            self.change("client", "server")
            late = self.wait_for_programmed("False", "have not read it yet", timeout=15)
            self.assertEqual("Pending", late["reason"])
            generation = self.api.get("TrafficTarget", NS, "access")["metadata"]["generation"]
            self.assertEqual(generation, late["observedGeneration"])
        finally:
            other.signal(signal.SIGCONT)
        self.wait_for_programmed("True", "3/3 proxies")

    def test_when_a_namespace_leaves_it_loses_its_conditions_and_its_pods_keep_their_access(self):
        self.change("client")
        self.wait_for_programmed("True", "3/3 proxies")
        client = self.pod_of(NS, "client")
        self.wait_for_answer(client, 200, URL)
        self.addCleanup(self.api.apply, mesh.namespace(NS))
        self.cluster.kubectl("label", "namespace", NS, "openservicemesh.io/monitored-by-")

        def silent():
            status = self.api.get("TrafficTarget", NS, "access").get("status", {})
            if status.get("conditions"):
                raise NotYet(status)
            return True

        wait_for("nothing is said of its policies", silent, 20)
        # Their sidecars have no controller any more, and go on with what they have.
        wait_for("no proxy is served", lambda: 0 == sum(
            map(self.proxies_of, self.pods(mesh.SYSTEM, "osm-controller"))), 20)
        self.assertEqual(200, client.get(URL)[0])
        self.api.apply(mesh.namespace(NS))
        self.wait_for_programmed("True", "3/3 proxies")
        self.wait_for_answer(client, 200, URL)


if __name__ == "__main__":
    kubecase.main()
