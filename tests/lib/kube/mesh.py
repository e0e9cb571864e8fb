"""The mesh on a cluster: osm-controller and osm-injector as pods, installed as a user does it, and
what there is to ask of injected pods."""

import http.client
import json
import pathlib
import subprocess

from lib.kube.api import ApiError
from lib.kube.node_agent import Image
from lib.mesh import meshcase, objects
from lib.mesh.rig import XDS
from lib.net.processes import wait_for

ROOT = pathlib.Path(__file__).resolve().parents[3]
CHART = ROOT / "charts/osm"
SYSTEM = "osm-system"
INJECTED = {"openservicemesh.io/sidecar-injection": "enabled"}
# One replica of each daemon, which a test can ask and restart.
ALONE = ("osm.osmController.replicaCount=1", "osm.injector.replicaCount=1")


def osm(cluster, *arguments):
    """Runs `osm` as the cluster's administrator. Result: its output."""
    ran = cluster.run(meshcase._programs.osm, *map(str, arguments))
    if ran.returncode != 0:
        raise RuntimeError(f"osm {' '.join(map(str, arguments))}: {ran.stdout}{ran.stderr}")
    return ran.stdout


def settings(*values):
    wanted = (*ALONE, f"osm.injector.xds={XDS}", *values)
    return [word for value in wanted for word in ("--set", value)]


POLICIES = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"  # the tests' clusters have it


