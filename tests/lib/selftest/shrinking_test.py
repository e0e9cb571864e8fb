#!/usr/bin/python3
"""A sequence of changes that fails is shrunk to the steps that it needs to fail, and its report has the command
that repeats it with these steps."""

import unittest

from lib import run
from lib.mesh import changes, objects, shrinking

LATE = (None, "the last change holds everywhere: timed out")
FIRST = (("a record",), "answered, though it is denied")
AGAIN = (("a record",), "failed, though it is allowed before and after")


class Shrinking(unittest.TestCase):
    """The kind of each step is its number. Steps 3 and 7 are needed."""

    def setUp(self):
        steps = [changes.Step(str(number), act=("move", f"api-{number}")) for number in range(25)]
        service = objects.service("shop", "extra", "10.96.0.14", 80)
        steps[3], steps[7] = changes.Step("3", put=service), changes.Step("7", delete=service)
        self.sequence = changes.Sequence({}, steps, "api-1", {"api-1": "controller-2"}, [])
        self.tried = []

    def faults_of(self, sequence):
        kinds = {step.kind for step in sequence.steps}
        self.tried.append(kinds)
        return [AGAIN] if {"3", "7"} <= kinds else []

    def shrunk(self, faults_of, steps=range(25), timed_out=False, seconds=60):
        return shrinking.shrunk(self.sequence, steps, timed_out, faults_of, seconds)

    def report(self, faults_of, found=(FIRST,), steps=range(25), seconds=60, shown=8):
        return shrinking.report(4, self.sequence, steps, found, faults_of, seconds, shown).split("\n")

    def repeat(self, lines, steps):
        """The lines have the command that repeats these steps."""
        [command] = [line for line in lines if line.startswith("repeat: ")]
        self.assertIn(f" OSM_TEST_SEED={run.seed()} OSM_TEST_SEQUENCE=4:{steps} ", command)

    def test_only_the_steps_that_it_needs_are_left(self):
        self.assertEqual(self.shrunk(self.faults_of), ([3, 7], [AGAIN]))
        self.assertLess(len(self.tried), 60)  # a run takes seconds
        for one in ("3", "7"):
            self.assertIn({one}, self.tried)

    def test_of_a_part_of_a_sequence_only_its_steps_are_tried(self):
        self.assertEqual(self.shrunk(self.faults_of, steps=[1, 3, 5, 7, 24])[0], [3, 7])
        self.assertEqual(set().union(*self.tried) - {"1", "3", "5", "7", "24"}, set())

    def test_a_fault_that_comes_in_every_second_run_is_found(self):
        runs = []

        def faults_of(sequence):
            runs.append(sequence)
            return self.faults_of(sequence) if len(runs) % 2 == 0 else []

        self.assertEqual(self.shrunk(faults_of), ([3, 7], [AGAIN]))

    def test_a_time_out_is_no_fault_of_a_request(self):
        self.assertEqual(self.shrunk(lambda sequence: [LATE]), (list(range(25)), []))
        self.assertEqual(self.shrunk(lambda sequence: [LATE], timed_out=True), ([], [LATE]))
        self.assertIn("did not fail again, by steps:", self.report(lambda sequence: [LATE]))
        self.assertIn("fails with 0 of its 25 steps:", self.report(lambda sequence: [LATE], found=[LATE]))

    def test_without_time_nothing_runs_again(self):
        self.assertEqual(self.shrunk(self.faults_of, seconds=0), (list(range(25)), []))
        self.assertEqual(self.tried, [])

    def test_the_report_has_the_steps_and_the_command_that_repeats_them(self):
        lines = self.report(self.faults_of)
        self.assertEqual(lines[0], f"sequence 4 of OSM_TEST_SEED={run.seed()}: 1 requests")
        self.assertEqual(lines[1], "fails with 2 of its 25 steps:")
        self.assertEqual(lines[2], "  3 3: put Service shop extra")
        self.assertIn("10.96.0.14", lines[3])
        self.assertEqual(lines[4], "  7 7: delete Service shop extra")
        self.assertEqual(lines[5], "lagging: api-1; places: {'api-1': 'controller-2'}")
        self.repeat(lines, "3,7")
        self.assertEqual(lines[7:], ["with these steps:", f"  {AGAIN[1]}", "at first:", f"  {FIRST[1]}"])

    def test_the_report_says_that_a_fault_does_not_come_back(self):
        lines = self.report(lambda sequence: [], steps=[2, 3, 7], found=[FIRST, LATE], shown=1)
        self.assertEqual(lines[1:3], ["did not fail again, by steps:", "  2 2: move api-2"])
        self.repeat(lines, "2,3,7")
        self.assertEqual(lines[-2:], ["at first:", f"  {FIRST[1]}"])
        self.assertNotIn("with these steps:", lines)


if __name__ == "__main__":
    unittest.main()
