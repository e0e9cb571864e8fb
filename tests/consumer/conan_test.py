#!/usr/bin/python3
"""Conan's recipe makes the package, and a consumer's program links it and runs.

usage: conan_test.py --build DIR

Everything of Conan is in DIR/conan, and goes first.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    place = parser.parse_args().build.resolve() / "conan"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    environment = dict(os.environ, PYTHONPATH=str(place / "programs"), CONAN_HOME=str(place / "home"))

    def run(*command, quiet=False):
        ran = subprocess.run(
            [*map(str, command)], env=environment, cwd=place, text=True, stdout=subprocess.PIPE if quiet else None
        )
        if ran.returncode != 0:
            sys.exit(f"FAILED ({ran.returncode}): {' '.join(map(str, command))}\n{ran.stdout or ''}")
        return ran.stdout

    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--require-hashes",
        "--no-deps",
        "--target",
        place / "programs",
        "-r",
        HERE / "conan-requirements.txt",
    )
    conan = [sys.executable, place / "programs/bin/conan"]
    run(*conan, "profile", "detect")
    settings = [
        "-s",
        "compiler.cppstd=20",
        "-s",
        "build_type=Release",
        # Fails if a Debian package is missing, and installs none.
        "-c",
        "tools.system.package_manager:mode=check",
        "-c",
        f"tools.cmake.cmake_layout:test_folder={place / 'test'}",
    ]
    run(*conan, "create", SOURCE / "cmake/conan", *settings)
    listed = run(*conan, "list", "osm/*:*", quiet=True)
    version = run(*conan, "inspect", SOURCE / "cmake/conan", "--format", "json", quiet=True)
    if "osm/" not in listed or '"name": "osm"' not in version:
        sys.exit(f"FAILED: the package is not in the cache:\n{listed}\n{version}")
    shutil.rmtree(place)


main()
