"""A Kubernetes control plane of a test's own: etcd, kube-apiserver, kube-controller-manager and
kube-proxy, in a network namespace of its own, so that tests run side by side.

    with Cluster(rig) as cluster:           # a rig.Rig: its directory, switch and processes
        cluster.api.apply({"apiVersion": "v1", "kind": "Namespace", ...})
        cluster.kubectl("get", "pods", "-A")
"""

import base64
import datetime
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from lib.kube.api import Api, ApiError, Credentials, write_kubeconfig
from lib.kube.pki import Pki
from lib.net.netns import Switch, ip
from lib.net.processes import NotYet, wait_for

API_PORT = 6443
OTHER_API_PORT = 6444
METRICS_PORT = 6445
ROOT = pathlib.Path(__file__).resolve().parents[3]
# Its version: that of tools/programs/kubernetes, if none is named (for example 1.36).
_NAME = "-".join(filter(None, ["kubernetes", os.environ.get("OSM_E2E_KUBERNETES")]))
PROGRAMS = ROOT / "build/tools" / _NAME / "bin"
# Controllers without use here cost start-up time and CPU.
_NO_CONTROLLERS = [
    "persistentvolume-binder-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-expander-controller",
    "bootstrap-signer-controller",
    "token-cleaner-controller",
    "node-ipam-controller",
    "node-route-controller",
    "horizontal-pod-autoscaler-controller",
    "cronjob-controller",
    "persistentvolume-protection-controller",
    "ttl-controller",
]


def check_tools():
    for program in ("kube-apiserver", "kube-controller-manager", "kube-proxy"):
        if not (PROGRAMS / program).exists():
            sys.exit(f"{PROGRAMS / program} is missing: tools/setup builds it (--kubernetes, or --newer-kubernetes)")
    if shutil.which("etcd") is None:
        sys.exit("etcd is missing: tools/setup --kubernetes installs it")


def kubectl_program():
    built = PROGRAMS / "kubectl"
    return str(built) if built.exists() else "kubectl"


