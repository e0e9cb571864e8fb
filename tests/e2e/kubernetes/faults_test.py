#!/usr/bin/python3
"""One command names the cause and the remedy of each of twenty usual faults until it is gone; a table lists
what it says.

A fault counts as found only if one line of the answer names both.
"""

import base64
import dataclasses
import datetime
import re
import signal
import sys
import typing

from lib.kube import kubecase, mesh, rotation
from lib.kube import kubeobjects as k8s
from lib.kube.api import decode
from lib.kube.cluster import API_PORT
from lib.mesh import meshcase, objects
from lib.mesh.authority import Authority, openssl
from lib.net.processes import NotYet, wait_for

NS = "shop"
CALL = ("policy", "explain", f"{NS}/web", f"{NS}/api", "--path", "/books")
CHECK = ("check",)
ROUTES = ("HTTPRouteGroup", "all", ["all"])
ACCESS = f"TrafficTarget {NS}/access"
MACHINES = "virtualmachines.workload.openservicemesh.io"
GATEWAY = "198.51.100.7"
BROKEN = ("old-root", "expired", "too-early", "strict")  # pods that get another bootstrap
SECRETS = {"certificate": "sds_cert.pem", "key": "sds_key.pem", "roots": "cacert.pem"}
# Costs more than the proxy "strict" takes, and less than the mesh does.
COSTLY = "/a{1,200}"
DAY = datetime.timedelta(days=1)
ALL = (
    "wrong port name",
    "two objects in conflict",
    "policy missing",
    "service account typo",
    "namespace not joined",
    "sidecar not injected",
    "injected with old root",
    "clock skew",
    "NACK by bad regex",
    "endpoint gone but still routed",
    "VM provider down",
    "API server down",
    "controller partitioned",
    "CA down",
    "certificate expired",
    "egress blocked",
    "headless StatefulSet",
    "server-first protocol on HTTP port",
    "ingress gateway SAN mismatch",
    "rate limit hit mistaken for failure",
)


@dataclasses.dataclass
class Fault:
    name: str
    command: tuple
    cause: tuple  # texts of one line of the answer: object and field, and why
    remedy: str  # another text of that line
    make: typing.Callable | None  # None: it is there from the start
    mend: typing.Callable
    seconds: int = 15  # until it is named

    def line(self, answer):
        """The line that names the cause and the remedy; None: there is none."""
        return next(
            (
                " ".join(line.split())
                for line in answer.splitlines()
                if all(text in line for text in (*self.cause, self.remedy))
            ),
            None,
        )


