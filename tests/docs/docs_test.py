#!/usr/bin/python3
"""Links, quoted code, names, metrics, error codes and indexes of the documents agree with the tree;
limitations stand on one page.

usage: docs_test.py [--bin DIR] [UNITTEST ARGUMENT...]

Without --bin: links lead somewhere, lists are complete, limitations stand on one page, code is quoted
from sources that are built and tested. With it: the commands shown exist with their flags, docs/cli.md
is the programs' help, and the YAML on the pages is a mesh without problems.
"""

import argparse
import collections
import contextlib
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "docs/reference"))
import cli_page  # noqa: E402

BIN = None  # set by main()
TARGETS = {
    "osm",
    "net",
    "vm",
    "testing",
    "envoy_api",
    "kubernetes",
    "install",
    "vault",
    "etcd",
    "cert_manager",
    "admin",
    "host",
    "machine",
    "c",
}  # of CMake: osm::net
LIMITATIONS = "docs/limitations.md"
# Words for a limitation. They stand on that page only; history and the rule itself may use them.
UNSUPPORTED = re.compile(
    r"not (yet )?supported|unsupported|not implemented|not there yet|not here yet|not obeyed|"
    r"no effect yet|nothing here obeys|there is no \w+(ing)? yet",
    re.I,
)
MAY_SAY_UNSUPPORTED = ("CHANGELOG.md", "docs/adr/", LIMITATIONS, "docs/cli.md", "docs/internals/style.md")

OPERATORS = [
    "run",
    "migrate-from-osm",
    "troubleshoot",
    "rotate-root",
    "recover",
    "vm",
    "azure",
    "kubernetes",
    "certificates",
    "mesh-objects",
    "metrics",
    "alerts",
    "error-codes",
    "limitations",
    "security",
    "glossary",
    "cli",
]
# Names of tests and numbers of decision records: no explanation for an operator.
INTERNAL = re.compile(r"\bADR\b|adr/\d|`(e2e|unit|security|bench|docs|asan|consumer)\.\w")

# A word that makes the reader wait for the subject, at the start of a line's first or next sentence.
SLOW_SENTENCE = re.compile(r"(^|[.:] |\| |^- )(What|Whether|Of|Where|Which|Who|Those|How)\b")


def pages():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode == 0:
        names = sorted(name for name in listed.stdout.split("\0") if name)
    else:  # an unpacked archive
        names = sorted(str(p.relative_to(ROOT)) for p in ROOT.rglob("*.md") if "build" not in p.relative_to(ROOT).parts)
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def name(path):
    return str(path.relative_to(ROOT))


def without_code(text):
    """The page's prose: fenced blocks and code spans are no links."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S))


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in headings}


def indented_code(text):
    """First lines of code that is indented instead of fenced. Continued list items are no code."""
    text = re.sub(r"^ *(```|~~~).*?^ *\1", "", text, flags=re.M | re.S)
    in_list = False
    for before, line in itertools.pairwise(["", *text.split("\n")]):
        if re.match(r" *([-*]|\d+\.) ", line):
            in_list = True
        elif line and not line.startswith(" "):
            in_list = False
        elif re.match(r" {4,}\S", line) and not before.strip() and not in_list:
            yield line.strip()


def blocks(page, language):
    return [
        textwrap.dedent(block) for block in re.findall(rf"^ *```{language}\n(.*?)^ *```", page.read_text(), re.M | re.S)
    ]


def quotes(page):
    """The page's code: (language, the file it says it quotes or None, lines without indentation)."""
    for source, language, block in re.findall(
        r"(?:^<!-- from (\S+) -->\n)?^ *```(cpp|c|cmake|yaml|python|proto)\n(.*?)^ *```", page.read_text(), re.M | re.S
    ):
        yield language, source or None, block.split("\n")


def stretches(lines):
    """Parts of its source that a quote shows; `// ...` or `# ...` stands for omitted lines."""
    shown = [[]]
    for line in lines:
        if line.strip() in ("// ...", "# ..."):
            shown.append([])
        elif line.strip():
            shown[-1].append(line.strip())
    return [stretch for stretch in shown if stretch]


def found_in(source, stretch, begin):
    """The number of the line behind `stretch` in `source`, or None."""
    for at in range(begin, len(source) - len(stretch) + 1):
        if source[at : at + len(stretch)] == stretch:
            return at + len(stretch)
    return None


