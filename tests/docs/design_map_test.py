#!/usr/bin/python3
"""docs/design-map.md has each section, method and type of the OSM design once, and its rows name what exists.

usage: design_map_test.py [UNITTEST ARGUMENT...]
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/design-map.md"

# Headings of the last versions of both documents, but those of mere groups. They do not change any more.
SECTIONS = [
    "Overview",
    "Use Case",
    "OSM Components & Interactions",
    "Containers",
    "High-level software architecture",
    "(1) Proxy Control Plane",
    "(2) Certificate Manager",
    "(3) Endpoints Providers",
    "(4) Mesh specification",
    "(5) Mesh catalog",
    "Detailed component description",
    "(C) Service",
    "(A) Proxy",
    "(F,G,H) Endpoint",
    "(D) Service TLS certificate",
    "(B) Proxy TLS certificate",
    "(E) Policy",
    "Certificate lifetime",
    "Proxy Certificate, Proxy, and Endpoint relationship",
    "Envoy proxy ID and service membership",
    "Pod lifecycle",
    "Signaling",
    "Interfaces",
    "Proxy Control Plane",
    "Aggregated Discovery Service",
    "Mesh Catalog Interface",
    "Endpoints Providers Interface",
    "Mesh Specification",
    "Certificate Manager",
    "Appendix",
    "Fundamental Types",
    "Statelessness",
    "Restartability",
    "Horizontal scaling",
    "Horizontal Pod Autoscaling - HPA",
    "Pod Disruption Budget - PDB",
]

# Names in the Go code of the design, by heading of the page. Those behind "earlier" left the design in 2022.
METHODS = {
    "AggregatedDiscoveryServiceServer": ["StreamAggregatedResources", "DeltaAggregatedResources"],
    "MeshCataloger": [
        "GetSMISpec",
        "ListInboundServiceIdentities",
        "ListOutboundServiceIdentities",
        "ListServiceIdentitiesForService",
        "ListSMIPolicies",
        "ListEndpointsForService",
        "ExpectProxy",
        "ListServicesForProxy",
        "GetServicesForServiceIdentity",
        "GetIngressPoliciesForService",
        # earlier
        "RegisterProxy",
        "UnregisterProxy",
    ],
    "EndpointsProvider": ["ListEndpointsForService"],
    "MeshSpec": [
        "ListTrafficSplits",
        "ListServiceAccounts",
        "GetService",
        "ListServices",
        "ListServiceAccounts",  # of SMI's objects above, and of Kubernetes here
        "ListHTTPTrafficSpecs",
        "ListTrafficTargets",
    ],
    "Manager": [
        "IssueCertificate",
        "RotateCertificate",
        "ListCertificates",
        "ReleaseCertificate",
        "GetAnnouncementsChannel",
        # earlier
        "GetCertificate",
        "GetRootCertificate",
    ],
}
TYPES = [
    "Certificate",
    "ClusterName",
    "CommonName",
    "Endpoint",
    "InboundTrafficPolicy",
    "K8sServiceAccount",
    "MeshService",
    "NamespacedServiceAccount",
    "Port",
    "Proxy",
    "ProxyCertificate",
    "RoutePolicy",
    "ServiceAccount",
    "ServiceCertificate",
    "ServiceName",
    "ServiceProvider",
    "TrafficPolicy",
    "TrafficResource",
    "WeightedCluster",
]
WITH_HEADERS = ["MeshCataloger", "EndpointsProvider", "MeshSpec", "Manager", "Types"]


def parts():
    """(heading, lines) for each heading of the page."""
    pieces = re.split(r"^#{2,3} (.*)$", PAGE.read_text(), flags=re.M)
    return list(zip(pieces[1::2], pieces[2::2], strict=True))


def rows(text):
    """Cells of the tables' rows, without the rows of headings."""
    lines = [line for line in text.split("\n") if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "| Here |" not in line]


def spans(text):
    return re.findall(r"`([^`]+)`", text)


def linked_files(text):
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    return [(PAGE.parent / target).resolve() for target in targets if target and not re.match(r"[a-z]+:", target)]


def content(file):
    """Text of a file; of sources in C++ without comments, which may speak of what is elsewhere."""
    text = file.read_text()
    return re.sub(r"//.*", "", text) if file.suffix in (".hpp", ".cpp") else text


def occurs(name, files):
    if name.endswith("()"):
        pattern = rf"\b{re.escape(name[:-2])}\("
    else:
        pattern = rf"(?<![\w-]){re.escape(name)}(?![\w-])"
    return any(re.search(pattern, content(file)) for file in files)


class DesignMap(unittest.TestCase):
    def test_each_section_of_the_design_stands_on_the_page_once(self):
        named = [
            section
            for line in re.findall(r"^Sections: (.*)\.$", PAGE.read_text(), re.M)
            for section in line.split("; ")
        ]
        self.assertEqual(sorted(named), sorted(SECTIONS))

    def test_each_method_and_type_of_the_design_has_one_row(self):
        tables = dict(parts())
        for heading, names in {**METHODS, "Types": TYPES}.items():
            with self.subTest(heading=heading):
                firsts = [spans(first)[0] for first, *_ in rows(tables[heading]) if spans(first)]
                self.assertEqual(sorted(firsts), sorted(names))

    def test_every_row_says_where_it_is_and_why_it_differs(self):
        checked = 0
        for heading, text in parts():
            for row in rows(text):
                with self.subTest(heading=heading, row=row[0]):
                    self.assertEqual(len(row), 3)
                    _, here, differs = row
                    self.assertTrue(linked_files(here), "names no file")
                    if heading in WITH_HEADERS:
                        headers = [f for f in linked_files(here) if f.is_relative_to(ROOT / "include/osm")]
                        self.assertTrue(headers, "names no public header")
                    self.assertTrue(not differs or differs.endswith("."), "no sentence")
                checked += 1
        self.assertGreater(checked, 100)

    def test_names_in_code_exist_in_the_files_that_their_row_links(self):
        checked = 0
        for heading, text in parts():
            units = [(row[0], spans(row[1]), row[1:]) for row in rows(text)]
            prose = [block for block in text.split("\n\n") if not block.startswith("|")]
            units += [(block[:40], [], [block]) for block in prose]
            for place, here, cells in units:
                files = [file for file in linked_files(" ".join(cells)) if file.is_file()]
                functions = [name for name in spans(" ".join(cells)) if re.fullmatch(r"\w+\(\)", name)]
                for name in {*here, *functions}:
                    with self.subTest(heading=heading, row=place, name=name):
                        self.assertTrue(occurs(name, files), "in no file that the row links")
                    checked += 1
        self.assertGreater(checked, 60)


if __name__ == "__main__":
    unittest.main()
