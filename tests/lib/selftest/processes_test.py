#!/usr/bin/python3
"""`wait_for` retries expected errors only, and ends at once on a mistake."""

import subprocess
import time
import unittest

from lib.net.netns import ip
from lib.net.processes import CommandFailed, NotYet, Timeout, wait_for

LONG = 30  # seconds that no test waits


class WaitFor(unittest.TestCase):
    def script(self, *steps):
        """A condition that takes one step per call: it raises an exception, or returns a value."""
        left = list(steps)

        def condition():
            step = left.pop(0)
            if isinstance(step, BaseException):
                raise step
            return step

        return condition

    def ended_by(self, expected, condition, **more):
        began = time.monotonic()
        with self.assertRaises(expected) as raised:
            wait_for("anything", condition, LONG, **more)
        self.assertLess(time.monotonic() - began, LONG / 2)
        return raised.exception

    def test_the_first_true_value_is_returned(self):
        self.assertEqual("yes", wait_for("it", self.script(None, 0, "", "yes", "too late")))

    def test_not_yet_and_a_server_that_cannot_be_reached_are_retried(self):
        self.assertTrue(
            wait_for(
                "it",
                self.script(NotYet("2 of 3"), ConnectionRefusedError(), ConnectionResetError(), TimeoutError(), True),
            )
        )

    def test_a_mistake_ends_the_wait_at_once_with_its_own_error(self):
        for mistake in (
            ValueError("x"),
            KeyError("x"),
            IndexError("x"),
            LookupError("x"),
            RuntimeError("x"),
            AttributeError("x"),
            FileNotFoundError("x"),
            OSError("x"),
            AssertionError("x"),
        ):
            with self.subTest(type(mistake).__name__):
                self.assertIs(mistake, self.ended_by(type(mistake), self.script(mistake, True)))

    def test_a_command_that_fails_ends_the_wait_at_once_with_its_words(self):
        failed = self.ended_by(CommandFailed, lambda: ip("link", "show", "no-such-link"))
        self.assertIn("no-such-link", str(failed))
        self.ended_by(subprocess.CalledProcessError, lambda: subprocess.run(["false"], check=True))

    def test_what_the_caller_expects_is_retried_and_nothing_else(self):
        self.assertTrue(wait_for("it", self.script(KeyError("x"), True), retry=(KeyError,)))
        self.ended_by(ValueError, self.script(KeyError("x"), ValueError("x"), True), retry=(KeyError,))

    def test_a_timeout_tells_what_was_seen_last(self):
        def condition():
            raise NotYet("2 of 3 are there")

        with self.assertRaisesRegex(Timeout, r"not within 0\.05 s: all are there .*2 of 3"):
            wait_for("all are there", condition, 0.05, 0.01)


if __name__ == "__main__":
    unittest.main()
