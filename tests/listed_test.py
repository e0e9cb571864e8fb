#!/usr/bin/python3
"""Each entry has one tier and a behaviour, each test file says its behaviour and is run, and pages that name
tests as proof name entries that exist.

usage: listed_test.py --build DIRECTORY

DIRECTORY is a configured release build. Unit tests are in the build asan-ubsan beside it. If that is not
configured, the files that entries run and the names on pages are not compared. Prints each problem with its
remedy; the exit status is 1 if there is one.
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from testing import listing  # noqa: E402

# Pages that name tests as proof. Each test of attacks stands on the first one.
SECURITY_PAGES = ["tests/security/README.md", "docs/security.md"]


def entry_problems(builds):
    for build in builds:
        for entry in build.entries:
            tiers = [label for label in entry.labels if label in listing.TIERS]
            if len(tiers) != 1:
                yield (
                    f"{entry.name}: has the tiers {tiers}: register it by osm_test() or osm_python_test() "
                    "with one TIER (cmake/osm_test.cmake)"
                )


def file_problems(rows, with_unit_tests):
    for name in sorted({row.entry for row in rows if not row.behaviour}):
        yield f"{name}: has no behaviour: begin the file that it runs with a comment that says it, or give BEHAVIOUR"
    ran = {row.file for row in rows}
    for file in listing.files(listing.TEST_FILES):
        if not listing.behaviour(file):
            yield f"{file}: begin it with a comment or docstring that says the behaviour that it shows"
        if with_unit_tests and file not in ran:
            yield f"{file}: no entry runs it: register it (tests/README.md, Add a test), and configure the builds again"
    for module, provides in listing.modules():
        if not provides:
            yield f"{module}: begin it with a comment or docstring that says what it provides"


def security_problems(names, with_unit_tests):
    """Tests that are named as proof exist; the table of attacks names all tests of attacks."""
    for page in SECURITY_PAGES:
        named = {*re.findall(r"`((?:security|unit|e2e|fuzz\.replay)\.[\w.]+)`", (ROOT / page).read_text())}
        for name in sorted(named - names if with_unit_tests else ()):
            yield f"{page}: {name}: no such entry: correct the name"
        if page == SECURITY_PAGES[0]:
            for name in sorted(names - named):
                if name.startswith("security.") and "sotw" not in name:
                    yield f"{page}: {name}: not in the table: add it to the attack that it shows"


def main():
    parser = argparse.ArgumentParser(description="Checks that the tests are registered and described.")
    parser.add_argument("--build", type=pathlib.Path, required=True)
    release = parser.parse_args().build
    sanitized = release.parent / "asan-ubsan"
    with_unit_tests = listing.is_configured(sanitized)
    builds = [listing.Build(folder) for folder in (release, sanitized) if folder == release or with_unit_tests]
    rows = [row for build in builds for row in build.rows()]
    names = {entry.name for build in builds for entry in build.entries}
    if not with_unit_tests:
        print(f"{sanitized} is not configured: not compared are the files that entries run and the names on pages")
    found = [*entry_problems(builds), *file_problems(rows, with_unit_tests), *security_problems(names, with_unit_tests)]
    print("\n".join(found) or f"{len(names)} entries, {len(listing.files(listing.TEST_FILES))} files: no problem")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