def rendered(*values):
    """The objects that `osm install` with these values applies."""
    ran = subprocess.run(
        [meshcase._programs.osm, "install", "--dry-run", "-o", "json", "--api-versions", POLICIES, *settings(*values)],
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(ran.stdout)["items"]


def grant(cluster, ns, *accounts):
    """Lets daemons use Secrets of a namespace of a mesh with osm.secretsByNamespace, by the
    command of their error messages."""
    for account in accounts or ("osm-controller", "osm-injector"):
        role = f"{account}-secrets-osm"
        cluster.kubectl(
            "create", "rolebinding", role, "-n", ns, f"--clusterrole={role}", f"--serviceaccount={SYSTEM}:{account}"
        )


def grant_gateway(cluster, ns):
    """Lets osm-controller make an ingress gateway's Secret, by the command of docs/kubernetes.md."""
    cluster.kubectl(
        "create",
        "rolebinding",
        "osm-ingress-gateway",
        "-n",
        ns,
        "--clusterrole=osm-injector-secrets-osm",
        f"--serviceaccount={SYSTEM}:osm-controller",
    )


def built_image(programs, name):
    """What tools/image wrote when the programs were built."""
    layout = programs.bin.parent / "images"
    index = json.loads((layout / "index.json").read_text())["manifests"]
    digest = next(m["digest"] for m in index if m["annotations"]["org.opencontainers.image.ref.name"] == name)
    manifest = json.loads(_blob(layout, digest))
    config = json.loads(_blob(layout, manifest["config"]["digest"]))["config"]
    return Image(
        config["Entrypoint"],
        env=dict(e.split("=", 1) for e in config["Env"]),
        user=int(config["User"].split(":")[0]),
        root=layout / f"{name}.root",
    )


def _blob(layout, digest):
    return (layout / "blobs" / digest.replace(":", "/")).read_text()


def images(programs):
    """The images of the mesh, and what stands for the others."""
    return {
        **{name: built_image(programs, name) for name in ("osm-controller", "osm-injector", "osm-init")},
        "envoyproxy/envoy": Image(["envoy"], files={"/image/bin/envoy": programs.envoy}),
        "e2e/grpc-health": Image(
            ["/grpc_health"], ["9000"], files={"/grpc_health": programs.bin / "grpc_health"}, user=1501
        ),
        "e2e/bookstore": Image(["/bookstore"], files={"/bookstore": programs.bookstore}, user=1501),
    }


def namespace(name, injected=True, monitored=True):
    return objects.namespace(name, None if monitored else {}, INJECTED if injected else {})


class InjectedPod:
    """One run of a pod with a sidecar: what `watcher.ProxyWatcher` and tests ask of it."""

    def __init__(self, run):
        self.run, self.name = run, f"{run.ns}/{run.name}"

    def admin(self, path, method="GET"):
        if self.run.namespace is None:
            raise ConnectionError(f"{self.name} has ended")
        return self.run.namespace.http("127.0.0.1", 15000, method, path)

    def stats(self, pattern):
        status, body = self.admin(f"/stats?format=json&filter={pattern}")
        if status != 200:
            raise RuntimeError(f"Envoy of {self.name}: {status} {body}")
        return {s["name"]: s["value"] for s in json.loads(body)["stats"] if "name" in s}

    def has_sidecar(self):
        return any(c.name == "envoy" for c in self.run.init_all + self.run.containers)

    def has_live_sidecar(self):
        try:
            return self.admin("/ready")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def get(self, url, method="GET", headers=None, timeout=5):
        """(status, body) of what the app here gets from HOST:PORT/PATH. Status 0: its sidecar,
        which is live, closed the connection without an answer, or does not listen for outbound
        connections. It does so with what no policy allows. ConnectionError: no answer for
        another reason, such as a sidecar that is gone, a late answer or an unknown name."""
        host, _, path = url.partition("/")
        name, _, port = host.partition(":")
        try:
            return self.run.namespace.http(
                self.resolve(name),
                int(port or 80),
                method,
                f"/{path}",
                {"Host": host, **(headers or {})},
                timeout=timeout,
            )
        except ConnectionError as closed:  # also http.client.RemoteDisconnected
            if not self.has_live_sidecar():
                raise ConnectionError(f"the Envoy of {self.name} is not live") from closed
            return 0, repr(closed)
        except (OSError, http.client.HTTPException) as failed:
            raise ConnectionError(f"{self.name}: {failed!r} from {url}") from failed

    def resolve(self, name):
        for line in self.run.hosts_file.read_text().splitlines():
            address, *names = line.split() or [""]
            if name in names:
                return address
        return name

    def calls(self, container):
        """Output of a client of the bookstore so far: a line of JSON for each request."""
        lines = self.log(container).splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def log(self, container):
        """Output of a container so far."""
        log = self.run.agent.log_of(self.run, container)
        return log.read_text(errors="replace") if log.exists() else ""


class Mesh:
    def __init__(self, cluster, agent):
        self.cluster, self.agent, self.api = cluster, agent, cluster.api

    def install(self, *values):
        """`osm install --set`, until pods can be injected and policies are taken."""
        self.apply(*values)
        self.wait_until_up("osm-controller", "osm-injector")

    def apply(self, *values):
        """The same without waiting. Takes over what a test has changed."""
        osm(self.cluster, "install", "--no-wait", "--force-conflicts", *settings(*values))

    def install_controller(self):
        """Without the injector."""
        self.api.apply(
            *(
                o
                for o in rendered()
                if o["kind"] == "ClusterRole"
                or not ("osm-injector" in o["metadata"]["name"] or "libosm-webhook" in o["metadata"]["name"])
            )
        )
        self.wait_until_up("osm-controller")

    def set_argument(self, deployment, flag, value):
        """Restarts a daemon with another value of a flag; None: without it."""
        arguments = self.api.get("Deployment", SYSTEM, deployment)["spec"]["template"]["spec"]["containers"][0]["args"]
        arguments = [a for a in arguments if not a.startswith(f"{flag}=")]
        arguments += [] if value is None else [f"{flag}={value}"]
        self.api.patch(
            "Deployment",
            SYSTEM,
            deployment,
            [{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": arguments}],
        )

    def use_native_sidecars(self, native):
        """From here on Envoy is an init container that goes on, or, as before Kubernetes 1.29, a
        container among the others."""
        self.set_argument("osm-injector", "--native-sidecars", None if native else "off")
        self.api.apply(namespace("any"))
        wait_for("its ServiceAccount is made", lambda: self.api.find("ServiceAccount", "any", "default"))

        def as_wanted():
            try:
                shown = self.api.create(
                    {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "metadata": {"name": "any", "namespace": "any"},
                        "spec": {"containers": [{"name": "app", "image": "any"}]},
                    },
                    dryRun="All",
                )
            except ApiError:  # no injector answers while one follows another
                return False
            wanted = shown["spec"]["initContainers" if native else "containers"]
            return "envoy" in [c["name"] for c in wanted]

        wait_for(f"native sidecars are {'on' if native else 'off'}", as_wanted, 40)
        # The former injector may answer until its pod is gone.
        wait_for("one injector is left", lambda: len(self.agent.pods(SYSTEM, "osm-injector")) == 1, 40)

    def wait_until_up(self, *deployments, timeout=40):
        wanted = [("ValidatingWebhookConfiguration", "libosm-validator-osm")]
        if "osm-injector" in deployments:
            wanted.append(("MutatingWebhookConfiguration", "libosm-webhook-osm"))
        for name in deployments:
            self.api.wait_for(
                "is available",
                "Deployment",
                SYSTEM,
                name,
                lambda d: d.get("status", {}).get("availableReplicas") == d["spec"]["replicas"],
                timeout,
            )
        for kind, name in wanted:  # the daemons add the CA that the API server trusts
            wait_for(
                f"{kind} {name} can be called",
                lambda k=kind, n=name: all(
                    "caBundle" in hook["clientConfig"] for hook in self.api.get(k, None, n)["webhooks"]
                ),
                timeout,
            )
        wait_for("the MeshConfig is there", lambda: self.api.find("MeshConfig", SYSTEM, "osm-mesh-config"), timeout)

    def run_of(self, pod):
        return InjectedPod(self.agent.pod(pod["metadata"]["namespace"], pod["metadata"]["name"]))

    def log(self, name):
        """Log of the newest pod of a Deployment of the mesh."""
        logs = sorted(
            self.cluster.rig.directory.glob(f"pod.{SYSTEM}.{name}-*.{name}.log"), key=lambda p: p.stat().st_mtime
        )
        return logs[-1].read_text(errors="replace") if logs else ""
