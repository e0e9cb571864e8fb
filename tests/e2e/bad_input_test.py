#!/usr/bin/python3
"""Each kind of bad input is reported in full and harms nothing else.

Every case names what the log line, /metrics, `osm problems` and `osm policy check` must say: code,
file, line, object and field. A client calls all the while and must never be refused.
"""

import json
import os
import re

from lib.mesh import meshcase, objects
from lib.mesh.rig import REFUSED
from lib.net.processes import wait_for

HOST = "server.server"

TARGET = """apiVersion: access.smi-spec.io/v1alpha3
kind: TrafficTarget
metadata: {name: bad, namespace: server}
spec:
  destination: {kind: ServiceAccount, name: server, namespace: server}
  sources:
  - {kind: ServiceAccount, name: client, namespace: client}
  rules:
  - {kind: HTTPRouteGroup, name: ROUTE, matches: [books]}
"""
ROUTES = """apiVersion: specs.smi-spec.io/v1alpha4
kind: HTTPRouteGroup
metadata: {name: bad, namespace: server}
spec:
  matches:
  - name: books
    pathRegex: 'REGEX'
"""
SERVICE = """apiVersion: v1
kind: Service
metadata: {name: NAME, namespace: server}
spec:
  clusterIP: 10.96.0.99
  selector: {app: server}
  ports:
  - {name: PROTOCOL, port: 14009, targetPort: 14001, appProtocol: PROTOCOL}
"""
SPLIT = """apiVersion: split.smi-spec.io/v1alpha2
kind: TrafficSplit
metadata: {name: bad, namespace: server}
spec:
  service: zzz
  backends:
  - {service: server, weight: 0}
"""
MACHINE = """apiVersion: workload.openservicemesh.io/v1alpha1
kind: VirtualMachine
metadata: {name: bad, namespace: server, labels: {app: server}}
spec:
  address: nowhere
  serviceAccount: server
"""

# name → (text, code, object, a pattern of the field, the line; 0: any)
CASES = {
    "a syntax error": ("kind: [1,\n  - :\n", "invalid-syntax", "", "", 0),
    "a tab in the indentation": ("kind: Service\nmetadata:\n\tname: x\n", "invalid-syntax", "", "", 3),
    "an unknown kind": (
        "apiVersion: v1\nkind: Gadget\nmetadata: {name: g, namespace: server}\n",
        "unknown-kind",
        "Gadget server/g",
        ".*",
        0,
    ),
    "a wrong type": (
        re.sub(r"rules:\n.*\n", "rules: all\n", TARGET),
        "invalid-field",
        "TrafficTarget server/bad",
        r"spec\.rules",
        8,
    ),
    "a dangling reference": (
        TARGET.replace("ROUTE", "nothing"),
        "dangling-reference",
        "TrafficTarget server/bad",
        r"spec\.rules\[0\].*",
        9,
    ),
    "a zero-sum split": (SPLIT, "invalid-weights", "TrafficSplit server/bad", r"spec\.backends.*", 0),
    "a duplicate service": (
        SERVICE.replace("NAME", "server").replace("PROTOCOL", "http"),
        "duplicate-object",
        "Service server/server",
        ".*",
        0,
    ),
    "conflicting protocols on one target port": (
        SERVICE.replace("NAME", "zzz").replace("PROTOCOL", "tcp"),
        "conflicting-protocol",
        "Service server/zzz",
        ".*",
        0,
    ),
    "an invalid regex": (
        ROUTES.replace("REGEX", "/books(?=x)"),
        "invalid-regex",
        "HTTPRouteGroup server/bad",
        r"spec\.matches\[0\]\.pathRegex",
        7,
    ),
    "a huge regex": (
        ROUTES.replace("REGEX", "((a{100}){100}){100}"),
        "invalid-regex",
        "HTTPRouteGroup server/bad",
        r"spec\.matches\[0\]\.pathRegex",
        7,
    ),
    "a target across namespaces": (
        TARGET.replace("ROUTE", "routes").replace("namespace: server}\nspec", "namespace: client}\nspec"),
        "cross-namespace",
        "TrafficTarget client/bad",
        r"spec\.destination.*",
        5,
    ),
    "a machine without an address": (MACHINE, "invalid-field", "VirtualMachine server/bad", r"spec\.address", 5),
}


