#!/usr/bin/python3
"""The most specific Telemetry decides on real access logs as objects and labels change, and no request
fails; a real collector gets the records of the workloads that name it and of no others; spans of two hops
are parent and child by Zipkin and by OpenTelemetry.
"""

import itertools
import pathlib
import sys

from lib.kube import apps
from lib.mesh import meshcase, objects
from lib.net.collector import OTLP_PORT, ZIPKIN_PORT, Collector
from lib.net.netns import Switch
from lib.net.processes import NotYet, wait_for

APP = pathlib.Path(apps.__path__[0]) / "http_app.py"
RELAY = pathlib.Path(meshcase.__file__).with_name("relay_app.py")
HOST, PORT, SYSTEM = "server.server", meshcase.PORT, "osm-system"
PATH = "%REQ(:PATH)%"
FREQUENT_FLUSHES = ("--file-flush-interval-msec", "50")  # of access logs; 10 s else


class Telemetry(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client = self.add_machine("client", "10.200.0.11")
        self.server = self.add_machine("server", "10.200.0.12", labels={"app": "server", "log": "special"})
        self.numbers = itertools.count()

    def start(self, permissive=True):
        self.rig.mesh.write("config.yaml", objects.mesh_config(permissive))
        self.rig.mesh.write(
            "access.yaml",
            objects.routes("server", "all", all={}),
            objects.target("server", "all", "server", [("client", "client")], ("HTTPRouteGroup", "all", ["all"])),
        )
        self.rig.mesh.write("service.yaml", objects.service("server", "server", "10.96.0.12", PORT))
        self.start_mesh(FREQUENT_FLUSHES)
        self.server.run("app", sys.executable, str(APP), "--port", str(PORT))
        self.wait_for_status(self.client, 200, HOST)

    def ask(self):
        """The path of a new request, which both sides log. Nobody asks for it again."""
        path = f"/books-bought?{next(self.numbers)}."
        self.assertEqual(self.client.get(HOST, PORT, path)[0], 200)
        return path

    def wait_for_line(self, machine, wanted):
        """Until the whole line of a request there is wanted(its path)."""
        self.wait_for_lines(machine, wanted("PATH"), lambda path, lines: wanted(path) in lines)

    def wait_for_default(self, machine):
        self.wait_for_lines(
            machine,
            "JSON by default",
            lambda path, lines: any(f'"path":"{path}"' in line and '"peer_identity":' in line for line in lines),
        )

    def wait_for_lines(self, machine, what, are_there):
        asked = []

        def logged():
            asked.append(self.ask())
            lines = machine.proxy.text().splitlines()
            if not any(are_there(path, lines) for path in asked):
                raise NotYet(lines[-3:])
            return True

        wait_for(f"{machine.name} logs {what}", logged, 30)

    def problems(self, kind_and_name):
        return [(p["code"], p["field"]) for p in self.rig.problems() if p["object"] == kind_and_name]

    # -- precedence and formats -------------------------------------------------------------------
    def test_the_most_specific_telemetry_decides_as_objects_come_and_go(self):
        self.rig.watcher.expect_rejections = True
        self.start(permissive=False)
        self.wait_for_default(self.server)

        def of_mesh(path):
            return f"mesh {path}"

        def of_namespace(path):
            return f'{{"of":"namespace","path":"{path}"}}'

        def special(path):
            return f"special {path} spiffe://cluster.local/ns/client/sa/client"

        with meshcase.Load(self.client) as load:
            self.rig.mesh.write("mesh-wide.yaml", objects.telemetry(SYSTEM, "all", format=f"mesh {PATH}"))
            self.wait_for_line(self.server, of_mesh)
            self.wait_for_line(self.client, of_mesh)
            with self.subTest("JSON of the namespace, for its workloads only"):
                self.rig.mesh.write(
                    "namespace.yaml",
                    objects.telemetry("server", "all", format=f'{{"path": "{PATH}", "of": "namespace"}}'),
                )
                self.wait_for_line(self.server, of_namespace)
                self.wait_for_line(self.client, of_mesh)
            with self.subTest("a selector"):
                self.rig.mesh.write(
                    "selector.yaml",
                    objects.telemetry(
                        "server", "special", {"log": "special"}, format=f"special {PATH} %DOWNSTREAM_PEER_URI_SAN%"
                    ),
                )
                self.wait_for_line(self.server, special)
            with self.subTest("of two that select a workload the first by name counts"):
                self.rig.mesh.write(
                    "twin.yaml", objects.telemetry("server", "twin", {"app": "server"}, format=f"twin {PATH}")
                )
                wait_for(
                    "the other one is reported",
                    lambda: self.problems("Telemetry server/twin") == [("duplicate-object", "spec.selector")],
                )
                self.wait_for_line(self.server, special)
                self.rig.mesh.remove("twin.yaml")
            with self.subTest("one that proxies refuse is left out alone"):
                self.rig.mesh.write(
                    "selector.yaml",
                    objects.telemetry("server", "special", {"log": "special"}, format="%COMMON_DURATION(nope)%"),
                    wait=False,
                )
                wait_for(
                    "it is named", lambda: ("refused-by-proxy", "") in self.problems("Telemetry server/special"), 30
                )
                self.wait_for_line(self.server, of_namespace)
            self.rig.mesh.write(
                "selector.yaml",
                objects.telemetry(
                    "server", "special", {"log": "special"}, format=f"special {PATH} %DOWNSTREAM_PEER_URI_SAN%"
                ),
            )
            self.wait_for_line(self.server, special)
            with self.subTest("labels that change"):
                self.relabel({"app": "server"})
                self.wait_for_line(self.server, of_namespace)
            self.rig.mesh.remove("namespace.yaml")
            self.wait_for_line(self.server, of_mesh)
            self.rig.mesh.remove("mesh-wide.yaml")
            self.wait_for_default(self.server)
            self.wait_for_default(self.client)
            with self.subTest("labels that no selector sees send nothing"):
                self.wait_until_synced()
                before = {n: m.updates() for n, m in self.rig.machines.items()}
                self.relabel({"app": "server", "release": "7"})
                self.assertEqual({n: m.updates() for n, m in self.rig.machines.items()}, before)
            load.check(self, more=10)

    def relabel(self, labels):
        self.rig.mesh.write(
            "machine-server.yaml",
            objects.namespace("server"),
            objects.account("server", "server"),
            objects.machine("server", "server", self.server.address, "server", labels),
        )

    # -- a collector ------------------------------------------------------------------------------
    def wait_for_record(self, collector, wanted):
        """Until a request's record there is wanted(its path). Proxies send records every second."""
        asked = []

        def arrived():
            asked.append(self.ask())
            records = collector.logs()
            if not any(wanted(path) in records for path in asked):
                raise NotYet(records[-3:])
            return True

        wait_for("the collector has a request's record", arrived, 30, 0.1)

    def test_a_collector_gets_the_records_of_workloads_that_name_it_and_of_no_others(self):
        collector = Collector(self.rig, Switch.ADDRESS)
        self.start()
        self.rig.mesh.write(
            "collector.yaml",
            objects.extension_service(
                "server", "collector", Switch.ADDRESS, OTLP_PORT, protocol="grpc", connectTimeout="2s"
            ),
        )
        export = {
            "extensionService": {"namespace": "server", "name": "collector"},
            "attributes": {"team": "books", "code": "%RESPONSE_CODE%"},
        }

        def write(ns, **access_log):
            self.rig.mesh.write("export.yaml", objects.telemetry(ns, "export", openTelemetry=export, **access_log))

        attributes = {"team": "books", "code": "200"}
        with meshcase.Load(self.client) as load:
            with self.subTest("a foreign namespace's collector gets nothing, and that is said"):
                write("client", format=f"client {PATH}")
                self.wait_for_line(self.client, lambda p: f"client {p}")
                field = "spec.accessLog.openTelemetry.extensionService.namespace"
                self.assertEqual(self.problems("Telemetry client/export"), [("cross-namespace", field)])
            with self.subTest("text"):
                write("server", format=f"text {PATH}")
                self.wait_for_record(collector, lambda p: ("server.server", f"text {p}", attributes))
                self.wait_for_line(self.server, lambda p: f"text {p}")
            with self.subTest("JSON"):
                write("server", format=f'{{"path": "{PATH}", "by": {{"whom": "me"}}}}')
                self.wait_for_record(
                    collector, lambda p: ("server.server", {"path": p, "by": {"whom": "me"}}, attributes)
                )
            with self.subTest("the default"):
                write("server")
                self.wait_for_default(self.server)
                wait_for(
                    "its keys arrive",
                    lambda: any("peer_identity" in body for _, body, _ in collector.logs() if isinstance(body, dict)),
                    30,
                )
            with self.subTest("a collector that moves costs no listener"):
                self.wait_until_synced()
                before = self.server.updates()["LDS"]
                self.rig.mesh.write(
                    "collector.yaml", objects.extension_service("server", "collector", "127.0.0.1", OTLP_PORT)
                )
                wait_for(
                    "its cluster changed",
                    lambda: "extension-service|server/collector::127.0.0.1" in self.server.admin("/clusters")[1],
                )
                self.assertEqual(self.server.updates()["LDS"], before)
            load.check(self, more=10)
        self.assertEqual({service for service, _, _ in collector.logs()}, {"server.server"})

    # -- spans ------------------------------------------------------------------------------------
    def wait_for_trace(self, collector):
        """Until the spans of one request over two hops form a chain."""
        hops = [
            ("client.client", "CLIENT"),
            ("middle.middle", "SERVER"),
            ("middle.middle", "CLIENT"),
            ("server.server", "SERVER"),
        ]

        def follows(child, parent):
            """Zipkin's two ends of a call may share one span."""
            shared = (parent["kind"], child["kind"]) == ("CLIENT", "SERVER") and child["id"] == parent["id"]
            return child["trace"] == parent["trace"] and (shared or child["parent"] == parent["id"])

        def chained():
            self.client.get("middle.middle", PORT, "/books-bought")
            spans = collector.spans()
            chains = [[span] for span in spans if (span["service"], span["kind"]) == hops[0]]
            for service, kind in hops[1:]:
                chains = [
                    [*chain, span]
                    for chain in chains
                    for span in spans
                    if (span["service"], span["kind"]) == (service, kind) and follows(span, chain[-1])
                ]
            if not chains:
                raise NotYet(spans[-4:])
            return True

        wait_for("the spans of one request form a chain", chained, 40, 0.2)

    def test_spans_of_two_hops_are_parent_and_child_by_both_protocols(self):
        collector = Collector(self.rig, Switch.ADDRESS)
        middle = self.add_machine("middle", "10.200.0.13")
        self.rig.mesh.write("middle.yaml", objects.service("middle", "middle", "10.96.0.13", PORT))
        self.start()
        middle.run("relay", sys.executable, str(RELAY), str(PORT), f"{HOST}:{PORT}")
        self.wait_for_status(self.client, 200, "middle.middle")
        with meshcase.Load(self.client) as load:
            for protocol, port in (("Zipkin", ZIPKIN_PORT), ("OpenTelemetry", OTLP_PORT)):
                with self.subTest(protocol):
                    known = len(collector.spans())
                    self.rig.mesh.write(
                        "config.yaml",
                        objects.mesh_config(
                            permissive=True,
                            observability={
                                "tracing": {
                                    "enable": True,
                                    "protocol": protocol,
                                    "address": Switch.ADDRESS,
                                    "port": port,
                                }
                            },
                        ),
                    )
                    self.wait_until_synced()
                    self.wait_for_trace(Since(collector, known))
            load.check(self, more=10)


class Since:
    """A collector's spans after the first `known` ones."""

    def __init__(self, collector, known):
        self.collector, self.known = collector, known

    def spans(self):
        return self.collector.spans()[self.known :]


if __name__ == "__main__":
    meshcase.main()
