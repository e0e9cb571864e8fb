#!/usr/bin/python3
"""Library, programs and unit tests cross-compile for arm64; under qemu-user the tests pass and a controller
serves the bookstore.

usage: arm64_test.py

The root is build/roots/bookworm-arm64: a Debian 12 of this machine's architecture that has a cross compiler
and the libraries of arm64. What is built is kept in build/arm64.
"""

import os
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ROOT, BUILD = SOURCE / "build/roots/bookworm-arm64", SOURCE / "build/arm64"
NATIVE_DEV = {"libcli11-dev"}  # headers only, one package for all architectures
# For the tests, beside what the library needs.
MORE = ["g++-aarch64-linux-gnu", "qemu-user-static", "doctest-dev", "iptables", "iproute2", "curl", "mount"]
# Not with mold: see debian_13_test.py.
SETTINGS = [
    "--toolchain",
    f"{SOURCE}/cmake/toolchains/arm64.cmake",
    "-DCMAKE_BUILD_TYPE=Debug",
    "-DCMAKE_CXX_FLAGS_DEBUG=-O0 -g0",
    "-DOSM_UNITY=ON",
    "-DOSM_BUILD_EXAMPLES=OFF",
    "-DOSM_INSTALL=OFF",
    f"-DOSM_XDS_BUILD_DIR={SOURCE}/build/xds-arm64",
]
EMULATOR = "qemu-aarch64-static"
PROGRAMS = ["osm", "osm-controller", "osm-injector", "osm-cni"]
# $1 runs programs, $2 is their folder, $3 the source.
SERVE = """set -eu
state=$(mktemp -d)
$1 $2/osm-controller --mesh-dir $3/examples/bookstore/mesh --state-dir $state --ads-address 127.0.0.1:0 \\
  >$state/log 2>&1 &
trap "kill $! || :; wait; rm -r $state" EXIT
for attempt in $(seq 120); do
  $1 $2/osm policy check bookbuyer/bookbuyer bookstore/bookstore-v1 --state-dir $state 2>/dev/null && exit 0
  sleep 0.5
done
cat $state/log
exit 1
"""

MEMORY = "it measures resident memory, and qemu keeps the code that it translated there"
ABORT = "it compares all that an aborted process wrote, and qemu writes a line about the signal"
# Entries of the unit tests that do not run, as regular expressions, with the reason.
NO_ENTRY = {
    r"unit\.daemon_\w+": "it starts the programs by their path, and the kernel knows no programs for arm64",
    r"unit\.net_memory": MEMORY,
}
# Test cases that do not run, by room, as doctest's filters, with the reason. The rest of the room does.
NO_CASE = {
    "ads": {
        "streams come and go while snapshots and secrets change*": "it demands 200 changes and a quiet mesh "
        "within a minute, and qemu is too slow for that"
    },
    "base": {
        "the value of an error ends the process*": ABORT,
        "the error of a success ends the process": ABORT,
        "a wait on the executor?s own thread fails*": ABORT,
    },
    "net": {"100 MB pass over TLS*": MEMORY},
}


def shown(command):
    return " ".join(map(str, command))


def run(*command):
    if subprocess.run([*map(str, command)]).returncode != 0:
        sys.exit(f"FAILED: {shown(command)}")


def output(*command):
    ran = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, text=True)
    if ran.returncode != 0:
        sys.exit(f"FAILED: {shown(command)}")
    return ran.stdout


def packages():
    """Names for apt: tools that run here, and libraries of arm64."""
    needed = output(SOURCE / "tools/package", "--dependencies", "12").split()
    libraries = {p for p in needed if re.fullmatch(r"lib.*-dev", p)} - NATIVE_DEV
    return [*(f"{p}:arm64" if p in libraries else p for p in needed), *MORE]


def make_root(inside):
    if not ROOT.exists():
        ROOT.parent.mkdir(parents=True, exist_ok=True)
        run(SOURCE / "tools/debian-root", "make", "bookworm", ROOT)
    run(*inside, "dpkg", "--add-architecture", "arm64")
    run(*inside, "apt-get", "update")
    run(*inside, "apt-get", "install", "-y", "--no-install-recommends", *packages())


def run_programs(inside):
    """Each program is one for arm64 and tells its version; the controller serves the bookstore."""
    for program in PROGRAMS:
        header = output(*inside, "aarch64-linux-gnu-readelf", "-h", BUILD / "bin" / program)
        if not re.search(r"Machine: +AArch64", header):
            sys.exit(f"FAILED: {program} is not for arm64:\n{header}")
        run(*inside, EMULATOR, BUILD / "bin" / program, "--version")
    if "ALLOWED" not in (text := output(*inside, "sh", "-c", SERVE, "sh", EMULATOR, BUILD / "bin", SOURCE)):
        sys.exit(f"FAILED: the controller does not serve the bookstore:\n{text}")


def run_tests(inside):
    ctest = [*inside, "ctest", "--test-dir", BUILD, "-L", "^unit$", "-LE", "nightly"]
    entries = re.findall(r"Test +#\d+: (\S+)", output(*ctest, "-N"))
    not_run = {}
    for pattern, reason in NO_ENTRY.items():
        found = [name for name in entries if re.fullmatch(pattern, name)]
        if not found:
            sys.exit(f"FAILED: no test is called {pattern}: correct NO_ENTRY")
        not_run |= dict.fromkeys(found, reason)
    apart = [f"unit.{room}" for room in NO_CASE]
    excluded = "|".join(re.escape(name) for name in [*not_run, *apart])
    run(*ctest, "-E", f"^({excluded})$", "-j2", "--output-on-failure", "--no-tests=error")
    for room, cases in NO_CASE.items():
        program = [*inside, EMULATOR, BUILD / f"bin/{room}_test"]
        for pattern in cases:
            if re.search(r"passing the current filters: 0$", output(*program, "-ltc", f"--test-case={pattern}"), re.M):
                sys.exit(f"FAILED: unit.{room} has no case '{pattern}': correct NO_CASE")
        run(*program, f"--test-case-exclude={','.join(cases)}")
    for name, reason in not_run.items():
        print(f"not run: {name}: {reason}")
    for room, cases in NO_CASE.items():
        for pattern, reason in cases.items():
            print(f"not run: unit.{room}, case '{pattern}': {reason}")


def main():
    if os.geteuid() != 0:
        sys.exit("a root of Debian needs root")
    inside = [SOURCE / "tools/debian-root", "run", ROOT, "--bind", SOURCE]
    setting = []
    if cache := os.environ.get("OSM_CACHE_DIR"):
        inside += ["--bind", cache]
        setting = [f"OSM_CACHE_DIR={cache}", f"CCACHE_DIR={cache}/ccache"]
    inside += ["--", "env", *setting]
    make_root(inside)
    run(*inside, "cmake", "-G", "Ninja", "-S", SOURCE, "-B", BUILD, *SETTINGS)
    run(*inside, "cmake", "--build", BUILD)
    run_programs(inside)
    run_tests(inside)


main()
