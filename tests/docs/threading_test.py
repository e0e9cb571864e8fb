#!/usr/bin/python3
"""docs/threading.md has every interface, the contracts of the public headers, and the daemons' lanes."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "docs/reference"))
import threading_tables  # noqa: E402


class Threads(unittest.TestCase):
    def test_every_interface_stands_on_the_page_about_threads(self):
        page = (ROOT / "docs/threading.md").read_text()
        interfaces = set()
        for header in (ROOT / "include/osm").rglob("*.hpp"):
            for kind, body in re.findall(r"^class (?:OSM_API )?(\w+)[^;{]*{$(.*?)^};", header.read_text(), re.M | re.S):
                if re.search(r"\)\s(const )?= 0;", body):
                    interfaces.add(kind)
        self.assertGreater(len(interfaces), 15)
        for interface in sorted(interfaces):
            with self.subTest(interface=interface):
                self.assertTrue(re.search(rf"`(\w+::)?{interface}`", page), "not on docs/threading.md")

    def test_the_tables_about_threads_are_the_contracts_of_the_headers(self):
        self.assertEqual(
            (ROOT / "docs/threading.md").read_text().split("\n"),
            threading_tables.page().split("\n"),
            "tools/docs --threading writes them",
        )
        # Both the words of one function and those of a whole type reach the page.
        contracts = threading_tables.all_contracts()
        rows = {
            (scope, name): cells
            for (scope, _), of in contracts.items()
            for cells, names in of.items()
            for name in names
        }
        self.assertGreater(len(rows), 200)
        self.assertEqual(
            rows["certificate::Manager", "`certify_request`"], ("any but an event loop's", "until the CA answers")
        )
        self.assertEqual(
            rows["MeshSpec", "`subscribe`"], ("callback: the store's, one call at a time", "the callback must not")
        )
        self.assertEqual(rows["MeshSpec", "all"], ("any", "no"))
        self.assertEqual(rows["ControlPlaneOptions", "`admits`"], ("of the executor", "it must not"))

    def test_the_lanes_of_the_daemons_are_those_on_the_page_about_threads(self):
        page = (ROOT / "docs/threading.md").read_text()
        table = page.partition("## Lanes of the daemons")[2].partition("\n## ")[0]
        table = "\n".join(line for line in table.splitlines() if line.startswith("|"))
        told = {
            name: (bound, bool(slanted))
            for slanted, name, bound in re.findall(r"(\*?)\b([A-Za-z][A-Za-z, ]*?)\*? (\d+)", table)
        }
        found = {"certificates and credentials": ("4", True)}  # `blocking`
        for file in (path for folder in ("daemons", "libosm/host") for path in (ROOT / folder).rglob("*.[ch]pp")):
            text = file.read_text()
            for name, bound, more in re.findall(r'\{\.name = "([^"]+)"(?:, \.bound = (\w+))?([^{}]*)\}', text):
                if bound.startswith("k"):
                    bound = re.search(rf"\b{bound} = (\d+)", text)[1]
                found[name] = bound or "1", ".watched = true" in more
        self.assertGreater(len(found), 15)
        self.assertEqual(found, told)


if __name__ == "__main__":
    unittest.main()
