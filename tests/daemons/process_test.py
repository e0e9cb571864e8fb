#!/usr/bin/python3
"""CPU, memory and descriptors in the metrics are those of the process.

usage: process_test.py --bin DIRECTORY
"""

import contextlib
import os
import pathlib
import re
import resource
import socket
import time

from lib.mesh.daemon import DaemonTest, run
from lib.net.processes import wait_for

TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGESIZE")


class Process(DaemonTest):
    def setUp(self):
        super().setUp()
        self.controller = self.start()
        self.controller.wait_until_ready()
        self.proc = pathlib.Path(f"/proc/{self.controller.process.pid}")

    def metric(self, name):
        return self.controller.metric(f"process_{name}")

    def cpu_seconds(self):
        fields = (self.proc / "stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def test_cpu_memory_and_start_are_those_of_the_process(self):
        before = self.cpu_seconds()
        shown = self.metric("cpu_seconds_total")
        self.assertGreaterEqual(shown, before - 2 / TICKS)
        self.assertLessEqual(shown, self.cpu_seconds() + 2 / TICKS)
        wait_for("it grows with the work", lambda: self.metric("cpu_seconds_total") > shown)
        resident = int((self.proc / "statm").read_text().split()[1]) * PAGE
        self.assertAlmostEqual(self.metric("resident_memory_bytes") / resident, 1, delta=0.2)
        self.assertAlmostEqual(self.metric("start_time_seconds"), time.time(), delta=60)
        self.assertLess(self.metric("start_time_seconds"), time.time())

    def test_open_descriptors_follow_connections_up_to_the_limit(self):
        host, port = self.controller.addresses["ads_address"].rsplit(":", 1)
        limit, _ = resource.prlimit(self.controller.process.pid, resource.RLIMIT_NOFILE)
        self.assertEqual(self.metric("max_fds"), limit)
        wait_for(
            "the kernel counts as many", lambda: abs(self.metric("open_fds") - len(os.listdir(self.proc / "fd"))) <= 2
        )
        before = self.metric("open_fds")
        with contextlib.ExitStack() as stack:
            for _ in range(20):
                stack.enter_context(socket.create_connection((host, int(port)), timeout=20))
            # Among those of before were files that are open for a moment only.
            wait_for("they are open", lambda: self.metric("open_fds") >= before + 16)
            opened = self.metric("open_fds")
        # gRPC keeps descriptors of its own for each thread that once served a connection.
        wait_for("they are closed", lambda: self.metric("open_fds") <= opened - 12, 60)

    def test_no_value_is_dropped_and_each_has_a_help_text(self):
        page = self.controller.http("/metrics")[1]
        self.assertNotIn("osm_metrics_dropped_total", page)
        names = re.findall(r"^# TYPE (process_\w+) ", page, re.M)
        self.assertEqual(sorted(names), sorted(set(names)))
        self.assertEqual(
            set(names),
            {
                f"process_{name}"
                for name in ("cpu_seconds_total", "resident_memory_bytes", "open_fds", "max_fds", "start_time_seconds")
            },
        )
        self.assertEqual(sorted(re.findall(r"^# HELP (process_\w+) ", page, re.M)), sorted(names))


if __name__ == "__main__":
    run()
