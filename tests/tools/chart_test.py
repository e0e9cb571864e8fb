#!/usr/bin/python3
"""`osm install --dry-run` writes the objects that Helm writes, for defaults, options and random values, and
refuses what Helm refuses.

usage: chart_test.py --bin DIRECTORY [--helm PROGRAM]
"""

import argparse
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

from lib import run

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "charts/osm"
ROUNDS = 40
VALUE = 64  # bytes of a JSON value in memory, with its key and a copy of both
options = argparse.Namespace()


def objects(text):
    found = {}
    for each in yaml.safe_load_all(text):
        if each:
            name = (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
            assert name not in found, f"{name} is written twice"
            found[name] = each
    return found


def leave_out_what_helm_makes_itself(by_osm, namespace):
    """Its --create-namespace, and the Secret with the values of a release."""
    del by_osm["Namespace", None, namespace], by_osm["ConfigMap", namespace, "osm-values"]


def helm(*arguments):
    return subprocess.run([options.helm, *map(str, arguments)], capture_output=True, text=True)


def rendered(namespace, *values):
    """The objects that Helm writes, or None with its message; then the same of osm."""
    by_helm = helm("template", "any", CHART, "-n", namespace, "--include-crds", "--kube-version", "1.31", *values)
    by_osm = subprocess.run(
        [options.bin / "osm", "install", "--dry-run", "--osm-namespace", namespace, *map(str, values)],
        capture_output=True,
        text=True,
    )
    return [(objects(ran.stdout), "") if ran.returncode == 0 else (None, ran.stderr) for ran in (by_helm, by_osm)]


def number_in(file, name):
    """The value of a constant of a source: a product, or a power of two."""
    text = re.search(
        rf"{re.escape(name)}(?: =|\{{) ?(?:std::size_t\{{1\}} << (\d+)|([\d' *]+))", (ROOT / file).read_text()
    )
    return 1 << int(text[1]) if text[1] else math.prod(int(n) for n in text[2].replace("'", "").split("*"))


def megabytes(quantity):
    return int(quantity.removesuffix("M"))


class Random:
    """Values that the schema allows, and now and then one that it does not."""

    def __init__(self):
        self.rng = run.seeded()

    def of(self, schema):
        kinds = schema.get("type", "object")
        kind = kinds if isinstance(kinds, str) else self.rng.choice(kinds)
        if kind == "object":
            known = schema.get("properties", {})
            chosen = {name: self.of(known[name]) for name in known if self.rng.random() < 0.3}
            if isinstance(schema.get("additionalProperties"), dict):
                chosen |= {f"k{i}": self.of(schema["additionalProperties"]) for i in range(self.rng.randrange(3))}
            return chosen
        if kind == "array":
            return [self.of(schema["items"]) for _ in range(self.rng.randrange(3))]
        if kind == "boolean":
            return self.rng.random() < 0.5
        if kind == "integer":
            return self.rng.randint(schema.get("minimum", 0), schema.get("maximum", 10**7))
        return self.text(schema)

    def text(self, schema):
        if "enum" in schema:
            return self.rng.choice(schema["enum"])
        samples = [
            "",
            "a",
            "web-1",
            "a.b",
            "48h",
            "sha256:" + "0" * 64,
            "r.example:5000/mesh",
            "Big",
            "1.2",
            "x y",
            "a: b",
            "{{",
            "yes",
            "7",
            "/opt/cni/bin",
        ]
        if self.rng.random() < 0.03:
            return self.rng.choice(samples)
        fitting = [s for s in samples if re.search(schema.get("pattern", ""), s)]
        return self.rng.choice(fitting)


class Chart(unittest.TestCase):
    maxDiff = None

    def check_equal(self, namespace, *values):
        (by_helm, why), (by_osm, error) = rendered(namespace, *values)
        self.assertIsNotNone(by_helm, why)
        self.assertIsNotNone(by_osm, error)
        leave_out_what_helm_makes_itself(by_osm, namespace)
        self.assertEqual(by_helm, by_osm)
        return by_osm

    def test_the_defaults_are_equal_in_any_namespace(self):
        found = self.check_equal("osm-system")
        self.assertEqual(found["Deployment", "osm-system", "osm-controller"]["spec"]["replicas"], 2)
        self.check_equal("mesh-2", "--set", "osm.meshName=two")

    def test_kinds_that_only_some_clusters_have_are_written_for_these(self):
        policies = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"
        for values in ((), ("--set", "osm.meshName=two,osm.besideOsmV1=true")):
            found = self.check_equal("mesh-2", "--api-versions", policies, *values)
            self.assertEqual(2, sum(kind == "ValidatingAdmissionPolicy" for kind, _, _ in found))

    def test_every_part_that_is_an_option_is_equal(self):
        found = self.check_equal(
            "osm-system",
            "--set",
            "osm.certificateProvider.kind=vault,osm.vault.host=vault.example",
            "--set",
            "osm.vault.caConfigMap=vault-ca,osm.enableReconciler=true,osm.besideOsmV1=true",
            "--set",
            "osm.cni.enable=true",
            "--set",
            "osm.networkPolicy.enable=true,osm.webhookClientCAConfigMap=client-ca",
            "--set",
            "osm.osmController.autoScale.enable=true,osm.injector.autoScale.enable=true",
            "--set",
            "osm.image.registry=r.example/mesh,osm.imagePullSecrets[0].name=key",
            "--set",
            r"osm.injector.podLabels.example\.com/a=b,osm.injector.extraArgs={-v,debug}",
        )
        for kind, name in (
            ("NetworkPolicy", "osm-injector"),
            ("Deployment", "osm-reconciler"),
            ("DaemonSet", "osm-cni"),
            ("HorizontalPodAutoscaler", "osm-controller"),
        ):
            self.assertIn((kind, "osm-system", name), found)
        self.assertNotIn("replicas", found["Deployment", "osm-system", "osm-controller"]["spec"])
        found = self.check_equal("osm-system", "--set", "osm.certificateProvider.kind=cert-manager")
        self.assertIn(("Role", "osm-system", "osm-cert-manager"), found)

    def test_an_autoscaler_rebalances_unless_it_is_told_not_to(self):
        for values, rebalances in (
            ("rebalance=false", False),
            ("rebalance=true", True),
            ("autoScale.enable=true", True),
            ("autoScale.enable=true,osm.osmController.autoScale.rebalance=false", False),
        ):
            with self.subTest(values):
                found = self.check_equal("osm-system", "--set", "osm.osmController." + values)
                pod = found["Deployment", "osm-system", "osm-controller"]["spec"]["template"]["spec"]
                self.assertEqual(rebalances, "--rebalance" in pod["containers"][0]["args"])

    def test_the_settings_of_azure_are_a_Secret_that_the_controller_alone_sees(self):
        found = self.check_equal("osm-system", "--set", "osm.azureConfigSecret=osm-azure")
        seen_by = {
            name: spec
            for (_, _, name), each in found.items()
            if "osm-azure" in json.dumps(spec := each.get("spec", {}))
        }
        self.assertEqual(["osm-controller"], list(seen_by))
        pod = seen_by["osm-controller"]["template"]["spec"]
        container = pod["containers"][0]
        self.assertIn("--azure-config=/etc/osm/azure/azure.yaml", container["args"])
        self.assertIn({"name": "azure", "mountPath": "/etc/osm/azure", "readOnly": True}, container["volumeMounts"])
        self.assertIn({"name": "azure", "secret": {"secretName": "osm-azure", "defaultMode": 0o440}}, pod["volumes"])

    def test_random_values_are_equal_or_refused_by_both(self):
        schema = json.loads((CHART / "values.schema.json").read_text())
        schema = {"type": "object", "properties": {"osm": schema["properties"]["osm"]}}
        refused = 0
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            values_of = Random()
            for turn in range(ROUNDS):
                values = values_of.of(schema)
                file.seek(0)
                file.truncate()
                file.write(yaml.safe_dump(values))
                file.flush()
                (by_helm, why), (by_osm, error) = rendered("osm-system", "-f", file.name)
                seen = f"OSM_TEST_SEED={run.seed()}, turn {turn}: {values}\nhelm: {why}\nosm: {error}"
                self.assertEqual(by_helm is None, by_osm is None, seen)
                if by_helm is None:
                    refused += 1
                    continue
                leave_out_what_helm_makes_itself(by_osm, "osm-system")
                self.assertEqual(by_helm, by_osm, seen)
        self.assertLess(refused, ROUNDS, "no random values were taken")

    def test_wrong_values_are_refused_with_their_path(self):
        for value, said in (
            ("osm.injector.replicaCount=11", "value osm.injector.replicaCount: 11 is not from 1"),
            ("osm.injector.replicas=1", "value osm.injector.replicas: there is no such value"),
            ("osm.controllerLogLevel=loud", "value osm.controllerLogLevel: 'loud' is none of"),
            ("osm.image.digest.init=sha256:1", "value osm.image.digest.init: 'sha256:1' does not"),
            (
                "osm.injector.autoScale.enable=true,osm.injector.autoScale.minReplicas=9",
                "osm.injector.autoScale: minReplicas is above maxReplicas",
            ),
        ):
            with self.subTest(value):
                (by_helm, _), (by_osm, error) = rendered("osm-system", "--set", value)
                self.assertEqual((by_helm, by_osm), (None, None))
                self.assertIn(said, error)

    def test_the_memory_limits_have_room_for_all_that_the_ports_may_hold_at_once(self):
        header = (ROOT / "include/osm/net/ports.hpp").read_text()
        bounds = {
            name: [int(base) << int(shift or 0) for base, shift in re.findall(r"(\d+)(?: << (\d+))?", numbers)]
            for name, numbers in re.findall(r"PortBounds k(\w+)\{([\d <,]+)\};", header)
        }
        self.assertEqual(set(bounds), {"MonitorPort", "WebhookPort", "RemoteAdminPort", "JoinPort", "AdminSocket"})
        # Beside bodies, a connection holds its head twice, what was read but not parsed yet, and a record of TLS
        # in each direction (RFC 8446, 5.2). A body that grows in pieces is copied.
        head = number_in("include/osm/net/http_server.hpp", "max_header_bytes")
        connection = 2 * head + number_in("libosm/net/http_session.cpp", "kPiece") + 2 * (2**14 + 2**8 + 5)
        held = {name: (number * connection + 2 * bodies) / 1e6 for name, (number, _, bodies) in bounds.items()}
        log = number_in("include/osm/runtime/json_log.hpp", "kMaxWaitingBytes") / 1e6
        # Values of the reviews that are answered at once, each with its key and a copy.
        review = number_in("libosm/inject/admission.hpp", "kMaxReviewValues") * VALUE / 1e6
        reviews = {
            "osmController": number_in("daemons/osm-controller/mesh_upkeep.hpp", "kReviews") * review,
            "injector": number_in("daemons/osm-injector/injector.cpp", "kAdmissions") * review,
            "reconciler": 0,
        }
        values = yaml.safe_load((CHART / "values.yaml").read_text())["osm"]
        template = (CHART / "templates/reconciler.yaml").read_text().split("          resources:\n")[1]
        resources = {
            "osmController": values["osmController"]["resource"],
            "injector": values["injector"]["resource"],
            "reconciler": yaml.safe_load(template.split("          securityContext:\n")[0]),
        }
        streams = {"osmController": values["osmController"]["adsMemory"] * (1 << 20) / 1e6}
        ports = {
            "osmController": list(bounds),
            "injector": ["MonitorPort", "WebhookPort"],
            "reconciler": ["MonitorPort"],
        }
        for daemon, resource in resources.items():
            # What is requested is for the mesh itself.
            needed = megabytes(resource["requests"]["memory"]) + streams.get(daemon, 0) + log
            needed += reviews[daemon] + sum(held[port] for port in ports[daemon])
            self.assertGreaterEqual(megabytes(resource["limits"]["memory"]), needed, (daemon, held))

    def test_helm_finds_nothing_to_complain_about(self):
        ran = helm("lint", "--strict", CHART)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_the_chart_and_its_crds_have_the_version_of_the_project(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        project = re.search(r"project\(osm VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertEqual((chart["version"], chart["appVersion"]), (project, project))
        for file in (CHART / "crds").iterdir():
            labels = yaml.safe_load(file.read_text())["metadata"]["labels"]
            self.assertEqual(labels.get("app.kubernetes.io/version"), project, file.name)

    def test_every_value_is_described_and_has_its_default(self):
        schema = json.loads((CHART / "values.schema.json").read_text())["properties"]["osm"]
        defaults = yaml.safe_load((CHART / "values.yaml").read_text())["osm"]

        def compare(path, schema, value):
            if "properties" not in schema:
                self.assertTrue(schema.get("description"), path)
                return
            self.assertEqual(set(value), set(schema["properties"]), path)
            for name, inner in schema["properties"].items():
                if "properties" in inner or "description" in inner:
                    compare(f"{path}.{name}", inner, value[name])

        compare("osm", schema, defaults)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--helm", type=pathlib.Path, default=ROOT / "build/tools/helm/bin/helm")
    options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