class Cluster:
    """`address`:6443 is the API server, inside `namespace` only. `number`: of a cluster that another
    one is joined with, which has other networks."""

    def __init__(self, rig, number=0):
        check_tools()
        self.service_range = f"10.{96 + number}.0.0/16"
        self.api_service = f"10.{96 + number}.0.1"  # the first of the range is the API server's
        self.pod_prefix = f"10.{244 + number}"
        self.bridge = f"{self.pod_prefix}.255.254"  # the pods' router; no node gives it away
        self.rig, self.namespace, self.address = rig, rig.switch.namespace, Switch.ADDRESS
        self.directory = rig.directory / "kubernetes"
        self.directory.mkdir()
        self.server = f"https://{self.address}:{API_PORT}"
        self.audit_log = self.directory / "audit.log"
        self.processes, self._apis = {}, []
        self.started_in = None

    def start(self):
        begun = time.monotonic()
        self.start_api()
        self.start_controller_manager()
        wait_for(
            "the default ServiceAccount is made", lambda: self.api.find("ServiceAccount", "default", "default"), 30
        )
        self.started_in = time.monotonic() - begun
        return self

    def start_api(self, *flags):
        """Only etcd and the API server, with `flags` beside the usual ones: what the controllers of
        Kubernetes do otherwise, such as deleting a namespace, is not done."""
        self._make_network()
        self.pki = Pki(self.directory / "pki")
        self.start_etcd()
        self.admin = self.pki.user("admin", "system:masters")
        self.api = self.as_user(self.admin)
        self.kubeconfig = self.kubeconfig_of("admin", self.admin)
        self.serving = self.pki.server(
            "kube-apiserver",
            f"IP:{self.address}",
            f"IP:{self.api_service}",
            f"IP:{self.bridge}",
            "IP:127.0.0.1",
            *(f"DNS:kubernetes{rest}" for rest in ("", ".default", ".default.svc", ".default.svc.cluster.local")),
        )
        self.start_api_server(*flags, wait=False)
        for name in ("kube-controller-manager", "kube-proxy"):
            self.kubeconfig_of(name, self.pki.user(f"system:{name}"))
        self.wait_for_api()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def _make_network(self):
        """The switch also routes between pods, so that kube-proxy sees both directions."""
        name = self.namespace.name
        ip("-n", name, "address", "add", f"{self.bridge}/16", "dev", "br0")
        # The API server calls webhooks by their Service: the kernel looks for a route before it
        # translates.
        ip("-n", name, "route", "add", self.service_range, "dev", "br0")
        for setting, value in (("ip_forward", 1), ("conf/all/send_redirects", 0), ("conf/br0/send_redirects", 0)):
            self.namespace.run("sh", "-c", f"echo {value} >/proc/sys/net/ipv4/{setting}")

    # -- processes ------------------------------------------------------------------------------
    def _start(self, name, *command):
        process = self.rig.start(name, self.namespace.command("env", f"HOME={self.directory}", *map(str, command)))
        self.processes[name] = process
        return process

    def start_etcd(self):
        data = self.directory / "etcd"
        data.mkdir(mode=0o700, exist_ok=True)
        self._start(
            "etcd",
            "etcd",
            "--data-dir",
            data,
            "--listen-client-urls",
            "http://127.0.0.1:2379",
            "--advertise-client-urls",
            "http://127.0.0.1:2379",
            "--listen-peer-urls",
            "http://127.0.0.1:2380",
            "--snapshot-count",
            "10000",
            "--logger",
            "zap",
            "--log-level",
            "warn",
        )

    def start_api_server(self, *more, wait=True):
        """`more`: flags beside the usual ones."""
        self._start_api_server("kube-apiserver", API_PORT, "/registry", *more)
        if wait:
            self.wait_for_api()

    def start_other_api_server(self):
        """Another cluster's, which has only its etcd and its users in common with this one. The
        kubeconfig of its administrator."""
        self._start_api_server("other-kube-apiserver", OTHER_API_PORT, "/other")
        api = Api(self.namespace, self.address, OTHER_API_PORT, self.pki.ca, self.admin)
        self._apis.append(api)
        wait_for(
            "the other API server is ready",
            lambda: api.request("GET", "/readyz", timeout=2) == "ok",
            60,
            interval=0.1,
            retry=(ApiError,),
        )
        return write_kubeconfig(
            self.directory / "other-admin.kubeconfig",
            f"https://{self.address}:{OTHER_API_PORT}",
            self.pki.ca,
            self.admin,
        )

    def _start_api_server(self, name, port, prefix, *more):
        certificate, key = self.serving
        audited = (
            [f"--audit-log-path={self.audit_log}", f"--audit-policy-file={self._audit_policy()}"]
            if port == API_PORT
            else []
        )
        self._start(
            name,
            PROGRAMS / "kube-apiserver",
            "--etcd-servers=http://127.0.0.1:2379",
            f"--etcd-prefix={prefix}",
            f"--secure-port={port}",
            "--bind-address=0.0.0.0",
            f"--advertise-address={self.address}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={self.pki.ca}",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={self.pki.account_key}",
            f"--service-account-signing-key-file={self.pki.account_key}",
            f"--service-cluster-ip-range={self.service_range}",
            "--allow-privileged=true",
            "--enable-admission-plugins=NodeRestriction",
            "--profiling=false",
            *audited,
            f"--cert-dir={self.directory}/{name}",
            "--shutdown-delay-duration=0s",
            "--v=0",
            *more,
        )

    def compact_etcd(self):
        """Forgets all history up to now, as the API server has it done every five minutes, behind
        its back."""
        any_key = base64.b64encode(b"any").decode()
        revision = self._ask_etcd("range", key=any_key, limit=1)["header"]["revision"]
        self._ask_etcd("compaction", revision=revision, physical=True)

    def store(self, *objects):
        """Writes objects into etcd behind the API server's back, which serves and watches them as
        any others: thousands in seconds. They are whole, with what the API server would add.
        Each is (key below /registry, object); an object that is None is deleted."""

        def coded(text):
            return base64.b64encode(text.encode()).decode()

        for first in range(0, len(objects), 100):  # etcd takes 128 at once
            self._ask_etcd(
                "txn",
                success=[
                    {"requestDeleteRange": {"key": coded(f"/registry/{key}")}}
                    if obj is None
                    else {"requestPut": {"key": coded(f"/registry/{key}"), "value": coded(json.dumps(obj))}}
                    for key, obj in objects[first : first + 100]
                ],
            )

    def _ask_etcd(self, path, **body):
        status, answer = self.namespace.http(
            "127.0.0.1",
            2379,
            "POST",
            f"/v3/kv/{path}",
            headers={"Content-Type": "application/json"},
            body=json.dumps(body),
            timeout=30,
        )  # of a disk that other tests use
        if status != 200:
            raise RuntimeError(f"etcd: {path}: {status} {answer}")
        return json.loads(answer)

    def _audit_policy(self):
        """Audit log of the tested programs: every request, without its contents."""
        path = self.directory / "audit-policy.json"
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "audit.k8s.io/v1",
                    "kind": "Policy",
                    "omitStages": ["RequestReceived"],
                    "rules": [
                        {
                            "level": "Metadata",
                            "users": [
                                f"system:serviceaccount:osm-system:{a}" for a in ("osm-controller", "osm-injector")
                            ],
                        },
                        {"level": "None"},
                    ],
                }
            )
        )
        return path

    def requests_of(self, account):
        """{(verb, resource with group and subresource, namespace): [HTTP codes]} of an account of
        osm-system so far."""
        asked = {}
        for event in self._audited(account):
            about = event.get("objectRef") or {}
            name = "/".join(p for p in (about.get("resource"), about.get("subresource")) if p)
            group = f".{about['apiGroup']}" if about.get("apiGroup") else ""
            key = event["verb"], name + group or event["requestURI"], about.get("namespace")
            asked.setdefault(key, []).append(event.get("responseStatus", {}).get("code", 0))
        return asked

    def requests_since(self, account, begun):
        """[(time, verb, resource)] of an account of osm-system since that time, in seconds."""
        return [
            (at, event["verb"], (event.get("objectRef") or {}).get("resource"))
            for at, event in self._audited_since(account, begun)
        ]

    def lists_since(self, account, begun):
        """The targets of lists, as in requests_since()."""
        return [event["requestURI"] for _, event in self._audited_since(account, begun) if event["verb"] == "list"]

    def settled_minute(self, account, on_begin=lambda: None):
        """A condition to wait for: the requests of a minute without a write but of Leases, as in
        requests_since(). `on_begin` is called whenever the minute begins anew."""
        begun = time.time()
        on_begin()

        def settled():
            nonlocal begun
            requests = self.requests_since(account, begun)
            if written := [r for r in requests if r[1] in ("patch", "update", "create", "delete") and r[2] != "leases"]:
                begun = written[-1][0] + 0.001
                on_begin()
                raise NotYet(written)
            if not requests or requests[-1][0] < begun + 60:
                raise NotYet(f"{len(requests)} requests so far")
            return [r for r in requests if r[0] < begun + 60]

        return settled

    def etcd_reads(self):
        """{labels: number} of the API server's reads of etcd so far."""
        text = self.api.request("GET", "/metrics")
        reads = {}
        for line in text.splitlines():
            if line.startswith("etcd_request_duration_seconds_count{") and (
                'operation="list' in line or 'operation="get' in line
            ):
                labels, value = line.rsplit(" ", 1)
                reads[labels[len("etcd_request_duration_seconds_count") :]] = int(float(value))
        return reads

    def _audited_since(self, account, begun):
        for event in self._audited(account):
            at = datetime.datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()
            if at >= begun:
                yield at, event

    def tokens_of(self, account):
        """The ids ("JTI=...") of the tokens that an account of osm-system was served with."""
        ids = set()
        for event in self._audited(account):
            if event.get("responseStatus", {}).get("code") == 200:
                ids.update(event["user"].get("extra", {}).get("authentication.kubernetes.io/credential-id", []))
        return ids

    def _audited(self, account):
        lines = self.audit_log.read_text().splitlines() if self.audit_log.exists() else []
        for event in map(json.loads, lines):
            if event["user"]["username"] == f"system:serviceaccount:osm-system:{account}":
                yield event

    def start_controller_manager(self, *more, without=tuple(_NO_CONTROLLERS)):
        """`more`: flags beside the usual ones."""
        self._start(
            "kube-controller-manager",
            PROGRAMS / "kube-controller-manager",
            f"--kubeconfig={self.directory}/kube-controller-manager.kubeconfig",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self.pki.account_key}",
            f"--root-ca-file={self.pki.ca}",
            "--leader-elect=false",
            "--secure-port=0",
            "--allocate-node-cidrs=false",
            "--kube-api-qps=300",
            "--kube-api-burst=600",
            "--controllers=*," + ",".join(f"-{name}" for name in without),
            f"--cert-dir={self.directory}/controller-manager",
            "--profiling=false",
            "--v=0",
            *more,
        )

    def restart_controller_manager(self):
        """As it does itself where it has to be the leader: without it, it would look again for an
        API server that was away only after half a minute."""
        self.processes["kube-controller-manager"].end(signal.SIGKILL)
        self.start_controller_manager()

    def start_autoscaling(self):
        """A HorizontalPodAutoscaler acts within seconds, on the CPU that each pod uses. Result: the
        file that says how much: "900m"."""
        usage = self.directory / "cpu"
        usage.write_text("0m")
        certificate, key = self.pki.server("metrics-api", f"IP:{self.address}")
        self._start(
            "metrics-api",
            "env",
            f"PYTHONPATH={ROOT}/tests",
            sys.executable,
            ROOT / "tests/lib/kube/metrics_api.py",
            self.address,
            METRICS_PORT,
            certificate,
            key,
            kubectl_program(),
            self.kubeconfig,
            usage,
        )
        home = {"name": "metrics-server", "namespace": "kube-system"}
        # The API server looks for Endpoints, which another controller copies into slices.
        self.kubectl(
            "apply",
            "-f",
            "-",
            stdin=json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "List",
                    "items": [
                        {
                            "apiVersion": "v1",
                            "kind": "Service",
                            "metadata": home,
                            "spec": {"ports": [{"name": "https", "port": 443, "targetPort": METRICS_PORT}]},
                        },
                        {
                            "apiVersion": "v1",
                            "kind": "Endpoints",
                            "metadata": home,
                            "subsets": [
                                {
                                    "addresses": [{"ip": self.address}],
                                    "ports": [{"name": "https", "port": METRICS_PORT}],
                                }
                            ],
                        },
                        {
                            "apiVersion": "apiregistration.k8s.io/v1",
                            "kind": "APIService",
                            "metadata": {"name": "v1beta1.metrics.k8s.io"},
                            "spec": {
                                "group": "metrics.k8s.io",
                                "version": "v1beta1",
                                "groupPriorityMinimum": 100,
                                "versionPriority": 100,
                                "insecureSkipTLSVerify": True,
                                "service": home,
                            },
                        },
                    ],
                }
            ),
        )
        self.processes["kube-controller-manager"].end(signal.SIGKILL)
        self.start_controller_manager(
            *(
                f"--horizontal-pod-autoscaler-{name}"
                for name in (
                    "sync-period=1s",
                    "downscale-stabilization=1s",
                    "cpu-initialization-period=0s",
                    "initial-readiness-delay=0s",
                )
            ),
            without=[n for n in _NO_CONTROLLERS if not n.startswith("horizontal")],
        )
        return usage

    def stop_autoscaling(self):
        """Also its APIs: while one of them does not answer, the API server lists not everything."""
        self.kubectl("delete", "apiservice/v1beta1.metrics.k8s.io")
        self.kubectl("delete", "-n", "kube-system", "service/metrics-server")
        self.processes.pop("metrics-api").end(signal.SIGKILL)
        self.restart_controller_manager()
        self.kubectl("delete", "-n", "kube-system", "serviceaccount/horizontal-pod-autoscaler")

    def start_proxy(self, node):
        """ClusterIPs, for those who are not intercepted and for webhooks. `node` is registered."""
        self._start(
            "kube-proxy",
            PROGRAMS / "kube-proxy",
            "--proxy-mode=iptables",
            f"--kubeconfig={self.directory}/kube-proxy.kubeconfig",
            f"--cluster-cidr={self.pod_prefix}.0.0/16",
            f"--hostname-override={node}",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
            "--healthz-bind-address=127.0.0.1:10256",
            "--metrics-bind-address=127.0.0.1:10249",
            "--iptables-min-sync-period=0s",
            "--nodeport-addresses=127.0.0.1/32",
            "--v=0",
        )

    def wait_for_api(self, timeout=60):
        def ready():
            for process in self.processes.values():
                if not process.running():
                    raise AssertionError(f"{process.name} ended: {process.tail()}")
            return self.api.request("GET", "/readyz", timeout=2) == "ok"

        wait_for("the API server is ready", ready, timeout, interval=0.1, retry=(ApiError,))

    def api_server_runs(self):
        return self.processes["kube-apiserver"].running()

    def stop_api_server(self, how=signal.SIGKILL):
        self.processes["kube-apiserver"].end(how, timeout=10)

    def stop(self):
        """Also what `Rig.close` does, in the order that needs no retries."""
        for api in self._apis:
            api.close()
        for name in (
            "metrics-api",
            "kube-proxy",
            "kube-controller-manager",
            "other-kube-apiserver",
            "kube-apiserver",
            "etcd",
        ):
            if name in self.processes:
                self.processes[name].end(signal.SIGKILL)

    # -- users ----------------------------------------------------------------------------------
    def as_user(self, credentials):
        self._apis.append(Api(self.namespace, self.address, API_PORT, self.pki.ca, credentials))
        return self._apis[-1]

    def as_account(self, ns, account):
        """The API as a ServiceAccount sees it."""
        return self.as_user(Credentials(token=self.api.token_of(ns, account)))

    def kubeconfig_of(self, name, credentials):
        return write_kubeconfig(self.directory / f"{name}.kubeconfig", self.server, self.pki.ca, credentials)

    def kubeconfig_of_account(self, ns, account):
        token = Credentials(token=self.api.token_of(ns, account))
        return self.kubeconfig_of(f"{ns}-{account}", token)

    def run(self, program, *arguments, stdin=None):
        """A user's program with an administrator's kubeconfig: subprocess.CompletedProcess."""
        command = self.namespace.command(
            "env", f"HOME={self.directory}", f"KUBECONFIG={self.kubeconfig}", program, *arguments
        )
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120)

    def kubectl(self, *arguments, stdin=None, check=True, kubeconfig=None):
        """Runs a user's command. Result: its standard output."""
        ran = self.run(kubectl_program(), "--kubeconfig", kubeconfig or self.kubeconfig, *arguments, stdin=stdin)
        if check and ran.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(map(str, arguments))}: {ran.stderr}")
        return ran.stdout if check else ran
