#!/usr/bin/python3
"""tools/mutate changes code only, has the right verdict on each mutant of a tiny project, and leaves nothing
behind. The project has a compiler's command and a test program of its own."""

import contextlib
import hashlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from lib.net.processes import wait_for

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/mutate"
# The test is compiled once.
BUILD = "[ -e test.o ] || g++ -c -o test.o tests/{room}/*.cpp && g++ -w -o {room}_test libosm/{room}/*.cpp test.o"
SOURCE = """\
// A comment: true && false.
#define LEAST 1
void note(int value);
int clamp(int value) {
  if (value < 0) return 0;
  while (value > 100) value /= 2;
  note(value);
  switch (value) {
    case 7: return 0 == 0;
    case 8: return 2;
  }
  return value;
}
"""
TEST = """\
extern "C" int printf(const char*, ...);
int clamp(int value);
int noted = 0;
void note(int value) { noted = value; }
int check(const char* name, bool passed) {
  if (!passed) printf("TEST CASE:  %s\\n\\nclamp_test.cpp:9: ERROR: CHECK\\n", name);
  return passed ? 0 : 1;
}
int main() {
  return check("inside", clamp(50) == 50) | check("below", clamp(-5) == 0) | check("above", clamp(200) == 100) |
         check("seven", clamp(7) == 1);
}
"""
# Verdict on each possible change of SOURCE.
VERDICTS = {
    (5, "if (value [< → <=] 0) return 0;"): "survived",
    (5, "if (value < [0 → 1]) return 0;"): "survived",
    (5, "if (value < 0) return [0 → 1];"): "killed by below",
    (5, "if ([value < 0 → !(…)]) return 0;"): "killed by inside",
    (5, "if (value < 0) [return 0; → {}]"): "killed by below",
    (6, "while (value [> → >=] 100) value /= 2;"): "killed by above",
    (6, "while (value > [100 → 101]) value /= 2;"): "survived",
    (6, "while (value > [100 → 99]) value /= 2;"): "killed by above",
    (6, "while (value > 100) value /= [2 → 3];"): "killed by above",
    (6, "while (value > 100) value /= [2 → 1];"): "timed out",
    (6, "while ([value > 100 → !(…)]) value /= 2;"): "timed out",
    (7, "[note(value); → {}]"): "survived",
    (9, "case [7 → 8]: return 0 == 0;"): "does not compile",
    (9, "case [7 → 6]: return 0 == 0;"): "killed by seven",
    (9, "case 7: return [0 → 1] == 0;"): "killed by seven",
    (9, "case 7: return 0 [== → !=] 0;"): "killed by seven",
    (9, "case 7: return 0 == [0 → 1];"): "killed by seven",
    (10, "case [8 → 9]: return 2;"): "survived",
    (10, "case [8 → 7]: return 2;"): "does not compile",
    (10, "case 8: return [2 → 3];"): "survived",
    (10, "case 8: return [2 → 1];"): "survived",
}


def load(tool=TOOL):
    loader = importlib.machinery.SourceFileLoader("mutate", str(tool))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
    sys.modules["mutate"] = module
    loader.exec_module(module)
    return module


def has_ended(pid):
    """Also if nothing has waited for it yet."""
    try:
        return "\nState:\tZ" in pathlib.Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


