#!/usr/bin/python3
"""The programs are hardened, search no folder for libraries, and have a bill of materials.

usage: elf_test.py --bin DIRECTORY
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess

from lib.mesh.daemon import DaemonTest, run

PROGRAMS = ("osm-controller", "osm-injector", "osm")


class Elf(DaemonTest):
    def read(self, option, check):
        """`check` with the text of readelf for each program."""
        for program in PROGRAMS:
            with self.subTest(program):
                check(
                    subprocess.run(
                        ["readelf", "-W", option, self.bin / program], check=True, capture_output=True, text=True
                    ).stdout
                )

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
            imported = set(re.findall(r" UND (__\w+_chk\w*)", text)) | set(re.findall(r" UND (__stack_chk_fail)", text))
            self.assertIn("__stack_chk_fail", imported)
            self.assertTrue(imported - {"__stack_chk_fail"}, "no call is fortified")

        self.read("--dyn-syms", check)


class Materials(DaemonTest):
    """The bill that the build writes, of exactly these programs."""

    def setUp(self):
        super().setUp()
        self.bill = json.loads(pathlib.Path(os.environ["OSM_SBOM"]).read_text())
        self.components = {c["bom-ref"]: c for c in self.bill["components"]}
        self.depends = {d["ref"]: set(d["dependsOn"]) for d in self.bill["dependencies"]}

    def test_it_names_these_programs_and_every_library_they_ask_for(self):
        self.assertEqual(("CycloneDX", "1.5"), (self.bill["bomFormat"], self.bill["specVersion"]))
        for program in PROGRAMS:
            with self.subTest(program):
                digest = hashlib.sha256((self.bin / program).read_bytes()).hexdigest()
                self.assertEqual([{"alg": "SHA-256", "content": digest}], self.components[program]["hashes"])
                dynamic = subprocess.run(
                    ["readelf", "-dW", self.bin / program], check=True, capture_output=True, text=True
                ).stdout
                wanted = re.findall(r"NEEDED.*\[(.+)\]", dynamic)
                self.assertGreater(len(wanted), 5)
                for name in wanted:  # the file's name has more of the version
                    self.assertTrue(any(f.startswith(name) for f in self.depends[program]), name)
                self.assertLessEqual({"Boost", "CLI11", "xds-protos"}, self.depends[program])

    def test_libraries_have_the_version_of_their_package(self):
        ssl = next(c for name, c in self.components.items() if name.startswith("libssl.so"))
        installed = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Version}", "libssl3"], check=True, capture_output=True, text=True
        ).stdout
        self.assertEqual(installed, ssl["version"])
        self.assertRegex(ssl["purl"], r"^pkg:deb/debian/libssl3@.*\?arch=")
        for name in ("Boost", "CLI11", "xds-protos"):
            self.assertRegex(self.components[name]["version"], r"^\d+\.\d+")

    def test_version_says_what_was_linked(self):
        for program in ("osm-controller", "osm-injector"):
            told = subprocess.run([self.bin / program, "--version"], check=True, capture_output=True, text=True).stdout
            for name in ("gRPC", "protobuf", "OpenSSL", "Boost", "fmt", "yaml-cpp", "CLI11"):
                self.assertRegex(told, rf"{name} \d+\.\d+")
        code, out, _ = self.osm("version", "--client")
        self.assertEqual(0, code)
        self.assertIn("OpenSSL 3.", out)


if __name__ == "__main__":
    run()
