"""Stands in for scheduler and kubelets: registers Nodes and renews their Leases, binds pods,
runs each as a `PodRun`, and tells pods the addresses of names."""

import collections
import dataclasses
import ipaddress
import itertools
import pathlib
import shutil
import threading

from lib.kube.api import MERGE, ApiError, Informer, Stop, now, now_micro, path_of
from lib.kube.pod_run import PodRun
from lib.net.netns import Switch
from lib.net.processes import wait_for

_LEASE_SECONDS, _RENEW_EVERY = 40, 5


@dataclasses.dataclass
class Image:
    """Stands for an image: its unpacked files, or the machine's own and files of it at paths of the
    container; and defaults."""

    entrypoint: list
    arguments: list = dataclasses.field(default_factory=list)
    files: dict = dataclasses.field(default_factory=dict)  # {path in the container: path here}
    env: dict = dataclasses.field(default_factory=dict)
    user: int = 0
    root: pathlib.Path | None = None  # unpacked


class NodeAgent:
    """`images` maps an image without tag and digest to its Image. close() ends all pods."""

    def __init__(self, cluster, images, nodes=2, domain="cluster.local"):
        self.domain = domain  # of the cluster's DNS
        self.cluster, self.images, self.api = cluster, images, cluster.api
        self.rig, self.prefix, self.keep = cluster.rig, cluster.rig.prefix, cluster.rig.keep
        self.directory = cluster.rig.directory / "pods"
        self.directory.mkdir()
        self.node_network, self.router = cluster.namespace, cluster.bridge
        self.host_address = Switch.ADDRESS
        self.nodes = [f"node-{i + 1}" for i in range(nodes)]
        self.stop, self.notes = Stop(), []
        self.observe = lambda pod, up: None  # a pod has its network now, or is about to lose it
        self._lock, self._numbers = threading.Lock(), itertools.count(1)
        self._pods, self._bound = {}, set()
        self._restarts, self._expected_restarts = [], set()
        self._addresses = {
            node: collections.deque(str(a) for a in ipaddress.ip_network(f"{cluster.pod_prefix}.{i + 1}.0/24").hosts())
            for i, node in enumerate(self.nodes)
        }
        self._turn = itertools.cycle(self.nodes)
        self._hosts_stale = threading.Event()
        self._threads, self._informers = [], {}

    def set_kubelet_version(self, node, version):
        """What a Node tells after its kubelet was replaced."""
        self.api.request(
            "PATCH", path_of("Node", None, node, "status"), {"status": {"nodeInfo": {"kubeletVersion": version}}}, MERGE
        )

    def start(self):
        self.kubelet_version = self.api.request("GET", "/version")["gitVersion"]
        for i, node in enumerate(self.nodes):
            self._register(node, f"{self.cluster.pod_prefix}.{i + 1}.0/24")
        self.cluster.start_proxy(self.nodes[0])
        for kind in ("Service", "Endpoints"):
            self._informers[kind] = Informer(self.api, kind, self.stop, lambda *_: self._hosts_stale.set())
        for kind in ("Secret", "ConfigMap"):
            self._informers[kind] = Informer(self.api, kind, self.stop)
        for kind, informer in self._informers.items():
            if not informer.synced.wait(20):
                raise AssertionError(f"the node agent could not list {kind} within 20 s")
        self._informers["Pod"] = Informer(self.api, "Pod", self.stop, self._on_pod)
        for loop in (self._renew_leases, self._keep_hosts):
            thread = threading.Thread(target=loop, daemon=True, name=loop.__name__)
            thread.start()
            self._threads.append(thread)
        return self

    def close(self):
        """Every pod is killed; nothing of them is left."""
        self.stop.set()
        with self._lock:
            pods = list(self._pods.values())
        for pod in pods:
            pod.remove()
        for pod in pods:
            pod.gone.wait(20)
        self._hosts_stale.set()
        for thread in self._threads + [i.thread for i in self._informers.values()]:
            thread.join(5)
        shutil.rmtree(self.directory, ignore_errors=True)

    # -- what pods ask --------------------------------------------------------------------------
    def find(self, kind, ns, name):
        """From the informer; from the API when it is not there yet."""
        return self._informers[kind].get(ns, name) or self.api.find(kind, ns, name)

    def image(self, name):
        return self.images.get(name) or self.images.get(name.split("@")[0].rsplit(":", 1)[0])

    def next_number(self):
        return next(self._numbers)

    def address(self, node):
        with self._lock:
            return self._addresses[node].popleft()

    def release(self, address):
        """Goes to the end of its queue: an address is used again as late as can be."""
        with self._lock:
            self._addresses[f"node-{address.split('.')[2]}"].append(address)

    def log_of(self, pod, container):
        return self.rig.directory / f"pod.{pod.ns}.{pod.name}.{container}.log"

    def note(self, text):
        """Logs as a kubelet does; `notes` is in the failure of a test."""
        with self._lock:
            self.notes.append(text)
        with open(self.rig.directory / "node_agent.log", "a") as log:
            log.write(f"{now()} {text}\n")

    def note_restart(self, pod, container, code, log):
        """A container has ended that is to be started again, at once or after a back-off."""
        with self._lock:
            self._restarts.append((pod.ns, pod.name, container, code, log))
        self.note(f"{pod.ns}/{pod.name}/{container} ended with {code}, to be restarted")

    def expect_restarts(self, ns, pod, container):
        """This container of this pod may be restarted, since the test makes it so. Every other
        restart fails the test class."""
        with self._lock:
            self._expected_restarts.add((ns, pod, container))

    def check_restarts(self):
        """AssertionError with each restart that no test has announced, also of pods that are gone;
        every restart is told once."""
        with self._lock:
            seen, self._restarts = self._restarts, []
            found = [r for r in seen if r[:3] not in self._expected_restarts]
        if found:
            raise AssertionError(
                "containers ended that should run:\n"
                + "\n".join(
                    f"{ns}/{name}/{container} with status {code}: {log}" for ns, name, container, code, log in found
                )
            )

    def service_environment(self):
        service = self._informers["Service"].get("default", "kubernetes")
        return {
            "KUBERNETES_SERVICE_HOST": service["spec"]["clusterIP"],
            "KUBERNETES_SERVICE_PORT": str(service["spec"]["ports"][0]["port"]),
        }

    def forget(self, pod):
        with self._lock:
            self._pods.pop(pod.uid, None)

    def pod(self, ns, name):
        """The PodRun of a pod that runs here: for tests that look inside."""
        with self._lock:
            return next((p for p in self._pods.values() if (p.ns, p.name) == (ns, name)), None)

    def pods(self, ns, prefix=""):
        with self._lock:
            return [p for p in self._pods.values() if p.ns == ns and p.name.startswith(prefix)]

    # -- nodes ----------------------------------------------------------------------------------
    def _register(self, node, pods):
        capacity = {"cpu": "4", "memory": "16Gi", "pods": "250", "ephemeral-storage": "50Gi"}
        made = self.api.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": node, "labels": {"kubernetes.io/hostname": node, "kubernetes.io/os": "linux"}},
                "spec": {"podCIDR": pods, "podCIDRs": [pods]},
            }
        )
        self.api.request(
            "PATCH",
            path_of("Node", None, node, "status"),
            {
                "status": {
                    "capacity": capacity,
                    "allocatable": capacity,
                    "conditions": [self._ready()],
                    "nodeInfo": {"kubeletVersion": self.kubelet_version},
                    "addresses": [
                        {"type": "InternalIP", "address": self.host_address},
                        {"type": "Hostname", "address": node},
                    ],
                }
            },
            MERGE,
        )
        wait_for("the namespace of node leases is made", lambda: self.api.find("Namespace", None, "kube-node-lease"))
        self._renew(node, made["metadata"]["uid"])

    @staticmethod
    def _ready():
        return {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "lastHeartbeatTime": now(),
            "lastTransitionTime": now(),
        }

    def _say_ready(self, node):
        """Whoever missed a few renewals calls the node dead until it says that it is not."""
        conditions = self.api.get("Node", None, node)["status"]["conditions"]
        if not any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
            self.api.request(
                "PATCH", path_of("Node", None, node, "status"), {"status": {"conditions": [self._ready()]}}, MERGE
            )

    def _renew(self, node, uid=None):
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": node, "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": node, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": now_micro()},
        }
        if uid:
            lease["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}]
        self.api.apply(lease, manager="node-agent" if uid else "node-agent-renew")

    def _renew_leases(self):
        while not self.stop.event.wait(_RENEW_EVERY):
            for node in self.nodes:
                try:
                    self._renew(node)
                    self._say_ready(node)
                except (ApiError, OSError) as failed:
                    self.note(f"lease of {node}: {failed!r}")
        self.api.close()

    # -- pods -----------------------------------------------------------------------------------
    def _on_pod(self, event, obj):
        uid, node = obj["metadata"]["uid"], obj["spec"].get("nodeName")
        with self._lock:
            running = self._pods.get(uid)
        if event == "DELETED":
            self._bound.discard(uid)
            if running:
                running.remove()
        elif obj["metadata"].get("deletionTimestamp"):
            if running:
                running.delete(obj["metadata"].get("deletionGracePeriodSeconds") or 0)
            elif node in self.nodes:  # never run, or over: nothing is to be ended
                self._delete_now(obj)
        elif not node:
            self._bind(obj)
        elif running:
            running.see(obj)
        elif node in self.nodes and obj["status"].get("phase") == "Pending":
            pod = PodRun(self, obj)
            with self._lock:
                self._pods[uid] = pod
            pod.start()

    def _delete_now(self, obj):
        meta = obj["metadata"]
        try:
            self.api.delete(
                "Pod", meta["namespace"], meta["name"], gracePeriodSeconds=0, preconditions={"uid": meta["uid"]}
            )
        except (ApiError, OSError) as failed:
            self.note(f"delete {meta['namespace']}/{meta['name']}: {failed!r}")

    def _bind(self, obj):
        meta = obj["metadata"]
        if meta["uid"] in self._bound or obj["spec"].get("schedulingGates"):
            return
        try:
            self.api.request(
                "POST",
                path_of("Pod", meta["namespace"], meta["name"], "binding"),
                {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": meta["name"], "uid": meta["uid"]},
                    "target": {"apiVersion": "v1", "kind": "Node", "name": self._node_for(obj)},
                },
            )
            self._bound.add(meta["uid"])
        except ApiError as failed:
            if failed.code not in (404, 409):
                self.note(f"bind {meta['namespace']}/{meta['name']}: {failed}")

    def _node_for(self, obj):
        """Each node in its turn, but for those that are cordoned; the one that a DaemonSet's
        controller names."""
        affinity = ((obj["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        ) or {}
        for term in affinity.get("nodeSelectorTerms") or []:
            for wanted in term.get("matchFields") or []:
                if wanted["key"] == "metadata.name":
                    return wanted["values"][0]
        for node in itertools.islice(self._turn, len(self.nodes)):
            if not self.api.get("Node", None, node)["spec"].get("unschedulable"):
                return node
        return next(self._turn)

    # -- names ----------------------------------------------------------------------------------
    def hosts_of(self, ns):
        """/etc/hosts for pods of a namespace: what cluster DNS would answer."""
        lines = []
        for service in self._informers["Service"].all():
            name, home = service["metadata"]["name"], service["metadata"]["namespace"]
            names = [f"{name}.{home}.svc.{self.domain}", f"{name}.{home}.svc", f"{name}.{home}"]
            names += [name] if home == ns else []
            addresses = [a for a in service["spec"].get("clusterIPs") or [] if a != "None"]
            lines += [f"{address} {' '.join(names)}" for address in addresses]
            if not addresses:
                lines += self._headless(name, home, names)
        return "\n".join(sorted(lines)) + "\n"

    def _headless(self, name, home, names):
        endpoints = self._informers["Endpoints"].get(home, name) or {}
        for subset in endpoints.get("subsets") or []:
            for address in subset.get("addresses") or []:
                own = []
                if address.get("hostname"):
                    own = [f"{address['hostname']}.{n}" for n in names]
                yield f"{address['ip']} {' '.join(names + own)}"

    def _keep_hosts(self):
        """After a change of Services; several changes at once are one."""
        while not self.stop.event.is_set():
            self._hosts_stale.wait()
            if self.stop.event.wait(0.05):
                return
            self._hosts_stale.clear()
            with self._lock:
                pods = list(self._pods.values())
            texts = {ns: self.hosts_of(ns) for ns in {p.ns for p in pods}}
            for pod in pods:
                try:
                    pod.set_hosts(texts[pod.ns])
                except OSError:
                    pass  # it has just ended
