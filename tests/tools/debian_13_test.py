#!/usr/bin/python3
"""Library and unit tests compile and pass in a root of Debian 13.

usage: debian_13_test.py

The root is build/roots/trixie, which `tools/package --debian 13` uses too, and what is built is kept in
build/debian-13.
"""

import os
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ROOT, BUILD = SOURCE / "build/roots/trixie", SOURCE / "build/debian-13"
# For the tests, beside what the library needs.
MORE = ["doctest-dev", "python3-yaml", "python3-grpcio", "python3-protobuf", "iptables", "iproute2", "curl", "mount"]
# Not with mold: it links objects of code that is not optimized which a test does not call, and whose rooms
# the test does not link.
SETTINGS = [
    "-DCMAKE_BUILD_TYPE=Debug",
    "-DCMAKE_CXX_FLAGS_DEBUG=-O0 -g0",
    "-DOSM_UNITY=ON",
    "-DOSM_BUILD_DAEMONS=OFF",
    "-DOSM_BUILD_EXAMPLES=OFF",
    "-DOSM_INSTALL=OFF",
    f"-DOSM_XDS_BUILD_DIR={SOURCE}/build/xds-13",
]


def run(*command):
    ran = subprocess.run([*map(str, command)])
    if ran.returncode != 0:
        sys.exit(f"FAILED: {' '.join(map(str, command))}")


def main():
    if os.geteuid() != 0:
        sys.exit("a root of Debian needs root")
    packages = subprocess.run(
        [SOURCE / "tools/package", "--dependencies", "13"], check=True, capture_output=True, text=True
    ).stdout.split()
    if not ROOT.exists():
        ROOT.parent.mkdir(parents=True, exist_ok=True)
        run(SOURCE / "tools/debian-root", "make", "trixie", ROOT, *packages, *MORE)
    inside = [SOURCE / "tools/debian-root", "run", ROOT, "--bind", SOURCE]
    setting = []
    if cache := os.environ.get("OSM_CACHE_DIR"):
        inside += ["--bind", cache]
        setting = [f"OSM_CACHE_DIR={cache}", f"CCACHE_DIR={cache}/ccache"]
    inside += ["--", "env", *setting]
    run(*inside, "apt-get", "update")
    run(*inside, "apt-get", "install", "-y", "--no-install-recommends", *packages, *MORE)
    run(*inside, "cmake", "-G", "Ninja", "-S", SOURCE, "-B", BUILD, *SETTINGS)
    run(*inside, "cmake", "--build", BUILD)
    run(
        *inside,
        "ctest",
        "--test-dir",
        BUILD,
        "-L",
        "^unit$",
        "-LE",
        "nightly",
        "-j2",
        "--output-on-failure",
        "--no-tests=error",
    )


main()
