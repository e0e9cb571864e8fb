"""Processes of a run: each with its log, ended by their ids and by nothing else; `wait_for` a condition
with a deadline.
"""

import os
import pathlib
import signal
import subprocess
import time


class Timeout(AssertionError):
    pass


class NotYet(Exception):
    """A condition of wait_for does not hold yet. The text says what it saw instead."""


class CommandFailed(RuntimeError):
    """A command ended with a status other than 0."""


# A server that has not started yet, or is just being replaced, looks like this.
UNREACHABLE = (ConnectionError, TimeoutError)


def wait_for(what, condition, timeout=10.0, interval=0.02, retry=()):
    """The first true value of condition().

    Not yet: a false value, NotYet, UNREACHABLE, and the exceptions in `retry`, a tuple.
    Failure: Timeout with the last value or exception. Any other exception of the condition ends the
    wait at once, because waiting does not mend a command that fails or a mistake in a test.
    """
    deadline = time.monotonic() + timeout
    last = None
    while True:
        try:
            last = condition()
            if last:
                return last
        except (NotYet, *UNREACHABLE, *retry) as failed:
            last = failed
        if time.monotonic() > deadline:
            raise Timeout(f"not within {timeout:g} s: {what} (last: {last!r})")
        time.sleep(interval)


class Process:
    def __init__(self, name, command, log, survive=False):
        """`survive`: goes on when this program is gone (demo --keep)."""
        self.name = name
        self.log = pathlib.Path(log)
        if not survive:
            command = command_with_parent_death(command)
        with open(self.log, "ab") as output:
            self.popen = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )

    @property
    def pid(self):
        return self.popen.pid

    def running(self):
        return self.popen.poll() is None

    def text(self):
        return self.log.read_text(errors="replace")

    def wait_for_log(self, part, timeout=10.0):
        def seen():
            if part in self.text():
                return True
            if not self.running():
                raise AssertionError(f"{self.name} ended ({self.popen.returncode}): {self.tail()}")
            return False

        wait_for(f"{self.name} logs '{part}'", seen, timeout)

    def tail(self, lines=20):
        return "\n".join(self.text().splitlines()[-lines:])

    def end(self, how=signal.SIGTERM, timeout=5.0):
        """Signals, waits, and kills if need be; returns the exit status."""
        if self.running():
            try:
                os.kill(self.pid, how)
                self.popen.wait(timeout)
            except subprocess.TimeoutExpired:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return self.popen.wait()


def command_with_parent_death(command):
    """The kernel ends the process should this program be killed. Goes after `ip netns exec`, which
    keeps it, and after setpriv's change of user, which would clear it."""
    command = list(map(str, command))
    if "setpriv" in command:
        at = command.index("setpriv") + 1
        return command[:at] + ["--pdeathsig", "KILL"] + command[at:]
    if command[:3] == ["ip", "netns", "exec"]:
        return command[:4] + ["setpriv", "--pdeathsig", "KILL"] + command[4:]
    return ["setpriv", "--pdeathsig", "KILL", *command]
