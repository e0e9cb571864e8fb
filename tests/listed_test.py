#!/usr/bin/python3
"""Compares tests/README.md with the tests that ctest runs and with the files of the tree.

usage: listed_test.py --build DIRECTORY

DIRECTORY is a configured release build. Prints each difference with its remedy; the exit status is
1 if there is one.

A table whose header is `| file | entry | tier | behaviour |` lists tests. File names are relative
to the folder that the heading above names in backticks, or to tests/. An empty cell repeats the one
above it; a dash in place of a file means several. `a.{b,c}` stands for `a.b` and `a.c`; entries and
tiers of one row are in the same order.
"""

import argparse
import collections
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = "tests/README.md"
TIERS = {"fast", "full", "nightly"}
TEST_HEADER = ["file", "entry", "tier", "behaviour"]
LIB_HEADER = ["module", "provides"]
SEVERAL = "—"  # in place of a file
TEST_FILES = [
    "tests/**/*_test.cpp",
    "tests/**/*_test.py",
    "tests/**/*_contract.cpp",
    "tests/fuzz/*_fuzz.cpp",
    "benchmarks/*_test.cpp",
]
LIB_FILES = ["tests/lib/**/*.py", "tests/lib/**/*.hpp", "tests/lib/**/*.cpp"]
# Pages that name tests as proof. Each test of attacks stands on the first one.
SECURITY_PAGES = ["tests/security/README.md", "docs/security.md"]

Row = collections.namedtuple("Row", "file entry tier line")


def words(cell):
    """The `code` of a cell, with braces expanded."""
    for text in re.findall(r"`([^`]+)`", cell):
        parts = [part.split(",") for part in re.split(r"[{}]", text)[1::2]]
        plain = re.split(r"\{[^}]*\}", text)
        for chosen in itertools.product(*parts):
            yield "".join(itertools.chain(*itertools.zip_longest(plain, chosen, fillvalue="")))


def tables(text):
    """(folder, header, [(line number, cells)]) of each table."""
    folder, table = "tests", None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            named = re.search(r"`([^`]+)`", line)
            folder = os.path.normpath(f"tests/{named.group(1)}") if named else "tests"
        if not line.startswith("|"):
            table = None
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if table is None:
            table = []
            yield folder, cells, table
        elif not set(line) <= set("|-: "):
            table.append((number, cells))


class Readme:
    """Result: `tests` and `modules` are the rows; `problems` are those of the tables themselves."""

    def __init__(self, text):
        self.tests, self.modules, self.problems = [], [], []
        for folder, header, rows in list(tables(text)):
            if header == TEST_HEADER:
                self._read_tests(folder, rows)
            elif header == LIB_HEADER:
                self.modules += [os.path.normpath(f"{folder}/{name}") for _, cells in rows for name in words(cells[0])]

    def _read_tests(self, folder, rows):
        file = entries = tiers = None
        for line, cells in rows:
            if len(cells) != len(TEST_HEADER) or not cells[3]:
                self.problems.append(f"{README}:{line}: a row is {' | '.join(TEST_HEADER)}")
                continue
            new_file, new_entries = [*words(cells[0])], [*words(cells[1])]
            if new_file:
                file = os.path.normpath(f"{folder}/{new_file[0]}")
            several = cells[0] == SEVERAL
            if new_entries:
                entries, tiers = new_entries, [tier.strip() for tier in cells[2].split(",")]
                if len(tiers) == 1:
                    tiers *= len(entries)
                if len(tiers) != len(entries) or not set(tiers) <= TIERS:
                    self.problems.append(f"{README}:{line}: write one of fast, full, nightly, or one for each entry")
                    continue
            if entries is None or (file is None and not several):
                self.problems.append(f"{README}:{line}: the first row names a file and an entry")
                continue
            for entry, tier in zip(entries, tiers):
                self.tests.append(Row(None if several else file, entry, tier, line))
                if new_entries:
                    self._once("entry", entry, line)
            if new_file:
                self._once("file", file, line)

    def _once(self, kind, name, line):
        seen = self.__dict__.setdefault(f"_{kind}", {})
        if name in seen:
            self.problems.append(f"{README}:{line}: {name}: line {seen[name]} lists it too: delete one row")
        seen[name] = line