class Changes(unittest.TestCase):
    """Changes to one piece of C++, as texts of the whole piece."""

    def changed(self, text, kind=None):
        found = load().edits(text)
        return {text[:start] + new + text[end:] for each, start, end, new in found if kind in (None, each)}

    def test_text_that_is_no_code_is_never_changed(self):
        for text in (
            "// a < b && true\n",
            "/* if (a) return;\n f(); */\n",
            "#include <a>\n#define A(x) \\\n  if (x == 1) return\n",
            'auto a = "1 < 2";\n',
            "auto a = '0';\n",
            'auto a = R"x(1 < 2 "" true)x";\n',
            "  OSM_CHECK(a < 1 && f(true));\n",
            "static_assert(a == 1);\n",
            "{ log_.warning(a == 1, true); options.log->info(f(2)); log().debug(3); }",
        ):
            self.assertEqual(self.changed(text), set(), text)

    def test_code_behind_text_that_is_no_code_is_changed(self):
        self.assertEqual(self.changed('a = "//" == b; // \''), {'a = "//" != b; // \''})
        self.assertEqual(self.changed("a = c == '\\'';"), {"a = c != '\\'';"})

    def test_operators_are_exchanged_and_brackets_of_templates_are_not(self):
        for old, new in (("<", "<="), (">", ">="), ("==", "!="), ("&&", "||")):
            self.assertEqual(self.changed(f"x = a {old} b;"), {f"x = a {new} b;"})
            self.assertEqual(self.changed(f"x = a {new} b;"), {f"x = a {old} b;"})
        self.assertEqual(self.changed("std::vector<int> f(A&& a, B<C>&& b) { x << a; x->b; }"), set())
        self.assertEqual(self.changed("bool a = true, is_true;"), {"bool a = false, is_true;"})

    def test_integers_are_one_more_or_one_less(self):
        self.assertEqual(self.changed("x = 10s;"), {"x = 11s;", "x = 9s;"})
        self.assertEqual(self.changed("x = 1'000;"), {"x = 1001;", "x = 999;"})
        self.assertEqual(self.changed("x = 0;"), {"x = 1;"})
        self.assertEqual(self.changed("x1 = 0x10 + 1.5 + 0600 + v2;"), set())

    def test_conditions_are_negated(self):
        for old, new in (
            ("if (a) b = c;", "if (!(a)) b = c;"),
            ("while (f(a, b)) ++b;", "while (!(f(a, b))) ++b;"),
            ("if (auto a = f(); a->b) b = c;", "if (auto a = f(); !(a->b)) b = c;"),
            ("if (const auto* a = f(b)) b = c;", "if (const auto* a = f(b); !a) b = c;"),
            ("if (x = f(); const T a = g()) b = c;", "if (x = f(); const T a = g(); !a) b = c;"),
        ):
            self.assertEqual(self.changed(old), {new})
        self.assertEqual(self.changed("if constexpr (a) b = c;"), set())
        self.assertEqual(self.changed("while (true) b = c;"), {"while (false) b = c;"})

    def test_bodies_of_early_returns_are_emptied(self):
        for old, new in (
            ("if (a) return;", "if (a) {}"),
            ("if (a)\n  return f({b});", "if (a)\n  {}"),
            ("if (a) {\n  continue;  // why\n}", "if (a) {}"),
        ):
            self.assertEqual(self.changed(old, "guard"), {new})
        for text in ("if (a) { f(); return; }", "if (a) b = c; return;", "while (a) break;"):
            self.assertEqual(self.changed(text, "guard"), set())

    def test_statements_that_are_only_a_call_are_dropped(self):
        for old, new in (
            ("{ f(); }", "{ {} }"),
            ("if (a) b.c->d(e(), [&] { return g; });", "if (a) {}"),
            ("else std::sort(a);", "else {}"),
            ("; a(b)[c].d();", "; {}"),
            ("{ OSM_TRY(f(a, b)); }", "{ {} }"),
        ):
            self.assertEqual(self.changed(old, "call"), {new})
        for text in (
            "{ return f(); }",
            "{ a = f(); }",
            "{ T a(b); }",
            "{ f(a) = b; }",
            "{ OSM_TRY(const auto a, f()); }",
            "{ OSM_TRY(T* a, f()); }",
            "A::A() : a_(b) {}",
        ):
            self.assertEqual(self.changed(text, "call"), set(), text)


