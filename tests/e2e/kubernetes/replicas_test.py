#!/usr/bin/python3
"""Replicas of osm-controller: what they say of an object is true of the proxies of all, a stale one
sends proxies to the others, a key in use at two raises the alarm; and a namespace that leaves the
mesh."""
import json
import re

from lib.kube import kubecase
from lib.kube import kubeobjects as k8s, mesh
from lib.kube.api import decode
from lib.kube.cluster import API_PORT
from lib.mesh import objects
from lib.mesh.xds_client import CLUSTER, AdsStream
from lib.net import http2
from lib.net.processes import NotYet, wait_for

NS, SMI = "shop", ("HTTPRouteGroup", "routes", ["all"])
URL = f"server.{NS}:{k8s.PORT}/x"
CONTROLLER_HTTP, ADS = 9091, 15128
UNAVAILABLE = 14
COMPONENT = "app.kubernetes.io/component=replica"
NEW_STREAMS = "replica.openservicemesh.io/new-streams"


class ReplicasTest(kubecase.MeshCase):
    @staticmethod
    def install(installed):
        installed.cluster.kubectl("apply", "-k", mesh.MANIFESTS)
        installed.set_argument("osm-controller", "--stale-after", "15")
        installed.wait_until_up("osm-controller", "osm-injector")

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
    def ask(cls, pod, path):
        """(status, body) of a replica's open port."""
        return cls.cluster.namespace.http(pod["status"]["podIP"], CONTROLLER_HTTP, "GET", path)

    @classmethod
    def proxies_of(cls, pod):
        """Number of proxies that are connected to a replica."""
        status, body = cls.ask(pod, "/metrics")
        assert status == 200, body
        return sum(float(line.split()[-1]) for line in body.splitlines()
                   if line.startswith("osm_proxy_connect_count"))

    @classmethod
    def wait_until_both_serve(cls):
        """A new connection reaches a random replica: clients are replaced until both have
        one."""
        def split():
            counts = sorted(map(cls.proxies_of, cls.pods(mesh.SYSTEM, "osm-controller")))
            if counts[-2:] != [1, 2]:
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

    def replica_that_only_reads(self):
        """The replica that does not write the objects' status."""
        holder = self.api.get("Lease", mesh.SYSTEM, "osm-controller-osm")["spec"]["holderIdentity"]
        return next(p for p in self.pods(mesh.SYSTEM, "osm-controller")
                    if not holder.startswith(p["metadata"]["name"]))

    # -- stale replicas and stolen keys ---------------------------------------------------------
    def replica_of(self, pod):
        """(pod of the replica that configures a proxy, generation, hash), as its Envoy knows it."""
        told = pod.admin("/stats?filter=control_plane.identifier")[1]
        found = re.search(r'"(\S+)/(\d+)/([0-9a-f]{16})"', told)
        if not found:
            raise NotYet(told)
        return next(p for p in self.pods(mesh.SYSTEM, "osm-controller")
                    if found[1].startswith(p["metadata"]["name"] + "-")), found[2], found[3]

    def use_key_of(self, pod, replica):
        """An ADS stream to a replica, from the node, with the key of a pod's proxy."""
        secret = next(v["secret"]["secretName"] for v in pod.run.obj["spec"]["volumes"]
                      if v["name"] == "envoy-bootstrap-config-volume")
        data = self.api.get("Secret", pod.run.ns, secret)["data"]
        files = []
        for name in ("sds_cert.pem", "sds_key.pem"):
            files.append(self.rig.directory / f"stolen.{pod.run.name}.{name}")
            files[-1].write_bytes(decode(data[name]))
        plain = self.cluster.namespace.connect(replica["status"]["podIP"], ADS, timeout=10)
        stream = AdsStream(http2.Connection(
            http2.client_context(identity=files).wrap_socket(plain)))
        self.addCleanup(stream.close)
        stream.ask(CLUSTER)
        return stream

    def new_streams(self, pod_name):
        """The text that a replica publishes of them."""
        lease, = [lease for lease in self.api.list("Lease", mesh.SYSTEM, labelSelector=COMPONENT)
                  if lease["spec"]["holderIdentity"].startswith(f"{pod_name}-")]
        return lease["metadata"].get("annotations", {}).get(NEW_STREAMS, "")

    def cut_off(self, *replicas):
        """From the API server only."""
        for pod in replicas:
            for rule in (("INPUT", "-p", "tcp", "-s", pod["status"]["podIP"], "--dport",
                          str(API_PORT), "-j", "DROP"),
                         ("OUTPUT", "-p", "tcp", "-d", pod["status"]["podIP"], "--sport",
                          str(API_PORT), "-j", "DROP")):
                self.cluster.namespace.run("iptables", "-I", *rule)
                self.addCleanup(self.cluster.namespace.run, "iptables", "-D", *rule, check=False)

    def heal(self):
        for chain in ("INPUT", "OUTPUT"):
            for line in self.cluster.namespace.run("iptables", "-S", chain).stdout.splitlines():
                if str(API_PORT) in line and line.endswith("DROP"):
                    self.cluster.namespace.run("iptables", "-D", *line.split()[1:])

    def wait_for_replica(self, pod, stale, ready, timeout=60):
        """Result: what /health/ready says."""
        def seen():
            version = json.loads(self.ask(pod, "/version")[1])
            status, text = self.ask(pod, "/health/ready")
            if (version["stale"], version["admits"], status == 200) != (stale, ready, ready):
                raise NotYet(f"{version} {status} {text}")
            return text

        return wait_for(f"{pod['metadata']['name']}: stale {stale}, ready {ready}", seen, timeout)

    def test_a_stale_replica_sends_proxies_to_a_fresh_one_and_serves_when_there_is_none(self):
        self.change("client")
        server, client = self.pod_of(NS, "server"), self.pod_of(NS, "client")
        self.wait_for_answer(client, 200, URL)
        fresh = self.replica_of(server)[0]
        stale = next(p for p in self.pods(mesh.SYSTEM, "osm-controller")
                     if p["metadata"]["uid"] != fresh["metadata"]["uid"])
        name = stale["metadata"]["name"]
        published = self.new_streams(name)
        thief = self.use_key_of(server, stale)  # the alarm takes 90 s
        thief.response()
        thief.hold()
        wait_for("its stream is published", lambda: self.new_streams(name) not in ("", published))

        # Two replicas, one of them without the API server: it does not know of the revocation.
        before = self.proxies_of(stale)
        self.cut_off(stale)
        self.change("nobody")
        wait_for("the permission is revoked", lambda: client.get(URL)[0] != 200, 20)
        text = self.wait_for_replica(stale, stale=True, ready=False)
        self.assertIn(f"replica {fresh['metadata']['name']}", text)
        refused = self.use_key_of(client, stale)
        with self.assertRaises(http2.Ended) as ended:
            refused.response()
        self.assertEqual(UNAVAILABLE, ended.exception.status)
        self.assertIn("stale", str(ended.exception))
        # Its old streams go on; the client may have reconnected to it while it was not stale yet.
        self.assertLessEqual(before, self.proxies_of(stale))
        self.api.wait_for("is not ready", "Pod", mesh.SYSTEM, name, lambda p: any(
            c["type"] == "Ready" and c["status"] == "False" for c in p["status"]["conditions"]))
        self.assertNotEqual(200, client.get(URL)[0])

        # Three replicas, and none reaches the API server.
        self.cluster.kubectl("scale", "-n", mesh.SYSTEM, "deployment/osm-controller", "--replicas=3")
        third = wait_for("a third replica", lambda: next(
            (p for p in self.pods(mesh.SYSTEM, "osm-controller") if p["status"].get("podIP") and
             p["metadata"]["uid"] not in (stale["metadata"]["uid"], fresh["metadata"]["uid"])), None))
        self.wait_for_replica(third, stale=False, ready=True)
        self.cut_off(fresh, third)
        for pod in (fresh, third, stale):
            self.wait_for_replica(pod, stale=True, ready=True)

        def admitted():
            try:
                return self.use_key_of(client, stale).response().type_url
            except http2.Ended as refused:
                raise NotYet(refused) from refused

        self.assertEqual(CLUSTER, wait_for("the stale replica serves", admitted))

        self.heal()
        for pod in (fresh, third, stale):
            self.wait_for_replica(pod, stale=False, ready=True)
        wait_for("all replicas know the same mesh", lambda: 1 == len({
            json.loads(self.ask(pod, "/version")[1])["mesh_hash"] for pod in (fresh, third, stale)}))
        self.assertNotEqual(200, client.get(URL)[0])
        self.change("client")
        self.wait_for_answer(client, 200, URL)
        uuid = server.run.obj["metadata"]["labels"]["osm-proxy-uuid"]
        wait_for("the stolen key raises the alarm", lambda: any(
            '"proxy-flapping"' in line and uuid in line and "other_replica" in line
            for log in self.rig.directory.glob(f"pod.{mesh.SYSTEM}.osm-controller-*.log")
            for line in log.read_text(errors="replace").splitlines()), 120)

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
        other = self.replica_that_only_reads()
        self.cut_off(other)  # it still answers the API server's questions about objects
        try:
            self.change("client", "server")
            late = self.wait_for_programmed("False", "have not read it yet", timeout=15)
            self.assertEqual("Pending", late["reason"])
            generation = self.api.get("TrafficTarget", NS, "access")["metadata"]["generation"]
            self.assertEqual(generation, late["observedGeneration"])
        finally:
            self.heal()
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
