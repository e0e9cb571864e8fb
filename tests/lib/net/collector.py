"""A real OpenTelemetry collector: it receives OTLP over gRPC and Zipkin over HTTP, and writes what
it receives to a file, which this reads."""

import json
import os
import pathlib
import sys

from lib.net.processes import wait_for

OTLP_PORT, ZIPKIN_PORT = 4317, 9411
PROGRAM = pathlib.Path(
    os.environ.get("OSM_COLLECTOR", pathlib.Path(__file__).resolve().parents[3] / "build/tools/collector/bin/collector")
)
_CONFIG = """
receivers:
  otlp: {{protocols: {{grpc: {{endpoint: "{address}:4317"}}}}}}
  zipkin: {{endpoint: "{address}:9411"}}
exporters:
  file: {{path: "{file}", flush_interval: 100ms}}
service:
  pipelines:
    logs: {{receivers: [otlp], exporters: [file]}}
    traces: {{receivers: [otlp, zipkin], exporters: [file]}}
"""
_KINDS = {2: "SERVER", 3: "CLIENT"}


class Collector:
    """One collector in the namespace of `rig`'s switch, which all machines reach."""

    def __init__(self, rig, address):
        if not PROGRAM.exists():
            sys.exit(f"{PROGRAM} is missing: tools/setup --collector builds it")
        self.file = rig.directory / "collector.json"
        config = rig.directory / "collector.yaml"
        config.write_text(_CONFIG.format(address=address, file=self.file))
        self.process = rig.start("collector", rig.switch.namespace.command(PROGRAM, "--config", config))
        for port in (OTLP_PORT, ZIPKIN_PORT):
            wait_for(
                f"the collector listens on {port}", lambda p=port: self._listens(rig.switch.namespace, address, p), 30
            )

    def _listens(self, namespace, address, port):
        if not self.process.running():
            raise AssertionError(f"the collector ended: {self.process.tail()}")
        try:
            namespace.connect(address, port).close()
            return True
        except OSError:
            return False

    def logs(self):
        """[(service.name, body, attributes)] of each record; a body is a text or a dict."""
        return [
            (service, _value(record["body"]), _members(record.get("attributes", [])))
            for service, scope in self._scopes("resourceLogs", "scopeLogs")
            for record in scope["logRecords"]
        ]

    def spans(self):
        """[{service, kind, trace, id, parent}] of each span."""
        return [
            {
                "service": service,
                "kind": _KINDS.get(span.get("kind")),
                "trace": span["traceId"],
                "id": span["spanId"],
                "parent": span.get("parentSpanId", ""),
            }
            for service, scope in self._scopes("resourceSpans", "scopeSpans")
            for span in scope["spans"]
        ]

    def _scopes(self, resources, scopes):
        """(service.name, scope) of each."""
        text = self.file.read_text() if self.file.exists() else ""
        for line in text.splitlines(keepends=True):
            if not line.endswith("\n"):
                continue  # it is being written
            for resource in json.loads(line).get(resources, []):
                names = _members(resource.get("resource", {}).get("attributes", []))
                for scope in resource[scopes]:
                    yield names.get("service.name"), scope


def _value(value):
    if "kvlistValue" in value:
        return _members(value["kvlistValue"]["values"])
    return value.get("stringValue", "")


def _members(pairs):
    return {pair["key"]: _value(pair["value"]) for pair in pairs}
