"""A real Prometheus with a configuration, the alert rules and the dashboards of deploy/; the metrics that a
PromQL expression names.
"""

import json
import pathlib
import re
import sys
import urllib.parse

import yaml

from lib.net.processes import wait_for

ROOT = pathlib.Path(__file__).resolve().parents[3]
CONFIGURATIONS = ROOT / "deploy/prometheus"
ALERTS = CONFIGURATIONS / "alerts.yaml"
DASHBOARDS = ROOT / "deploy/grafana"
PROGRAM = ROOT / "build/tools/prometheus/usr/bin/prometheus"
PROMTOOL = PROGRAM.with_name("promtool")
KUBERNETES = "    kubernetes_sd_configs:\n      - role: pod\n"
FILES = "    file_sd_configs:\n      - files: [targets/*.yaml]\n"
GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right) *\(([^)]*)\)")
SELECTOR = re.compile(r"\b([a-zA-Z_:][\w:]*)\b *(?:\{([^}]*)\})?(?! *\()")
OPERATORS = {"and", "or", "unless", "bool", "offset"}


def check_installed():
    if not PROGRAM.exists() or not PROMTOOL.exists():
        sys.exit(f"{PROGRAM} is missing: tools/setup --prometheus unpacks it")


def alert_rules():
    """{group: [rule]} of alerts.yaml."""
    return {group["name"]: group["rules"] for group in yaml.safe_load(ALERTS.read_text())["groups"]}


def panels(dashboard):
    """{"title, letter": (expression, labels of its legend)} of a dashboard, over the last 10 s
    where Grafana chooses."""
    return {
        f"{panel['title']}, {target['refId']}": (
            target["expr"].replace("$__rate_interval", "10s"),
            set(re.findall(r"{{(\w+)}}", target["legendFormat"])),
        )
        for panel in json.loads((DASHBOARDS / f"{dashboard}.json").read_text())["panels"]
        for target in panel["targets"]
    }


def selectors(expression):
    """[(metric, names of the labels that it is selected or grouped by)] of a PromQL expression.
    `label=""` selects metrics without the label, so it is left out."""
    expression = re.sub(r'\w+ *= *"" *,?', "", expression)
    grouped = set(re.findall(r"\w+", " ".join(GROUPING.findall(expression))))
    text = re.sub(r'"[^"]*"', '""', GROUPING.sub("", expression))
    text = re.sub(r"\[[^\]]*\]", "", text)
    return [
        (metric, grouped | set(re.findall(r"(\w+) *(?:=~|!~|!=|=)", labels)))
        for metric, labels in SELECTOR.findall(text)
        if metric not in OPERATORS
    ]


class Prometheus:
    """Scrapes `targets` and `controllers` every half second from the namespace of the controller.

    `configuration`: the name of a file of deploy/prometheus. Debian builds Prometheus without the
    discovery of pods, so their labels come with the targets: {address: {label: value}}. Alerts fire
    when their condition has held for a second, and not for minutes.
    """

    def __init__(self, rig, targets, configuration="machines.yaml", port=9090, controllers=(), namespace=None):
        check_installed()
        directory = rig.directory / f"prometheus-{port}"
        for folder in ("targets", "controllers"):
            (directory / folder).mkdir(parents=True)
        text = (CONFIGURATIONS / configuration).read_text()
        changed = text.replace(
            "scrape_interval: 15s", "scrape_interval: 500ms\n  scrape_timeout: 500ms\n  evaluation_interval: 500ms"
        )
        changed = changed.replace(KUBERNETES, FILES)
        assert changed != text and FILES in changed, f"{configuration} has another form"
        (directory / "prometheus.yaml").write_text(changed)
        (directory / ALERTS.name).write_text(re.sub(r"\bfor: \w+", "for: 1s", ALERTS.read_text()))
        (directory / "targets/mesh.yaml").write_text(
            json.dumps([{"targets": [address], "labels": labels} for address, labels in targets.items()])
        )
        (directory / "controllers/mesh.yaml").write_text(json.dumps([{"targets": list(controllers)}]))
        self._namespace, self._port = namespace or rig.switch.namespace, port
        self._process = rig.start(
            f"prometheus-{port}",
            self._namespace.command(
                PROGRAM,
                f"--config.file={directory}/prometheus.yaml",
                "--log.level=warn",
                f"--storage.tsdb.path={directory}/data",
                f"--web.listen-address=127.0.0.1:{port}",
            ),
        )
        wait_for("Prometheus is ready", self._ready, 30)

    def _ready(self):
        assert self._process.running(), self._process.tail()
        return self._get("/-/ready")[0] == 200

    def _get(self, path):
        return self._namespace.http("127.0.0.1", self._port, "GET", path)

    def query(self, text):
        """[(labels, value)] of an instant query."""
        status, body = self._get("/api/v1/query?" + urllib.parse.urlencode({"query": text}))
        assert status == 200, body
        return [(series["metric"], float(series["value"][1])) for series in json.loads(body)["data"]["result"]]

    def value(self, text):
        """The value of a query with one result at most; 0 without one."""
        found = self.query(text)
        assert len(found) <= 1, found
        return found[0][1] if found else 0.0

    def scrapes(self):
        """The number of scrapes so far, of the target that had the fewest."""
        return self.value("min(count_over_time(up[1h]))")

    def firing(self):
        """Names of the alerts that fire now."""
        return {labels["alertname"] for labels, _ in self.query('ALERTS{alertstate="firing"}')}

    def unknown(self, expressions):
        """Metrics of these expressions that no scrape has, or not with a label that selects them."""
        missing = set()
        for expression in expressions:
            found = selectors(expression)
            assert found, f"{expression} names no metric"
            for metric, labels in found:
                missing |= {
                    f"{metric}{{{label}}}"
                    for label in [*labels, ""]
                    if not self.query(f'{metric}{{{label}!=""}}' if label else metric)
                }
        return missing

    def empty(self, dashboard):
        """Panels of a dashboard that show nothing now, or nothing with the labels of its legend."""
        return {
            title
            for title, (expression, legend) in panels(dashboard).items()
            if not any(legend <= set(labels) for labels, _ in self.query(expression))
        }
