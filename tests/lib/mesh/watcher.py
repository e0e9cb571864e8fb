"""Samples every Envoy of a run: a test fails when one ends, falls silent, rejects an update or keeps a
cluster warming.
"""

import http.client
import json
import threading
import time

from lib.net.processes import FairClock

_INTERVAL = 0.2
_LONGEST_WARMING = 1.0
_LONGEST_START = 30.0
_LONGEST_SILENCE = 5.0
_FILTER = r"(init_fetch_timeout|update_rejected|warming_clusters|^server\.uptime)$"
_NO_ANSWER = (OSError, ValueError, http.client.HTTPException)


class _Watched:
    """State of one machine. `running()` says whether its Envoy runs; None if that is not known."""

    def __init__(self, running):
        self.running = running
        self.begun = FairClock()
        self.answered = False
        self.silent = self.warming = None  # clocks that run since it began
        self.uptime = self.sampled = 0


class ProxyWatcher:
    """Samples the admin interface of each watched machine, five times a second.

    Collected as sentences in `violations`:
    - an init_fetch_timeout or update_rejected that rose (the latter may be expected by a test that
      provokes it, or tolerated by its statistic's name), and clusters that stay warming for over a
      second, or for longer than `longest_warming`;
    - an Envoy that ended, or was started again, while it was watched;
    - an Envoy that does not answer for 5 s, or not within 30 s of its start. A shorter silence is
      tolerated, because Envoys share two cores with the rest of the run.
    Seconds are fair ones (lib.net.processes.FairClock).
    """

    def __init__(self):
        self.violations = []
        self.expect_rejections = False
        self.longest_warming = _LONGEST_WARMING  # seconds; longer where a proxy is slow on purpose
        self.tolerated = set()  # statistics' names
        self._machines = {}  # machine → _Watched
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = None
        self.samples = 0

    def watch(self, machine, running=None):
        """`machine` has a name and admin(path). Without `running`, its Envoy may start later."""
        with self._lock:
            self._machines[machine] = _Watched(running)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()

    def forget(self, machine):
        """Before its Envoy is stopped on purpose. One that has just started must answer once."""
        with self._lock:
            watched = self._machines.get(machine)
        while self._sample(machine) and watched and watched.running and not watched.answered:
            time.sleep(_INTERVAL)
        with self._lock:
            self._machines.pop(machine, None)

    def stop(self):
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def check(self):
        """Raises with everything that was seen. Each machine must answer once more."""
        for machine in self._watched():
            while self._sample(machine):
                time.sleep(_INTERVAL)
        if self.violations:
            raise AssertionError("; ".join(self.violations))

    def _watched(self):
        with self._lock:
            return list(self._machines)

    def _run(self):
        while not self._stopping.wait(_INTERVAL):
            for machine in self._watched():
                try:
                    self._sample(machine)
                except Exception as mistake:  # a thread that ends would watch nothing, silently
                    self._note(f"{machine.name}: the watcher failed", repr(mistake))

    def _sample(self, machine):
        """True if the Envoy is silent and its time for that is not over."""
        began = time.monotonic()
        try:
            status, body = machine.admin(f"/stats?format=json&filter={_FILTER}")
            if status != 200:
                raise ValueError(f"{status} {body}")
            stats = {s["name"]: s["value"] for s in json.loads(body)["stats"] if "name" in s}
        except _NO_ANSWER as failed:
            return self._on_silence(machine, failed)
        self._on_stats(machine, began, stats)
        return False

    def _on_silence(self, machine, failed):
        with self._lock:
            watched = self._machines.get(machine)
            if watched is None:
                return False
            watched.silent = watched.silent or FairClock()
            clock, limit = (watched.silent, _LONGEST_SILENCE) if watched.answered else (watched.begun, _LONGEST_START)
        if watched.running and not watched.running():
            self._note(f"{machine.name}: Envoy ended", repr(failed))
            return False
        if clock.seconds() < limit:
            return True
        what = "does not answer" if watched.answered else "was never sampled"
        self._note(f"{machine.name}: Envoy {what}", f"{limit:g} s: {failed!r}")
        return False

    def _on_stats(self, machine, began, stats):
        warming = sum(v for n, v in stats.items() if n.endswith("warming_clusters"))
        with self._lock:
            watched = self._machines.get(machine)
            if watched is None:
                return
            self.samples += 1
            watched.answered, watched.silent = True, None
            # Another thread's answer may be newer, if it came after this one was asked for.
            restarted = began > watched.sampled and stats.get("server.uptime", 0) < watched.uptime
            watched.uptime, watched.sampled = stats.get("server.uptime", 0), time.monotonic()
            watched.warming = (watched.warming or FairClock()) if warming else None
            clock = watched.warming
        if not {"cluster_manager.warming_clusters", "server.uptime"} <= stats.keys():
            self._note(f"{machine.name}: Envoy does not have the statistics that are watched", 0)
        if restarted:
            self._note(f"{machine.name}: Envoy was started again", stats["server.uptime"])
        for name, value in stats.items():
            if name in self.tolerated:
                continue
            if value and name.endswith(("init_fetch_timeout", "update_rejected")):
                if not (name.endswith("update_rejected") and self.expect_rejections):
                    self._note(f"{machine.name}: {name}", value)
        if warming and clock.seconds() > self.longest_warming:
            self._note(f"{machine.name}: clusters are warming for over {self.longest_warming:g} s", warming)

    def _note(self, what, value):
        if not any(v.startswith(what) for v in self.violations):
            self.violations.append(f"{what} = {value}")
