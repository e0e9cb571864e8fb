#!/usr/bin/python3
"""The demo runs with its mesh in etcd: one of three members and one of three controllers are killed under
load without a failed request, and a permission that is applied meanwhile takes effect.
"""

import bookstore_test

from lib.mesh import meshcase


class EtcdDemo(bookstore_test.DemoCase):
    def test_a_controller_and_an_etcd_are_killed_and_no_request_fails(self):
        output = self.output_of("--etcd")
        self.assertRegex(
            output,
            "PASS One of three controllers and one of three etcds are killed "
            "under load: a permission that was applied meanwhile had effect after ",
        )
        self.assertRegex(
            output,
            r"PASS The load saw none of it: [1-9]\d+ requests and [1-9]\d+ TCP "
            "lines around each event, 0 failures, ",
        )


if __name__ == "__main__":
    meshcase.main()
