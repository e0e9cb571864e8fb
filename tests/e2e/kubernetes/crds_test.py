#!/usr/bin/python3
"""The CRDs in a real API server: they are accepted as they are, take every example of the
documents, refuse what their schemas can refuse, keep a mistyped field for the webhook to find, and
show what people look for."""

import re
import unittest

import yaml

from lib.kube.api import ApiError
from lib.kube.cluster import Cluster
from lib.kube.mesh import ROOT
from lib.mesh import meshcase
from lib.mesh.rig import Rig

CRDS = ROOT / "charts/osm/crds"
TARGET = {"apiVersion": "access.smi-spec.io/v1alpha3", "kind": "TrafficTarget"}
SPLIT = {"apiVersion": "split.smi-spec.io/v1alpha2", "kind": "TrafficSplit"}
GROUP = {"apiVersion": "specs.smi-spec.io/v1alpha4", "kind": "HTTPRouteGroup"}
CONFIG = {"apiVersion": "config.openservicemesh.io/v1alpha2", "kind": "MeshConfig"}
MACHINE = {"apiVersion": "workload.openservicemesh.io/v1alpha1", "kind": "VirtualMachine"}
DENYLIST = {**MACHINE, "kind": "Denylist"}
ROOT_CERTIFICATE = {"apiVersion": "config.openservicemesh.io/v1alpha2", "kind": "MeshRootCertificate"}
EGRESS, BACKEND, RETRY, SETTING, TELEMETRY = (
    {"apiVersion": "policy.openservicemesh.io/v1alpha1", "kind": kind}
    for kind in ("Egress", "IngressBackend", "Retry", "UpstreamTrafficSetting", "Telemetry")
)
COLLECTOR = {"apiVersion": "config.openservicemesh.io/v1alpha2", "kind": "ExtensionService"}
TRESOR = {"tresor": {"ca": {"secretRef": {"name": "ca", "namespace": "osm-system"}}}}
VAULT = {"host": "vault", "role": "mesh"}
ACCOUNT = {"kind": "ServiceAccount", "name": "web", "namespace": "shop"}
# (kind, spec, what the server says): each is refused for its last part alone.
REFUSED = [
    (TARGET, {"destination": ACCOUNT, "sources": [], "rules": []}, "spec.rules"),
    (
        TARGET,
        {"destination": {**ACCOUNT, "kind": "User"}, "sources": [], "rules": [{"kind": "TCPRoute", "name": "r"}]},
        "spec.destination.kind",
    ),
    (
        TARGET,
        {"destination": ACCOUNT, "sources": [], "rules": [{"kind": "TCPRoute", "name": "R"}]},
        r"spec.rules\[0\].name",
    ),
    (GROUP, {"matches": [{"name": "a"}, {"name": "a"}]}, "Duplicate value"),
    (GROUP, {"matches": [{"name": "a", "methods": ["FETCH"]}]}, r"spec.matches\[0\].methods"),
    (SPLIT, {"service": "a", "backends": [{"service": "b", "weight": 0}]}, "weights sum to 0"),
    (SPLIT, {"service": "a", "backends": []}, "weights sum to 0"),
    (SPLIT, {"service": "a", "backends": [{"service": "b", "weight": "500m"}]}, "weight"),
    (SPLIT, {"service": "a.b.c", "backends": [{"service": "b", "weight": 1}]}, "spec.service"),
    (CONFIG, {"sidecar": {"logLevel": False}}, "spec.sidecar.logLevel"),
    (CONFIG, {"sidecar": {"resources": {"limits": {"cpu": "much"}}}}, "resources.limits"),
    (CONFIG, {"sidecar": {"resources": {"limits": {"cpu": -1}}}}, "resources.limits"),
    (CONFIG, {"traffic": {"inboundPortExclusionList": [0]}}, "inboundPortExclusionList"),
    (CONFIG, {"certificate": {"serviceCertValidityDuration": "1 day"}}, "ValidityDuration"),
    (MACHINE, {"address": "10.0.0.256", "serviceAccount": "web"}, "spec.address"),
    (MACHINE, {"serviceAccount": "web"}, "spec.address"),
    (DENYLIST, {"proxyUUIDs": ["x"]}, r"spec.proxyUUIDs\[0\]"),
    (DENYLIST, {"serviceAccounts": [{"name": "web"}]}, r"spec.serviceAccounts\[0\].namespace"),
    (ROOT_CERTIFICATE, {}, "spec.provider"),
    (ROOT_CERTIFICATE, {"provider": {}}, "exactly one of tresor, vault and certManager"),
    (
        ROOT_CERTIFICATE,
        {"provider": {**TRESOR, "certManager": {"issuerName": "ca"}}},
        "exactly one of tresor, vault and certManager",
    ),
    (ROOT_CERTIFICATE, {"provider": {"vault": VAULT}}, "give one of token.secretKeyRef"),
    (
        ROOT_CERTIFICATE,
        {"provider": {"vault": {**VAULT, "tokenFile": "/t", "auth": {"role": "r"}}}},
        "give one of token.secretKeyRef",
    ),
    (ROOT_CERTIFICATE, {"role": "signing", "provider": TRESOR}, "spec.role"),
    (ROOT_CERTIFICATE, {"trustDomain": "", "provider": TRESOR}, "spec.trustDomain"),
    (EGRESS, {"sources": [ACCOUNT], "ports": [{"number": 1, "protocol": "udp"}]}, r"spec.ports\[0\].protocol"),
    (EGRESS, {"sources": [ACCOUNT], "ports": [], "ipAddresses": ["10.0.0.1"]}, "ipAddresses"),
    (BACKEND, {"backends": [], "sources": [{"kind": "Pod", "name": "a"}]}, "Pod"),
    (RETRY, {"source": ACCOUNT, "destinations": [], "retryPolicy": {"retryOn": "5xx"}}, "perTryTimeout"),
    (SETTING, {"host": "api"}, "spec.host"),
    (SETTING, {"host": "a.b", "connectionSettings": {"tcp": {"maxConnections": -1}}}, "maxConnections"),
    (
        SETTING,
        {
            "host": "a.b",
            "rateLimit": {
                "global": {
                    "tcp": {"rateLimitService": {"host": "limiter", "port": 8081}, "domain": "d", "descriptors": []}
                }
            },
        },
        "descriptors",
    ),
    (
        SETTING,
        {
            "host": "a.b",
            "rateLimit": {"global": {"http": {"rateLimitService": {"host": "limiter", "port": 0}, "domain": "d"}}},
        },
        "port",
    ),
    (TELEMETRY, {"accessLog": {"format": ""}}, "spec.accessLog.format"),
    (TELEMETRY, {"accessLog": {"openTelemetry": {}}}, "openTelemetry.extensionService"),
    (COLLECTOR, {"host": "collector"}, "spec.port"),
    (COLLECTOR, {"host": "collector", "port": 70000}, "spec.port"),
]
ACCEPTED = [
    (GROUP, {"matches": [{"name": "a", "methods": ["get", "*"], "headers": {"h": ".*"}}]}),
    (GROUP, {"matches": [{"name": "a", "headers": [{"h": ".*", "i": "x"}], "pathRegex": None}]}),
    (SPLIT, {"service": "a.shop.svc.cluster.local", "backends": [{"service": "b", "weight": 1}]}),
    (
        SPLIT,
        {
            "service": "a.shop.svc.k8s.corp.example",
            "backends": [{"service": "b.shop.svc.k8s.corp.example:80", "weight": 1}],
        },
    ),
    (
        CONFIG,
        {
            "sidecar": {
                "logLevel": "off",
                "configResyncInterval": "0s",
                "resources": {"limits": {"cpu": 1, "memory": "64Mi"}},
            }
        },
    ),
    (CONFIG, {}),
]