class FaultsTest(kubecase.MeshCase):
    @staticmethod
    def install(installed):
        installed.apply()
        installed.set_argument("osm-controller", "--stale-after", "15")
        installed.wait_until_up("osm-controller", "osm-injector")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rig.watcher.expect_rejections = True
        names = ("api", "web", *BROKEN)
        cls.api.apply(
            mesh.namespace(NS),
            *(k8s.account(NS, name) for name in names),
            k8s.service(NS, "api"),
            k8s.service(NS, "strict"),
            objects.routes(NS, "all", all={}),
            *(k8s.deployment(NS, name, account=name) for name in names),
        )
        cls.allow()
        for name in names:
            cls.wait_until_available(NS, name)

    # -- the right state, which each fault leaves and comes back to --------------------------------
    @classmethod
    def allow(cls, source="web"):
        cls.api.apply(objects.target(NS, "access", "api", [(NS, source)], ROUTES))

    # -- sidecars that start with another bootstrap --------------------------------------------------
    def start_again_with(self, name, change):
        """The sidecar of a Deployment's pod is killed, and starts with what `change` makes of the
        {file: text} of its Secret."""
        pod = self.pod_of(NS, name)
        run, secret = pod.run, rotation.RotationCase.secret_of(pod)
        files = {file: decode(text).decode() for file, text in self.api.get("Secret", NS, secret)["data"].items()}
        changed = change(files)
        self.api.patch(
            "Secret",
            NS,
            secret,
            {"data": {file: base64.b64encode(text.encode()).decode() for file, text in changed.items()}},
        )
        path = run.volume_paths[rotation.VOLUME]
        wait_for(
            "the pod has the files",
            lambda: all((path / file).read_text() == text for file, text in changed.items()),
            20,
            retry=(OSError,),
        )
        self.rig.watcher.forget(self.proxies.pop(run))
        self.agent.expect_restarts(run.ns, run.name, "envoy")
        next(c for c in run.init_all if c.name == "envoy").signal(signal.SIGKILL)

    def certificate(self, since, until):
        """Makes another certificate of the mesh's CA for the names in `files`."""

        def change(files):
            names = openssl("x509", "-noout", "-subject", "-ext", "subjectAltName", input=files[SECRETS["certificate"]])
            now = datetime.datetime.now(datetime.timezone.utc)
            made = self.authority.issue(
                re.search(r"CN = (\S+)", names)[1], re.search(r"URI:(\S+)", names)[1], now + since, now + until
            )
            return dict(zip((SECRETS["certificate"], SECRETS["key"]), made))

        return change

    @property
    def authority(self):
        """The mesh's CA, as whoever has its Secret has it."""
        if not hasattr(type(self), "_authority"):
            ca = self.api.get("Secret", mesh.SYSTEM, "osm-ca-bundle")["data"]
            file = self.rig.directory / "ca.pem"
            file.write_text("".join(decode(ca[key]).decode() for key in ("private.key", "ca.crt")))
            type(self)._authority = Authority(self.rig.directory / "authority", file)
        return self._authority

    def another_root(self, _files):
        return {SECRETS["roots"]: Authority(self.rig.directory / "another").pem.read_text()}

    def refuse(self):
        """The proxy "strict" refuses a route of its own account."""
        self.start_again_with(
            "strict",
            lambda files: {"bootstrap.yaml": files["bootstrap.yaml"].replace("error_level: 2000", "error_level: 100")},
        )
        self.api.apply(
            objects.routes(NS, "costly", all={"pathRegex": COSTLY}),
            objects.target(NS, "strict", "strict", [(NS, "web")], ("HTTPRouteGroup", "costly", ["all"])),
        )

    def partition(self, change):
        """Adds ("-I") or removes ("-D") what swallows packets of the controller to the API
        server."""
        (controller,) = self.agent.pods(mesh.SYSTEM, "osm-controller")
        for chain, which, port in (("INPUT", "-s", "--dport"), ("OUTPUT", "-d", "--sport")):
            self.cluster.namespace.run(
                "iptables", change, chain, "-p", "tcp", which, controller.address, port, str(API_PORT), "-j", "DROP"
            )

    def start_api_server(self):
        self.cluster.start_api_server()
        self.cluster.restart_controller_manager()

    def ask(self, command):
        ran = self.cluster.run(meshcase._programs.osm, *command)
        return ran.stdout + ran.stderr

    def faults(self):
        api = self.api

        def put(*made):
            return lambda: api.apply(*made)

        def drop(kind, name, ns=NS):
            return lambda: api.delete(kind, ns, name)

        def scale(replicas):
            return lambda: self.cluster.kubectl("scale", "-n", NS, "deployment/api", f"--replicas={replicas}")

        def join(label):
            return lambda: self.cluster.kubectl(
                "label", "namespace", "apart", "--overwrite", f"openservicemesh.io/monitored-by{label}"
            )

        def start_before_injection():
            api.apply(mesh.namespace("early", injected=False), k8s.deployment("early", "app"))
            self.wait_until_available("early", "app")
            api.apply(mesh.namespace("early"))

        def mail(protocol):
            service = k8s.service(NS, "mail", selector={"app": "mail"}, protocol=protocol)
            service["spec"]["ports"][0]["port"] = 25
            return service

        kept = {}

        def lose_ca():
            kept.update(api.get("Secret", "osm-system", "osm-ca-bundle"))
            api.delete("Secret", "osm-system", "osm-ca-bundle")

        def restore_ca():
            del kept["metadata"]["resourceVersion"], kept["metadata"]["uid"]
            api.create(kept)

        def backend(name):
            return objects.ingress_backend(
                NS,
                "gateway",
                {("api", k8s.PORT): {"protocol": "https", "skipClientCertValidation": False}},
                ("IPRange", f"{GATEWAY}/32"),
                ("AuthenticatedPrincipal", name),
            )

        return [
            Fault(
                "wrong port name",
                CALL,
                (ACCESS, "spec.rules", "no TCPRoute among its rules", "this is a TCP port"),
                "set appProtocol: http at the Service's port",
                put(k8s.service(NS, "api", protocol="tcp")),
                put(k8s.service(NS, "api")),
            ),
            Fault(
                "two objects in conflict",
                CHECK,
                ("fault", f"Service {NS}/other", "spec.ports"),
                "error-info conflicting-protocol",
                put(k8s.service(NS, "other", selector={"app": "api"}, protocol="tcp")),
                drop("Service", "other"),
            ),
            Fault(
                "policy missing",
                CALL,
                (f"no TrafficTarget names {NS}/web",),
                f"add one to namespace {NS}",
                drop("TrafficTarget", "access"),
                self.allow,
            ),
            Fault(
                "service account typo",
                CALL,
                (f"no TrafficTarget names {NS}/web", "nearest: ", f"{NS}/access lets {NS}/wbe"),
                f"add one to namespace {NS}",
                lambda: self.allow("wbe"),
                self.allow,
            ),
            Fault(
                "namespace not joined",
                CHECK,
                ("Namespace apart", "is not in the mesh"),
                "osm namespace add apart",
                put(mesh.namespace("apart", monitored=False)),
                join("=osm"),
            ),
            Fault(
                "sidecar not injected",
                CHECK,
                ("Namespace early", "1 of 1 pods have no sidecar"),
                "kubectl rollout restart deployment -n early",
                start_before_injection,
                lambda: self.restart("early", "app"),
            ),
            Fault(
                "endpoint gone but still routed",
                CALL,
                (f"Service {NS}/api", "spec.selector", "no healthy workload"),
                "or correct the selector",
                scale(0),
                scale(1),
            ),
            # In its mildest form: the kind of its objects is gone.
            Fault(
                "VM provider down",
                CHECK,
                (f"CustomResourceDefinition {MACHINES}", "it does not exist"),
                "osm install --osm-namespace osm-system",
                drop("CustomResourceDefinition", MACHINES, None),
                put(*(o for o in mesh.rendered() if o["metadata"]["name"] == MACHINES)),
            ),
            Fault(
                "egress blocked",
                ("policy", "explain", f"{NS}/web", "203.0.113.7", "--port", "443"),
                ("spec.traffic.enableEgress", f"no Egress opens port 443 to {NS}/web"),
                f"add one to namespace {NS}",
                None,
                put(objects.egress(NS, "out", ["web"], {443: "tcp"}, addresses=["203.0.113.7/32"])),
            ),
            Fault(
                "headless StatefulSet",
                ("policy", "explain", f"{NS}/web", f"{NS}/members"),
                (f"Service {NS}/members", "no workload is behind it", "spec.selector"),
                "or correct the selector",
                put(k8s.service(NS, "members", selector={"app": "apj"}, clusterIP="None")),
                put(k8s.service(NS, "members", selector={"app": "api"}, clusterIP="None")),
            ),
            Fault(
                "ingress gateway SAN mismatch",
                (
                    "verify",
                    "ingress",
                    "--from-address",
                    GATEWAY,
                    "--to-service",
                    f"{NS}/api",
                    "--to-port",
                    str(k8s.PORT),
                    "--certificate",
                    "gateway.example.com",
                ),
                (f"IngressBackend {NS}/gateway", "AuthenticatedPrincipals", "gateway.example.com is none of them"),
                "add it",
                put(backend("other.example.com")),
                put(backend("gateway.example.com")),
            ),
            Fault(
                "rate limit hit mistaken for failure",
                CALL,
                (f"UpstreamTrafficSetting {NS}/limits", "each workload answers 429 above 1 in 3600 s"),
                "raise it if that is too few",
                put(
                    objects.upstream_setting(
                        NS, "limits", f"api.{NS}", rateLimit={"local": {"http": {"requests": 1, "unit": "hour"}}}
                    )
                ),
                drop("UpstreamTrafficSetting", "limits"),
            ),
            Fault(
                "server-first protocol on HTTP port",
                CHECK,
                (f"Service {NS}/mail", "port 25 is taken for http", "SMTP servers do"),
                "set appProtocol: tcp-server-first",
                put(mail("http")),
                put(mail("tcp-server-first")),
            ),
            Fault(
                "injected with old root",
                CHECK,
                (f"Pod {NS}/old-root-", "connected to no controller", "holds only roots that the mesh does not have"),
                "kubectl delete pod -n " + NS,
                lambda: self.start_again_with("old-root", self.another_root),
                drop("Deployment", "old-root"),
            ),
            Fault(
                "certificate expired",
                CHECK,
                (f"Pod {NS}/expired-", "connected to no controller", "ended at"),
                "kubectl delete pod -n " + NS,
                lambda: self.start_again_with("expired", self.certificate(-2 * DAY, -DAY)),
                drop("Deployment", "expired"),
            ),
            # As a controller issues it whose clock is a day ahead.
            Fault(
                "clock skew",
                CHECK,
                (f"Pod {NS}/too-early-", "connected to no controller", "is valid from"),
                "set the clocks",
                lambda: self.start_again_with("too-early", self.certificate(DAY, 2 * DAY)),
                drop("Deployment", "too-early"),
            ),
            Fault(
                "NACK by bad regex",
                CHECK,
                (f"HTTPRouteGroup {NS}/costly", "RE2 program size", COSTLY),
                "error-info refused-by-proxy",
                self.refuse,
                drop("HTTPRouteGroup", "costly"),
            ),
            Fault(
                "controller partitioned",
                CHECK,
                ("Pod osm-system/osm-controller-", "it does not reach the API server"),
                "NetworkPolicies",
                lambda: self.partition("-I"),
                lambda: self.partition("-D"),
                seconds=60,
            ),
            Fault(
                "CA down",
                CHECK,
                ("Secret osm-system/osm-ca-bundle", "it does not exist"),
                "restore it from a backup",
                lose_ca,
                restore_ca,
            ),
            Fault(
                "API server down",
                CHECK,
                (f"{self.cluster.address}:{API_PORT}", "Connection refused"),
                "start the API server",
                lambda: self.cluster.stop_api_server(signal.SIGKILL),
                self.start_api_server,
            ),
        ]

    # -- the table ---------------------------------------------------------------------------------
    def wait_for_line(self, fault):
        def told():
            answer = self.ask(fault.command)
            line = fault.line(answer)
            if line is None:
                raise NotYet(answer)
            return line

        return wait_for(f"osm {fault.command[0]} names '{fault.name}'", told, fault.seconds, interval=0.3)

    def wait_until_silent(self, fault):
        def silent():
            if line := fault.line(self.ask(fault.command)):
                raise NotYet(line)
            return True

        wait_for(f"'{fault.name}' is gone", silent, 45, interval=0.3)

    def find(self, fault):
        """The line of the command that names the fault, which is taken away again."""
        if fault.make:
            self.assertIsNone(fault.line(self.ask(fault.command)), "before the fault")
            fault.make()
        try:
            return self.wait_for_line(fault)
        finally:
            fault.mend()
            self.wait_until_silent(fault)

    def test_one_command_names_the_cause_and_the_remedy(self):
        said = {}
        faults = self.faults()
        for fault in faults:
            with self.subTest(fault.name):
                said[fault.name] = self.find(fault)
        self.print_table({f.name: f for f in faults}, said)
        self.assertEqual(sorted(ALL), sorted(f.name for f in faults))

    @staticmethod
    def print_table(faults, said):
        print(file=sys.stderr)
        for name in ALL:
            fault = faults[name]
            print(
                f"| {name} | osm {' '.join(fault.command)} | {said.get(name, '-')} | "
                f"{'yes' if name in said else 'NO'} |",
                file=sys.stderr,
            )
        print(f"cause and remedy of {len(said)} of {len(ALL)} faults are named", file=sys.stderr)


if __name__ == "__main__":
    kubecase.main()
