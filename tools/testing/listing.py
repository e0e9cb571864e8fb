"""The tests as the tree and the configured builds have them: entries, tiers, files and behaviours.

A file's behaviour is the first paragraph of its first comment or docstring. An entry that runs one class
or function of a script has that one's, and an entry with a BEHAVIOUR (cmake/osm_test.cmake) has this.
"""

import ast
import dataclasses
import fnmatch
import functools
import pathlib
import re

from testing import entries

ROOT = entries.ROOT
BUILDS = [ROOT / "build/release", ROOT / "build/asan-ubsan"]
TIERS = ("fast", "full", "nightly")
TEST_FILES = [
    "tests/**/*_test.cpp",
    "tests/**/*_test.py",
    "tests/**/*_contract.cpp",
    "tests/fuzz/*_fuzz.cpp",
    "benchmarks/*_test.cpp",
]
LIB_FILES = ["tests/lib/**/*.py", "tests/lib/**/*.hpp", "tests/lib/**/*.cpp"]
# Names of entries that run a file in another way, and the words for it.
VARIANTS = {
    r"\.sotw\.": "state of the world",
    r"envoy_([\d.]+\d)": r"Envoy \1",
    r"kubernetes_([\d.]+\d)": r"Kubernetes \1",
    r"_long$": "long",
}


@dataclasses.dataclass
class Row:
    entry: str
    tier: str
    file: str
    behaviour: str


def files(patterns):
    """Paths below the root, as text."""
    return sorted({str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern)})


def is_configured(build):
    return (build / "CTestTestfile.cmake").exists() and (build / "compile_commands.json").exists()


def first_paragraph(text):
    return " ".join((text or "").strip().split("\n\n")[0].split())


@functools.cache
def behaviour(file, part=None):
    """Result: the first paragraph of the file's first comment or docstring, or of that of the class, method
    or function `part` ("Class.method"); empty if there is none."""
    text = (ROOT / file).read_text()
    if not file.endswith((".cpp", ".hpp")):
        if "python" not in text.split("\n")[0] and not file.endswith(".py"):
            return ""
        node = ast.parse(text)
        for name in part.split(".") if part else ():
            node = next((each for each in node.body if getattr(each, "name", None) == name), None)
            if not isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                return ""
        return first_paragraph(ast.get_docstring(node))
    comment = re.match(r"\s*(?:#pragma once\s+)?((?://.*\n)+)", text)
    return first_paragraph(re.sub(r"^// ?", "", comment[1], flags=re.M)) if comment else ""


class Build:
    """One configured build: `entries`, and `targets`, {target: the sources of tests that it compiles}."""

    def __init__(self, folder):
        self.entries = entries.read(folder)
        self.said = {}
        for line in (folder / "test_behaviours.tsv").read_text().splitlines():
            name, self.said[name] = line.split("\t")
        self.targets = {
            target: {str(source.relative_to(ROOT)) for source in found}
            for target, found in entries.sources(folder).items()
        }

    def files(self, entry):
        """The files of tests that an entry runs: a script, a source, or those of a program's suites."""
        words = entry.command
        for word in words:
            path = pathlib.Path(word)
            if path.is_relative_to(ROOT) and path.is_file():
                name = str(path.relative_to(ROOT))
                if name.startswith(("tests/", "tools/", "benchmarks/")) and path.suffix in ("", ".py", ".cpp"):
                    return [name]
        program = next((each.rsplit("/", 1)[-1] for each in words if each.rsplit("/", 1)[-1] in self.targets), None)
        sources = self.targets.get(program, ())
        found = [each for each in sources if any(fnmatch.fnmatch(each, pattern) for pattern in TEST_FILES)]
        found = found or [each for each in sources if pathlib.Path(each).stem == program]
        if entry.name.startswith("fuzz.replay."):
            return [each for each in found if pathlib.Path(each).stem == entry.name.split(".")[-1] + "_fuzz"]
        suites = next((each.split("=", 1)[1] for each in words if each.startswith("--test-suite=")), "*")
        return sorted(each for each in found if suites == "*" or has_suite(each, suites))

    def rows(self):
        for entry in self.entries:
            tier = " ".join(label for label in entry.labels if label in TIERS)
            for file in self.files(entry) or [""]:
                yield Row(entry.name, tier, file, self.says(entry, file))

    def says(self, entry, file):
        if entry.name in self.said or not file:
            return self.said.get(entry.name, "")
        names = [word for word in entry.command if re.fullmatch(r"[A-Za-z_][\w.]*", word)]
        parts = [] if file.endswith(".cpp") else [*filter(None, (behaviour(file, name) for name in names))]
        text = parts[0] if len(parts) == 1 else behaviour(file)
        for pattern, words in VARIANTS.items():
            if match := re.search(pattern, entry.name):
                text += f" ({match.expand(words)})"
        return text


def has_suite(file, suites):
    names = re.findall(r'TEST_SUITE\("([^"]*)"\)', (ROOT / file).read_text())
    return any(fnmatch.fnmatch(name, pattern) for name in names for pattern in suites.split(","))


def modules():
    """(module, what it provides) of tests/lib."""
    tests = set(files(TEST_FILES))
    return [(file, behaviour(file)) for file in files(LIB_FILES) if file not in tests]