def statistics_loggers():
    """The configurations of Envoy's statistics loggers that a sidecar is sent."""

    def found(value):
        if isinstance(value, dict):
            if value.get("@type", "").endswith("access_loggers.stats.v3.Config"):
                yield value
            value = list(value.values())
        if isinstance(value, list):
            for item in value:
                yield from found(item)

    golden = ROOT / "tests/data/golden"
    text = (golden / "blocks.yaml").read_text() + (golden / "request-metrics/server.s/lds.yaml").read_text()
    return list(found(yaml.safe_load(text)))


METRIC_BEGIN = r"\b(Counter|Gauge|Histogram)(?: (k\w+))?\{"
Metric = collections.namedtuple("Metric", "kind constant name help labels")


def metric_sources():
    """The sources that record metrics, each run of white space as one blank."""
    files = sorted(f for folder in ("libosm", "daemons") for f in (ROOT / folder).rglob("*.[ch]pp"))
    return " ".join(" ".join(file.read_text() for file in files).split())


def metric_descriptors():
    found = re.findall(METRIC_BEGIN + r' ?"(\w+)",((?: "[^"]*")+)(?:, \{([^}]*)\})?\}', metric_sources())
    return [
        Metric(kind.lower(), constant, name, "".join(re.findall(r'"([^"]*)"', text)), set(re.findall(r"\w+", labels)))
        for kind, constant, name, text, labels in found
    ]


def members(shape):
    """The names of an object's own members: a and c of `{"a":{"b"},"c":[{"d"}]}`."""
    depth, found = 0, []
    for bracket, quoted in re.findall(r'([{}\[\]])|"([^"]*)"', shape.split("`")[1]):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(bracket, 0)
        if quoted and depth == 1:
            found.append(quoted)
    return found


def table_codes(page):
    """The `code` in the first column of the page's tables."""
    return codes_in(page.read_text())


def codes_in(text):
    return re.findall(r"^\| `([^`]+)` \|", text, re.M)


