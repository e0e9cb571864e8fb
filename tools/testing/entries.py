"""The entries of ctest in the configured builds."""

import collections
import dataclasses
import functools
import json
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/test"  # joins the builds, so that one run of ctest has all of them
LAUNCHER = "tools/testing/alone"  # precedes the command of most entries


@dataclasses.dataclass
class Entry:
    name: str
    number: int  # ctest's, from 1
    command: list
    environment: dict
    labels: list
    needs: set  # programs of tools/programs that are built before it

    @property
    def is_end_to_end(self):
        return "e2e" in self.labels


def join(presets):
    """Result: the folder to give to ctest."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "CTestTestfile.cmake").write_text(f"subdirs({' '.join(f'../{preset}' for preset in presets)})\n")
    return FOLDER


def configured():
    """All entries of the builds of this tree that are configured."""
    builds = [
        file.parent
        for file in sorted(ROOT.glob("build/*/CTestTestfile.cmake"))
        if (file.parent / "CMakeCache.txt").exists()
    ]
    return [entry for build in builds if build.name in ("release", "asan-ubsan", "tsan") for entry in read(build)]


def read(folder, choice=()):
    """All entries that ctest chooses by its arguments `choice`, in its order.

    Failure: SystemExit with ctest's message.
    """
    shown = subprocess.run(
        ["ctest", "--test-dir", folder, "--show-only=json-v1", *choice], capture_output=True, text=True
    )
    if shown.returncode != 0:
        raise SystemExit(f"test: ctest could not list the entries: {shown.stderr}")
    found = []
    for number, test in enumerate(json.loads(shown.stdout)["tests"], 1):
        properties = {each["name"]: each["value"] for each in test.get("properties", ())}
        command = test.get("command", [])
        if command and command[0].endswith(LAUNCHER):
            command = command[1:]
        environment = dict(each.split("=", 1) for each in properties.get("ENVIRONMENT", []))
        needs = {each.removeprefix("program.") for each in properties.get("FIXTURES_REQUIRED", [])}
        found.append(Entry(test["name"], number, command, environment, properties.get("LABELS", []), needs))
    return found


@functools.cache
def sources(build):
    """{target: the sources that a configured build compiles for it}, with the tests of a batch in its place."""
    found = collections.defaultdict(set)
    compiled = build / "compile_commands.json"
    for each in json.loads(compiled.read_text()) if compiled.exists() else ():
        target = re.search(r" -o \S*CMakeFiles/([^/ ]+)\.dir/", each["command"])[1]
        batch = pathlib.Path(each["file"] + ".sources")  # cmake/osm_test.cmake
        found[target].update(map(pathlib.Path, batch.read_text().split(",") if batch.exists() else [each["file"]]))
    return found
