#!/usr/bin/python3
"""Conditions count the proxies of both replicas and wait for the slower one; new streams are on the Leases;
a stale replica sends proxies to the others; a key in use at two replicas raises the alarm; `osm` asks all
of them with a kubeconfig, if a Role permits it.
"""

import http.client
import json
import ssl

from lib.kube import kubecase, mesh
from lib.kube import kubeobjects as k8s
from lib.kube.cluster import API_PORT
from lib.kube.replicas import ReplicaCase
from lib.mesh import meshcase, objects
from lib.mesh.xds_client import CLUSTER
from lib.net import http2
from lib.net.processes import NotYet, wait_for

NS, SMI = "shop", ("HTTPRouteGroup", "routes", ["all"])
URL = f"server.{NS}:{k8s.PORT}/x"
ADMIN = 9094
BODY = 1000  # bytes of a request
UNAVAILABLE = 14
COMPONENT = "app.kubernetes.io/component=replica"
NEW_STREAMS = "replica.openservicemesh.io/new-streams"


class ReplicasTest(ReplicaCase):
    @staticmethod
    def install(installed):
        installed.apply()
        installed.set_argument("osm-controller", "--stale-after", "15")
        installed.wait_until_up("osm-controller", "osm-injector")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        idle = k8s.shell_container("app", "trap 'exit 0' TERM; while :; do sleep 0.1; done")
        cls.api.apply(
            mesh.namespace(NS),
            *(k8s.account(NS, a) for a in ("server", "client")),
            k8s.service(NS, "server"),
            k8s.deployment(NS, "server", account="server"),
            objects.routes(NS, "routes", all={"pathRegex": "/.*", "methods": ["*"]}),
            objects.target(NS, "access", "server", [(NS, "client")], SMI),
        )
        cls.wait_until_available(NS, "server")
        cls.api.apply(k8s.deployment(NS, "client", [idle], replicas=2, account="client"))
        cls.wait_until_available(NS, "client")
        cls.scale(2)
        cls.wait_until_both_serve()

    @classmethod
    def scale(cls, replicas):
        cls.cluster.kubectl("scale", "-n", mesh.SYSTEM, "deployment/osm-controller", f"--replicas={replicas}")
        cls.wait_until_available(mesh.SYSTEM, "osm-controller")

    @classmethod
    def wait_until_both_serve(cls):
        """A new connection reaches a random replica: clients are replaced until both have
        one."""

        def split():
            if len(pods := cls.api.list("Pod", NS)) != 3:
                raise NotYet(f"{len(pods)} pods")  # one that ends may be connected still
            counts = sorted(map(cls.proxies_of, cls.pods(mesh.SYSTEM, "osm-controller")))
            if counts[-2:] != [1, 2]:
                cls.restart(NS, "client")
                raise NotYet(counts)
            return counts

        wait_for("each replica has proxies", split, 120)

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
        return next(p for p in self.pods(mesh.SYSTEM, "osm-controller") if not holder.startswith(p["metadata"]["name"]))

    # -- stale replicas and stolen keys ---------------------------------------------------------
    def new_streams(self, pod_name):
        """The text that a replica publishes of them."""
        (lease,) = [
            lease
            for lease in self.api.list("Lease", mesh.SYSTEM, labelSelector=COMPONENT)
            if lease["spec"]["holderIdentity"].startswith(f"{pod_name}-") and "renewTime" not in lease["spec"]
        ]
        return lease["metadata"].get("annotations", {}).get(NEW_STREAMS, "")

    def cut_off(self, *replicas):
        """From the API server only."""
        for pod in replicas:
            for rule in (
                ("INPUT", "-p", "tcp", "-s", pod["status"]["podIP"], "--dport", str(API_PORT), "-j", "DROP"),
                ("OUTPUT", "-p", "tcp", "-d", pod["status"]["podIP"], "--sport", str(API_PORT), "-j", "DROP"),
            ):
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
            if (version.get("stale"), version.get("admits"), status == 200) != (stale, ready, ready):
                raise NotYet(f"{version} {status} {text}")
            return text

        return wait_for(f"{pod['metadata']['name']}: stale {stale}, ready {ready}", seen, timeout)

    def test_a_stale_replica_sends_proxies_to_a_fresh_one_and_serves_when_there_is_none(self):
        self.change("client")
        server, client = self.pod_of(NS, "server"), self.pod_of(NS, "client")
        self.wait_for_answer(client, 200, URL)
        fresh = self.replica_of(server)[0]
        stale = next(
            p for p in self.pods(mesh.SYSTEM, "osm-controller") if p["metadata"]["uid"] != fresh["metadata"]["uid"]
        )
        name = stale["metadata"]["name"]
        published = self.new_streams(name)
        thief = self.use_key_of(server, stale)  # the alarm takes 90 s
        self.addCleanup(thief.close)  # else it would answer for the server
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
        self.api.wait_for(
            "is not ready",
            "Pod",
            mesh.SYSTEM,
            name,
            lambda p: any(c["type"] == "Ready" and c["status"] == "False" for c in p["status"]["conditions"]),
        )
        self.assertNotEqual(200, client.get(URL)[0])

        # Three replicas, and none reaches the API server.
        self.cluster.kubectl("scale", "-n", mesh.SYSTEM, "deployment/osm-controller", "--replicas=3")
        third = wait_for(
            "a third replica",
            lambda: next(
                (
                    p
                    for p in self.pods(mesh.SYSTEM, "osm-controller")
                    if p["status"].get("podIP")
                    and p["metadata"]["uid"] not in (stale["metadata"]["uid"], fresh["metadata"]["uid"])
                ),
                None,
            ),
        )
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
        wait_for(
            "all replicas know the same mesh",
            lambda: 1 == len({json.loads(self.ask(pod, "/version")[1])["mesh_hash"] for pod in (fresh, third, stale)}),
        )
        self.assertNotEqual(200, client.get(URL)[0])
        self.change("client")
        self.wait_for_answer(client, 200, URL)
        uuid = server.run.obj["metadata"]["labels"]["osm-proxy-uuid"]
        wait_for(
            "the stolen key raises the alarm",
            lambda: any(
                '"proxy-flapping"' in line and uuid in line and "other_replica" in line
                for log in self.rig.directory.glob(f"pod.{mesh.SYSTEM}.osm-controller-*.log")
                for line in log.read_text(errors="replace").splitlines()
            ),
            120,
        )

    def test_each_replica_has_a_lease_that_it_renews_and_one_with_texts(self):
        leases = self.api.list("Lease", mesh.SYSTEM, labelSelector=COMPONENT)
        pods = [p["metadata"]["name"] for p in self.pods(mesh.SYSTEM)]  # the injector, too
        for renewed in (True, False):
            held = [lease["spec"]["holderIdentity"] for lease in leases if ("renewTime" in lease["spec"]) == renewed]
            self.assertEqual(sorted(pods), sorted(h.rpartition("-")[0] for h in held))
        self.assertFalse(
            [
                lease
                for lease in leases
                if "renewTime" in lease["spec"] and NEW_STREAMS in lease["metadata"].get("annotations", {})
            ]
        )

    def test_a_new_stream_is_published_on_its_replicas_lease(self):
        def published():
            return [
                lease
                for lease in self.api.list("Lease", mesh.SYSTEM, labelSelector=COMPONENT)
                if lease["metadata"].get("annotations", {}).get(NEW_STREAMS, "").startswith("1 ")
            ]

        wait_for("no stream is new any more", lambda: not published(), 60)
        self.addCleanup(self.wait_until_both_serve)
        self.restart(NS, "client")
        wait_for("a replica says that a stream is new", published)

    def test_proxies_of_both_are_counted(self):
        self.change("client")
        self.wait_for_programmed("True", "3/3 proxies")

    # -- the command, from outside of the cluster -----------------------------------------------
    def osm(self, *arguments, kubeconfig=None, code=0):
        more = ("--kubeconfig", kubeconfig) if kubeconfig else ()
        ran = self.cluster.run(meshcase._programs.osm, *map(str, arguments), *more)
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        return ran.stdout if code == 0 else ran.stdout + ran.stderr

    def osm_json(self, *arguments):
        return json.loads(self.osm(*arguments, "-o", "json"))

    def test_the_command_asks_every_replica(self):
        self.wait_until_both_serve()  # an earlier test may have left all proxies at one
        self.change("client")
        self.wait_for_programmed("True", "3/3 proxies")
        proxies = self.osm_json("proxy", "list")["proxies"]
        by_replica = {p["metadata"]["name"]: self.proxies_of(p) for p in self.pods(mesh.SYSTEM, "osm-controller")}
        self.assertEqual({r: [p["replica"] for p in proxies].count(r) for r in by_replica}, by_replica)
        for proxy in proxies:  # whichever replica it is connected to
            wait_for(  # it may have connected anew just now
                f"the listeners of {proxy['name']} are told",
                lambda name=proxy["name"]: "dynamic_listeners" in self.osm_json("proxy", "get", "listeners", name),
            )

        def counted():
            status = self.osm_json("status", "traffictarget", f"{NS}/access", "--wait")
            told = [status[k] for k in ("phase", "concerned", "applied", "not_connected")]
            if told != ["Applied", 3, 3, []]:
                raise NotYet(told)
            return True

        # A replica hears up to 3 s late that a proxy has connected at another one.
        wait_for("the status counts the proxies of every replica", counted)
        client, server = (next(p["name"] for p in proxies if f"/{a}-" in p["name"]) for a in ("client", "server"))
        self.assertIn("ALLOWED", self.osm("policy", "check-pods", client, server))
        self.assertIn("ALLOWED", self.osm("policy", "explain", f"{NS}/client", f"{NS}/server"))
        self.assertIn("policies allow it", self.osm("verify", "connectivity", "--from-pod", client, "--to-pod", server))
        self.assertIn(
            f"fault    Call from {NS}/server to {NS}/client",
            self.osm("verify", "connectivity", "--from-pod", server, "--to-pod", client, code=3),
        )
        self.assertIn(f'"{NS}/client" -> "{NS}/server"', self.osm("graph", "-o", "dot"))
        self.assertIn("in the mesh, 3 pods", self.osm("check"))

    def test_the_command_names_what_is_wrong_with_the_cluster(self):
        self.assertIn("you may create every object", self.osm("check", "--pre"))
        self.cluster.kubectl("annotate", "namespace", "default", "openservicemesh.io/sidecar-injection=enabled")
        self.addCleanup(
            self.cluster.kubectl, "annotate", "namespace", "default", "openservicemesh.io/sidecar-injection-"
        )
        self.assertIn("osm namespace add default --mesh-name osm", self.osm("check"))
        self.assertIn("it does not exist", self.osm("check", "--mesh-name", "other", code=1))

    def test_a_bug_report_has_no_keys(self):
        folder = self.rig.directory / "report"
        told = self.osm_json("support", "bug-report", "--out", folder)
        names = {path.name for path in folder.iterdir()}
        self.assertEqual((told["directory"], set(told["files"])), (str(folder), names))
        self.assertTrue({"problems.json", "proxies.json", "graph.json", "meshconfig.json"} <= names)
        self.assertEqual(3, len([name for name in names if name.startswith("config_dump.")]))
        for path in folder.iterdir():
            self.assertNotIn("PRIVATE KEY", path.read_text())
        self.assertIn("exists", self.osm("support", "bug-report", "--out", folder, code=1))

    def test_the_roles_say_who_may_ask(self):
        self.api.apply(k8s.account(NS, "reader"))
        reader = self.cluster.kubeconfig_of_account(NS, "reader")
        self.assertIn("forbidden", self.osm("problems", kubeconfig=reader, code=3))
        self.cluster.kubectl(
            "create", "rolebinding", "reads", "-n", mesh.SYSTEM, "--role=osm-viewer", f"--serviceaccount={NS}:reader"
        )

        def told():
            ran = self.cluster.run(meshcase._programs.osm, "problems", "--kubeconfig", reader)
            if "forbidden" in ran.stderr:
                raise NotYet(ran.stderr)
            return ran.stdout

        wait_for("a reader may read", told)
        refused = self.osm("certificate", "rotate", "any", kubeconfig=reader, code=3)
        self.assertIn("osm-admin", refused)
        self.assertIn("--role=osm-admin", refused)
        self.cluster.kubectl(
            "create", "rolebinding", "runs", "-n", mesh.SYSTEM, "--role=osm-admin", f"--serviceaccount={NS}:reader"
        )
        wait_for(
            "an administrator may ask",
            lambda: "no certificate" in self.osm("certificate", "rotate", "any", kubeconfig=reader, code=1),
        )

    def test_the_port_takes_no_other_token(self):
        """Nor one of the right account that was issued for another pod, or for the API server."""
        pods = self.pods(mesh.SYSTEM, "osm-controller")
        address, name = pods[0]["status"]["podIP"], pods[0]["metadata"]["name"]
        audience = "openservicemesh.io/admin/osm-system/"
        for account, pod, status in (
            ("osm-viewer", name, 200),
            ("osm-viewer", pods[1]["metadata"]["name"], 403),
            ("osm-viewer", None, 403),
            ("osm-controller", name, 403),
        ):
            with self.subTest(f"{account} {pod}"):
                token = self.api.token_of(mesh.SYSTEM, account, audience=pod and audience + pod)
                self.assertEqual(status, self.ask_admin(address, token))
        self.assertEqual(403, self.ask_admin(address, None))

    def test_the_port_refuses_a_request_without_its_body(self):
        """All but the administrator's request end at their heads: none of their bodies is ever sent."""
        pod = self.pods(mesh.SYSTEM, "osm-controller")[0]
        audience = f"openservicemesh.io/admin/{mesh.SYSTEM}/{pod['metadata']['name']}"
        viewer, admin = (self.api.token_of(mesh.SYSTEM, a, audience=audience) for a in ("osm-viewer", "osm-admin"))
        for who, token, body, status in (
            ("nobody", None, b"", b"403"),
            ("a stranger", "nonsense", b"", b"403"),
            ("a reader", viewer, b"", b"403"),
            ("an administrator", admin, b"x" * BODY, b"404"),  # there is no such certificate
        ):
            with self.subTest(who), self.dial_admin(pod["status"]["podIP"]) as connection:
                shown = f"X-Osm-Admin-Token: {token}\r\n" if token else ""
                connection.sendall(
                    f"POST /v1/certificates/rotate?common_name=nobody HTTP/1.1\r\nHost: x\r\n{shown}"
                    f"Content-Length: {BODY}\r\nConnection: close\r\n\r\n".encode()
                )
                connection.sendall(body)
                answer = b""
                while part := connection.recv(65536):  # a server that waits for the body sends nothing
                    answer += part
                self.assertEqual(answer.partition(b" ")[2][:3], status, answer)

    def dial_admin(self, address):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(self.cluster.namespace.connect(address, ADMIN, 10))

    def ask_admin(self, address, token):
        connection = http.client.HTTPConnection(address, ADMIN, timeout=10)
        connection.sock = self.dial_admin(address)
        try:
            connection.request("GET", "/v1/problems", headers={"X-Osm-Admin-Token": token} if token else {})
            return connection.getresponse().status
        finally:
            connection.close()

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
        wait_for(
            "no proxy is served", lambda: 0 == sum(map(self.proxies_of, self.pods(mesh.SYSTEM, "osm-controller"))), 20
        )
        self.assertEqual(200, client.get(URL)[0])
        self.api.apply(mesh.namespace(NS))
        self.wait_for_programmed("True", "3/3 proxies")
        self.wait_for_answer(client, 200, URL)


if __name__ == "__main__":
    kubecase.main()