class Text(unittest.TestCase):
    def test_every_link_within_the_project_leads_somewhere(self):
        checked = 0
        for page in pages():
            for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                file = (page.parent / path).resolve() if path else page
                with self.subTest(page=name(page), link=target):
                    self.assertTrue(file.exists(), "leads nowhere")
                    if anchor:
                        self.assertIn(anchor, anchors(file), "no such heading")
                checked += 1
        self.assertGreater(checked, 50)

    def test_code_is_quoted_from_what_is_built_and_tested(self):
        checked = 0
        for page in pages():
            for language, named, lines in quotes(page):
                if named is None and language in ("cmake", "yaml"):
                    continue  # tests/consumer has the like; YAML is loaded as a mesh below
                with self.subTest(page=name(page), code=lines[0]):
                    self.assertIsNotNone(named, "has no `<!-- from FILE -->` above it")
                    source = [text.strip() for text in (ROOT / named).read_text().split("\n")]
                    source, at = [text for text in source if text], 0
                    for stretch in stretches(lines):
                        at = found_in(source, stretch, at)
                        self.assertIsNotNone(at, f"{named} does not say, at that place:\n" + "\n".join(stretch))
                checked += 1
        self.assertGreater(checked, 5)

    def test_names_of_the_front_door_exist(self):
        headers = "\n".join(p.read_text() for p in (ROOT / "include/osm").rglob("*.hpp"))
        known = set(re.findall(r"\w+", headers))
        checked = 0
        for page in pages():
            for said in re.findall(r"`(osm::[\w:]+)", page.read_text()):
                if page.name in ("CONTRIBUTING.md", "style.md") or "docs/adr" in name(page):
                    continue  # speak of rooms and CMake targets, too
                parts = [part for part in said.split("::")[1:] if part]
                if len(parts) == 1 and parts[0] in TARGETS:
                    continue
                with self.subTest(page=name(page), name=said):
                    self.assertLessEqual(set(parts), known)
                checked += 1
        self.assertGreater(checked, 20)

    def test_every_clause_of_the_conformance_suite_is_explained(self):
        clauses = []  # several suites have clauses of one name
        for file in (ROOT / "libosm/testing").glob("*_clauses_*.cpp"):
            for entries in re.findall(r"_clauses\(\) {$(.*?)^}", file.read_text(), re.M | re.S):
                clauses += re.findall(r'\{"([a-z-]+)",\s*"', entries)
        for file in (ROOT / "libosm/testing").glob("*_conformance.cpp"):
            clauses += re.findall(r'^ +\{\{"([a-z-]+)", "', file.read_text(), re.M)
        self.assertGreater(len(clauses), 10)
        self.assertEqual(sorted(clauses), sorted(table_codes(ROOT / "docs/provider-guide.md")))

    def test_the_routes_of_the_admin_API_are_those_of_its_table(self):
        source = (ROOT / "libosm/admin/routes.cpp").read_text()
        table = re.findall(r'{{"(\w+)", "([^"]+)", k\w+,((?:\s+"[^"]*")+)},', source)
        self.assertEqual(len(table), len(re.findall(r"^    {{", source, re.M)), "a row reads otherwise")
        routes = {f"{method} {path}": "".join(re.findall(r'"([^"]*)"', text)).split() for method, path, text in table}
        self.assertGreater(len(routes), 15)
        page = (ROOT / "daemons/README.md").read_text().partition("\n## The admin API\n")[2]
        shown = {}
        for requests, answer in re.findall(r"^\| (`(?:GET|POST) .*?) \| (`{.*) \|$", page, re.M):
            for request in re.findall(r"`((?:GET|POST) [^?`]+)", requests):
                shown[request] = members(answer)
        self.assertEqual(shown, routes)

    def test_every_guide_stands_in_the_index_and_on_the_site(self):
        index = (ROOT / "docs/README.md").read_text()
        linked = set(re.findall(r"\]\(([^)#\s]+)", index))
        folder = ROOT / "docs"
        guides = {str(p.relative_to(folder)) for p in [*folder.glob("*.md"), *folder.glob("internals/*.md")]}
        self.assertEqual(sorted(guides - {"README.md"} - linked), [])
        shown = set(re.findall(r"docs/([\w/-]+\.md)$", (folder / "mkdocs.yml").read_text(), re.M))
        self.assertEqual(sorted(guides - {"README.md"} - shown), [], "not in docs/mkdocs.yml")

    def test_no_page_keeps_state_where_everybody_may_write(self):
        checked = 0
        for page, words in command_lines():
            for flag, value in itertools.pairwise(words):
                if flag != "--state-dir":
                    continue
                with self.subTest(page=name(page), state=value):
                    self.assertIsNone(re.match(r"/(tmp|var/tmp|dev/shm)(/|$)", value))
                checked += 1
        self.assertGreater(checked, 3)

    def test_limitations_stand_on_one_page(self):
        for page in pages():
            if name(page).startswith(MAY_SAY_UNSUPPORTED):
                continue
            for number, line in enumerate(page.read_text().split("\n"), 1):
                with self.subTest(page=name(page), line=number):
                    self.assertIsNone(UNSUPPORTED.search(line), f"{line}: move it to {LIMITATIONS}")

    def test_daemons_have_no_additions_to_Envoy_resources_as_the_limitations_say(self):
        self.assertIn("| Additions to Envoy's resources at `osm-controller`", (ROOT / LIMITATIONS).read_text())
        for file in (ROOT / "daemons").rglob("*.[ch]pp"):
            with self.subTest(file=name(file)):
                self.assertNotRegex(file.read_text(), r"resource_hook|ResourceHook")

    def test_sentences_name_their_subject_first(self):
        for page in pages():
            if page.name in ("CHANGELOG.md", "style.md"):
                continue
            prose = re.sub(
                r"^ *```.*?^ *```", lambda code: "\n" * code[0].count("\n"), page.read_text(), flags=re.M | re.S
            )
            for number, line in enumerate(prose.split("\n"), 1):
                with self.subTest(page=name(page), line=number):
                    self.assertIsNone(SLOW_SENTENCE.search(line), line)

    def test_pages_for_operators_explain_without_tests_and_records(self):
        for page in OPERATORS:
            for number, line in enumerate((ROOT / f"docs/{page}.md").read_text().split("\n"), 1):
                with self.subTest(page=page, line=number):
                    self.assertIsNone(INTERNAL.search(line), line)

    def test_code_on_the_pages_is_fenced(self):
        for page in pages():
            with self.subTest(page=name(page)):
                self.assertEqual(list(indented_code(page.read_text())), [], "indented instead of fenced")

    def test_every_decision_record_stands_in_the_list(self):
        records = {p.name for p in (ROOT / "docs/adr").glob("[0-9]*.md")}
        listed = re.findall(r"^- \[.*\]\(([^)]+)\)", (ROOT / "docs/adr/README.md").read_text(), re.M)
        self.assertEqual(sorted(records), sorted(listed))
        numbers = [record[:4] for record in records]
        self.assertEqual(len(numbers), len(set(numbers)), "two records have one number")

    def test_every_error_code_is_explained(self):
        code = (ROOT / "libosm/base/result.cpp").read_text()
        texts = re.findall(r'\{ErrorCode::k\w+, "([a-z-]+)"\}', code)  # the compiler counts them
        self.assertGreater(len(texts), 20)
        page = ROOT / "docs/error-codes.md"
        self.assertEqual(sorted(texts), sorted(table_codes(page)))
        for row in re.findall(r"^\| `.*\|$", page.read_text(), re.M):
            with self.subTest(row=row[:40]):
                self.assertEqual(
                    [cell.strip() != "" for cell in row.strip("|").split("|")],
                    [True] * 4,
                    "a code has a meaning, a typical cause and a remedy",
                )

    def test_every_metric_is_explained(self):
        page = (ROOT / "docs/metrics.md").read_text()
        explained = {
            name: (kind, set(re.findall(r"`(\w+)`", labels)))
            for name, kind, labels in re.findall(r"^\| `(\w+)` \| (counter|gauge|histogram) \|(.*?)\| ", page, re.M)
        }
        for logger in statistics_loggers():  # Envoy's
            for statistic in logger["counters"] + logger.get("histograms", []):
                del explained[f"{logger['stat_prefix']}_{statistic['stat']['name']}"]
        described = {d.name: (d.kind, d.labels) for d in metric_descriptors()}
        self.assertGreater(len(described), 80)
        self.assertEqual(described, explained)

    def test_every_metric_is_described_once_and_recorded_with_its_labels(self):
        descriptors = metric_descriptors()
        sources = metric_sources()
        self.assertEqual(len(descriptors), len(re.findall(METRIC_BEGIN, sources)), "one that this test cannot read")
        self.assertEqual(len(descriptors), len({d.name for d in descriptors}))
        labels = r"\{((?:\{\"\w+\", [^{}]*\}(?:, )?)*)\}"
        recorded = collections.defaultdict(list)
        for constant, call in re.findall(rf"\b(?:add|set|observe)\( ?(\w+), {labels}", sources):
            recorded[constant].append(set(re.findall(r'\{"(\w+)", ', call)))
        for descriptor in descriptors:
            with self.subTest(metric=descriptor.name):
                self.assertTrue(descriptor.help)
                for called in recorded[descriptor.constant]:
                    self.assertEqual(called, descriptor.labels)
                others = descriptor.constant in ("", "kMetricsDropped")
                self.assertTrue(recorded[descriptor.constant] or others, "recorded nowhere")

    def test_labels_of_sidecars_metrics_are_made_by_both_configurations_of_prometheus(self):
        rules = [
            job["metric_relabel_configs"]
            for file in ("machines", "kubernetes")
            for job in yaml.safe_load((ROOT / f"deploy/prometheus/{file}.yaml").read_text())["scrape_configs"]
            if job["job_name"] == "osm-sidecars"
        ]
        self.assertEqual(*rules)
        made = {rule["target_label"] for rule in rules[0]} - {"__name__"}
        row = re.search(
            r"^\| `osm_request_total` \| counter \| (.*?) \|", (ROOT / "docs/metrics.md").read_text(), re.M
        )[1]
        self.assertEqual(set(re.findall(r"`(\w+)`", row)), made | {"response_code"})

    def test_pod_monitors_scrape_as_the_configuration_for_pods_does(self):
        def read(file):
            return list(yaml.safe_load_all((ROOT / f"deploy/prometheus/{file}.yaml").read_text()))

        def in_prometheus_words(rules):
            words = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
            return [{words.get(key, key): value for key, value in rule.items()} for rule in rules]

        jobs = {job["job_name"]: job for job in read("kubernetes")[0]["scrape_configs"]}
        monitors = {monitor["metadata"]["name"]: monitor["spec"] for monitor in read("pod-monitors")}
        (daemons,) = monitors["osm-control-plane"]["podMetricsEndpoints"]
        (apps,) = monitors["osm-control-plane"]["selector"]["matchExpressions"]
        kept = jobs["osm-controller"]["relabel_configs"][0]["regex"]
        self.assertEqual(kept, f"({'|'.join(apps['values'])});{daemons['port']}")
        job, sidecars = jobs["osm-sidecars"], monitors["osm-sidecars"]
        (endpoint,) = sidecars["podMetricsEndpoints"]
        self.assertEqual(job["metric_relabel_configs"], in_prometheus_words(endpoint["metricRelabelings"]))
        self.assertEqual(job["relabel_configs"][0]["regex"], endpoint["port"])
        self.assertEqual(
            [job[k] for k in ("metrics_path", "params", "sample_limit", "body_size_limit")],
            [endpoint["path"], endpoint["params"], sidecars["sampleLimit"], sidecars["bodySizeLimit"]],
        )

    def test_alert_rules_dashboards_and_queries_are_about_metrics_that_exist(self):
        page = ROOT / "docs/metrics.md"
        texts = [
            "\n".join(blocks(page, "text")),
            (ROOT / "deploy/prometheus/alerts.yaml").read_text(),
            *(file.read_text() for file in (ROOT / "deploy/grafana").glob("*.json")),
        ]
        used = {found.removesuffix("_bucket") for text in texts for found in re.findall(r"\b(?:osm|process)_\w+", text)}
        self.assertGreater(len(used), 40)
        self.assertEqual(sorted(used - set(table_codes(page))), [])

    def test_interfaces_are_as_narrow_as_the_architecture_says(self):
        page = (ROOT / "docs/architecture.md").read_text()
        most, of_control_plane, of_manager = map(
            int,
            re.search(
                r"has at most (\d+) virtual functions, `ControlPlane` at most (\d+),\s"
                r"`certificate::Manager` at most (\d+)",
                page,
            ).groups(),
        )
        wide = {"ControlPlane": of_control_plane, "Manager": of_manager}
        kinds = [
            kind
            for header in (ROOT / "include/osm").rglob("*.hpp")
            for kind in re.findall(
                r"^(?:class|struct) (?:OSM_API )?(\w+)(?: final)?(?:\s*: ([^{;]*?))? {(.*?)^};",
                header.read_text(),
                re.M | re.S,
            )
        ]
        bases = {name: re.findall(r"public (?:\w+::)*(\w+)", parents) for name, parents, _ in kinds}
        bodies = {name: body for name, _, body in kinds}

        def functions_of(body):
            return len(re.findall(r"^ +virtual (?!~)", body, re.M))

        def functions_in_all(name):
            return functions_of(bodies.get(name, "")) + sum(map(functions_in_all, bases.get(name, [])))

        for name, _, body in kinds:
            with self.subTest(interface=name):
                self.assertLessEqual(functions_of(body), wide.get(name, most))
            with self.subTest(callbacks=name):
                self.assertLessEqual(len(re.findall(r"^  std::function<[^;]*;", body, re.M)), most)
        # With the functions of their bases, for the interfaces that a host implements.
        table = (ROOT / "docs/threading.md").read_text().split("## Interfaces of a host")[1].split("\n## ")[0]
        rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| [")]
        hosts = {name for row in rows for name in re.findall(r"`(?:\w+::)*(\w+)`", row)} & set(bodies)
        self.assertGreater(len(hosts), 15)
        for name in sorted(hosts):
            with self.subTest(host=name):
                self.assertLessEqual(functions_in_all(name), wide.get(name, most))
        self.assertEqual(functions_in_all("MeshSpec"), 4)

    def test_the_top_headers_stand_in_the_architecture(self):
        row = re.search(r"^\| top \| (.*?) \|", (ROOT / "docs/architecture.md").read_text(), re.M)[1]
        self.assertEqual(
            sorted(re.findall(r"`(\w+)`", row)), sorted(path.stem for path in (ROOT / "include/osm").glob("*.hpp"))
        )

    def test_lists_of_programs_are_complete(self):
        lists = {
            "README.md": [r"libosm is a service-mesh(?:.+\n)+", r"\| `daemons/` \|.*"],
            "docs/architecture.md": [r"\ndaemons/.*"],
            "docs/kubernetes.md": [r"\| Program \| Tasks \|\n(?:\|.*\n)*"],
            "daemons/README.md": [r"\| Folder \| Content \|\n(?:\|.*\n)*"],
            "docs/cli.md": [r"(?:- \[.*\n)+"],
        }
        for page, patterns in lists.items():
            for pattern in patterns:
                shown = re.search(pattern, (ROOT / page).read_text())[0]
                for program in cli_page.PROGRAMS:
                    with self.subTest(page=page, program=program):
                        self.assertRegex(shown, rf"(?<![\w-]){program}(?![\w-])")

    def test_every_room_stands_in_the_architecture(self):
        rooms = re.findall(r"^osm_room\((\w+)", (ROOT / "libosm/CMakeLists.txt").read_text(), re.M)
        drawn = (ROOT / "docs/architecture.md").read_text()
        for room in rooms:
            with self.subTest(room=room):
                self.assertTrue(re.search(rf"(?m)^  (plugins/)?{room}/ ", drawn), "not in docs/architecture.md")


def logical_lines(block):
    """The commands of a shell block: continuation lines joined, comments taken off."""
    joined = re.sub(r"\\\n\s*", " ", block)
    return [line for line in (re.sub(r"(^|\s)#.*", "", text).strip() for text in joined.split("\n")) if line]


def command_lines():
    """Every `osm ...`, `osm-controller ...` and `osm-injector ...` the pages show: (page, words)."""
    for page in pages():
        if name(page) == "docs/cli.md":
            continue  # is the help itself
        shown = [line for block in blocks(page, "sh") for line in logical_lines(block)]
        shown += re.findall(r"`((?:\S*/)?osm(?:-controller|-injector)? [^`\n]+)`", page.read_text())
        for line in shown:
            for part in re.split(r"&&|\|", line):
                words = part.split()
                words[:1] = [word.split("/")[-1] for word in words[:1]]  # build/release/bin/osm
                if words[:1] and words[0] in cli_page.PROGRAMS and "COMMAND" not in words:
                    yield page, words


def flags_in(help_text):
    return set(re.findall(r"(?<![\w-])(--[a-z][a-z-]*|-[a-z])(?=[ ,\n=])", help_text))


class Commands(unittest.TestCase):
    def help_of(self, program, *words):
        ran = subprocess.run([BIN / program, *words, "--help"], capture_output=True, text=True)
        return ran.stdout if ran.returncode == 0 else None

    def test_every_command_shown_exists_with_its_flags(self):
        checked = 0
        for page, words in command_lines():
            with self.subTest(page=name(page), command=" ".join(words)):
                path, rest = [], words[1:]
                text = self.help_of(words[0])
                while known := cli_page.subcommands(text):
                    if not rest or rest in (["--help"], ["--version"]):  # a group, named as such
                        break
                    self.assertIn(rest[0], known, "no such command")
                    path.append(rest.pop(0))
                    text = self.help_of(words[0], *path)
                    self.assertIsNotNone(text)
                used = {word.split("=")[0] for word in rest if word.startswith("-")}
                self.assertLessEqual(used, flags_in(text) | {"--help", "--version"})
                checked += 1
        self.assertGreater(checked, 25)

    def test_the_page_of_commands_is_the_help_of_the_programs(self):
        self.assertEqual(
            (ROOT / "docs/cli.md").read_text().split("\n"),
            cli_page.page(BIN).split("\n"),
            "tools/docs --cli writes docs/cli.md",
        )

    def test_every_command_shows_an_example_and_prints_its_help_to_standard_output(self):
        shown = re.findall(r"(?m)^## (.+)\n\n```text\n([^`]*(?:`[^`]+`[^`]*)*?)\n```", cli_page.page(BIN))
        self.assertGreater(len(shown), 60)
        for command, text in shown:
            program, *words = command.split()
            with self.subTest(command):
                ran = subprocess.run([BIN / program, *words, "--help"], capture_output=True, text=True)
                self.assertEqual((ran.returncode, ran.stderr), (0, ""))
                self.assertTrue("Subcommands:" in text or re.search("(?mi)^examples?:", text), text)

    @contextlib.contextmanager
    def controller(self, *documents):
        """(a ready controller with a mesh of these documents, a folder, `osm` as a function)"""
        from lib.mesh.daemon import Controller
        from lib.net.name_server import NameServer
        from lib.net.ports import free_ports

        with tempfile.TemporaryDirectory(prefix="osm-docs-") as folder:
            mesh, state = pathlib.Path(folder, "mesh"), pathlib.Path(folder, "state")
            mesh.mkdir()
            for number, document in enumerate(documents):
                (mesh / f"{number:02}.yaml").write_text(document)

            def osm(*arguments):
                return subprocess.run(
                    [BIN / "osm", *arguments, "--state-dir", state], capture_output=True, text=True, check=True
                ).stdout

            names = NameServer(folder, port=free_ports(1)[0])  # for the page's DNSResource
            names.write(api=["192.0.2.14"])
            controller = Controller(
                BIN / "osm-controller", mesh, state, "--dns-server", f"{names.address}:{names.port}"
            )
            try:
                controller.wait_until_ready()
                yield controller, pathlib.Path(folder), osm
            finally:
                controller.stop()
                names.stop()

    def load(self, *documents):
        """Problems and counts of a controller with a mesh of these documents."""
        with self.controller(*documents) as (controller, _, osm):
            counts = [controller.metric(f"osm_mesh_{what}") for what in ("services", "workloads")]
            return json.loads(osm("problems", "-o", "json"))["problems"], counts

    def test_the_mesh_of_the_objects_page_has_no_problems(self):
        problems, counts = self.load(*blocks(ROOT / "docs/mesh-objects.md", "yaml"))
        # Nobody resolves it here, and the page says that this is told.
        self.assertEqual([(p["object"], p["code"]) for p in problems], [("AzureResource shop/api-4", "unused-field")])
        self.assertEqual(counts, [5, 5])

    def test_the_machine_of_the_machines_page_has_no_problems(self):
        problems, counts = self.load(*blocks(ROOT / "docs/vm.md", "yaml"))
        self.assertEqual(problems, [])
        self.assertEqual(counts, [0, 3])

    def test_the_service_of_the_grpc_page_has_no_problems(self):
        machine = blocks(ROOT / "docs/vm.md", "yaml")[0]
        problems, counts = self.load(machine, *blocks(ROOT / "docs/grpc.md", "yaml"))
        self.assertEqual(problems, [])
        self.assertEqual(counts, [1, 1])

    def test_the_bookstore_has_no_problems(self):
        files = sorted((ROOT / "examples/bookstore/mesh").glob("*.yaml"))
        self.assertEqual(self.load(*(file.read_text() for file in files))[0], [])

    def test_the_questions_of_the_page_for_operators_have_its_answers(self):
        shown = re.findall(
            r"^```sh\n(osm \w+ get [^\n]+)\n```\n\n```text\n(.*?)^```", (ROOT / "docs/run.md").read_text(), re.M | re.S
        )
        self.assertEqual([command.split()[1] for command, _ in shown], ["service", "identity"])
        files = sorted((ROOT / "examples/bookstore/mesh").glob("*.yaml"))
        with self.controller(*(file.read_text() for file in files)) as (_, _, osm):
            for command, answer in shown:
                with self.subTest(command):
                    self.assertEqual(osm(*command.split()[1:]), answer)

    def test_no_other_page_shows_yaml_that_nobody_loads(self):
        loaded = {"docs/mesh-objects.md", "docs/vm.md", "docs/grpc.md"}
        shown = {
            name(page)
            for page in pages()
            for language, source, _ in quotes(page)
            if language == "yaml" and source is None
        }
        self.assertLessEqual(shown, loaded)

    def test_a_bootstrapped_machine_has_the_files_of_the_machines_page(self):
        with self.controller(blocks(ROOT / "docs/vm.md", "yaml")[0]) as (_, folder, osm):
            osm("vm", "bootstrap", "web-1", "-n", "shop", "--controller", "192.0.2.1:15128", "--out", folder / "out")
            written = {p.name: p.stat().st_mode & 0o777 for p in (folder / "out").iterdir()}
        rows = re.findall(r"^\| ((?:`[\w.]+`(?:, )?)+) \| (0\d+)", (ROOT / "docs/vm.md").read_text(), re.M)
        told = {file: int(mode, 8) for names, mode in rows for file in re.findall(r"`([^`]+)`", names)}
        self.assertEqual(written, told)


def main():
    global BIN
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", type=pathlib.Path, help="where osm and osm-controller are")
    options, rest = parser.parse_known_args()
    BIN = options.bin and options.bin.resolve()
    unittest.main(argv=[sys.argv[0], *(rest or ["Text" if BIN is None else "Commands"])])


if __name__ == "__main__":
    main()
