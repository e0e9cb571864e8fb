#!/usr/bin/python3
"""Three controllers send the same bytes; killed and restarted under load, one or all, they lose no request,
and proxies are served again within 5 s and sent nothing but secrets. Two injectors are replaced while 20
pods are created in a second, and none is refused.
"""

import http.client
import json
import os
import queue
import signal
import ssl
import sys
import threading
import time

from lib.kube import kubecase, mesh
from lib.kube import kubeobjects as k8s
from lib.kube.api import ApiError
from lib.kube.replicas import ReplicaCase
from lib.kube.under_load import UnderLoad
from lib.mesh.xds_client import CLUSTER, ENDPOINTS, LISTENER, ROUTES, SECRET
from lib.net import http2
from lib.net.processes import FairClock, NotYet, wait_for

CONTROLLERS, INJECTORS = 3, 2
RESYNC = 5  # seconds until every proxy is served again, once a replica is ready
NOTICED = 8  # seconds until an Envoy gives up a connection to a host that does not answer
SECRETS = ["service-cert", "root-cert"]


class AvailabilityCase(UnderLoad, ReplicaCase):
    settled = False  # the endpoints, since the mesh began

    @staticmethod
    def install(installed):
        installed.install(f"osm.osmController.replicaCount={CONTROLLERS}")

    @classmethod
    def controllers(cls):
        return cls.pods(mesh.SYSTEM, "osm-controller")

    @classmethod
    def is_ready(cls, pod):
        return any(c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions", []))

    def name_of(self, pod):
        """A replica's: another one each time it starts. Not yet: it has no mesh, as one that was just
        restarted, which the API server may still call ready."""
        version = json.loads(self.ask(pod, "/version")[1])
        if "replica" not in version:
            raise NotYet(f"{pod['metadata']['name']} has no mesh yet: {version}")
        return version["replica"]

    @classmethod
    def wait_until_all_are_ready(cls):
        wait_for("three controllers are ready", lambda: CONTROLLERS == sum(map(cls.is_ready, cls.controllers())), 60)

    @staticmethod
    def names_of(pod):
        """{type: names} that an Envoy asks for, beside all clusters and listeners."""
        status, text = pod.admin("/config_dump")
        assert status == 200, text
        parts = {part["@type"].rpartition(".")[2]: part for part in json.loads(text)["configs"]}
        clusters = [c["cluster"] for c in parts["ClustersConfigDump"]["dynamic_active_clusters"]]
        routes = parts["RoutesConfigDump"]["dynamic_route_configs"]
        return {
            ENDPOINTS: sorted(
                c["eds_cluster_config"].get("service_name", c["name"]) for c in clusters if c["type"] == "EDS"
            ),
            ROUTES: sorted(r["route_config"]["name"] for r in routes),
        }

    def setUp(self):
        super().setUp()
        self.wait_until_all_are_ready()
        wait_for("every proxy is served", self.served, 30)
        self.wait_for_steady_load()
        self.wait_until_endpoints_are_settled()
        self.since, self.before = time.time(), self.configured()

    def wait_until_endpoints_are_settled(self):
        """Until no replica has sent anything but secrets for 6 s, in the class's first test: for 5 s after a change of
        endpoints, a proxy that moves is told them again (ADR 0013)."""
        told, since = None, time.monotonic()

        def settled():
            nonlocal told, since
            now = self.configured()
            if now != told:
                told, since = now, time.monotonic()
            return time.monotonic() - since > 6

        if not type(self).settled:
            wait_for("nothing is sent for 6 s", settled, 60)
        type(self).settled = True

    def served(self, but=()):
        """True if a ready replica, except for `but`, has sent something to each proxy, and counts
        it among its own."""
        replicas = [c for c in self.controllers() if self.is_ready(c) and c["metadata"]["name"] not in but]
        names = set(map(self.name_of, replicas))
        for pod in self.proxies.values():
            if self.told_by(pod)[0] not in names:
                raise NotYet(f"{pod.name} was served last by {self.told_by(pod)}")
        connected = sum(map(self.proxies_of, replicas))
        if connected != len(self.proxies):
            raise NotYet(f"{connected} proxies are connected")
        return True

    def configured(self):
        """{replica: responses other than secrets that it has sent}"""
        return {
            self.name_of(c): sum(
                value
                for series, value in self.metrics_of(c).items()
                if series.startswith("osm_proxy_response_send_success_count") and '"SDS"' not in series
            )
            for c in self.controllers()
        }

    def controller_to_lose(self):
        """The controller that serves most proxies, and its container."""
        pod = max(self.controllers(), key=self.proxies_of)
        self.assertGreater(self.proxies_of(pod), 0)
        return pod, self.agent.pod(mesh.SYSTEM, pod["metadata"]["name"]).containers[0]

    def expect_resync(self, clock, limit=RESYNC, but=()):
        wait_for("every proxy is served again", lambda: self.served(but), limit + 60)
        took = clock.seconds()
        print(f"every proxy is served again after {took:.1f} s", file=sys.stderr)
        self.assertLess(took, limit)

    def kill(self, *containers):
        for container in containers:
            container.backoff = type(container.backoff)()  # no test makes another wait
            self.agent.expect_restarts(container.pod.ns, container.pod.name, container.name)
        for container in containers:
            os.kill(container.process.pid, signal.SIGKILL)

    def nobody_noticed(self):
        """No request failed since the beginning, and no proxy was sent anything but secrets."""
        self.wait_until_all_are_ready()
        self.judge(self.since)
        after = self.configured()
        self.assertEqual({replica: self.before.get(replica, 0) for replica in after}, after)


class AvailabilityTest(AvailabilityCase):
    # -- what a replica sends -------------------------------------------------------------------
    def exchange(self, pod, address, delta, held=None):
        """What a stream with the key of a pod's proxy is sent: {type: response}. A type of which
        nothing is sent is left out. `held`: the same, of an earlier stream."""
        wanted = {CLUSTER: (), **self.names_of(pod), LISTENER: (), SECRET: SECRETS}

        def once():
            stream, came = self.open_stream(pod, address, delta), {}
            try:
                for type_url in (CLUSTER, ENDPOINTS, LISTENER, ROUTES, SECRET):
                    if not (wanted[type_url] or type_url in (CLUSTER, LISTENER)):
                        continue
                    earlier = held.get(type_url) if held else None
                    stream.ask(type_url, wanted[type_url], held=earlier and earlier.versions)
                    if earlier and type_url != SECRET:
                        continue  # the next response is of another type
                    came[type_url] = stream.response()
                    self.assertEqual(type_url, came[type_url].type_url)
                    stream.ask(type_url, () if delta else wanted[type_url], came[type_url].nonce)
                if held:
                    self.expect_silence(stream)
                return came
            except http2.CLOSED as ended:  # by the proxy's own stream
                raise NotYet(ended) from ended
            finally:
                stream.close()

        return wait_for(f"{address} configures {pod.name}", once, 30)

    def expect_silence(self, stream):
        stream.connection.socket.settimeout(1)
        try:
            late = stream.response()
        except TimeoutError:
            return
        self.fail(f"{late.type_url} came, too: {late.versions}")

    def pods_to_ask(self):
        return self.buyer, self.pod_of("bookstore", "bookstore")

    def test_every_replica_sends_the_same_bytes(self):
        for pod in self.pods_to_ask():
            for delta in (False, True):
                with self.subTest(f"{pod.name}, {'delta' if delta else 'state of the world'}"):
                    sent = [self.exchange(pod, c["status"]["podIP"], delta) for c in self.controllers()]
                    self.assertEqual(CONTROLLERS, len(sent))
                    for type_url in (CLUSTER, ENDPOINTS, LISTENER, ROUTES):
                        self.assertTrue(sent[0][type_url].resources)
                        for other in sent[1:]:
                            self.assertEqual(sent[0][type_url].resources, other[type_url].resources)
                            self.assertEqual(sent[0][type_url].versions, other[type_url].versions)

    def test_a_proxy_that_moves_to_another_replica_is_sent_nothing_but_secrets(self):
        first, *others = self.controllers()
        for pod in self.pods_to_ask():
            held = self.exchange(pod, first["status"]["podIP"], delta=True)
            for other in others:
                self.assertEqual({SECRET}, set(self.exchange(pod, other["status"]["podIP"], True, held)))

    # -- replicas that go away ------------------------------------------------------------------
    def test_a_killed_replica(self):
        _, container = self.controller_to_lose()
        clock = FairClock()
        self.kill(container)
        self.expect_resync(clock)
        self.nobody_noticed()

    def test_a_restarted_replica(self):
        pod, container = self.controller_to_lose()
        self.api.delete("Pod", mesh.SYSTEM, pod["metadata"]["name"])
        wait_for("it has ended", lambda: not container.running(), 40)
        self.expect_resync(FairClock())
        self.nobody_noticed()

    def test_all_replicas_killed_at_once(self):
        self.kill(*(self.agent.pod(mesh.SYSTEM, c["metadata"]["name"]).containers[0] for c in self.controllers()))
        # Proxies can be served from the moment in which the Service learns of the first.
        wait_for(
            "a new replica is ready",
            lambda: any(self.is_ready(c) and self.name_of(c) not in self.before for c in self.controllers()),
            60,
        )
        self.expect_resync(FairClock())
        self.nobody_noticed()


class CutOffTest(AvailabilityCase):
    """No request fails while one of three controllers is cut off from everything."""

    def test_a_replica_that_is_cut_off_from_everything(self):
        pod, container = self.controller_to_lose()
        self.agent.expect_restarts(container.pod.ns, container.pod.name, container.name)
        address = pod["status"]["podIP"]
        rules = [
            (chain, way, address, "-j", "DROP")
            for chain, way in (("FORWARD", "-s"), ("FORWARD", "-d"), ("INPUT", "-s"), ("OUTPUT", "-d"))
        ]
        clock = FairClock()
        for rule in rules:
            self.cluster.namespace.run("iptables", "-I", *rule)
            self.addCleanup(self.cluster.namespace.run, "iptables", "-D", *rule, check=False)
        self.expect_resync(clock, NOTICED + RESYNC, but=(pod["metadata"]["name"],))
        for rule in rules:
            self.cluster.namespace.run("iptables", "-D", *rule)
        self.nobody_noticed()


class RebalanceTest(AvailabilityCase):
    """Two more replicas get their share of the proxies within two minutes, and no request fails."""

    @staticmethod
    def install(installed):
        installed.install("osm.osmController.rebalance=true")

    def setUp(self):
        super(AvailabilityCase, self).setUp()
        self.wait_for_steady_load()

    def test_new_replicas_get_their_share_of_the_proxies(self):
        (first,) = self.controllers()
        everyone = self.proxies_of(first)
        self.assertGreaterEqual(everyone, 4)
        since = time.time()
        self.cluster.kubectl("scale", "-n", mesh.SYSTEM, "deployment/osm-controller", f"--replicas={CONTROLLERS}")
        self.wait_until_all_are_ready()
        ready = time.monotonic()

        def even():
            counts = sorted(map(self.proxies_of, self.controllers()))
            # With so few, chance decides about the last one.
            if sum(counts) != everyone or counts[0] == 0 or counts[-1] > everyone / CONTROLLERS + 2:
                raise NotYet(counts)
            return counts

        counts = wait_for("no replica has many more than the others", even, 120)
        print(f"{counts} proxies after {time.monotonic() - ready:.0f} s", file=sys.stderr)
        self.judge(since)
        ended = sum(
            value
            for c in self.controllers()
            for series, value in self.metrics_of(c).items()
            if 'code="rebalanced"' in series and "ended" in series
        )
        self.assertGreater(ended, 0)


class InjectorsTest(kubecase.MeshCase):
    RATE, WORKERS = 20, 8
    NAMESPACES = "birth-1", "birth-2"  # each may have so many in a second

    @staticmethod
    def install(installed):
        installed.install(f"osm.injector.replicaCount={INJECTORS}")

    def create(self, due, made, refused):
        """Creates the pods whose names come, until None comes."""
        while (name := due.get()) is not None:
            ns = self.NAMESPACES[int(name.rpartition("-")[2]) % len(self.NAMESPACES)]
            try:
                pod = self.api.create(
                    {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "metadata": {"name": name, "namespace": ns},
                        "spec": {
                            "containers": [k8s.shell_container("app", "sleep 1")],
                            "schedulingGates": [{"name": "e2e/never"}],
                        },
                    }
                )
                made.append([c["name"] for c in pod["spec"].get("initContainers", ())])
            except (ApiError, OSError) as failed:
                refused.append(f"{name}: {failed}")
        self.api.close()  # this thread's connection

    def test_an_injector_that_ends_ends_kept_connections_by_its_answers(self):
        pod = self.pods(mesh.SYSTEM, "osm-injector")[0]
        name, address = pod["metadata"]["name"], pod["status"]["podIP"]
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        kept = http.client.HTTPSConnection(address, 9090)
        kept.sock = context.wrap_socket(self.cluster.namespace.connect(address, 9090, 10))
        self.addCleanup(kept.close)

        def ask():
            kept.request("POST", "/mutate-pod-creation", "{}", {"Content-Type": "application/json"})
            answer = kept.getresponse()
            answer.read()
            return answer.status, answer.getheader("Connection")

        self.assertEqual([(200, None)] * 2, [ask(), ask()])
        self.api.delete("Pod", mesh.SYSTEM, name)
        wait_for(
            "it is not ready",
            lambda: 503 == self.cluster.namespace.http(address, 9091, "GET", "/health/ready")[0],
            10,
            interval=0.05,
        )
        self.assertEqual((200, "close"), ask())

        def replaced():
            names = [p["metadata"]["name"] for p in self.pods(mesh.SYSTEM, "osm-injector")]
            return len(names) == INJECTORS and name not in names

        wait_for("it is replaced", replaced, 60)
        self.wait_until_available(mesh.SYSTEM, "osm-injector")

    def test_two_injectors_are_replaced_while_20_pods_are_created_in_a_second(self):
        self.api.apply(*map(mesh.namespace, self.NAMESPACES))
        for ns in self.NAMESPACES:
            self.addCleanup(self.api.delete, "Namespace", None, ns)
            wait_for("its ServiceAccount is made", lambda: self.api.find("ServiceAccount", ns, "default"))
        old = {p["metadata"]["name"] for p in self.pods(mesh.SYSTEM, "osm-injector")}
        self.assertEqual(INJECTORS, len(old))

        due, made, refused = queue.SimpleQueue(), [], []
        workers = [threading.Thread(target=self.create, args=(due, made, refused)) for _ in range(self.WORKERS)]
        for worker in workers:
            worker.start()
        begun, replaced, count = time.monotonic(), threading.Event(), 0
        roll = threading.Thread(target=self.replace_injectors, args=(old, replaced))
        try:
            while not replaced.is_set() or count < 10 * self.RATE:
                due.put(f"pod-{count}")
                count += 1
                if count == 2 * self.RATE:
                    roll.start()
                self.assertLess(count, 60 * self.RATE, "the injectors are not replaced")
                time.sleep(max(0.0, begun + count / self.RATE - time.monotonic()))
        finally:
            for worker in workers:
                due.put(None)
            for worker in workers:
                worker.join()
        took = time.monotonic() - begun
        print(f"{count} pods in {took:.1f} s", file=sys.stderr)
        self.assertEqual([], refused)
        self.assertEqual(count, len(made))
        self.assertTrue(all("envoy" in names for names in made))
        self.assertGreater(count / took, self.RATE * 0.4)  # the machine may be busy

    def replace_injectors(self, old, replaced):
        self.cluster.kubectl("rollout", "restart", "-n", mesh.SYSTEM, "deployment/osm-injector")
        wait_for("the old injectors are gone", lambda: not old & {p.name for p in self.agent.pods(mesh.SYSTEM)}, 60)
        replaced.set()


if __name__ == "__main__":
    kubecase.main()
