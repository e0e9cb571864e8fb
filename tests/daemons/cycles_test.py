#!/usr/bin/python3
"""The controller with its gRPC server starts and stops a hundred times cleanly, under a sanitizer without
its complaint.

usage: cycles_test.py --bin DIRECTORY
"""

import signal

from lib.mesh import objects
from lib.mesh.daemon import DaemonTest, run

ROUNDS = 100


class Cycles(DaemonTest):
    def test_a_hundred_starts_end_with_0_and_log_nothing_but_json(self):
        self.write("mesh.yaml", objects.namespace("shop"))
        for number in range(ROUNDS):
            with self.subTest(number):
                controller = self.start()
                if number % 5:  # the others end before the mesh was read
                    controller.wait_until_ready()
                self.assertEqual(controller.stop(signal.SIGTERM if number % 2 else signal.SIGINT), 0)
                self.assertEqual([line for line in controller.lines if line["level"] == "not JSON"], [])


if __name__ == "__main__":
    run()
