#!/usr/bin/python3
"""tools/test on a small tree of its own: second runs, known results, the ledger, seeds and slices."""

import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))
from testing import entries, ledger, results  # noqa: E402

PRESETS = """
{"version": 6, "configurePresets": [
  {"name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build/release",
   "cacheVariables": {"HERE": "ON"}},
  {"name": "asan-ubsan", "generator": "Ninja", "binaryDir": "${sourceDir}/build/asan-ubsan"}],
 "buildPresets": [{"name": "release", "configurePreset": "release"},
  {"name": "asan-ubsan", "configurePreset": "asan-ubsan"}]}
"""
CMAKE = """
cmake_minimum_required(VERSION 3.25)
project(tiny LANGUAGES NONE)
enable_testing()
add_custom_target(tests_fast)
add_custom_target(tests_full)
function(entry name kind)
  add_test(NAME ${name} COMMAND ${PROJECT_SOURCE_DIR}/tools/testing/alone /usr/bin/python3 ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS "fast;${kind}")
endfunction()
if(HERE)
  foreach(script ${SCRIPTS})
    string(REGEX REPLACE "^(.*)_(.*)[.]py$" "\\\\2.\\\\1" name ${script})
    string(REGEX REPLACE "^.*_(.*)[.]py$" "\\\\1" kind ${script})
    entry(${name} ${kind} ${PROJECT_SOURCE_DIR}/tests/${script})
  endforeach()
endif()
"""
COUNT = "import os\nwith open({0!r}, 'a') as f: f.write(os.path.basename(__file__) + '\\n')\n"


class RunnerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name, "tree")
        self.ran, self.cache = pathlib.Path(folder.name, "ran"), pathlib.Path(folder.name, "cache")
        (self.root / "tools").mkdir(parents=True)
        shutil.copy(ROOT / "tools/test", self.root / "tools/test")
        shutil.copytree(
            ROOT / "tools/testing", self.root / "tools/testing", ignore=shutil.ignore_patterns("__pycache__")
        )
        (self.root / "tools/setup").write_text("#!/bin/sh\n")
        (self.root / "tools/setup").chmod(0o755)
        (self.root / "CMakePresets.json").write_text(PRESETS)
        self.cache.mkdir()

    def script(self, name, text=""):
        """A test that notes that it ran, and then does as `text` says."""
        file = self.root / "tests" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(COUNT.format(str(self.ran)) + text)

    def run_tool(self, *arguments, **variables):
        """(exit status, output); `self.last` has the scripts that ran, in order."""
        scripts = sorted(p.name for p in (self.root / "tests").glob("*_*.py"))
        (self.root / "CMakeLists.txt").write_text(CMAKE.replace("${SCRIPTS}", " ".join(scripts)))
        before = self.ran.read_text() if self.ran.exists() else ""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("OSM_", "CTEST_"))}
        ran = subprocess.run(
            [self.root / "tools/test", *arguments],
            env={**environment, "OSM_CACHE_DIR": str(self.cache), **variables},
            capture_output=True,
            text=True,
        )
        self.last = (self.ran.read_text() if self.ran.exists() else "").removeprefix(before).split()
        return ran.returncode, ran.stdout + ran.stderr

    def write(self, files):
        for name, text in files.items():
            file = self.root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def compile(self, test, header):
        """The build of a program `one_test` from one test, in a batch, that includes a header."""
        batch = self.root / "build/release/batch.cpp"
        compiled = {"file": str(batch), "command": "c++ -o tests/CMakeFiles/one_test.dir/batch.cpp.o"}
        self.write(
            {
                "build/release/compile_commands.json": json.dumps([compiled]),
                "build/release/batch.cpp.sources": str(self.root / "tests/one/some_test.cpp"),
                "tests/one/some_test.cpp": f'#include "one/help.hpp"\n{test}\n',
                "tests/one/help.hpp": header,
            }
        )

    def changes(self, command, names, entry="unit.one"):
        """Those of the files of the tree whose change gives the entry of this command another key."""

        def key():
            for cached in (results.tree, results.content, results.imported, results.literals):
                cached.cache_clear()
            return results.key(entries.Entry(entry, 1, [str(self.root / command[0]), *command[1:]], {}, [], set()))

        found = []
        with (
            unittest.mock.patch.object(results, "ROOT", self.root),
            unittest.mock.patch.object(results, "machine", lambda: ""),
        ):
            for name in names:
                before = key()
                with (self.root / name).open("a") as file:
                    file.write("more")
                if key() != before:
                    found.append(name)
        results.tree.cache_clear()
        results.content.cache_clear()
        return found

    def old_rows(self, *names):
        """Adds a row of 20 days ago for each of the entries to the ledger."""
        date = ledger.now() - datetime.timedelta(20)
        with (self.cache / "ledger.tsv").open("a") as file:
            file.write("".join(f"{date.isoformat()}\tc0ffee\t{name}\tpassed\t1.0\n" for name in names))

    def run_check(self, *arguments):
        """(exit status, output) of tools/check on the tree, whose linter finds nothing."""
        shutil.copy(ROOT / "tools/check", self.root / "tools/check")
        linter = self.root / "build/tools/ruff/any/scripts/ruff"
        linter.parent.mkdir(parents=True, exist_ok=True)
        linter.write_text("#!/bin/sh\n")
        linter.chmod(0o755)
        ran = subprocess.run(
            [self.root / "tools/check", *arguments],
            env={**os.environ, "OSM_CACHE_DIR": str(self.cache)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        return ran.returncode, ran.stdout + ran.stderr

    def results(self):
        return {row.entry: row.result for row in ledger.read(self.cache / "ledger.tsv")}

    def test_an_end_to_end_entry_that_passes_at_its_second_run_is_flaky(self):
        self.script("good_e2e.py")
        self.script("odd_e2e.py", f"assert open({str(self.ran)!r}).read().count('odd_e2e') > 1, 'too early'\n")
        status, output = self.run_tool()
        self.assertEqual(status, 0, output)
        self.assertEqual(sorted(self.last), ["good_e2e.py", "odd_e2e.py", "odd_e2e.py"])
        self.assertIn(
            "flaky: e2e.odd: a defect; compare build/test/first_run.log and build/test/second_run.log\n"
            "      AssertionError: too early\n",
            output,
        )
        for log, verdict in (("first_run", "Test Failed"), ("second_run", "Test Passed")):
            self.assertIn(verdict, (self.root / f"build/test/{log}.log").read_text())
        self.assertIn("100% tests passed, 0 tests failed out of 1", "\n".join(output.splitlines()[-8:]))
        self.assertEqual(self.results(), {"e2e.good": "passed", "e2e.odd": "flaky"})
        self.run_tool()
        self.assertEqual(self.last, ["odd_e2e.py"], "what was flaky is not known to pass")

    def test_an_end_to_end_entry_that_fails_twice_fails_the_run(self):
        self.script("bad_e2e.py", "raise SystemExit('broken')\n")
        status, output = self.run_tool()
        self.assertEqual((status, self.last), (1, ["bad_e2e.py"] * 2), output)
        self.assertIn("   failed: e2e.bad: broken\n", "\n".join(output.splitlines()[-14:]))
        self.assertEqual(self.results(), {"e2e.bad": "failed"})

    def test_a_unit_test_is_never_repeated(self):
        self.script("bad_unit.py", "raise SystemExit('broken')\n")
        self.script("bad_e2e.py", "raise SystemExit('broken')\n")
        status, output = self.run_tool()
        self.assertEqual((status, sorted(self.last)), (1, ["bad_e2e.py", "bad_unit.py"]), output)

    def test_an_entry_is_skipped_while_all_that_it_reads_is_as_it_was(self):
        (self.root / "docs").mkdir()
        (self.root / "docs/page.md").write_text("one")
        (self.root / "tests/lib").mkdir(parents=True)
        (self.root / "tests/lib/help.py").write_text("VALUE = 1\n")
        self.script("plain_unit.py")
        self.script("reader_e2e.py", "PAGE = 'docs/page.md'\n")
        self.script("user_e2e.py", "import sys\nsys.path.insert(0, sys.path[0])\nfrom lib import help\n")
        everything = ["plain_unit.py", "reader_e2e.py", "user_e2e.py"]
        self.assertEqual((self.run_tool()[0], sorted(self.last)), (0, everything))
        status, output = self.run_tool()
        self.assertEqual((status, self.last), (0, []), output)
        self.assertIn("skipped: e2e.reader", output)
        self.assertEqual(output.splitlines()[-1], "3 passed, 0 failed")
        self.assertEqual(self.results(), {"unit.plain": "known", "e2e.reader": "known", "e2e.user": "known"})
        for change, again in (("docs/page.md", "reader_e2e.py"), ("tests/lib/help.py", "user_e2e.py")):
            (self.root / change).write_text("VALUE = 2\n")
            self.assertEqual((self.run_tool()[0], self.last), (0, [again]), change)
        self.script("plain_unit.py", "x = 1\n")
        self.assertEqual((self.run_tool()[0], self.last), (0, ["plain_unit.py"]))
        self.assertEqual((self.run_tool("--again")[0], sorted(self.last)), (0, everything))

    def test_a_run_of_a_given_seed_neither_skips_an_entry_nor_keeps_a_result(self):
        self.script("random_unit.py")
        for variable in ("SEED", "LONG", "STRICT", "SEQUENCE"):
            self.assertEqual((self.run_tool(**{f"OSM_TEST_{variable}": "1"})[0], self.last), (0, ["random_unit.py"]))
        self.assertEqual((self.run_tool()[0], self.last), (0, ["random_unit.py"]))
        self.assertEqual((self.run_tool()[0], self.last), (0, []))
        self.assertEqual((self.run_tool(OSM_TEST_SEED="4")[0], self.last), (0, ["random_unit.py"]))

    def test_each_entry_has_a_network_of_its_own(self):
        if os.geteuid() != 0:
            self.fail("namespaces need root: sudo tools/test")
        check = "import socket\ns = socket.create_server(('127.0.0.1', 18081))\nimport time\ntime.sleep(1)\n"
        for name in ("first_unit.py", "second_unit.py"):
            self.script(name, check)
        status, output = self.run_tool()
        self.assertEqual(status, 0, output)

    def test_a_seed_that_fails_is_named(self):
        self.script("random_unit.py", "raise SystemExit(os.environ['OSM_TEST_SEED'] == '4')\n")
        status, output = self.run_tool("--seeds", "5", "random")
        self.assertEqual((status, len(self.last)), (1, 5), output)
        self.assertIn("failed: OSM_TEST_SEED=4 unit.random", output)
        self.assertEqual(output.splitlines()[-1], "4 passed, 1 failed")
        self.assertIn("no entry of this tier matches nothing", self.run_tool("--seeds", "5", "nothing")[1])
        self.assertIn("--seeds takes a number", self.run_tool("--seeds", "random")[1])

    def test_an_unknown_slice_is_told_with_those_there_are(self):
        status, output = self.run_tool("--slice", "nonsense")
        self.assertEqual(status, 1)
        self.assertRegex(output, "there is no slice nonsense; there are:\n  sanitizers")

    def test_an_entry_runs_after_the_programs_that_its_script_names(self):
        # Entries of slices too, except of programs that no entry builds.
        configured = entries.configured()
        built = {entry.name.removeprefix("program.") for entry in configured}
        late = {entry.name: (results.programs(entry) & built) - entry.needs for entry in configured}
        self.assertIn("vault", results.programs(next(e for e in configured if e.name == "e2e.vault")))
        self.assertEqual({name: needs for name, needs in late.items() if needs}, {}, "osm_test's NEEDS is missing")

    def link(self, commit, code="return 0;"):
        """A program that tells a commit as the daemons do, beside other strings. Result: its content."""
        values = {"OSM_COMMIT": commit, "PROJECT_VERSION": "1.2.3", "OSM_LINKED_TEXT": "gRPC 1.0"}
        folder = self.root / "version"
        for source, name in (("version.hpp.in", "daemons/version.hpp"), ("version.cpp.in", "version.cpp")):
            text = (ROOT / "daemons/common" / source).read_text()
            self.write({f"version/{name}": re.sub(r"@(\w+)@", lambda match: values[match[1]], text)})
        strings = ", ".join(f'"string {number}"' for number in range(200))
        self.write(
            {
                "version/main.cpp": f"""#include <cstdio>
#include "daemons/version.hpp"
const char* volatile strings[] = {{{strings}}};
int main() {{ std::puts(osm::kVersionText); std::puts(osm::kCommit); {code} }}
"""
            }
        )
        program = folder / "program"
        subprocess.run(
            ["c++", "-std=c++20", "-O2", "-I.", "-fuse-ld=mold", "main.cpp", "version.cpp", "-o", program],
            cwd=folder,
            check=True,
        )
        told = subprocess.run([program], capture_output=True, text=True, check=True).stdout
        self.assertEqual(told, f"1.2.3 ({commit})\nbuilt with gRPC 1.0\n{commit}\n")
        return program.read_bytes()

    def test_a_program_is_the_same_at_another_commit(self):
        def key(commit, **arguments):
            return results.without_commit(self.link(commit, **arguments), commit.encode())

        one, another = "c0ffee000001", "decade0000f2"
        self.assertEqual(key(one), key(another), "the commit moves other parts of the program")
        self.assertNotEqual(key(one), key(one, code="return osm::kCommit[0] == 0;"))

    def test_what_the_sources_of_a_program_name_belongs_to_its_key(self):
        read = {
            "build/release/bin/one_test": "",
            "build/release/bin/osm": "",
            "docs/page.md": "",
            "examples/two/in.yaml": "",
            "tests/data/golden/case/in.yaml": "",
        }
        unread = {
            "build/release/bin/osm-cni": "",
            "docs/another.md": "",
            "charts/values.yaml": "",
            "tests/data/fuzz/seed": "",
        }
        self.write({**read, **unread})
        self.compile(
            'run(beside_this_program("osm")); text_of("docs/page.md");',
            'open(source_dir() / "tests/data/golden/" / name); open(source_dir() / "examples/two");',
        )
        self.assertEqual(self.changes(["build/release/bin/one_test"], [*read, *unread]), [*read])

    def test_everything_that_a_program_may_read_belongs_to_its_key_if_its_sources_are_not_known(self):
        names = ["docs/page.md", "examples/in.yaml", "tests/data/golden/in.yaml", "build/release/bin/osm"]
        self.write({name: "" for name in ["build/release/bin/other", *names]})
        self.assertEqual(self.changes(["build/release/bin/other"], names), names)

    def test_a_page_belongs_to_the_key_of_a_script_that_reads_it_and_not_of_one_that_mentions_it(self):
        page, readme, data = names = ["docs/page.md", "tests/one/README.md", "tests/one/in.yaml"]
        self.write({name: "" for name in names})
        for text, read in (
            ("", [data]),
            ("'docs/page.md and README.md say so.'  # see docs\n", [data]),
            ("PAGE = ROOT / 'docs' / name\n", [page, data]),
            ('PAGES = f"""\ndocs/{name}\n""".split()\n', [page, data]),
            ("def page():\n    'Result: the text.'\n    return open(FOLDER / 'README.md').read()\n", [readme, data]),
        ):
            self.script("one/reader_unit.py", text)
            script = str(self.root / "tests/one/reader_unit.py")
            self.assertEqual(self.changes(["/usr/bin/python3", script], names), read, text)

    def test_the_registration_of_a_test_is_not_in_the_keys_of_its_neighbours(self):
        registration, data = names = ["tests/one/CMakeLists.txt", "tests/one/in.yaml"]
        self.write({name: "" for name in names})
        self.script("one/reader_unit.py")
        command = ["/usr/bin/python3", str(self.root / "tests/one/reader_unit.py")]
        self.assertEqual(self.changes(command, names), [data])
        self.assertEqual(self.changes(command, names, "consumer.one"), names, "it configures what is there")

    def test_folders_of_data_that_an_entry_names_belong_to_its_key(self):
        golden, fuzz, inject = data = [f"tests/data/{name}/in.yaml" for name in ("golden", "fuzz", "inject")]
        self.write({name: "" for name in data})
        for text, read in (
            ("", []),
            ("BASE = pathlib.Path(__file__).parent.parent / 'data/inject'", [inject]),
            ("ROOT / 'tests/data/golden'  # and data/fuzz/one", [golden, fuzz]),
            ('ROOT / "tests" / "data" / "golden"', [golden]),
            ("ROOT / 'tests/data'", data),
        ):
            self.script("one/reader_unit.py", text)
            script = str(self.root / "tests/one/reader_unit.py")
            self.assertEqual(self.changes(["/usr/bin/python3", script], data), read, text)
        self.write({"build/release/bin/one_test": ""})
        self.compile("", "")
        self.assertEqual(self.changes(["build/release/bin/one_test", str(self.root / "tests/data/fuzz")], data), [fuzz])

    def test_results_are_known_after_a_run_that_built_programs(self):
        def machine():
            for cached in (results.machine, results.tree, results.content):
                cached.cache_clear()
            return results.machine()

        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(results, "ROOT", pathlib.Path(folder)):
            source = results.ROOT / "tools/programs/one/go.mod"
            source.parent.mkdir(parents=True)
            source.write_text("one")
            before = machine()
            built = results.ROOT / "build/tools/one/bin/.inputs"
            built.parent.mkdir(parents=True)
            built.write_text("inputs")
            self.assertEqual(machine(), before)
            source.write_text("another")
            self.assertNotEqual(machine(), before)
        machine()

    def test_the_ledger_reports_age_and_second_runs_of_entries_that_exist(self):
        today = datetime.datetime(2030, 1, 31, tzinfo=datetime.UTC)

        def row(days, entry, result):
            return ledger.Row(today - datetime.timedelta(days), "c0ffee", entry, result, "1")

        rows = [
            row(40, "e2e.lost", "passed"),
            row(2, "e2e.lost", "failed"),
            row(14, "e2e.old", "passed"),
            row(13, "e2e.new", "passed"),
            row(3, "e2e.odd", "flaky"),
            row(50, "e2e.gone", "passed"),
            row(40, "e2e.known", "passed"),
            row(1, "e2e.known", "known"),
            row(16, "e2e.unchanged", "known"),
        ]
        names = {"e2e.lost", "e2e.old", "e2e.new", "e2e.odd", "e2e.never", "e2e.known", "e2e.unchanged"}
        found = list(ledger.problems(rows, today, names))
        self.assertEqual(
            found,
            [
                "ledger: e2e.lost passed last 40 days ago, lost: run its tier or slice",
                "ledger: e2e.never has not passed in the ledger's 50 days, lost: run its tier or slice",
                "ledger: e2e.old passed last 14 days ago: run its tier or slice",
                "ledger: e2e.unchanged passed last 16 days ago: run its tier or slice",
                "ledger: e2e.odd needed a second run 1 times in 30 days (c0ffee): name its cause",
            ],
        )

    def test_the_ledger_knows_entries_of_thread_sanitizer_while_that_build_is_not_configured(self):
        today = datetime.datetime(2030, 1, 31, tzinfo=datetime.UTC)
        before = today - datetime.timedelta(20)
        rows = [ledger.Row(before, "c0ffee", f"tsan.unit.{name}", "passed", "1") for name in ("ads", "gone")]
        old = ["ledger: tsan.unit.ads passed last 20 days ago: run its tier or slice"]
        new = [ledger.Row(today, "c0ffee", name, "passed", "1") for name in ("unit.ads", "tsan.unit.net")]
        self.assertEqual(list(ledger.problems(iter(rows + new), today, {"unit.ads"})), old)
        self.assertEqual(list(ledger.problems(rows + new, today, {"unit.ads", "tsan.unit.net"})), [])

    def test_the_check_passes_without_a_ledger_and_says_so(self):
        for arguments in ([], ["--ledger"]):
            status, output = self.run_check(*arguments)
            self.assertEqual(status, 0, output)
            self.assertIn("there is no ledger of test runs", output)

    def test_a_name_of_a_module_that_is_assigned_twice_is_a_problem(self):
        self.script(
            "good_unit.py",
            "if os.name:\n    A = 1\nelse:\n    A = 2\nB = [1]\nB = B + [0 for _ in B]\n"
            "D = [0 for _ in B]\nC: int\nC = 3\n",
        )
        self.assertEqual(self.run_check()[0], 0)
        self.script("good_unit.py", "A = B = 1\nC = 2\n(B, D) = 3, 4\nC: int = 5\n")
        status, output = self.run_check()
        self.assertEqual(status, 1)
        self.assertIn("tests/good_unit.py:5: B is assigned a second time: keep one of the two", output)
        self.assertIn("tests/good_unit.py:6: C is assigned a second time: keep one of the two", output)
        self.assertIn(" 2 problems\n", output)

    def test_an_old_entry_is_a_warning_of_the_tier_and_an_error_of_check_ledger(self):
        def lapse(name):
            return f"ledger: {name} passed last 20 days ago: run its tier or slice"

        self.script("good_unit.py")
        self.script("old_e2e.py")
        self.old_rows("unit.good", "e2e.old", "tsan.unit.good")
        status, output = self.run_tool("-R", "good")
        self.assertEqual(status, 0, output)
        self.assertNotIn(lapse("unit.good"), output)
        for name in ("e2e.old", "tsan.unit.good"):
            self.assertIn(f"warning: {lapse(name)}\n", output)
            self.assertIn(f"warning: {lapse(name)}\n", self.run_check()[1])
            self.assertIn(f"\n{lapse(name)}\n", self.run_check("--ledger")[1])
        self.assertEqual((self.run_check()[0], self.run_check("--ledger")[0]), (0, 1))
        (self.cache / "ledger.tsv").unlink()
        self.run_tool("--again")
        self.assertEqual(self.run_check("--ledger")[0], 0)


unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