def documents(page):
    text = (ROOT / page).read_text()
    for block in re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S):
        yield from (d for d in yaml.safe_load_all(block) if d)


class CrdsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rig = Rig(meshcase._programs)
        cls.addClassCleanup(cls.rig.close)
        cls.cluster = Cluster(cls.rig).start()
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.kubectl("apply", "--server-side", "-f", CRDS)
        cls.cluster.kubectl("wait", "--for=condition=Established", "crd", "--all")
        for ns in ("shop", "osm-system"):
            cls.cluster.kubectl("create", "namespace", ns)
        cls.paths = {}
        for file in CRDS.glob("*.yaml"):
            spec = yaml.safe_load(file.read_text())["spec"]
            cls.paths[spec["names"]["kind"]] = (
                f"/apis/{spec['group']}/{spec['versions'][0]['name']}",
                spec["names"]["plural"],
            )

    def create(self, kind, spec, name="it", ns="shop"):
        base, plural = self.paths[kind["kind"]]
        return self.cluster.api.request(
            "POST",
            f"{base}/namespaces/{ns}/{plural}",
            {**kind, "metadata": {"name": name, "namespace": ns}, "spec": spec},
            dryRun="All",
        )

    def test_the_server_finds_nothing_to_correct_in_a_schema(self):
        for kind in self.paths:
            with self.subTest(kind=kind):
                names = [
                    c
                    for c in self.cluster.api.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")[
                        "items"
                    ]
                    if c["spec"]["names"]["kind"] == kind
                ]
                self.assertEqual(1, len(names))
                conditions = {c["type"]: c["status"] for c in names[0]["status"]["conditions"]}
                self.assertEqual("True", conditions["Established"])
                self.assertEqual("True", conditions["NamesAccepted"])
                self.assertNotEqual("True", conditions.get("NonStructuralSchema"))

    def test_every_example_of_the_documents_is_taken(self):
        taken = set()
        for document in documents("docs/mesh-objects.md"):
            if document["kind"] not in self.paths:
                continue
            with self.subTest(kind=document["kind"], name=document["metadata"]["name"]):
                made = self.create(
                    {k: document[k] for k in ("apiVersion", "kind")},
                    document["spec"],
                    document["metadata"]["name"],
                    document["metadata"]["namespace"],
                )
                self.assertEqual(document["spec"], made["spec"])  # nothing is dropped
            taken.add(document["kind"])
        self.assertEqual(set(self.paths), taken)

    def test_valid_objects_of_the_mesh_are_taken(self):
        for kind, spec in ACCEPTED:
            with self.subTest(kind=kind["kind"], spec=spec):
                self.create(kind, spec)

    def test_the_server_refuses_violations_of_a_schema_with_their_field(self):
        for kind, spec, says in REFUSED:
            with self.subTest(kind=kind["kind"], spec=spec):
                with self.assertRaises(ApiError) as refused:
                    self.create(kind, spec)
                self.assertEqual(422, refused.exception.code)
                self.assertRegex(refused.exception.message, says)

    def test_a_root_certificate_gets_its_defaults(self):
        made = self.create(ROOT_CERTIFICATE, {"provider": {"vault": {**VAULT, "tokenFile": "/t"}}})
        self.assertNotIn("trustDomain", made["spec"])  # it is the mesh's
        self.assertEqual("active", made["spec"]["role"])
        vault = made["spec"]["provider"]["vault"]
        self.assertEqual((8200, "https", "pki"), (vault["port"], vault["protocol"], vault["mount"]))

    def test_a_root_certificate_shows_its_role_and_state(self):
        base, plural = self.paths["MeshRootCertificate"]
        at = f"{base}/namespaces/osm-system/{plural}"
        self.cluster.api.request(
            "POST",
            at,
            {
                **ROOT_CERTIFICATE,
                "metadata": {"name": "shown", "namespace": "osm-system"},
                "spec": {"trustDomain": "shown.example", "provider": TRESOR},
            },
        )
        merge = "application/merge-patch+json"
        status = f"{at}/shown/status"
        for state in ("validating", "trusted", "draining", "closing", "inactive", "signing"):
            self.cluster.api.request("PATCH", status, {"status": {"state": state}}, merge)
        shown = self.cluster.kubectl("get", "mrc", "-n", "osm-system")
        self.assertRegex(shown, r"ROLE +STATE +TRUST-DOMAIN")
        self.assertRegex(shown, r"shown +active +signing +shown.example")
        with self.assertRaises(ApiError) as refused:
            self.cluster.api.request("PATCH", status, {"status": {"state": "done"}}, merge)
        self.assertEqual(422, refused.exception.code)

    def test_a_mistyped_field_is_kept_for_the_webhook_to_refuse(self):
        rule = {"kind": "HTTPRouteGroup", "name": "r", "matchs": ["a"]}
        made = self.create(TARGET, {"destination": ACCOUNT, "sources": [ACCOUNT], "rules": [rule]})
        self.assertEqual([rule], made["spec"]["rules"])

    def test_a_status_is_written_apart_and_shown(self):
        base, plural = self.paths["TrafficSplit"]
        at = f"{base}/namespaces/shop/{plural}"
        self.cluster.api.request(
            "POST",
            at,
            {
                **SPLIT,
                "metadata": {"name": "shown", "namespace": "shop"},
                "spec": {"service": "a", "backends": [{"service": "b", "weight": 1}]},
                "status": {"conditions": []},
            },
        )
        condition = {"lastTransitionTime": "2024-01-01T00:00:00Z", "reason": "R"}
        made = self.cluster.api.request(
            "PATCH",
            f"{at}/shown/status",
            {
                **SPLIT,
                "metadata": {"name": "shown", "namespace": "shop"},
                "status": {
                    "conditions": [
                        {**condition, "type": "Accepted", "status": "True", "message": "in use"},
                        {**condition, "type": "Programmed", "status": "True", "message": "3/3 proxies"},
                    ]
                },
            },
            "application/apply-patch+yaml",
            fieldManager="osm-status",
            force="true",
        )
        self.assertEqual(1, made["metadata"]["generation"])
        shown = self.cluster.kubectl("get", "ts", "-n", "shop")
        self.assertIn("PROGRAMMED", shown)
        self.assertIn("3/3 proxies", shown)

    def test_kubectl_knows_the_short_names(self):
        for short in (
            "tt",
            "htr",
            "tr",
            "ts",
            "meshconfig",
            "meshvm",
            "mrc",
            "egr",
            "ib",
            "rty",
            "uts",
            "tel",
            "extsvc",
        ):
            with self.subTest(name=short):
                self.cluster.kubectl("get", short, "-A")


if __name__ == "__main__":
    meshcase.main()
