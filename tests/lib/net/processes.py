"""Processes of a run: each with its log, ended by their ids and by nothing else; `wait_for` a condition
with a deadline.
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time


class Timeout(AssertionError):
    pass


class NotYet(Exception):
    """A condition of wait_for does not hold yet. The text says what it saw instead."""


class CommandFailed(RuntimeError):
    """A command ended with a status other than 0."""


# A server that has not started yet, or is just being replaced, looks like this.
UNREACHABLE = (ConnectionError, TimeoutError)


# Seconds between two looks: of a condition that spawns a command, and of any other. Fifty commands a
# second would take the cores that the programs under test need.
_COMMAND_INTERVAL, _INTERVAL = 0.25, 0.02
# A fair second is at most so many seconds of the clock on the wall.
MOST_STRETCHED = 4
_MOST_OWED = 1.0  # seconds without a core that later laps of a clock make up for

_spawned = threading.local()  # .count: commands that this thread has spawned


def _count_spawned(event, _arguments):
    if event == "subprocess.Popen":
        _spawned.count = _spawns() + 1


def _spawns():
    return getattr(_spawned, "count", 0)


sys.addaudithook(_count_spawned)


def cpu_waits(pid):
    """Seconds for which the threads of a process were ready to run and had no core."""
    return sum(_waits_of_threads(pid).values())


def _waits_of_threads(pid):
    """{thread: seconds without a core}; empty if the process is gone."""
    waits = {}
    with contextlib.suppress(OSError):  # it ends meanwhile
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                text = pathlib.Path(f"/proc/{pid}/task/{thread}/schedstat").read_text()
                waits[int(thread)] = int(text.split()[1]) / 1e9
    return waits


def _children(pid):
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                yield from map(int, pathlib.Path(f"/proc/{pid}/task/{thread}/children").read_text().split())


def waits_of_run():
    """{thread: seconds without a core} of this process and of all that it started: the programs
    under test."""
    return waits_of([os.getpid()])


def waits_of(pids):
    """{thread: seconds without a core} of these processes and of all that they started."""
    waits, left = {}, list(pids)
    while left:
        pid = left.pop()
        waits.update(_waits_of_threads(pid))
        left.extend(_children(pid))
    return waits


def waits_of_thread(thread):
    """{thread: seconds without a core} of one thread of this process."""
    return {thread: _waits_of_threads(os.getpid()).get(thread, 0.0)}


class FairClock:
    """Seconds since it was made, without the time in which the kernel gave the run no core.

    The waits of all threads are added up, as if each had waited for the one before. Threads that
    wait at once make that too much, so that at least a quarter of the time counts: nothing hangs,
    and a bound in fair seconds is at most MOST_STRETCHED times as long on the wall.
    """

    def __init__(self, waits=waits_of_run, now=time.monotonic):
        """`waits()`: {thread: seconds without a core}."""
        self._waits, self._now = waits, now
        self._begun, self._before, self._owed = now(), waits(), 0.0

    def seconds(self):
        passed, lost = self._since(self._now(), self._waits())
        return max(passed - lost, passed / MOST_STRETCHED)

    def lap(self):
        """seconds(), and the clock begins anew. The kernel tells of a wait when it is over, so that a
        long one is taken from the next laps too."""
        now, waits = self._now(), self._waits()
        passed, lost = self._since(now, waits)
        lost += self._owed
        seconds = max(passed - lost, passed / MOST_STRETCHED)
        self._owed = min(lost - (passed - seconds), _MOST_OWED)
        self._begun, self._before = now, waits
        return seconds

    def _since(self, now, waits):
        lost = sum(max(0.0, more - self._before.get(thread, 0.0)) for thread, more in waits.items())
        return now - self._begun, lost


def wait_for(what, condition, timeout=10.0, interval=None, retry=(), clock=FairClock):
    """The first true value of condition().

    Not yet: a false value, NotYet, UNREACHABLE, and the exceptions in `retry`, a tuple.
    `timeout`: in fair seconds. `interval`: between two calls, longer if the condition spawns commands.
    Failure: Timeout with the last value or exception. Any other exception of the condition ends the
    wait at once, because waiting does not mend a command that fails or a mistake in a test.
    """
    passed = None
    while True:
        spawned = _spawns()
        try:
            last = condition()
            if last:
                return last
        except (NotYet, *UNREACHABLE, *retry) as failed:
            last = failed
        if passed is None:
            passed, looked = clock(), time.monotonic()  # not before: most conditions hold at once
        elif time.monotonic() - looked > timeout and passed.seconds() > timeout:
            raise Timeout(f"not within {timeout:g} s: {what} (last: {last!r})")
        time.sleep(interval or (_COMMAND_INTERVAL if _spawns() > spawned else _INTERVAL))


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
