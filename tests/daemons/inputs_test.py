#!/usr/bin/python3
"""Files as people and other programs write them are in force: long names, Lists, several JSON objects,
escapes. A fault is told with its object and its code, once, by the controller and by each command.

usage: inputs_test.py --bin DIRECTORY
"""

import json
import pathlib

from lib.mesh import inputs, objects
from lib.mesh.daemon import ShopTest, run
from lib.net.processes import wait_for

BASE = pathlib.Path(__file__).parent.parent / "data/migrate/base.yaml"
OURS = "workload.openservicemesh.io/"  # OSM v1.2 had no such kinds, and a dump of it has none
MESSAGE = "metadata.namespace: required: the mesh has no default namespace"


class Inputs(ShopTest):
    def file(self, name, text):
        """A file outside of the mesh."""
        path = self.folder / name
        path.write_text(text)
        return path

    def deciding(self, path):
        """(verdict, the object that decides) of a request of shop/web to shop/api."""
        _, out, err = self.osm("policy", "explain", "shop/web", "shop/api", "--path", path, "-o", "json")
        self.assertEqual(err, "")
        told = json.loads(out)
        return told["verdict"], told["ways"][0]["steps"][-1]["object"]

    def test_each_file_is_in_force_in_a_directory(self):
        for what, one in inputs.accepted().items():
            with self.subTest(what):
                self.assertEqual(self.deciding(one.path)[0], "denied")
                self.write_text(one.name, one.text)
                wait_for("the request is allowed", lambda: self.deciding(one.path) == ("allowed", one.target))
                kind, name = one.target.split(" ")
                told = json.loads(self.osm("status", kind, name, "-o", "json")[1])
                self.assertEqual((told["phase"], told["problems"]), ("Applied", []))
                self.assertEqual(self.osm("problems")[:2], (0, "No problems.\n"))
        shown = json.loads(self.osm("get", "httproutegroup", "shop/escapes", "-o", "json")[1])
        self.assertEqual(shown["metadata"]["annotations"], {"note": inputs.CHARACTER})

    def test_each_file_is_read_as_a_dump_of_osm_v1(self):
        for what, one in inputs.accepted().items():
            with self.subTest(what):
                files = BASE, self.file(one.name, one.text)
                code, out, err = self.osm("migrate", "check", *files, "-o", "json", state=False)
                self.assertEqual((code, err), (0, ""))
                told = json.loads(out)
                self.assertEqual((told["objects"]["same"], told["differences"]), (8 + 2, []))

    def test_a_name_that_is_too_long_is_told(self):
        self.write("long.yaml", objects.routes("shop", "n" * 254), wait=False)
        wait_for("it is told", lambda: "metadata.name: longer than 253 bytes" in self.osm("problems")[1])

    def test_an_object_without_a_namespace_is_told_whatever_its_kind_is(self):
        kinds = inputs.namespaced_kinds()
        self.assertGreater(len(kinds), 15)
        lost = [inputs.without_namespace(*one) for one in kinds]
        self.write("lost.yaml", *lost, wait=False)
        wait_for("the problems", lambda: self.osm("problems")[1].count(MESSAGE) == len(kinds))
        told = json.loads(self.osm("problems", "-o", "json")[1])["problems"]
        self.assertEqual(
            {(p["object"], p["field"], p["code"], p["severity"]) for p in told},
            {(f"{kind} lost", "metadata.namespace", "invalid-field", "error") for _, kind in kinds},
        )
        for made in lost:
            kind, file = made["kind"], self.file("lost.json", json.dumps(made))
            commands = [(1, "apply", "-f"), (1, "delete", "-f")]
            if not made["apiVersion"].startswith(OURS):
                commands.append((2, "migrate", "check"))
            for code, *command in commands:
                with self.subTest(kind=kind, command=command):
                    ended, out, err = self.osm(*command, file, state=False if command[0] == "migrate" else None)
                    self.assertEqual((ended, out), (code, ""))
                    self.assertTrue(err.startswith(f"osm: {file}:1: {kind} lost: {MESSAGE}"), err)
                    self.assertEqual(err.count("[invalid-field]"), 1, err)

    def test_a_code_is_printed_once(self):
        bad = self.file("bad.yaml", "a: b: c\n")
        text = f"{bad}:1: not YAML: illegal map value [invalid-syntax]"
        self.assertEqual(self.osm("apply", "-f", bad), (1, "", f"osm: {text}\n"))
        self.assertEqual(self.osm("migrate", "check", bad, state=False), (2, "", f"osm: {text}\n"))
        self.write_text("bad.yaml", bad.read_text())
        wait_for("the controller has read it", lambda: self.osm("problems")[0] == 1)
        inside = text.replace(str(bad), str(self.mesh / "bad.yaml"))
        self.assertEqual(self.osm("problems"), (1, f"error: {inside}\n", ""))
        code, out, _ = self.osm("check")
        self.assertEqual((code, out.count("invalid-syntax")), (1, 1), out)
        [line] = self.controller.log("bad.yaml")
        self.assertEqual((line["code"], line["message"]), ("invalid-syntax", inside))


if __name__ == "__main__":
    run()