class BadInput(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client = self.add_machine("client", "10.200.0.11")
        self.server = self.add_machine("server", "10.200.0.12")
        self.rig.mesh.write("service.yaml", objects.service("server", "server", "10.96.0.12", meshcase.PORT))
        self.rig.mesh.write(
            "access.yaml",
            objects.routes("server", "routes", books={}),
            objects.target(
                "server", "access", "server", [("client", "client")], ("HTTPRouteGroup", "routes", ["books"])
            ),
        )
        self.start_mesh()
        self.serve(self.server)
        self.wait_for_status(self.client, 200, HOST)
        self.caller = meshcase.Load(self.client, interval=0.05)
        self.addCleanup(self.caller.stop)

    def problems(self):
        return self.rig.problems()

    def wait_for_problem(self, code, file):
        return wait_for(
            f"a problem {code} of {file}",
            lambda: [p for p in self.problems() if p["code"] == code and p["path"].endswith(file)],
        )[0]

    def assert_told(self, problem):
        """The log has one line and /metrics a sample that name the problem in full."""

        def lines():
            return [
                json.loads(line)
                for line in self.rig.controller.text().splitlines()
                if problem["cause"] in json.loads(line).get("message", "")
            ]

        def samples():
            cause = f"cause={json.dumps(problem['cause'])}"
            metrics = self.rig.controller_http("/metrics")[1].splitlines()
            return [s for s in metrics if s.startswith("osm_problem{") and cause in s and problem["path"] in s]

        # The admin API tells a problem before the log and the metrics do.
        line, *more = wait_for("a line of the log tells it", lines, 10)
        sample, *others = wait_for("a sample tells it", samples, 10)
        self.assertEqual(([], []), (more, others))
        said = json.dumps(line)
        for part in (problem["code"], problem["path"], str(problem["line"]), problem["object"], problem["field"]):
            self.assertIn(part, said)
            self.assertIn(part, sample)

    def test_a_bad_file_is_reported_in_full_and_harms_nothing_else(self):
        self.assertEqual(self.problems(), [])
        for name, (text, code, obj, field, line) in CASES.items():
            with self.subTest(name):
                self.rig.mesh.write_text("zzz-bad.yaml", text)
                problem = self.wait_for_problem(code, "zzz-bad.yaml")
                self.assertEqual(problem["object"], obj)
                self.assertRegex(problem["field"], f"^{field}$")
                self.assertTrue(problem["cause"])
                if line:
                    self.assertEqual(problem["line"], line)
                else:
                    self.assertGreater(problem["line"], 0)
                self.assert_told(problem)
                self.caller.check(self)
                self.rig.mesh.remove("zzz-bad.yaml")
                wait_for("no problem is left", lambda: not self.problems())
                metrics = self.rig.controller_http("/metrics")[1]
                self.assertNotIn("zzz-bad.yaml", metrics)
        with self.subTest("policy check tells of what may matter"):
            self.rig.mesh.write_text("zzz-bad.yaml", TARGET.replace("ROUTE", "nothing"))
            self.wait_for_problem("dangling-reference", "zzz-bad.yaml")
            told = self.rig.osm("policy", "check", "client/client", "server/server", check=False)
            self.assertRegex(told, r"zzz-bad\.yaml:9: TrafficTarget server/bad: spec\.rules\[0\]")
            self.rig.mesh.remove("zzz-bad.yaml")
        with self.subTest("a group with a bad expression serves its other routes"):
            self.rig.mesh.write(
                "access.yaml",
                objects.routes(
                    "server", "routes", broken={"pathRegex": "/books(?=x)"}, books={"pathRegex": "/books-bought"}
                ),
                objects.target(
                    "server",
                    "access",
                    "server",
                    [("client", "client")],
                    ("HTTPRouteGroup", "routes", ["broken", "books"]),
                ),
            )
            problem = self.wait_for_problem("invalid-regex", "access.yaml")
            self.assertTrue(problem["cause"].endswith("; only this match is left out of a stored object"), problem)
            # Until now every path was allowed.
            self.wait_for_status(self.client, 404, HOST, "/other")
        self.caller.check(self)

    def test_sources_that_vanish_or_break_keep_their_last_good_content(self):
        good = (self.rig.mesh.path / "access.yaml").read_text()
        with self.subTest("a half-written file"):
            self.rig.mesh.write_text("access.yaml", good[: len(good) // 2])
            self.wait_for_problem("invalid-syntax", "access.yaml")
            self.caller.check(self)
        with self.subTest("a restart then is not ready, says why, and the mesh goes on"):
            self.rig.stop_controller()
            self.rig.start_controller(wait=False)

            def says_why():
                status, body = self.rig.controller_http("/health/ready")
                self.assertEqual(status, 503)
                return "access.yaml" in body  # at first it waits for its start

            wait_for("the controller says why it is not ready", says_why)
            self.caller.check(self)
            self.rig.mesh.write_text("access.yaml", good)
            self.rig.wait_until_ready()
            self.wait_until_synced()
            self.caller.check(self)
        with self.subTest("the whole directory vanishes and returns"):
            away = self.rig.directory / "away"
            os.rename(self.rig.mesh.path, away)
            self.wait_for_problem("unreadable-source", self.rig.mesh.path.name)
            self.caller.check(self)
            os.rename(away, self.rig.mesh.path)
            wait_for("no problem is left", lambda: not self.problems(), 15)
            self.caller.check(self)
        with self.subTest("and edits are taken up again"):
            self.caller.stop()
            self.rig.mesh.remove("access.yaml")
            self.wait_for_status(self.client, REFUSED, HOST)
        self.assertEqual(self.caller.failures, [])


class BadElements(meshcase.MeshCase):
    def test_a_bad_element_is_left_out_and_the_others_of_its_object_count(self):
        client, server = self.add_client_and_server()
        target = objects.target(
            "server",
            "access",
            "server",
            [("client", "client"), ("client", "dotted.account"), ("client", "nowhere")],
            ("HTTPRouteGroup", "routes", ["books", "bad", "twice"]),
        )
        del target["spec"]["sources"][2]["namespace"]
        routes = objects.routes(
            "server",
            "routes",
            books={"pathRegex": "/books-bought"},
            bad={"pathRegex": "/buy-a-book/(new"},
            twice={"pathRegex": "/buy-a-book/new", "headers": [{"x-a": "1"}, {"x-a": "2"}]},
        )
        self.rig.mesh.write(
            "server.yaml", target, routes, objects.service("server", "server", "10.96.0.12", meshcase.PORT)
        )
        self.start_mesh()
        self.serve(server)
        self.wait_for_status(client, 200, HOST)
        self.assertEqual(404, client.get(HOST, meshcase.PORT, "/buy-a-book/new")[0])
        told = {(p["object"].split()[0], p["field"]) for p in self.rig.problems() if p["severity"] == "error"}
        self.assertEqual(
            told,
            {
                ("TrafficTarget", "spec.sources[1].name"),
                ("TrafficTarget", "spec.sources[2].namespace"),
                ("HTTPRouteGroup", "spec.matches[1].pathRegex"),
                ("HTTPRouteGroup", "spec.matches[2].headers[1].x-a"),
            },
        )


if __name__ == "__main__":
    meshcase.main()
