#!/usr/bin/python3
"""The programs as files: hardened by the compiler and the linker, and without a search path.

usage: elf_test.py --bin DIRECTORY
"""
import re
import subprocess

from lib.mesh.daemon import DaemonTest, run

PROGRAMS = ("osm-controller", "osm-injector", "osm")


class Elf(DaemonTest):
    def read(self, option, check):
        """`check` with the text of readelf for each program."""
        for program in PROGRAMS:
            with self.subTest(program):
                check(subprocess.run(["readelf", "-W", option, self.bin / program], check=True,
                                     capture_output=True, text=True).stdout)

    def test_no_folder_is_searched_for_libraries(self):
        # One that is empty is the current directory, so that whoever writes there runs as us.
        self.read("--dynamic", lambda text: self.assertNotRegex(text, "RPATH|RUNPATH"))

    def test_tables_of_addresses_cannot_be_written_and_the_stack_cannot_run(self):
        def check(text):
            self.assertIn("GNU_RELRO", text)
            self.assertRegex(text, r"GNU_STACK .* RW +0x")
            self.assertNotRegex(text, r"LOAD .* RWE ")

        self.read("--segments", check)
        self.read("--dynamic", lambda text: self.assertRegex(text, r"FLAGS_1\).*NOW.*PIE"))

    def test_the_stack_and_buffers_are_guarded(self):
        def check(text):
            imported = set(re.findall(r" UND (__\w+_chk\w*)", text)) | set(
                re.findall(r" UND (__stack_chk_fail)", text))
            self.assertIn("__stack_chk_fail", imported)
            self.assertTrue(imported - {"__stack_chk_fail"}, "no call is fortified")

        self.read("--dyn-syms", check)


if __name__ == "__main__":
    run()
