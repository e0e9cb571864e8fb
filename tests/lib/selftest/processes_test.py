#!/usr/bin/python3
"""wait_for() retries expected errors only, ends at once on a mistake, and its deadline leaves out waits
for a core; free ports are different."""

import os
import pathlib
import signal
import subprocess
import threading
import unittest
from unittest import mock

from lib.net import processes
from lib.net.netns import ip
from lib.net.ports import free_ports
from lib.net.processes import CommandFailed, FairClock, NotYet, Timeout, cpu_waits, wait_for, waits_of_run


class WaitFor(unittest.TestCase):
    def script(self, *steps):
        """A condition that takes one step per call: it raises an exception, or returns a value."""
        self.left = list(steps)

        def condition():
            step = self.left.pop(0)
            if isinstance(step, BaseException):
                raise step
            return step

        return condition

    def ended_by(self, expected, condition, **more):
        with self.assertRaises(expected) as raised:
            wait_for("anything", condition, **more)
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
                self.assertIs(mistake, self.ended_by(type(mistake), self.script(mistake, "never seen")))
                self.assertEqual(["never seen"], self.left)

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

    def intervals(self, condition, **more):
        with mock.patch.object(processes.time, "sleep") as sleep:
            wait_for("it", condition, **more)
        return [call.args[0] for call in sleep.call_args_list]

    def test_a_condition_that_spawns_a_command_is_asked_less_often(self):
        script = self.script(0, 0, 1)
        self.assertEqual([0.25, 0.25], self.intervals(lambda: subprocess.run(["true"]).returncode == 0 and script()))
        self.assertEqual([0.02, 0.02], self.intervals(self.script(0, 0, 1)))

    def test_commands_of_other_threads_do_not_count(self):
        script = self.script(0, 1)

        def condition():
            other = threading.Thread(target=subprocess.run, args=(["true"],))
            other.start()
            other.join()
            return script()

        self.assertEqual([0.02], self.intervals(condition))

    def test_an_interval_that_is_given_is_kept(self):
        self.assertEqual([1.5], self.intervals(self.script(0, 1), interval=1.5))


class FakeTime:
    """A clock and the waits of threads, as the test says."""

    def __init__(self, **waits):
        self.seconds, self.waits = 100.0, waits

    def fair_clock(self):
        return FairClock(lambda: dict(self.waits), lambda: self.seconds)

    def pass_by(self, seconds, **waits):
        self.seconds += seconds
        for thread, more in waits.items():
            self.waits[thread] = self.waits.get(thread, 0.0) + more


class Fair(unittest.TestCase):
    def setUp(self):
        self.time = FakeTime(test=7.0, envoy=3.0)
        self.clock = self.time.fair_clock()

    def test_without_waits_a_fair_second_is_a_second(self):
        self.time.pass_by(5)
        self.assertEqual(5, self.clock.seconds())

    def test_waits_for_a_core_do_not_count(self):
        self.time.pass_by(5, test=0.5, envoy=1)
        self.assertEqual(3.5, self.clock.seconds())
        self.time.pass_by(5)
        self.assertEqual(8.5, self.clock.seconds())

    def test_waits_of_a_thread_that_started_since_do_not_count(self):
        self.time.pass_by(5, osm=2)
        self.assertEqual(3, self.clock.seconds())

    def test_a_thread_that_ended_takes_nothing_back(self):
        self.time.pass_by(5, test=1)
        del self.time.waits["envoy"]
        self.assertEqual(4, self.clock.seconds())

    def test_a_quarter_of_the_time_counts_always(self):
        self.time.pass_by(8, test=50, envoy=50)
        self.assertEqual(2, self.clock.seconds())

    def test_laps_add_up_and_a_long_wait_is_taken_from_the_next_ones_too(self):
        laps = []
        for wait in (0, 1.25, 0, 0):
            self.time.pass_by(1, envoy=wait)
            laps.append(self.clock.lap())
        self.assertEqual([1, 0.25, 0.5, 1], laps)

    def test_a_deadline_is_in_fair_seconds_and_ends(self):
        steps = []
        with (
            mock.patch.object(processes.time, "monotonic", lambda: self.time.seconds),
            mock.patch.object(processes.time, "sleep", lambda _: None),
            self.assertRaises(Timeout),
        ):
            wait_for("it", lambda: steps.append(self.time.pass_by(1, envoy=0.5)), 5, clock=self.time.fair_clock)
        # The clock starts behind the first step, and half of each second counts.
        self.assertEqual(1 + 11, len(steps))

    def busy(self):
        child = subprocess.Popen(["sh", "-c", "while :; do :; done"])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def test_a_program_that_is_stopped_waits_for_no_core_and_one_beside_others_does(self):
        child = self.busy()
        child.send_signal(signal.SIGSTOP)
        wait_for("it is stopped", lambda: ") T " in pathlib.Path(f"/proc/{child.pid}/stat").read_text())
        before = cpu_waits(child.pid)
        subprocess.run(["true"], check=True)
        self.assertEqual(before, cpu_waits(child.pid))
        child.send_signal(signal.SIGCONT)
        for _ in range(os.cpu_count()):
            self.busy()
        wait_for("it waits beside others", lambda: cpu_waits(child.pid) > before + 0.01)
        self.assertGreater(waits_of_run()[child.pid], before)  # this run's children are found

    def test_a_process_that_is_gone_has_no_waits(self):
        child = subprocess.Popen(["true"])
        child.wait()
        self.assertEqual(0, cpu_waits(child.pid))


class Ports(unittest.TestCase):
    def test_ports_are_all_different(self):
        self.assertEqual(400, len(set(free_ports(400))))


if __name__ == "__main__":
    unittest.main()