class Runs(unittest.TestCase):
    """The tool in a tiny project: a copy of it, one room, one test program."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.project = self.directory / "project"
        self.write("libosm/tiny/clamp.cpp", SOURCE)
        self.write("libosm/tiny/other.cpp", "bool other() { return true; }\n")
        self.write("libosm/untested/a.cpp", "bool a() { return true; }\n")
        self.write("tests/tiny/clamp_test.cpp", TEST)
        self.write(".gitignore", "build/\n")
        (self.project / "tools").mkdir()
        shutil.copy(TOOL, self.project / "tools/mutate")
        self.git("init", "-q")
        self.commit()
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")

    def write(self, name, text):
        (self.project / name).parent.mkdir(parents=True, exist_ok=True)
        (self.project / name).write_text(text)

    def git(self, *arguments, **environment):
        author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        command = ["git", *author, *arguments]
        subprocess.run(command, cwd=self.project, env=os.environ | environment, check=True, capture_output=True)

    def commit(self, hours=0):
        """`hours` after the first commit."""
        self.git("add", ".")
        self.git("commit", "-q", "-m", "a", GIT_COMMITTER_DATE=f"{1_700_000_000 + hours * 3600} +0000")

    def start(self, *arguments, build=BUILD, test="./{room}_test", seed="7"):
        return subprocess.Popen(
            [self.project / "tools/mutate", "--build-command", build, "--test-command", test, *arguments],
            env=os.environ | {"OSM_TEST_SEED": seed},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run_tool(self, *arguments, status=0, **how):
        process = self.start(*arguments, **how)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, status, out + err)
        return out, err

    def tree(self):
        files = (path for path in sorted(self.project.rglob("*")) if path.is_file() and ".git" not in path.parts)
        return {str(path): (hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns) for path in files}

    def test_each_mutant_has_its_verdict_and_the_tree_stays_as_it_is(self):
        before = self.tree()
        out, _ = self.run_tool("tiny", "--file", "clamp.cpp", "--timeout", "2", "-o", "json")
        answer = json.loads(out)
        verdicts = {
            (each["line"], each["change"]): each["verdict"] + (f" by {each['killer']}" if each["killer"] else "")
            for each in answer["mutants"]
        }
        self.assertEqual(verdicts, VERDICTS)
        self.assertEqual({each["file"] for each in answer["mutants"]}, {"libosm/tiny/clamp.cpp"})
        self.assertEqual(
            answer["counts"], {"killed": 10, "survived": 7, "does not compile": 2, "timed out": 2, "not tried": 0}
        )
        self.assertEqual(answer["seed"], 7)
        self.assertEqual(self.tree(), before)

    def test_the_seed_chooses_the_mutants_of_a_table(self):
        runs = [self.run_tool("tiny", "--limit", "2", build="true", test="true", seed=seed) for seed in ("5", "5", "6")]
        self.assertIn("2 of 22 possible changes (OSM_TEST_SEED=5)", runs[0][1])
        tables = [out.splitlines() for out, _ in runs]
        self.assertEqual(tables[0], tables[1])
        self.assertNotEqual(tables[0][1:3], tables[2][1:3])
        self.assertEqual(tables[0][0].split(), ["file", "line", "change", "verdict"])
        for row in tables[0][1:3]:
            self.assertRegex(row, r"^libosm/tiny/(clamp|other)\.cpp +\d+ .*\[.* → .*\].*survived$")
        counts = "0 killed, 2 survived, 0 does not compile, 0 timed out, 0 not tried (OSM_TEST_SEED=5)"
        self.assertEqual(tables[0][3:], [counts])

    def test_a_planted_fault_must_be_found_as_it_says(self):
        fault = {"file": "libosm/tiny/clamp.cpp", "before": "value < 0", "after": "value < 9", "says": "TEST CASE:  b"}
        told = {"build": BUILD.replace("{room}", "tiny"), "test": "./tiny_test", "faults": [fault]}

        def ends_with(status):
            self.write("planted.json", json.dumps(told))
            return self.run_tool("--planted", self.project / "planted.json", status=status)

        fault["after"] = "value > 100"
        self.assertRegex(ends_with(0)[0], r"clamp\.cpp +5 +.*killed by: TEST CASE:  below\n1 killed")
        fault["says"] = "TEST CASE:  seven"
        self.assertIn("survived by: exit status 1 for another reason", ends_with(1)[0])
        fault["before"] = "value"
        self.assertIn("libosm/tiny/clamp.cpp has 8 times and not once: value", ends_with(2)[1])

    def test_the_planted_faults_of_the_tree_can_be_planted(self):
        _, _, mutants = load().planted(TOOL.parents[1] / "tests/e2e/planted.json")
        self.assertEqual(len(mutants), 4)

    def test_a_bound_on_time_leaves_mutants_out(self):
        out, _ = self.run_tool("tiny", "--limit", "2", "--minutes", "0", build="false")
        self.assertIn("0 timed out, 2 not tried (OSM_TEST_SEED=7)", out)

    def test_changed_files_are_those_that_differ_from_the_base(self):
        def changed(*arguments):
            out, err = self.run_tool("--changed", *arguments, build="true", test="true")
            return [row.split()[0] for row in out.splitlines()[1:-1]], err

        self.assertEqual(changed("HEAD")[0], [])
        self.write("libosm/tiny/other.cpp", "bool other() { return false; }\n")
        self.write("libosm/untested/a.cpp", "bool a() { return false; }\n")
        self.commit()
        self.write("libosm/tiny/new.cpp", "bool added() { return false; }\n")
        files, err = changed()
        self.assertEqual(files, ["libosm/tiny/new.cpp", "libosm/tiny/other.cpp"])
        self.assertIn("3 sources of libosm/ differ", err)
        self.assertIn("untested: left out, since untested has no unit tests", err)
        self.assertEqual(changed("HEAD")[0], ["libosm/tiny/new.cpp"])

    def test_on_the_main_branch_the_changes_of_the_last_day_are_those_of_the_base(self):
        self.write("libosm/tiny/other.cpp", "bool other() { return false; }\n")
        self.commit(hours=20)
        self.write("libosm/tiny/new.cpp", "bool added() { return false; }\n")
        self.commit(hours=30)
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")
        out, _ = self.run_tool("--changed", build="true", test="true")
        self.assertEqual(
            [row.split()[0] for row in out.splitlines()[1:-1]], ["libosm/tiny/new.cpp", "libosm/tiny/other.cpp"]
        )

    def test_a_failure_without_a_change_is_an_error(self):
        _, err = self.run_tool("tiny", status=1, build="true", test="echo the output; exit 3")
        self.assertIn("tiny: the tests fail without a change\nthe output", err)
        self.write("libosm/tiny/other.cpp", "no C++ = true\n")
        _, err = self.run_tool("tiny", status=1)
        self.assertIn("tiny: the build fails without a change\n", err)
        self.assertFalse((self.project / "build/mutate").exists())

    def test_a_wrong_command_is_refused(self):
        tool = load(self.project / "tools/mutate")
        for arguments, said in (
            ([], "name a room"),
            (["none"], "no such room"),
            (["untested"], "no unit tests"),
            (["tiny", "--tests", "tiny,untested"], "no unit tests"),
            (["tiny", "--changed"], "name a room"),
            (["tiny", "--file", "none.cpp"], "no such room or file"),
            (["--changed", "none"], "none"),
            (["tiny", "--limit", "0"], "at least 1"),
            (["tiny", "-o", "none"], "invalid choice"),
        ):
            err = io.StringIO()
            with self.subTest(arguments), contextlib.redirect_stderr(err), self.assertRaises(SystemExit) as ended:
                with unittest.mock.patch("sys.argv", ["mutate", *arguments]):
                    tool.parse()
            self.assertEqual(ended.exception.code, 2)
            self.assertIn(said, err.getvalue())

    def test_an_interrupt_ends_the_run_and_prints_the_table_so_far(self):
        before = self.tree()
        # The second mutant that is killed does not end by itself.
        once, pid = self.directory / "once", self.directory / "pid"
        test = (
            f"./{{room}}_test || if [ -e {once} ]; then sleep 600 & echo $! >{pid}; wait; else touch {once}; exit 1; fi"
        )
        process = self.start("tiny", "--file", "clamp.cpp", "--timeout", "300", test=test)
        self.addCleanup(process.kill)
        sleeping = wait_for("the second mutant runs", lambda: pid.exists() and pid.read_text().strip(), timeout=60)
        self.run_tool("tiny", status=2)  # one run at a time
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertRegex(out, r"\n1 killed, .* 0 timed out, [1-9]\d* not tried \(OSM_TEST_SEED=7\)\n$")
        self.assertRegex(out, r"^file +line +change +verdict\n")
        self.assertRegex(out, r"\nlibosm/tiny/clamp.cpp +\d+ +.*\[.* → .*\].* killed by: (in|be|ab|se)\w+\n")
        self.assertFalse((self.project / "build/mutate").exists())
        wait_for("no process stays", lambda: has_ended(sleeping))
        self.assertEqual(self.tree(), before)


if __name__ == "__main__":
    unittest.main()
