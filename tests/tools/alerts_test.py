#!/usr/bin/python3
"""Each alert fires on bad series and not on good ones, and has its section in docs/alerts.md; promtool
reads rules, dashboards and configurations.
"""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import yaml

from lib.mesh.prometheus import (
    ALERTS,
    CONFIGURATIONS,
    DASHBOARDS,
    FILES,
    KUBERNETES,
    PROMTOOL,
    ROOT,
    alert_rules,
    check_installed,
    panels,
)

CONTROLLER, INJECTOR = 'job="osm-controller",instance="a"', 'job="osm-injector",instance="b"'
TIME = 60  # minutes of series; the alert must fire in the last one
DAY = 24 * 3600
REQUEST = 'osm_request_total{destination_namespace="shop",destination_name="server"'


def steady(value):
    return f"{value}x{TIME}"


def rising(step):
    """A counter that begins at 0."""
    return f"0+{step}x{TIME}"


def once():
    """A counter of which the first event is five minutes before the end."""
    return f"0x{TIME - 6} 1x5"


def quantile(metric, slow):
    """A histogram of one observation a minute: each takes 20 s, or 2 ms."""
    return {
        f'{metric}_bucket{{le="0.0025"}}': rising(0 if slow else 1),
        f'{metric}_bucket{{le="10"}}': rising(0 if slow else 1),
        f'{metric}_bucket{{le="30"}}': rising(1),
        f'{metric}_bucket{{le="+Inf"}}': rising(1),
    }


