#!/usr/bin/python3
"""At most 15 headers are at the top of `include/osm`, and at most 15 are reached from `control_plane.hpp`.

usage: headers_test.py INCLUDE_DIR
"""

import pathlib
import re
import sys
import unittest

MOST = 15


class Headers(unittest.TestCase):
    include = None  # set below

    def direct(self, header):
        return re.findall(r'^#include "(osm/[^"]+)"', (self.include / header).read_text(), re.M)

    def reached_from(self, header):
        reached, ahead = set(), [header]
        while ahead:
            for found in self.direct(ahead.pop()):
                if found not in reached:
                    reached.add(found)
                    ahead.append(found)
        return sorted(reached)

    def test_the_top_of_the_front_door_has_at_most_fifteen_headers(self):
        top = sorted(path.name for path in (self.include / "osm").glob("*.hpp"))
        self.assertIn("control_plane.hpp", top)
        self.assertLessEqual(len(top), MOST, top)

    def test_a_control_plane_reaches_at_most_fifteen_headers(self):
        reached = self.reached_from("osm/control_plane.hpp")
        self.assertIn("osm/result.hpp", reached)
        self.assertLessEqual(len(reached), MOST, reached)

    def test_every_header_names_only_headers_that_exist(self):
        for path in sorted((self.include / "osm").rglob("*.hpp")):
            header = str(path.relative_to(self.include))
            for found in self.direct(header):
                self.assertTrue((self.include / found).is_file(), f"{header} includes {found}")


if __name__ == "__main__":
    Headers.include = pathlib.Path(sys.argv.pop(1))
    unittest.main()
