"""A rig whose mesh is in Kubernetes: a real API server without nodes, kubelets and pods' containers.

osm-controller and osm-injector are processes on machines of their own, with the flags and the rights
that the chart gives them. Their pods, endpoints and Deployments are objects only, which this rig
keeps as Kubernetes' own controllers would. Workloads are machines, not pods.
"""

import signal

from lib.kube import mesh
from lib.kube.cluster import Cluster
from lib.mesh.replicated_rig import ReplicatedRig, first
from lib.net.processes import wait_for

# Deployment and ServiceAccount: (the Service of its webhook, its port).
WEBHOOKS = {"osm-controller": ("osm-validator", 9093), "osm-injector": ("osm-injector", 9090)}
INJECTORS = {"injector-1": "10.200.252.1"}
CHANGED = ("--in-cluster", "--state-dir=", "--replica-address=")  # flags with another value outside of a pod


class KubernetesRig(ReplicatedRig):
    CONTROLLERS = first(2)
    MEMBERS = INJECTORS
    VALUES = ()  # of the chart, beside the number of controllers

    def __init__(self, programs, keep=False):
        super().__init__(programs, keep)
        self.cluster = Cluster(self)
        self.api = None
        self._arguments, self._kubeconfigs = {}, {}  # {Deployment: ...}

    # -- the cluster ----------------------------------------------------------------------------
    def start_cluster(self):
        """The API server with the mesh's objects, and no daemon."""
        # Webhooks are called by the addresses of their endpoints: no kube-proxy is needed.
        self.cluster.start_api("--enable-aggregator-routing=true")
        self.api = self.cluster.api
        installed = mesh.rendered(f"osm.osmController.replicaCount={len(self.CONTROLLERS)}", *self.VALUES)
        crds = [o for o in installed if o["kind"] == "CustomResourceDefinition"]
        webhooks = [o for o in installed if o["kind"].endswith("WebhookConfiguration")]
        self.api.apply(*crds, *(o for o in installed if o not in crds and o not in webhooks))
        for crd in crds:
            self.api.wait_for(
                "is established", crd["kind"], None, crd["metadata"]["name"], lambda c: _is(c, "Established")
            )
        for deployment in (o for o in installed if o["kind"] == "Deployment"):
            name, pod = deployment["metadata"]["name"], deployment["spec"]["template"]["spec"]
            self._arguments[name] = pod["containers"][0]["args"]
            self._kubeconfigs[name] = self.cluster.kubeconfig_of_account(mesh.SYSTEM, pod["serviceAccountName"])
        self.api.apply(*webhooks)

    def start_controller(self, *_, wait=True):
        if self.api is None:
            self.start_cluster()
            self.start_injectors()
        for name in self.CONTROLLERS:
            if name not in self.running():
                self.start_one(name)
        if wait:
            self.wait_until_ready()
            self.wait_until_installed()

    def wait_until_installed(self, timeout=40):
        """Until the API server can call the webhooks, and the MeshConfig is there."""
        for kind, name in (
            ("ValidatingWebhookConfiguration", "libosm-validator-osm"),
            ("MutatingWebhookConfiguration", "libosm-webhook-osm"),
        ):
            self.api.wait_for(
                "can be called",
                kind,
                None,
                name,
                lambda found: all("caBundle" in hook["clientConfig"] for hook in found["webhooks"]),
                timeout,
            )
        wait_for("the MeshConfig is there", lambda: self.api.find("MeshConfig", mesh.SYSTEM, "osm-mesh-config"))

    # -- daemons --------------------------------------------------------------------------------
    def flags_of(self, deployment, *more):
        """The flags in the chart, as far as they do not depend on a pod."""
        return (
            f"--kubeconfig={self._kubeconfigs[deployment]}",
            *(a for a in self._arguments[deployment] if not a.startswith(CHANGED)),
            *more,
        )

    def flags(self, name):
        """Those of the chart: the controllers listen on the usual ports of all addresses."""
        return self.flags_of(
            "osm-controller", f"--state-dir={self.state_of(name)}", f"--replica-address={self.CONTROLLERS[name]}"
        )

    def start_injectors(self):
        for name in INJECTORS:
            self.start_named(name, self.programs.bin / "osm-injector", *self.flags_of("osm-injector"))
        self._publish("osm-injector", INJECTORS)

    def start_one(self, name):
        super().start_one(name)
        self._publish("osm-controller", self._addresses())

    def stop_one(self, name, how=signal.SIGTERM, timeout=25):
        left = {other: address for other, address in self._addresses().items() if other != name}
        self._publish("osm-controller", left)
        self.api.delete("Pod", mesh.SYSTEM, name, gracePeriodSeconds=0)
        return super().stop_one(name, how, timeout)

    def _addresses(self):
        return {name: self.CONTROLLERS[name] for name in self.running()}

    def _publish(self, deployment, addresses):
        """Pods of a Deployment and the endpoints of its Service, as if they were ready."""
        for name, address in addresses.items():
            self.api.apply(_pod(deployment, name))
            ready = [{"type": "Ready", "status": "True"}]
            status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": ready}
            self.api.patch("Pod", mesh.SYSTEM, name, {"status": status}, subresource="status")
        self.api.apply(*_endpoints(*WEBHOOKS[deployment], list(addresses.values())))
        found = self.api.get("Deployment", mesh.SYSTEM, deployment)
        counts = {f: len(addresses) for f in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")}
        status = {"observedGeneration": found["metadata"]["generation"], **counts}
        self.api.patch("Deployment", mesh.SYSTEM, deployment, {"status": status}, subresource="status")

    def close(self):
        if not self.closed and not self.keep and hasattr(self, "cluster"):
            self.cluster.stop()
        super().close()


def _is(obj, condition):
    return any(c["type"] == condition and c["status"] == "True" for c in obj["status"]["conditions"])


def _pod(app, name):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": mesh.SYSTEM, "labels": {"app": app}},
        "spec": {"serviceAccountName": app, "containers": [{"name": app, "image": app}]},
    }


def _endpoints(service, port, addresses):
    """For each version of the API server the kind that it looks at."""
    named = [{"name": "https", "port": port, "protocol": "TCP"}]
    home = {"name": service, "namespace": mesh.SYSTEM}
    return (
        {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": home,
            "subsets": [{"addresses": [{"ip": a} for a in addresses], "ports": named}] if addresses else [],
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**home, "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [a], "conditions": {"ready": True}} for a in addresses],
            "ports": named,
        },
    )
