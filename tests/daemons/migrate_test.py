#!/usr/bin/python3
"""`osm migrate check` lists each object of an OSM v1.2 dump that means less, more or nothing, and no other;
its exit code tells of access.

usage: migrate_test.py --bin DIRECTORY
"""

import json
import os
import pathlib
import subprocess
import textwrap

from lib.mesh.daemon import DaemonTest, run

BASE = pathlib.Path(__file__).parent.parent / "data/migrate/base.yaml"
CONFIG = "MeshConfig osm-system/osm-mesh-config"
EGRESS = """
    apiVersion: policy.openservicemesh.io/v1alpha1
    kind: Egress
    metadata: {name: pay, namespace: shop}
    spec:
      sources: [{kind: ServiceAccount, name: web, namespace: shop}]
      hosts: [pay.example.com]
      ports: [{number: 80, protocol: http}]
    """
DATABASE = """
    apiVersion: v1
    kind: Service
    metadata: {name: db, namespace: shop}
    spec:
      clusterIP: 10.96.0.11
      selector: {app: api}
      ports: [{name: tcp-sql, port: 5432, targetPort: sql}]
    """
TCP_ACCESS = """
    apiVersion: specs.smi-spec.io/v1alpha4
    kind: TCPRoute
    metadata: {name: sql, namespace: shop}
    spec: {matches: {ports: [5432]}}
    ---
    apiVersion: access.smi-spec.io/v1alpha3
    kind: TrafficTarget
    metadata: {name: web-db, namespace: shop}
    spec:
      destination: {kind: ServiceAccount, name: api, namespace: shop}
      rules: [{kind: TCPRoute, name: sql}]
      sources: [{kind: ServiceAccount, name: web, namespace: shop}]
    """
MIXED_TARGET = """
    apiVersion: access.smi-spec.io/v1alpha3
    kind: TrafficTarget
    metadata: {name: %s, namespace: shop}
    spec:
      destination: {kind: ServiceAccount, name: api, namespace: shop}
      rules: [{kind: HTTPRouteGroup, name: %s, matches: [%s]}]
      sources: [{kind: ServiceAccount, name: %s, namespace: shop}]
    """

LARGE = """---
apiVersion: v1
kind: Service
metadata: {name: s-NUMBER, namespace: shop}
spec:
  clusterIP: ADDRESS
  selector: {app: s-NUMBER}
  ports: [{name: http, port: 80, targetPort: 8080}, {name: tcp-admin, port: 81, targetPort: 9090}]
---
apiVersion: v1
kind: Pod
metadata:
  labels: {app: s-NUMBER, osm-proxy-uuid: 00000000-0000-0000-0000-000000000000}
  name: s-NUMBER-0
  namespace: shop
spec:
  containers: [{name: app, image: app, ports: [{containerPort: 8080}, {containerPort: 9090}]}]
  serviceAccountName: s-NUMBER
---
apiVersion: specs.smi-spec.io/v1alpha4
kind: HTTPRouteGroup
metadata: {name: s-NUMBER, namespace: shop}
spec: {matches: [{name: one, pathRegex: /one, methods: [GET]}, {name: two, pathRegex: '/two/.*', methods: ['*']}]}
---
apiVersion: access.smi-spec.io/v1alpha3
kind: TrafficTarget
metadata: {name: s-NUMBER, namespace: shop}
spec:
  destination: {kind: ServiceAccount, name: s-NUMBER, namespace: shop}
  rules: [{kind: HTTPRouteGroup, name: s-NUMBER, matches: [one]}]
  sources: [{kind: ServiceAccount, name: web, namespace: shop}]
"""


def group(regex, name="more"):
    return f"""
    apiVersion: specs.smi-spec.io/v1alpha4
    kind: HTTPRouteGroup
    metadata: {{name: {name}, namespace: shop}}
    spec: {{matches: [{{name: one, pathRegex: '{regex}', methods: [GET]}}]}}
    """


