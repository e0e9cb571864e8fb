#!/usr/bin/python3
"""Programs that are compiled again at another path, without ccache, give equal images.

usage: image_rebuild_test.py --bin DIRECTORY
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("osm", "osm-controller", "osm-injector", "osm-cni")
options = argparse.Namespace()


def run(*command, cwd, **environment):
    ran = subprocess.run(
        [*map(str, command)], cwd=cwd, capture_output=True, text=True, env={**os.environ, **environment}
    )
    if ran.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: {ran.stdout[-3000:]}{ran.stderr}")
    return ran.stdout


def digests(layout):
    index = json.loads((layout / "index.json").read_text())
    return {m["annotations"]["org.opencontainers.image.ref.name"]: m["digest"] for m in index["manifests"]}


class RebuildTest(unittest.TestCase):
    def test_a_second_compilation_elsewhere_gives_equal_digests(self):
        directory = tempfile.TemporaryDirectory(prefix="osm-rebuild-")
        self.addCleanup(directory.cleanup)
        clone = pathlib.Path(directory.name) / "another-path"
        # The tree as it is, and the commit that the programs tell.
        run("git", "clone", "--quiet", ROOT, clone, cwd=ROOT)
        shutil.copytree(
            ROOT / "build/tools",
            clone / "build/tools",
            symlinks=True,
            ignore=shutil.ignore_patterns("kubernetes", "osm-v1"),
        )
        run("cmake", "--preset", "release", cwd=clone, CCACHE_DISABLE="1")
        run("cmake", "--build", "--preset", "release", "--target", *PROGRAMS, "osm_sbom", cwd=clone, CCACHE_DISABLE="1")
        build = clone / "build/release"
        for name, layout in ((build / "bin", clone / "images"), (options.bin, clone / "first")):
            run(ROOT / "tools/image", "--bin", name, "--out", layout, cwd=clone)
        self.assertEqual(digests(clone / "images"), digests(clone / "first"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[__file__, *rest])
