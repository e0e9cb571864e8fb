"""A real Prometheus beside the mesh, with the configuration that operators are given."""
import json
import pathlib
import sys
import urllib.parse

from lib.net.processes import wait_for

ROOT = pathlib.Path(__file__).resolve().parents[3]
CONFIGURATIONS = ROOT / "deploy/prometheus"
PROGRAM = ROOT / "build/tools/prometheus/usr/bin/prometheus"
KUBERNETES = "    kubernetes_sd_configs:\n      - role: pod\n"
FILES = "    file_sd_configs:\n      - files: [targets/*.yaml]\n"


class Prometheus:
    """Scrapes `targets` every half second from the namespace of the controller.

    `configuration`: the name of a file of deploy/prometheus. Debian builds Prometheus without the
    discovery of pods, so their labels come with the targets: {address: {label: value}}.
    """

    def __init__(self, rig, targets, configuration="machines.yaml", port=9090):
        if not PROGRAM.exists():
            sys.exit(f"{PROGRAM} is missing: tools/setup --prometheus unpacks it")
        directory = rig.directory / f"prometheus-{port}"
        (directory / "targets").mkdir(parents=True)
        text = (CONFIGURATIONS / configuration).read_text()
        changed = text.replace("scrape_interval: 15s", "scrape_interval: 500ms\n  scrape_timeout: 500ms")
        changed = changed.replace(KUBERNETES, FILES)
        assert changed != text and FILES in changed, f"{configuration} has another form"
        (directory / "prometheus.yaml").write_text(changed)
        (directory / "targets/mesh.yaml").write_text(json.dumps(
            [{"targets": [address], "labels": labels} for address, labels in targets.items()]))
        self._namespace, self._port = rig.switch.namespace, port
        self._process = rig.start(f"prometheus-{port}", self._namespace.command(
            PROGRAM, f"--config.file={directory}/prometheus.yaml", "--log.level=warn",
            f"--storage.tsdb.path={directory}/data", f"--web.listen-address=127.0.0.1:{port}"))
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
        return [(series["metric"], float(series["value"][1]))
                for series in json.loads(body)["data"]["result"]]

    def value(self, text):
        """The value of a query with one result at most; 0 without one."""
        found = self.query(text)
        assert len(found) <= 1, found
        return found[0][1] if found else 0.0

    def scrapes(self):
        """The number of scrapes so far, of the target that had the fewest."""
        return self.value("min(count_over_time(up[1h]))")
