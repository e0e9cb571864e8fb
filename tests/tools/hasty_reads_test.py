#!/usr/bin/python3
"""tools/check finds an assertion about state directly behind a write that does not wait."""

import importlib.machinery
import importlib.util
import pathlib
import textwrap
import unittest
from unittest import mock

CHECK = str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "check")
loader = importlib.machinery.SourceFileLoader("check", CHECK)
check = importlib.util.module_from_spec(importlib.util.spec_from_loader("check", loader))
loader.exec_module(check)

WRITE = 'self.rig.mesh.write("a.yaml", a, wait=False)'
READ = "self.assertEqual(self.client.get(HOST, PORT, PATH)[0], 200)"


class HastyReads(unittest.TestCase):
    def found(self, *lines, before=""):
        """Lines of the function's body, counted from 1, that are found."""
        body = textwrap.indent("\n".join(lines), "    ")
        text = f"{before}def test(self):\n{body}\n"
        with mock.patch.object(check, "text_of", lambda name: text):
            problems = list(check.hasty_reads(["tests/e2e/some_test.py"]))
        for problem in problems:
            self.assertIn("write without wait=False, or read in wait_for()", problem)
        return [int(problem.split(":")[1]) - 1 - before.count("\n") for problem in problems]

    def test_each_read_of_state_behind_a_write_that_does_not_wait(self):
        for read in (
            READ,
            "self.assertIn('server', self.proxies())",
            "self.assertEqual(self.controller.metric('osm_problems'), 0)",
            "assert not self.rig.problems()",
            "self.assertEqual([], self.rig.admin('GET', '/v1/problems')['problems'])",
        ):
            with self.subTest(read):
                self.assertEqual([2], self.found(WRITE, read))

    def test_each_write_that_does_not_wait(self):
        for write in (
            "self.rig.mesh.remove('a.yaml', wait=False)",
            "self.write_text('a.yaml', text, wait=False)",
            "(self.rig.mesh.path / 'a.yaml').unlink()",
            "(self.mesh / 'a.yaml').write_text(text)",
            "self.rig.osm('apply', '-f', file)",
        ):
            with self.subTest(write):
                self.assertEqual([2], self.found(write, READ))

    def test_blocks_are_followed_in_the_order_of_the_text(self):
        self.assertEqual([3], self.found(WRITE, "with self.subTest('x'):", "    " + READ))
        self.assertEqual([3], self.found("for x in y:", "    " + WRITE, READ))

    def test_a_helper_of_the_file_that_writes_and_does_not_wait(self):
        helper = f"def change(self):\n    {WRITE}\n"
        self.assertEqual([2], self.found("self.change()", READ, before=helper))
        waiting = f"def change(self):\n    {WRITE}\n    self.wait_until_synced()\n"
        self.assertEqual([], self.found("self.change()", READ, before=waiting))

    def test_a_wait_between_them(self):
        for wait in ("self.wait_until_synced()", "wait_for('it', seen)", "self.status('--wait')"):
            with self.subTest(wait):
                self.assertEqual([], self.found(WRITE, wait, READ))

    def test_a_write_that_waits_and_a_read_before_it(self):
        self.assertEqual([], self.found('self.rig.mesh.write("a.yaml", a)', READ))
        self.assertEqual([], self.found(READ, WRITE))
        self.assertEqual([], self.found(WRITE, 'self.rig.mesh.write("b.yaml", b)', READ))

    def test_a_read_of_a_dictionary_and_one_that_is_repeated(self):
        self.assertEqual([], self.found(WRITE, "self.assertEqual(known.get('a', 0), 1)"))
        self.assertEqual([], self.found(WRITE, "self.assert_later(lambda: self.proxies())"))


if __name__ == "__main__":
    unittest.main()