class Build:
    """The tests that CMake configured. `entries`: {name: (labels, command)}, the command empty while the
    program is not built. `targets`: {source file: the targets that compile it}."""

    def __init__(self, directory):
        cache = (directory / "CMakeCache.txt").read_text()
        self.source = pathlib.Path(re.search(r"^CMAKE_HOME_DIRECTORY:\w+=(.*)$", cache, re.M)[1])
        shown = subprocess.run(
            ["ctest", "--show-only=json-v1", "--test-dir", directory], capture_output=True, text=True, check=True
        )
        self.entries = {}
        for test in json.loads(shown.stdout)["tests"]:
            labels = [
                label for each in test.get("properties", ()) if each["name"] == "LABELS" for label in each["value"]
            ]
            self.entries[test["name"]] = (labels, test.get("command", []))
        commands = json.loads((directory / "compile_commands.json").read_text())
        self.targets = collections.defaultdict(set)
        for each in commands:
            target = re.search(r" -o \S*CMakeFiles/([^/ ]+)\.dir/", each["command"])[1]
            for source in self.compiled(pathlib.Path(each["file"])):
                self.targets[self.relative(source)].add(target)
        self.programs = set().union(*self.targets.values())

    @staticmethod
    def compiled(file):
        """The sources in a file that is compiled: itself, or those of a batch (cmake/osm_test_batch.cmake)."""
        if "test_batches" not in file.parts or not file.exists():
            return [file]
        return re.findall(r'^#include "(/.*\.cpp)"$', file.read_text(), re.M)

    def relative(self, path):
        return os.path.relpath(path, self.source)

    def script(self, entry):
        """The test file that the entry runs, or None if it runs a program."""
        for word in self.entries[entry][1]:
            if word.endswith("_test.py"):
                return self.relative(word)
        return None

    def program(self, entry):
        """The program of ours that the entry runs, or None if it is not built or not ours."""
        name = pathlib.Path((self.entries[entry][1] or [""])[0]).name
        return name if name in self.programs else None


def files(patterns):
    return sorted({str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern)})


def entry_problems(readme, build):
    tiers = {row.entry: row.tier for row in readme.tests}
    for name, (labels, _) in build.entries.items():
        has = [label for label in labels if label in TIERS]
        if len(has) != 1:
            yield (
                f"{name}: has the tiers {has}: register it by osm_test() or osm_python_test() "
                "with one TIER (cmake/osm_test.cmake)"
            )
        elif name not in tiers:
            yield f"{name}: not listed in {README}: add a row, tier {has[0]}"
        elif tiers[name] != has[0]:
            yield (f"{name}: {README} says {tiers[name]}, its label is {has[0]}: correct the row or TIER")
    for row in {row.entry: row for row in reversed(readme.tests)}.values():
        if row.entry not in build.entries:
            yield (f"{README}:{row.line}: {row.entry}: no such entry: delete the row, or register the test")


def file_problems(readme, build):
    listed = {row.file for row in readme.tests if row.file}
    for file in sorted({*listed, *readme.modules}):
        if not (ROOT / file).is_file():
            yield f"{file}: listed in {README} and not there: delete the row, or correct its name"
    for file in files(TEST_FILES):
        if file not in listed:
            yield f"{file}: not listed in {README}: add a row"
    for file in sorted({*files(LIB_FILES)} - {*files(TEST_FILES)} - {*readme.modules}):
        yield f"{file}: not listed in {README}: add a row to the table of its folder"

    ran = {build.script(name) for name in build.entries}
    for file in files(TEST_FILES):
        if file.endswith(".py") and file not in ran:
            yield f"{file}: no ctest entry runs it: register it by osm_python_test()"
        elif file.startswith("tests/fuzz/"):
            name = pathlib.Path(file).stem.removesuffix("_fuzz")
            if f"fuzz.replay.{name}" not in build.entries:
                yield f"{file}: no fuzzer: add it to tests/fuzz/CMakeLists.txt by osm_fuzzer()"
        elif file.endswith(".cpp") and file not in build.targets:
            yield f"{file}: no target compiles it: add it to one in a CMakeLists.txt"
    for row in readme.tests:
        if row.file is None or row.entry not in build.entries:
            continue
        script, program = build.script(row.entry), build.program(row.entry)
        if script and script != row.file:
            yield (f"{README}:{row.line}: {row.entry}: runs {script}, not {row.file}: correct the row")
        elif program and program not in build.targets.get(row.file, {program}):
            yield (f"{README}:{row.line}: {row.entry}: runs {program}, which {row.file} is no part of: correct the row")


def security_problems(build):
    """Tests that are named as proof exist; the table of attacks names all tests of attacks."""
    known = set(build.entries)
    for page in SECURITY_PAGES:
        text = (ROOT / page).read_text()
        named = {*re.findall(r"`((?:security|unit|e2e|fuzz\.replay)\.[\w.]+)`", text)}
        for name in sorted(named - known):
            yield f"{page}: {name}: no such entry: correct the name"
        if page == SECURITY_PAGES[0]:
            attacks = {
                name
                for name, (labels, _) in build.entries.items()
                if name.startswith("security.") and "sotw" not in name
            }
            for name in sorted(attacks - named):
                yield f"{page}: {name}: not in the table: add it to the attack that it shows"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    build = Build(parser.parse_args().build)
    readme = Readme((ROOT / README).read_text())
    found = [*readme.problems, *entry_problems(readme, build), *file_problems(readme, build), *security_problems(build)]
    print("\n".join(found) or f"{len(build.entries)} entries, {len(files(TEST_FILES))} files: all listed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