class Migrate(DaemonTest):
    def check_text(self, text, *flags):
        """(exit code, report, stderr) of a dump."""
        done = subprocess.run(
            [self.bin / "osm", "migrate", "check", "-", "-o", "json", *flags],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr

    def found(self, *documents, edit=(), code, base=None):
        """[(object, verdict, access, field)] of the base with edits [(old, new)] and more documents."""
        text = BASE.read_text() if base is None else base
        for old, new in edit:
            self.assertIn(old, text)
            text = text.replace(old, new)
        text += "".join("---\n" + textwrap.dedent(document) for document in documents)
        actual, report, err = self.check_text(text)
        self.assertEqual(err, "")
        for each in report["differences"]:
            self.assertTrue(each["reason"] and each["remedy"], each)
        rows = [(d["object"], d["verdict"], d["access"], d["field"]) for d in report["differences"]]
        self.assertEqual(actual, code, rows)
        self.report = report
        return rows

    # ---- the dump

    def test_a_dump_that_is_fully_understood_changes_nothing(self):
        self.assertEqual(self.found(code=0), [])
        self.assertEqual(self.report["objects"], {"same": 8, "more": 0, "less": 0, "nothing": 0, "other": 5})
        self.assertEqual(self.report["notes"], [])

    def test_people_get_a_table_and_a_summary(self):
        path = self.folder / "more.yaml"
        path.write_text(textwrap.dedent(EGRESS))
        done = subprocess.run(
            [self.bin / "osm", "migrate", "check", BASE, path], text=True, capture_output=True, timeout=60
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(
            done.stdout,
            "9 objects: 9 same, 0 more, 0 less, 0 nothing; 5 others. Access: 0 refused here, 0 allowed here\n",
        )
        base = self.folder / "base.yaml"
        base.write_text(
            BASE.read_text()
            .replace("enableEgressPolicy: false", "enableEgressPolicy: true")
            .replace("enableEgress: false", "enableEgress: true")
        )
        done = subprocess.run(
            [self.bin / "osm", "migrate", "check", base, path], text=True, capture_output=True, timeout=60
        )
        self.assertEqual(done.returncode, 1)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0].split(), ["OBJECT", "VERDICT", "ACCESS", "FIELD"])
        self.assertEqual(lines[1].split(), ["Egress", "shop/pay", "nothing", "allowed", "spec"])
        self.assertTrue(lines[2].startswith("    reason: ") and lines[3].startswith("    remedy: "))
        self.assertEqual(
            lines[-1], "9 objects: 8 same, 0 more, 0 less, 1 nothing; 5 others. Access: 0 refused here, 1 allowed here"
        )

    def test_a_difference_has_its_file_and_line(self):
        self.found(edit=[("tlsMinProtocolVersion: TLSv1_2", "tlsMinProtocolVersion: TLSv1_0")], code=1)
        line = next(n for n, text in enumerate(BASE.read_text().splitlines(), 1) if "tlsMinProtocol" in text)
        self.assertEqual([(d["file"], d["line"]) for d in self.report["differences"]], [("standard input", line)])

    def test_a_dump_in_json_is_read(self):
        config = {
            "apiVersion": "config.openservicemesh.io/v1alpha2",
            "kind": "MeshConfig",
            "metadata": {"name": "osm-mesh-config", "namespace": "osm-system"},
            "spec": {"featureFlags": {"enableWASMStats": True}},
        }
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [config]}, indent=4)
        self.assertEqual(self.found(base=text, code=0), [(CONFIG, "less", "same", "spec.featureFlags.enableWASMStats")])

    def test_a_dump_of_ten_thousand_objects_takes_seconds_and_little_memory(self):
        path = self.folder / "large.yaml"
        with path.open("w") as out:
            out.write(BASE.read_text())
            for n in range(2500):  # a Service with its pod, behind an account of its own, and who calls it
                out.write(LARGE.replace("NUMBER", str(n)).replace("ADDRESS", f"10.97.{n // 250}.{n % 250}"))
        process = subprocess.Popen(
            [self.bin / "osm", "migrate", "check", path, "-o", "json"], stdout=subprocess.PIPE, text=True
        )
        report = json.load(process.stdout)
        process.stdout.close()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 1)  # each target opened the TCP port in OSM v1.2
        seconds, megabytes = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
        print(f"{path.stat().st_size >> 20} MB: {seconds:.1f} s of CPU, {megabytes:.0f} MB of memory")
        objects = report["objects"]
        self.assertGreater(sum(objects.values()), 10_000)
        self.assertEqual(len([d for d in report["differences"] if d["object"].startswith("TrafficTarget")]), 2500)
        # Many times what a machine of 2020 takes, but far from what grows with the square of the objects.
        self.assertLess(seconds, 120)
        self.assertLess(megabytes, 2000)

    def test_a_dump_that_cannot_be_read_is_wrong_usage(self):
        for text, message in (
            ("", "the dump has no objects: did kubectl fail?"),
            ("a: [", "standard input:1: not YAML"),
            ("just text", "not an object"),
            ("kind: List\nitems:\n- {kind: Service}", "standard input:3"),
            ("kind: Service\napiVersion: v1\n", "metadata"),
        ):
            with self.subTest(text):
                code, report, err = self.check_text(text)
                self.assertEqual((code, err), (2, ""))
                self.assertIn(message, report["error"]["message"])
        for arguments, message in (
            ([self.folder / "absent.yaml"], "absent.yaml"),
            ([], "DUMP is required"),
            (["-", "-o", "xml"], "xml"),
        ):
            done = subprocess.run(
                [self.bin / "osm", "migrate", "check", *arguments],
                timeout=60,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
            )
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(message, done.stderr)

    def test_what_the_dump_lacks_is_a_note(self):
        self.assertEqual(self.found(base=textwrap.dedent(DATABASE), code=0), [])
        self.assertEqual(len(self.report["notes"]), 2)
        self.assertIn("no MeshConfig osm-system/osm-mesh-config", self.report["notes"][1])
        self.assertIn("no Namespace shop", self.report["notes"][0])
        self.found(group("/x"), MIXED_TARGET % ("other", "absent", "one", "web"), code=0)
        self.assertIn("TrafficTarget shop/other spec.rules[0].name", self.report["notes"][0])

    def test_another_mesh_and_another_namespace_of_the_control_plane_are_found(self):
        text = BASE.read_text().replace("monitored-by: osm", "monitored-by: one").replace("osm-system", "ctl")
        self.assertEqual(self.found(base=text, code=0), [])
        self.assertEqual(self.report["objects"]["same"], 8)
        code, report, _ = self.check_text(text, "--mesh-name", "two", "--osm-namespace", "ctl")
        self.assertEqual((code, report["objects"]["same"]), (0, 1))
        self.assertIn("namespace shop is in the mesh one", report["notes"][0])

    # ---- settings and versions

    def test_unused_fields_of_the_meshconfig_are_listed_unless_they_are_off(self):
        rows = self.found(
            code=0,
            edit=[
                ("enableWASMStats: false", "enableWASMStats: true"),
                ("keyAlgorithm: RSA", "keyAlgorithm: ECDSA"),
                ("configResyncInterval: 0s", "configResyncInterval: 30s"),
                ("enableDebugServer: false", "enableDebugServer: true"),
            ],
        )
        self.assertEqual(
            sorted(rows),
            sorted(
                (CONFIG, "less", "same", field)
                for field in (
                    "spec.featureFlags.enableWASMStats",
                    "spec.certificate.certKeyBitSize",
                    "spec.sidecar.configResyncInterval",
                    "spec.observability.enableDebugServer",
                )
            ),
        )

    def test_a_meshconfig_that_is_refused_here_refuses_everything(self):
        self.assertEqual(
            self.found(edit=[("tlsMinProtocolVersion: TLSv1_2", "tlsMinProtocolVersion: TLSv1_0")], code=1),
            [(CONFIG, "nothing", "refused", "spec.sidecar.tlsMinProtocolVersion")],
        )

    def test_a_meshconfig_of_the_old_version_means_nothing(self):
        old = ("config.openservicemesh.io/v1alpha2", "config.openservicemesh.io/v1alpha1")
        permissive = ("enablePermissiveTrafficPolicyMode: false", "enablePermissiveTrafficPolicyMode: true")
        authorizer = (
            "inboundExternalAuthorization: {enable: false",
            "inboundExternalAuthorization: {enable: true, address: a.b, port: 1",
        )
        for edits, access, code in (
            ([old], "same", 0),
            ([old, permissive], "refused", 1),
            ([old, authorizer], "allowed", 1),
        ):
            with self.subTest(edits):
                self.assertEqual(self.found(edit=edits, code=code), [(CONFIG, "nothing", access, "apiVersion")])
        self.assertIn("v1alpha2", self.report["differences"][0]["remedy"])
        with self.subTest("other differences show beside it"):
            self.assertEqual(
                self.found(edit=[old, ("enableWASMStats: false", "enableWASMStats: true")], code=0),
                [
                    (CONFIG, "nothing", "same", "apiVersion"),
                    (CONFIG, "less", "same", "spec.featureFlags.enableWASMStats"),
                ],
            )

    def test_old_versions_of_smi_mean_nothing(self):
        for kind, old, access, code in (
            ("TrafficTarget", "access.smi-spec.io/v1alpha2", "refused", 1),
            ("HTTPRouteGroup", "specs.smi-spec.io/v1alpha3", "refused", 1),
            ("TCPRoute", "specs.smi-spec.io/v1alpha1", "refused", 1),
            ("TrafficSplit", "split.smi-spec.io/v1alpha4", "same", 0),
        ):
            with self.subTest(kind):
                self.assertEqual(
                    self.found(
                        f"{{apiVersion: {old}, kind: {kind}, metadata: {{name: x, namespace: shop}}}}", code=code
                    ),
                    [(f"{kind} shop/x", "nothing", access, "apiVersion")],
                )

    def test_definitions_with_old_versions_in_their_storage_are_listed(self):
        definition = """
            apiVersion: apiextensions.k8s.io/v1
            kind: CustomResourceDefinition
            metadata: {name: meshconfigs.config.openservicemesh.io}
            spec: {group: config.openservicemesh.io, names: {kind: MeshConfig}}
            status: {storedVersions: %s}
            """
        self.assertEqual(
            self.found(definition % "[v1alpha1, v1alpha2]", code=0),
            [
                (
                    "CustomResourceDefinition.apiextensions.k8s.io meshconfigs.config.openservicemesh.io",
                    "nothing",
                    "same",
                    "status.storedVersions",
                )
            ],
        )
        self.assertEqual(self.found(definition % "[v1alpha2]", code=0), [])

    def test_kinds_of_osms_main_branch_are_read_too(self):
        for kind, group_of, version in (
            ("Telemetry", "policy", "v1alpha1"),
            ("ExtensionService", "config", "v1alpha2"),
        ):
            namespace = "shop" if group_of == "policy" else "osm-system"
            self.assertEqual(
                self.found(
                    f"""
                apiVersion: {group_of}.openservicemesh.io/{version}
                kind: {kind}
                metadata: {{name: x, namespace: {namespace}}}
                """,
                    code=0,
                ),
                [(f"{kind} {namespace}/x", "nothing", "same", "spec")],
            )

    def test_a_root_outside_of_the_mesh_needs_fingerprints(self):
        root = """
            apiVersion: config.openservicemesh.io/v1alpha2
            kind: MeshRootCertificate
            metadata: {name: osm-mesh-root-certificate, namespace: osm-system}
            spec:
              provider: {certManager: {issuerName: ca, issuerKind: Issuer, issuerGroup: cert-manager.io}}
            status: {state: %s}
            """
        name = "MeshRootCertificate osm-system/osm-mesh-root-certificate"
        fingerprint = (name, "less", "refused", "spec.rootFingerprints")
        self.assertEqual(self.found(root % "active", code=1), [fingerprint])
        self.assertEqual(self.found(root % "inactive", code=1), [fingerprint, (name, "more", "same", "spec.role")])

    # ---- policies of OSM

    def test_an_egress_is_obeyed_unless_global_egress_is_on(self):
        obeyed = ("enableEgressPolicy: false", "enableEgressPolicy: true")
        everywhere = ("enableEgress: false", "enableEgress: true")
        self.assertEqual(self.found(EGRESS, code=0), [])
        self.assertEqual(self.found(EGRESS, edit=[obeyed], code=0), [])
        self.assertEqual(
            self.found(EGRESS, edit=[("enableEgressPolicy: false", "")], code=1),
            [("Egress shop/pay", "more", "allowed", "spec")],
        )
        self.assertEqual(
            self.found(EGRESS, edit=[obeyed, everywhere], code=1), [("Egress shop/pay", "nothing", "allowed", "spec")]
        )
        https = EGRESS.replace("protocol: http", "protocol: https")
        self.assertEqual(
            self.found(https, edit=[obeyed, everywhere], code=0), [("Egress shop/pay", "nothing", "same", "spec")]
        )
        narrow = EGRESS.replace("ports:", "ipAddresses: [192.0.2.0/24]\n      ports:")
        for text, field in (
            (narrow, "spec.ipAddresses"),
            (https.replace("hosts: [pay.example.com]", "hosts: []"), "spec.ports"),
            (EGRESS.replace("web, namespace: shop", "web, namespace: store"), "spec.sources[0].namespace"),
        ):
            with self.subTest(field):
                self.assertEqual(self.found(text, code=0), [])
                self.assertEqual(
                    self.found(text, edit=[obeyed], code=1), [("Egress shop/pay", "less", "refused", field)]
                )

    def test_an_ingressbackend_admits_whom_it_names_and_nobody_else(self):
        backend = """
            apiVersion: policy.openservicemesh.io/v1alpha1
            kind: IngressBackend
            metadata: {name: web, namespace: shop}
            spec:
              backends: [{name: api, port: {number: 8080, protocol: http}}]
              sources: [{kind: Service, name: gateway, namespace: ingress}]
            """
        for edit in ([], [("PolicyMode: false", "PolicyMode: true")]):
            self.assertEqual(self.found(backend, edit=edit, code=0), [])
        off = [("enableIngressBackendPolicy: true", "enableIngressBackendPolicy: false")]
        self.assertEqual(
            self.found(backend, edit=off, code=1), [("IngressBackend shop/web", "nothing", "refused", "spec.backends")]
        )
        # OSM v1.2 admitted everybody, or everybody with a certificate of the mesh.
        source = "[{kind: Service, name: gateway, namespace: ingress}]"
        for change in (
            (source, "[]"),
            (source, "[{kind: AuthenticatedPrincipal, name: gw.a}]"),
            ("protocol: http}", "protocol: https}"),
        ):
            self.assertEqual(
                self.found(backend.replace(*change), code=1),
                [("IngressBackend shop/web", "less", "refused", "spec.backends[0]")],
            )

    def test_a_retry_outside_of_the_mesh_means_nothing_if_v1_2_obeyed_it(self):
        retry = """
            apiVersion: policy.openservicemesh.io/v1alpha1
            kind: Retry
            metadata: {name: again, namespace: outside}
            spec:
              source: {kind: ServiceAccount, name: web, namespace: shop}
              destinations: [{kind: Service, name: api, namespace: shop}]
              retryPolicy: {retryOn: 5xx, perTryTimeout: 1s, numRetries: 3, retryBackoffBaseInterval: 25ms}
            """
        self.assertEqual(self.found(retry, code=0), [])
        obeyed = [("enableRetryPolicy: false", "enableRetryPolicy: true")]
        self.assertEqual(
            self.found(retry, edit=obeyed, code=0),
            [("Retry outside/again", "nothing", "same", "spec.source.namespace")],
        )
        inside = retry.replace("namespace: outside", "namespace: shop")
        self.assertEqual(self.found(inside, edit=obeyed, code=0), [])

    def test_limits_are_obeyed_as_before(self):
        setting = """
            apiVersion: policy.openservicemesh.io/v1alpha1
            kind: UpstreamTrafficSetting
            metadata: {name: api, namespace: shop}
            spec: {host: %s, rateLimit: {local: {http: {requests: 3, unit: minute}}}}
            """
        self.assertEqual(self.found(setting % "api.shop.svc.cluster.local", code=0), [])
        with self.subTest("OSM v1.2 found it by the full name only, so it limited nothing"):
            self.assertEqual(
                self.found(setting % "api.shop", code=1),
                [("UpstreamTrafficSetting shop/api", "more", "refused", "spec.host")],
            )
            self.assertEqual(self.found(setting % "api", code=0), [])
        with self.subTest("a Service of another namespace, unless an Egress names the setting"):
            elsewhere = setting % "api.store.svc.cluster.local"
            self.assertEqual(
                self.found(elsewhere, code=0), [("UpstreamTrafficSetting shop/api", "nothing", "same", "spec.host")]
            )
            self.assertEqual(
                self.found(
                    elsewhere,
                    EGRESS
                    + """  matches:
      - apiGroup: policy.openservicemesh.io/v1alpha1
        kind: UpstreamTrafficSetting
        name: api
    """,
                    code=0,
                ),
                [],
            )

    # ---- access

    def test_a_target_of_http_alone_no_longer_opens_tcp(self):
        row = ("TrafficTarget shop/web-api", "less", "refused", "spec.rules")
        self.assertEqual(self.found(DATABASE, code=1), [row])
        self.assertIn("port 5432 (tcp) of Service shop/db", self.report["differences"][0]["reason"])
        with self.subTest("another target opens the port to the same source"):
            self.assertEqual(self.found(DATABASE, TCP_ACCESS, code=0), [])
        with self.subTest("another target opens another port, or the port to another source"):
            self.assertEqual(self.found(DATABASE, TCP_ACCESS.replace("5432", "5433"), code=1), [row])
            other = TCP_ACCESS.replace("name: web, ", "name: batch, ")
            self.assertEqual(self.found(DATABASE, other, code=1), [row])
        with self.subTest("the pods of another account serve the port"):
            self.assertEqual(self.found(DATABASE.replace("app: api", "app: db"), code=0), [])
        with self.subTest("permissive mode"):
            self.assertEqual(self.found(DATABASE, edit=[("PolicyMode: false", "PolicyMode: true")], code=0), [])
        with self.subTest("the dump has no pods"):
            text = BASE.read_text().replace("serviceAccountName: api", "serviceAccountName: other")
            self.assertEqual(self.found(DATABASE, base=text, code=1), [row])
            self.assertIn("no pod of the account", self.report["differences"][0]["reason"])

    def test_targets_that_overlap_add_up(self):
        everything = MIXED_TARGET % ("admin-api", "api", "all", "admin")
        self.assertEqual(
            self.found(everything, code=1), [("TrafficTarget shop/web-api", "more", "allowed", "spec.rules")]
        )
        self.assertIn("TrafficTarget shop/admin-api covers with .*", self.report["differences"][0]["reason"])
        with self.subTest("the same route is no overlap"):
            self.assertEqual(self.found(MIXED_TARGET % ("admin-api", "api", "buy", "admin"), code=0), [])
        with self.subTest("paths that differ are none"):
            self.assertEqual(self.found(group("/sell"), MIXED_TARGET % ("a", "more", "one", "admin"), code=0), [])

    def test_paths_that_are_not_in_normal_form_are_refused(self):
        target = MIXED_TARGET % ("reader", "more", "one", "web")
        row = ("HTTPRouteGroup shop/more", "less", "refused", "spec.matches[0].pathRegex")
        for regex in ("/files/.*", "/a%2F[a-z]+", "/[^/]+", "/a(/b)?", "/a/*"):
            with self.subTest(regex):
                self.assertEqual(self.found(group(regex), target, code=1), [row])
        for regex in (".*", "/a%2Fb", "/v1\\.0/[a-z]+/?", "/items"):
            with self.subTest(regex):
                self.assertEqual(self.found(group(regex), target, code=0), [])
        with self.subTest("the Service says how"):
            chosen = (
                "kind: Service\n  metadata: {name: api, namespace: shop}",
                "kind: Service\n  metadata: {name: api, namespace: shop, annotations: "
                "{openservicemesh.io/http-paths: unchecked}}",
            )
            self.assertEqual(self.found(group("/files/.*"), target, edit=[chosen], code=0), [])

    def test_elements_that_are_left_out_mean_less_and_objects_nothing(self):
        header = group("/x").replace("methods: [GET]", "headers: [{a: b}, {a: c}]")
        self.assertEqual(
            self.found(header, code=1),
            [("HTTPRouteGroup shop/more", "less", "refused", "spec.matches[0].headers[1].a")],
        )
        target = MIXED_TARGET % ("dots", "api", "buy", "a.b")
        self.assertEqual(
            self.found(target, code=1), [("TrafficTarget shop/dots", "less", "refused", "spec.sources[0].name")]
        )
        target = (MIXED_TARGET % ("dots", "api", "buy", "web")).replace("name: api, namespace: shop},", "x},")
        target = target.replace(
            "{kind: ServiceAccount, name: api, namespace: shop}", "{kind: ServiceAccount, name: a.b, namespace: shop}"
        )
        self.assertEqual(
            self.found(target, code=1), [("TrafficTarget shop/dots", "nothing", "refused", "spec.destination.name")]
        )
        with self.subTest("OSM v1.2 dropped a target of another namespace too"):
            self.assertEqual(self.found(target.replace("a.b, namespace: shop", "api, namespace: x"), code=0), [])

    # ---- services and pods

    def test_a_split_whose_weights_are_zero_serves_nothing(self):
        split = """
            apiVersion: split.smi-spec.io/v1alpha2
            kind: TrafficSplit
            metadata: {name: api, namespace: shop}
            spec: {service: api%s, backends: [{service: api, weight: %s}]}
            """
        self.assertEqual(
            self.found(split % ("", 0), code=1), [("TrafficSplit shop/api", "less", "refused", "spec.backends")]
        )
        self.assertEqual(self.found(split % (".shop:80", 1), code=0), [])
        self.assertEqual(
            self.found(split % ("", "500m"), code=0),
            [("TrafficSplit shop/api", "nothing", "same", "spec.backends[0].weight")],
        )
        headless = (
            "clusterIP: 10.96.0.10\n    clusterIPs: [10.96.0.10]\n    ports:\n    - {name: http,",
            "clusterIP: None\n    ports:\n    - {name: tcp-x,",
        )
        with self.subTest("TCP to a headless Service"):
            self.assertIn(
                ("TrafficSplit shop/api", "less", "same", "spec.service"),
                self.found(split % ("", 1), edit=[headless], code=1),
            )

    def test_ports_that_v1_2_could_not_serve_mean_more(self):
        service = """
            apiVersion: v1
            kind: Service
            metadata: {name: dns, namespace: shop}
            spec: {clusterIP: %s, ports: [%s]}
            """
        dns = "{name: http, port: 53}, {name: udp, port: 53, protocol: UDP}"
        self.assertEqual(
            self.found(service % ("10.96.0.12", dns), code=0), [("Service shop/dns", "more", "same", "spec.ports[1]")]
        )
        two = "{name: http, port: 80, targetPort: 8080}, {name: http-b, port: 81, targetPort: 8080}"
        self.assertEqual(
            self.found(service % ("10.96.0.12", two), code=0), [("Service shop/dns", "more", "same", "spec.ports")]
        )
        self.assertEqual(
            self.found(service % ("None", "{name: http, port: 80}"), code=0),
            [("Service shop/dns", "more", "same", "spec.clusterIP")],
        )
        for known in ("kubernetes.io/h2c", "kubernetes.io/ws", "kubernetes.io/wss"):
            port = "{name: http, port: 80, appProtocol: %s}" % known
            self.assertEqual(
                self.found(service % ("10.96.0.12", port), code=1),
                [("Service shop/dns", "more", "allowed", "spec.ports[0].appProtocol")],
            )
        for same in (
            "{name: udp, port: 53, protocol: UDP}",
            "{name: x, port: 1, appProtocol: redis}",
            "{name: tcp, port: 1}",
        ):
            with self.subTest(same):
                self.assertEqual(self.found(service % ("10.96.0.12", same), code=0), [])

    def test_annotations_of_metrics_are_the_same_and_windows_is_gone(self):
        metrics = (
            "sidecar-injection: enabled",
            "sidecar-injection: enabled\n      openservicemesh.io/metrics: enabled",
        )
        scraped = ("    name: api-1\n", "    name: api-1\n    annotations: {prometheus.io/scrape: 'true'}\n")
        self.assertEqual(self.found(edit=[metrics, scraped], code=0), [])
        windows = (
            "    namespace: shop\n  spec:\n    containers:",
            "    namespace: shop\n  spec:\n    nodeSelector: {kubernetes.io/os: windows}\n    containers:",
        )
        self.assertEqual(
            self.found(edit=[windows], code=1), [("Pod shop/api-1", "less", "refused", "spec.nodeSelector")]
        )


if __name__ == "__main__":
    run()