# {alert: (bad series, good series)}
CASES = {
    "OsmControllerDown": (
        {f"up{{{CONTROLLER}}}": steady(0)},
        {f"up{{{CONTROLLER}}}": steady(0), 'up{job="osm-controller",instance="b"}': steady(1)},
    ),
    "OsmReplicaDown": (
        {f"up{{{INJECTOR}}}": steady(0)},
        {f"up{{{INJECTOR}}}": steady(1), 'up{job="osm-sidecars"}': steady(0)},
    ),
    "OsmRestarts": (
        {f"process_start_time_seconds{{{CONTROLLER}}}": f"0x{TIME - 5} 1 2 3"},
        {f"process_start_time_seconds{{{CONTROLLER}}}": f"0x{TIME - 5} 1 1 1"},
    ),
    "OsmDescriptorsLow": (
        {f"process_open_fds{{{CONTROLLER}}}": steady(900), f"process_max_fds{{{CONTROLLER}}}": steady(1000)},
        {f"process_open_fds{{{CONTROLLER}}}": steady(700), f"process_max_fds{{{CONTROLLER}}}": steady(1000)},
    ),
    "OsmProblems": (
        {'osm_problems{code="invalid-field",severity="error"}': steady(1)},
        {
            'osm_problems{code="invalid-field",severity="error"}': steady(0),
            'osm_problems{code="unused-field",severity="notice"}': steady(1),
        },
    ),
    "OsmProviderStale": (
        {'osm_provider_staleness_seconds{provider="vm"}': steady(31)},
        {'osm_provider_staleness_seconds{provider="vm"}': steady(0)},
    ),
    "OsmReplicasDiffer": (
        {'osm_mesh_info{instance="a",hash="1"}': steady(1), 'osm_mesh_info{instance="b",hash="2"}': steady(1)},
        {'osm_mesh_info{instance="a",hash="1"}': steady(1), 'osm_mesh_info{instance="b",hash="1"}': steady(1)},
    ),
    "OsmConfigurationRefused": (
        {'osm_nack_total{type="LDS",object_kind="unknown"}': once()},
        {'osm_nack_total{type="LDS",object_kind="unknown"}': steady(1)},
    ),
    "OsmProxiesBehind": (
        {f"osm_proxies_behind{{{CONTROLLER}}}": steady(1)},
        {f"osm_proxies_behind{{{CONTROLLER}}}": steady(0)},
    ),
    "OsmPropagationSlow": (quantile("osm_propagation_seconds", True), quantile("osm_propagation_seconds", False)),
    "OsmProxiesRefused": (
        {'osm_streams_refused_total{code="certificate-expired"}': rising(2)},
        {'osm_streams_refused_total{code="certificate-expired"}': once()},
    ),
    "OsmControllerFull": (
        {f"osm_proxy_max_connections_rejected{{{CONTROLLER}}}": once()},
        {f"osm_proxy_max_connections_rejected{{{CONTROLLER}}}": steady(0)},
    ),
    "OsmConnectionBoundMet": (
        {f'osm_ads_connection_bounds_met_total{{{CONTROLLER},bound="unverified"}}': once()},
        {f'osm_ads_connection_bounds_met_total{{{CONTROLLER},bound="unverified"}}': steady(4)},
    ),
    "OsmProxyFlapping": (
        {f"osm_proxy_flapping_total{{{CONTROLLER}}}": once()},
        {f"osm_proxy_flapping_total{{{CONTROLLER}}}": steady(0)},
    ),
    "OsmCertificatesNotIssued": (
        {f"osm_cert_issue_failed_count{{{CONTROLLER}}}": rising(1)},
        {f"osm_cert_issue_failed_count{{{CONTROLLER}}}": once()},
    ),
    "OsmCaNotSigning": ({f"osm_ca_signs{{{INJECTOR}}}": steady(0)}, {f"osm_ca_signs{{{INJECTOR}}}": steady(1)}),
    "OsmCertificateEnding": (
        {f"osm_cert_expiry_seconds{{{CONTROLLER}}}": steady(3 * 3600)},
        {f"osm_cert_expiry_seconds{{{CONTROLLER}}}": steady(14 * 3600)},
    ),
    "OsmRootEnding": (
        {'osm_root_not_after_seconds{root="a"}': steady(29 * DAY)},
        {
            'osm_root_not_after_seconds{root="a"}': steady(31 * DAY),
            'osm_root_not_after_seconds{root="gone"}': steady("1e99"),
        },
    ),
    "OsmRootEnded": (
        {'osm_root_not_after_seconds{root="a"}': steady(60)},
        {'osm_root_not_after_seconds{root="a"}': steady(DAY)},
    ),
    "OsmVaultUnhealthy": (
        {f"osm_vault_healthy{{{CONTROLLER}}}": steady(0)},
        {f"osm_vault_healthy{{{CONTROLLER}}}": steady(1)},
    ),
    "OsmVaultTokenEnding": (
        {f"osm_vault_token_expiry_seconds{{{CONTROLLER}}}": steady(300)},
        {f"osm_vault_token_expiry_seconds{{{CONTROLLER}}}": steady(900)},
    ),
    "OsmInjectorDown": (
        {'osm_kubernetes_objects{kind="Pod"}': steady(9)},
        {f"up{{{CONTROLLER}}}": steady(1)},
    ),  # a mesh of machines
    "OsmInjectionRefused": (
        {'osm_injector_requests_total{outcome="refused"}': once()},
        {'osm_injector_requests_total{outcome="injected"}': rising(5)},
    ),
    "OsmInjectionLimited": (
        {'osm_injector_limited_total{limit="rate"}': once()},
        {'osm_injector_limited_total{limit="rate"}': steady(3)},
    ),
    "OsmInjectionSlow": (
        quantile("osm_injector_request_seconds", True),
        quantile("osm_injector_request_seconds", False),
    ),
    "OsmApiServerSilent": (
        {f'osm_kubernetes_watch_staleness_seconds{{{CONTROLLER},kind="Pod"}}': steady(61)},
        {f'osm_kubernetes_watch_staleness_seconds{{{CONTROLLER},kind="Pod"}}': steady(0)},
    ),
    "OsmReplicaStale": (
        {f"osm_replica_staleness_seconds{{{CONTROLLER}}}": steady(31)},
        {f"osm_replica_staleness_seconds{{{CONTROLLER}}}": steady(8)},
    ),
    "OsmNoLeader": (
        {f"osm_lease_held{{{CONTROLLER}}}": steady(0)},
        {f"osm_lease_held{{{CONTROLLER}}}": steady(0), 'osm_lease_held{job="osm-controller",instance="b"}': steady(1)},
    ),
    "OsmClusterObjectMissing": (
        {'osm_cluster_object_present{kind="CustomResourceDefinition",name="x"}': steady(0)},
        {'osm_cluster_object_present{kind="CustomResourceDefinition",name="x"}': steady(1)},
    ),
    "OsmSidecarDown": (
        {'up{job="osm-sidecars",instance="a"}': steady(0)},
        {'up{job="osm-sidecars",instance="a"}': steady(1)},
    ),
    "OsmSidecarDisconnected": (
        {"envoy_control_plane_connected_state": steady(0)},
        {"envoy_control_plane_connected_state": steady(1)},
    ),
    "OsmServerErrors": (
        {f'{REQUEST},response_code="200"}}': rising(90), f'{REQUEST},response_code="503"}}': rising(10)},
        {
            f'{REQUEST},response_code="200"}}': rising(99),
            f'{REQUEST},response_code="503"}}': rising(1),
            f'{REQUEST},response_code="403"}}': rising(50),
        },
    ),
}


