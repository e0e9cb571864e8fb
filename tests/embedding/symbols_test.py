#!/usr/bin/python3
"""The archives use no environment, signals, output or threads, and have no mutable globals.

usage: symbols_test.py ARCHIVE...
"""

import os
import re
import subprocess
import sys
import unittest

# Not to be called from any room.
CALLS = re.compile(
    r"(secure_)?getenv|(set|put|unset)env|signal|sigaction|sigprocmask|pthread_sigmask|"
    r"fork|vfork|_?exit|quick_exit|atexit|std::(cout|cerr|clog)|v?f?printf|f?puts|putchar|perror|"
    r"posix_spawnp?|exec[lv]\w*|popen|system|kill|wait(pid|id|4)?|sete?[ug]id|setres[ug]id|setgroups|"
    r"pthread_create|std::thread::_M_start_thread.*"
)
# The exceptions, by room: threads that the host asks for by name (net::Threads, net::Lanes,
# testing::ThreadExecutor), the thread that accepts for gRPC's server, the credential plugin of a
# kubeconfig, the programs with which a machine leaves and the user as whom it asks, and the reason
# OSM_CHECK aborts for. JsonLog has a thread too, on which all signals are blocked.
ALLOWED = {
    "osm_room_net": re.compile(r"std::thread::_M_start_thread.*|pthread_sigmask"),
    "osm_room_ads": re.compile(r"std::thread::_M_start_thread.*"),
    "osm_room_testing": re.compile(r"std::thread::_M_start_thread.*"),
    "osm_room_kubernetes": re.compile(r"posix_spawn|kill|waitpid"),
    "osm_room_machine": re.compile(r"posix_spawnp|waitpid|sete[ug]id"),
    "osm_room_base": re.compile(r"fprintf"),
}
NOTHING = re.compile(r"(?!)")
# Data of ours that is made once and const, besides what is named kLikeThis. And the executor whose
# task runs on this thread, in two fakes and in WatchedExecutor: null again when the task returns.
# And the lock of the process's effective user and the receiver of gRPC's log with its lock, of which there is one each.
CONSTANT = re.compile(
    r"osm::v1::testing::TaskQueue::current|osm::v1::WatchedExecutor::Running::current|"
    r"osm::v1::machine::\(anonymous namespace\)::effective_user|osm::v1::\(anonymous namespace\)::grpc_log(_mutex)?|"
    r"osm::v1::ads::ResourceSet::none\(\)::empty|.*\bk[A-Z]\w*(\[abi:\w+\])?|"
    r".*::\{lambda.*|(guard variable|vtable|typeinfo|VTT|DW\.ref|__odr).*"
)


def symbols(archive):
    listed = subprocess.run([os.environ.get("NM", "nm"), "-C", archive], capture_output=True, text=True, check=True)
    for line in listed.stdout.splitlines():
        found = re.match(r"^[0-9a-f ]*\s([A-Za-z]) (.+)$", line)
        if found:
            yield found.groups()


class Symbols(unittest.TestCase):
    archives = []

    def test_the_archives_are_ours_and_are_read(self):
        self.assertGreater(len(self.archives), 15)
        for archive in self.archives:
            self.assertTrue(any(name.startswith("osm::v1::") for _, name in symbols(archive)), archive)

    def test_no_room_reads_the_environment_prints_or_touches_signals_processes_or_threads(self):
        for archive in self.archives:
            room = re.search(r"lib(\w+)\.a$", archive)[1]
            for kind, name in symbols(archive):
                if kind == "U" and CALLS.fullmatch(name.split("@")[0]):
                    self.assertTrue(ALLOWED.get(room, NOTHING).fullmatch(name), f"{room} uses {name}")

    def test_no_variable_of_ours_outlives_a_mesh(self):
        for archive in self.archives:
            for kind, name in symbols(archive):
                if kind in "bBdDuC" and re.match(r"(guard variable for )?osm::", name):
                    self.assertRegex(name, f"^({CONSTANT.pattern})$", archive)


if __name__ == "__main__":
    Symbols.archives = [a for a in sys.argv[1:] if a.endswith(".a")]
    unittest.main(argv=sys.argv[:1], verbosity=2)
