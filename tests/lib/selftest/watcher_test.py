#!/usr/bin/python3
"""An Envoy that ends, falls silent or rejects an update is a violation."""

import json
import threading
import time
import unittest
from unittest import mock

from lib.mesh import watcher
from lib.net.processes import wait_for

HEALTHY = {"cluster_manager.warming_clusters": 0, "server.uptime": 3, "cluster_manager.cds.update_rejected": 0}


class Envoy:
    """A machine whose admin interface says what the test wants."""

    def __init__(self, name="web"):
        self.name, self.stats, self.runs, self.failure = name, dict(HEALTHY), True, None

    def admin(self, path):
        if self.failure:
            raise self.failure
        return 200, json.dumps({"stats": [{"name": n, "value": v} for n, v in self.stats.items()]})

    def running(self):
        return self.runs


class Watcher(unittest.TestCase):
    def setUp(self):
        for name, seconds in (
            ("_INTERVAL", 0.01),
            ("_LONGEST_SILENCE", 0.3),
            ("_LONGEST_START", 0.6),
            ("_LONGEST_WARMING", 0.2),
        ):
            patched = mock.patch.object(watcher, name, seconds)
            patched.start()
            self.addCleanup(patched.stop)
        self.watcher = watcher.ProxyWatcher()
        self.addCleanup(self.watcher.stop)
        self.envoy = Envoy()

    def watch(self):
        self.watcher.watch(self.envoy, self.envoy.running)

    def watch_until_sampled(self):
        self.watch()
        self.wait_for_samples()

    def wait_for_samples(self, more=3):
        before = self.watcher.samples
        wait_for("samples", lambda: self.watcher.samples >= before + more)

    def assert_violation(self, text):
        with self.assertRaisesRegex(AssertionError, text):
            self.watcher.check()

    def test_a_healthy_envoy_is_no_violation(self):
        self.watch_until_sampled()
        self.watcher.check()
        self.watcher.forget(self.envoy)
        self.watcher.check()

    def test_an_envoy_that_ended_is_a_violation(self):
        self.watch_until_sampled()
        self.envoy.failure, self.envoy.runs = ConnectionRefusedError("gone"), False
        self.assert_violation("web: Envoy ended = .*gone")

    def test_an_envoy_that_ended_before_it_answered_is_a_violation(self):
        self.envoy.failure, self.envoy.runs = ConnectionRefusedError("gone"), False
        self.watch()
        self.assert_violation("web: Envoy ended")

    def test_an_envoy_that_falls_silent_for_long_is_a_violation_though_it_comes_back(self):
        self.watch_until_sampled()
        self.envoy.failure = TimeoutError("hangs")
        wait_for("a violation", lambda: self.watcher.violations)
        self.envoy.failure = None
        self.wait_for_samples()
        self.assert_violation("web: Envoy does not answer = 0.3 s: .*hangs")

    def test_an_envoy_that_is_silent_at_the_end_is_a_violation(self):
        self.watch_until_sampled()
        self.watcher.stop()
        self.envoy.failure = TimeoutError("hangs")
        self.assert_violation("web: Envoy does not answer")

    def test_a_short_silence_is_tolerated(self):
        self.watch_until_sampled()
        self.envoy.failure = ConnectionResetError("busy")
        time.sleep(0.05)
        self.envoy.failure = None
        self.wait_for_samples()
        self.watcher.check()

    def test_an_envoy_that_was_never_sampled_is_a_violation(self):
        self.envoy.failure = ConnectionRefusedError("never up")
        self.watch()
        self.assert_violation("web: Envoy was never sampled = 0.6 s: .*never up")

    def test_one_silent_envoy_among_others_is_a_violation(self):
        other = Envoy("other")
        other.failure = ConnectionRefusedError("never up")
        self.watch_until_sampled()
        self.watcher.watch(other, other.running)
        self.assert_violation("other: Envoy was never sampled")

    def test_an_envoy_that_is_stopped_before_it_answered_is_a_violation(self):
        self.envoy.failure = ConnectionRefusedError("never up")
        self.watch()
        self.watcher.forget(self.envoy)
        self.assert_violation("web: Envoy was never sampled")

    def test_an_envoy_that_is_stopped_early_has_its_time_to_answer(self):
        self.envoy.failure = ConnectionRefusedError("not up yet")
        self.watch()
        starts = threading.Timer(0.1, setattr, (self.envoy, "failure", None))
        starts.start()
        self.watcher.forget(self.envoy)
        starts.join()
        self.watcher.check()
        self.assertGreater(self.watcher.samples, 0)

    def test_a_pod_may_be_deleted_before_its_envoy_starts(self):
        self.envoy.failure = ConnectionRefusedError("not started")
        self.watcher.watch(self.envoy)
        self.watcher.forget(self.envoy)
        self.watcher.check()

    def test_an_envoy_that_is_stopped_on_purpose_is_no_violation(self):
        self.watch_until_sampled()
        self.watcher.forget(self.envoy)
        self.envoy.failure, self.envoy.runs = ConnectionRefusedError("gone"), False
        self.watcher.check()

    def test_an_envoy_that_was_started_again_is_a_violation(self):
        self.watch_until_sampled()
        self.envoy.stats["server.uptime"] = 1
        self.wait_for_samples()
        self.assert_violation("web: Envoy was started again")

    def test_rejections_and_timeouts_are_violations(self):
        for name in ("cluster_manager.cds.update_rejected", "listener_manager.lds.init_fetch_timeout"):
            with self.subTest(name):
                self.watcher, self.envoy = watcher.ProxyWatcher(), Envoy()
                self.addCleanup(self.watcher.stop)
                self.envoy.stats[name] = 1
                self.watch()
                self.assert_violation(f"web: {name} = 1")

    def test_only_rejections_can_be_expected(self):
        self.watcher.expect_rejections = True
        self.envoy.stats["cluster_manager.cds.update_rejected"] = 1
        self.watch_until_sampled()
        self.watcher.check()
        self.envoy.stats["cluster_manager.cds.init_fetch_timeout"] = 1
        self.assert_violation("init_fetch_timeout")

    def test_clusters_that_stay_warming_are_a_violation(self):
        self.envoy.stats["cluster_manager.warming_clusters"] = 2
        self.watch()
        wait_for("a violation", lambda: self.watcher.violations)
        self.assert_violation("web: clusters are warming for over 0.2 s = 2")

    def test_statistics_that_are_missing_are_a_violation(self):
        del self.envoy.stats["cluster_manager.warming_clusters"]
        self.watch()
        self.assert_violation("does not have the statistics")

    def test_a_mistake_in_the_watcher_is_a_violation(self):
        self.envoy.failure = AttributeError("no such thing")
        self.watch()
        wait_for("a violation", lambda: self.watcher.violations)
        self.envoy.failure = None
        self.assert_violation("web: the watcher failed = .*no such thing")


if __name__ == "__main__":
    unittest.main()