class Alerts(unittest.TestCase):
    maxDiff = None

    def promtool(self, *arguments):
        ran = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return ran.stdout

    def in_folder(self, name, content):
        folder = tempfile.TemporaryDirectory(prefix="osm-alerts-")
        self.addCleanup(folder.cleanup)
        (pathlib.Path(folder.name) / ALERTS.name).write_text(ALERTS.read_text())
        file = pathlib.Path(folder.name) / name
        file.write_text(content)
        return file

    def test_each_alert_fires_on_bad_series_and_not_on_good_ones(self):
        rules = [rule["alert"] for group in alert_rules().values() for rule in group]
        self.assertEqual(sorted(rules), sorted(CASES), "an alert without series here, or twice")
        tests = [
            {
                "interval": "1m",
                "name": f"{alert} on {kind} series",
                "input_series": [{"series": series, "values": values} for series, values in made.items()],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})',
                        "eval_time": f"{TIME}m",
                        "exp_samples": [{"labels": "{}", "value": 1}] if kind == "bad" else [],
                    }
                ],
            }
            for alert, cases in CASES.items()
            for kind, made in zip(("bad", "good"), cases)
        ]
        self.promtool(
            "test",
            "rules",
            str(
                self.in_folder(
                    "tests.yaml",
                    yaml.safe_dump({"rule_files": [ALERTS.name], "evaluation_interval": "1m", "tests": tests}),
                )
            ),
        )

    def test_each_alert_has_a_severity_a_summary_and_its_section_in_the_runbook(self):
        page = (ROOT / "docs/alerts.md").read_text()
        sections = re.findall(r"^### (\w+)\n\n(.*?)(?=^##|\Z)", page, re.M | re.S)
        rules = [rule for group in alert_rules().values() for rule in group]
        self.assertEqual(
            [name for name, _ in sections],
            [rule["alert"] for rule in rules],
            "the sections of docs/alerts.md, in the order of the rules",
        )
        for rule, (name, text) in zip(rules, sections):
            with self.subTest(alert=name):
                self.assertIn(rule["labels"]["severity"], ("critical", "warning"))
                self.assertTrue(rule["annotations"]["summary"])
                self.assertEqual(rule["annotations"]["runbook"], f"docs/alerts.md#{name.lower()}")
                self.assertRegex(text, r"`(osm|kubectl|vault|systemctl|curl) [^`]+`", "no command to run")

    def test_dashboards_are_json_whose_queries_prometheus_reads(self):
        dashboards = {file.stem: json.loads(file.read_text()) for file in DASHBOARDS.glob("*.json")}
        self.assertEqual(len(dashboards), 3)
        self.assertEqual(len({each["uid"] for each in dashboards.values()}), 3)
        expressions = [expression for name in dashboards for expression, _ in panels(name).values()]
        queries = [{"record": f"osm:query_{n}", "expr": expression} for n, expression in enumerate(expressions)]
        file = self.in_folder("queries.yaml", yaml.safe_dump({"groups": [{"name": "queries", "rules": queries}]}))
        self.assertIn(f"SUCCESS: {len(queries)} rules found", self.promtool("check", "rules", str(file)))
        for name, dashboard in dashboards.items():
            with self.subTest(dashboard=name):
                places = [tuple(panel["gridPos"][key] for key in "xy") for panel in dashboard["panels"]]
                self.assertEqual(len(places), len(set(places)), "two panels at one place")
                self.assertEqual(len(places), len({panel["id"] for panel in dashboard["panels"]}))

    def test_prometheus_reads_rules_and_configurations(self):
        self.promtool("check", "rules", str(ALERTS))
        for file in ("machines.yaml", "kubernetes.yaml"):
            with self.subTest(file):
                text = (CONFIGURATIONS / file).read_text()
                # Debian's promtool has no discovery of pods.
                self.promtool("check", "config", str(self.in_folder(file, text.replace(KUBERNETES, FILES))))


if __name__ == "__main__":
    check_installed()
    unittest.main(verbosity=2)
