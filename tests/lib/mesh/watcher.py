"""Watches every Envoy of a run for what must never happen, from its start to its end."""
import json
import threading
import time

_INTERVAL = 0.2
_LONGEST_WARMING = 1.0
_FILTER = r"(init_fetch_timeout|update_rejected|warming_clusters)$"


class ProxyWatcher:
    """Samples the admin interface of each watched machine.

    Collected as sentences in `violations`: an init_fetch_timeout or update_rejected that rose (the
    latter may be expected, by a test that provokes it), and clusters that stay warming for over a
    second.
    """

    def __init__(self):
        self.violations = []
        self.expect_rejections = False
        self._machines = {}  # machine → since when it has warming clusters, or None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = None
        self.samples = 0

    def watch(self, machine):
        with self._lock:
            self._machines[machine] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()

    def forget(self, machine):
        self._sample(machine)
        with self._lock:
            self._machines.pop(machine, None)

    def stop(self):
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def check(self):
        """Raises with everything that was seen."""
        for machine in list(self._machines):
            self._sample(machine)
        if self.violations:
            raise AssertionError("; ".join(self.violations))
        if self._machines and self.samples == 0:
            raise AssertionError("no Envoy was ever sampled")

    def _run(self):
        while not self._stopping.wait(_INTERVAL):
            with self._lock:
                machines = list(self._machines)
            for machine in machines:
                self._sample(machine)

    def _sample(self, machine):
        try:
            status, body = machine.admin(f"/stats?format=json&filter={_FILTER}")
            stats = {s["name"]: s["value"] for s in json.loads(body)["stats"] if "name" in s}
        except (OSError, ValueError):
            return  # not up yet, or gone
        self.samples += 1
        if "cluster_manager.warming_clusters" not in stats:
            self._note(f"{machine.name}: Envoy does not have the counters that are watched", 0)
        for name, value in stats.items():
            rejected = name.endswith("update_rejected")
            if value and not name.endswith("warming_clusters"):
                if not (rejected and self.expect_rejections):
                    self._note(f"{machine.name}: {name}", value)
        warming = sum(v for n, v in stats.items() if n.endswith("warming_clusters"))
        now = time.monotonic()
        with self._lock:
            if machine not in self._machines:
                return
            since = self._machines[machine]
            self._machines[machine] = (since or now) if warming else None
        if warming and since and now - since > _LONGEST_WARMING:
            self._note(f"{machine.name}: clusters are warming for over a second", warming)

    def _note(self, what, value):
        if not any(v.startswith(what) for v in self.violations):
            self.violations.append(f"{what} = {value}")
