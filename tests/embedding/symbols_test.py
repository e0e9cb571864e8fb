#!/usr/bin/python3
"""A host finds no surprise in what the rooms are made of: no environment, signals, output or threads
of the library's own, and nothing of ours that changes between two meshes of one process.

usage: symbols_test.py ARCHIVE...
"""
import re
import subprocess
import sys
import unittest

# Not to be called from any room.
CALLS = re.compile(r"(secure_)?getenv|(set|put|unset)env|signal|sigaction|sigprocmask|pthread_sigmask|"
                   r"fork|vfork|_?exit|quick_exit|atexit|std::(cout|cerr|clog)|printf|puts|putchar|"
                   r"pthread_create|std::thread::_M_start_thread.*")
# Threads that somebody asks for by name: net::Threads, testing::ThreadExecutor and what tests with it.
THREADS = {"osm_room_net", "osm_room_testing"}
# Data of ours that is made once and const, besides what is named kLikeThis.
CONSTANT = re.compile(r"osm::v1::ads::ResourceSet::none\(\)::empty|.*\bk[A-Z]\w*(\[abi:\w+\])?|"
                      r".*::\{lambda.*|(guard variable|vtable|typeinfo|VTT|DW\.ref|__odr).*")


def symbols(archive):
    listed = subprocess.run(["nm", "-C", archive], capture_output=True, text=True, check=True)
    for line in listed.stdout.splitlines():
        found = re.match(r"^[0-9a-f ]*\s([A-Za-z]) (.+)$", line)
        if found:
            yield found.groups()


class Symbols(unittest.TestCase):
    archives = []

    def test_the_archives_are_ours_and_are_read(self):
        self.assertGreater(len(self.archives), 10)
        for archive in self.archives:
            self.assertTrue(any(name.startswith("osm::v1::") for _, name in symbols(archive)), archive)

    def test_no_room_reads_the_environment_prints_or_touches_signals_processes_or_threads(self):
        for archive in self.archives:
            room = re.search(r"lib(\w+)\.a$", archive)[1]
            for kind, name in symbols(archive):
                if kind == "U" and CALLS.fullmatch(name.split("@")[0]):
                    threads = "_M_start_thread" in name and room in THREADS
                    self.assertTrue(threads, f"{room} uses {name}")

    def test_no_variable_of_ours_outlives_a_mesh(self):
        for archive in self.archives:
            for kind, name in symbols(archive):
                if kind in "bBdDuC" and re.match(r"(guard variable for )?osm::", name):
                    self.assertRegex(name, f"^({CONSTANT.pattern})$", archive)


if __name__ == "__main__":
    Symbols.archives = [a for a in sys.argv[1:] if a.endswith(".a")]
    unittest.main(argv=sys.argv[:1], verbosity=2)
