#!/usr/bin/python3
"""A controller with hundreds of proxies: their streams end a few at a time, and it answers probes
while all of them come back. The proxies are ADS streams without Envoys.

usage: crowd_test.py --bin DIRECTORY
"""

import concurrent.futures
import http.client
import multiprocessing
import signal
import sys
import time

from lib.mesh.crowd import Crowd
from lib.mesh.daemon import ShopTest, run
from lib.net.processes import FairClock, wait_for

UNAVAILABLE = 14
TURN, BURST = 0.05, 10  # the shortest turn of the controller's pacer, and streams that end in it
WINDOW = 12  # seconds in which osm-controller ends its streams


class Drain(ShopTest):
    """300 streams of a controller that is told to end are ended a few at a time, within 12 s."""

    SIZE = 300

    def test_streams_end_a_few_at_a_time_when_the_controller_is_told_to_end(self):
        crowd = Crowd(self, self.SIZE)
        crowd.connect(self.controller.addresses["ads_address"], time.monotonic() + 60)
        begun, clock = time.monotonic(), FairClock()
        self.controller.process.send_signal(signal.SIGTERM)
        ends = crowd.ends(begun + 4 * WINDOW)
        took = clock.seconds()
        times = [at - begun for at, _ in ends]
        fastest = max(sum(first <= at < first + 0.5 for at in times) for first in times)
        print(
            f"{len(ends)} streams ended from {times[0]:.2f} to {times[-1]:.2f} s, "
            f"{fastest} of them within half a second",
            file=sys.stderr,
        )
        self.assertEqual([UNAVAILABLE] * self.SIZE, [status for _, status in ends])
        self.assertLess(took, WINDOW)
        # A turn more at each end, as clocks of two programs are compared.
        self.assertLessEqual(fastest, (0.5 / TURN + 2) * BURST)
        self.assertGreater(times[-1] - times[0], (self.SIZE / BURST - 2) * TURN)
        self.assertEqual(0, self.controller.process.wait(10))  # a second signal would cut it short


def probe(addresses, seconds):
    """Asks each for /health/alive, over and over, each time on a new connection as a kubelet does.
    Result: for each, the seconds that its answers took."""
    took, until = [[] for _ in addresses], time.monotonic() + seconds
    while time.monotonic() < until:
        for address, times in zip(addresses, took):
            begun = time.monotonic()
            connection = http.client.HTTPConnection(address, timeout=5)
            connection.request("GET", "/health/alive")
            assert connection.getresponse().status == 200
            connection.close()
            times.append(time.monotonic() - begun)
        time.sleep(0.02)
    return took


class Probes(ShopTest):
    """p99 of `/health/alive` stays below 50 ms while 1,000 proxies reconnect, or below three times that
    of an idle controller.
    """

    SIZE, ROUNDS, LIMIT = 1000, 3, 0.05

    def test_a_probe_is_answered_while_a_thousand_proxies_reconnect(self):
        crowd = Crowd(self, self.SIZE)
        address = self.controller.addresses["ads_address"]
        crowd.connect(address, time.monotonic() + 60)
        wait_for("all are connected", lambda: self.controller.metric("osm_proxy_connect_count") == self.SIZE)
        # Another controller without proxies shows what the machine alone costs a probe.
        idle = self.start(state=self.folder / "idle")
        idle.wait_until_ready()
        both = [c.addresses["http_address"] for c in (self.controller, idle)]
        took = [], []
        # In a process of its own: the crowd keeps this one busy.
        with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
            for _ in range(self.ROUNDS):
                probing = other.submit(probe, both, 4)
                crowd.drop()
                begun = time.monotonic()
                crowd.connect(address, begun + 60)
                print(f"{self.SIZE} proxies were configured after {time.monotonic() - begun:.1f} s", file=sys.stderr)
                for all_of_one, some in zip(took, probing.result()):
                    all_of_one += some
        p99 = [self.report(*each) for each in zip(("busy", "idle"), took)]
        self.assertLess(p99[0], max(self.LIMIT, 3 * p99[1]))

    @staticmethod
    def report(which, times):
        """Prints percentiles. Result: p99."""
        times = sorted(times)
        middle, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
        print(
            f"{which}: {len(times)} probes, p50 {middle * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms, "
            f"longest {times[-1] * 1e3:.1f} ms",
            file=sys.stderr,
        )
        return p99


if __name__ == "__main__":
    run()
