#!/usr/bin/python3
"""The first build of 5,000 idle Services, each with a TrafficTarget, is no hang for a kubelet that asks as
the chart's probe does.

usage: idle_test.py --bin DIRECTORY
"""

import contextlib
import http.client
import pathlib
import time

import yaml

from lib.mesh import objects
from lib.mesh.daemon import DaemonTest, run

SERVICES = 5000
CHART = pathlib.Path(__file__).resolve().parents[2] / "charts/osm/templates/osm-controller.yaml"
PERIOD, TIMEOUT, THRESHOLD = 10, 1, 3  # Kubernetes' defaults, which the chart's probe has
SOONER = 10  # asks so many times as often, so that the test sees a hang as soon


class Idle(DaemonTest):
    def alive(self, controller):
        address = controller.addresses["http_address"]
        with contextlib.closing(http.client.HTTPConnection(address, timeout=TIMEOUT)) as connection:
            try:
                connection.request("GET", "/health/alive")
                return connection.getresponse().status == 200
            except OSError:
                return False

    def test_a_cold_start_with_idle_services_is_no_hang(self):
        probe = CHART.read_text().split("livenessProbe:\n")[1].splitlines()[0]
        self.assertEqual(yaml.safe_load(probe), {"httpGet": {"path": "/health/alive", "port": "http"}})
        made = [objects.namespace("shop"), objects.tcp_route("shop", "any")]
        for number in range(SERVICES):
            name = f"s{number}"
            made.append(objects.service("shop", name, f"10.9.{number // 250}.{number % 250 + 1}", 80))
            made.append(objects.target("shop", name, name, [("shop", "client")], ("TCPRoute", "any", None)))
        for number in range(0, len(made), 1000):
            self.write(f"{number}.yaml", *made[number : number + 1000])
        controller = self.start()
        failed = 0
        deadline = time.monotonic() + 120
        while controller.http("/health/ready")[0] != 200:
            self.assertLess(time.monotonic(), deadline, controller.http("/health/ready"))
            failed = 0 if self.alive(controller) else failed + 1
            self.assertLess(failed, THRESHOLD * SOONER, "a kubelet would restart it")
            time.sleep(PERIOD / SOONER)
        self.assertIn(f"osm_mesh_services {SERVICES}", controller.http("/metrics")[1])


if __name__ == "__main__":
    run()
