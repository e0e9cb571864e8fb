#!/usr/bin/python3
"""OSM_CACHE_DIR: what one clone built or downloaded, another one reuses; a damaged entry is made
again. Clones are copies of the tools with a tiny program; Go and pip are scripts."""

import hashlib
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Builds a script that says what is in the program's source, and notes the build and its caches.
GO = """#!/bin/bash
case $1 in
  env) if [[ $2 == GOVERSION ]]; then echo go1.99; else echo none; fi ;;
  build)
    while (($#)); do [[ $1 == -o ]] && out=$2; shift; done
    printf '#!/bin/sh\\necho "%s"\\n' "$(cat main.txt)" >"$out/tiny"
    chmod +x "$out/tiny"
    echo "${GOCACHE-} ${GOMODCACHE-}" >>"$BUILDS" ;;
esac
"""
# As pip, downloads the wheel that is there; everything else is Python's.
PYTHON = """#!/bin/bash
if [[ $1 == -m && $2 == pip ]]; then
  echo download >>"$DOWNLOADS"
  while (($#)); do [[ $1 == --dest ]] && dest=$2; shift; done
  exec cp "$WHEEL" "$dest/"
fi
exec /usr/bin/python3 "$@"
"""


class SharedCache(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.cache = self.directory / "cache"
        self.builds, self.downloads = self.directory / "builds", self.directory / "downloads"
        self.wheel = self.directory / "tiny_wheel-1-py3-none-any.whl"
        with zipfile.ZipFile(self.wheel, "w") as wheel:
            wheel.writestr("tiny.txt", "of the wheel")
        commands = self.directory / "commands"
        commands.mkdir()
        for name, text in (("go", GO), ("python3", PYTHON)):
            (commands / name).write_text(text)
            (commands / name).chmod(0o755)
        self.environment = {
            "PATH": f"{commands}:/usr/bin:/bin",
            "HOME": str(self.directory),
            "BUILDS": str(self.builds),
            "DOWNLOADS": str(self.downloads),
            "WHEEL": str(self.wheel),
        }

    def clone(self, name, text="one"):
        clone = self.directory / name
        program = clone / "tools/programs/tiny"
        program.mkdir(parents=True)
        for tool in ("cache", "unpack-wheel", "programs/build"):
            shutil.copy(ROOT / "tools" / tool, clone / "tools" / tool)
        shutil.copytree(ROOT / "tools/programs/prune", clone / "tools/programs/prune")
        (program / "recipe.sh").write_text("module=osm.test/tiny\npackages=(osm.test/tiny)\n")
        (program / "go.mod").write_text("module osm.test/tiny\n\ngo 1.20\n\nrequire osm.test/tiny v1\n")
        (program / "go.sum").write_text("")
        (program / "main.txt").write_text(text)
        digest = hashlib.sha256(self.wheel.read_bytes()).hexdigest()
        (clone / "tools/requirements.txt").write_text(f"tiny-wheel==1 --hash=sha256:{digest}\n")
        return clone

    def run_tool(self, clone, *command, cached=True):
        shared = {"OSM_CACHE_DIR": str(self.cache)} if cached else {}
        ran = subprocess.run(
            [clone / "tools" / command[0], *command[1:]],
            env=self.environment | shared,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return ran.stdout + ran.stderr

    def build(self, name, text="one", cached=True):
        """The program's answer about a clone of this name."""
        clone = self.clone(name, text)
        self.run_tool(clone, "programs/build", "tiny", cached=cached)
        return subprocess.run(
            [clone / "build/tools/tiny/bin/tiny"], capture_output=True, text=True, check=True
        ).stdout.strip()

    def count(self, file):
        return len(file.read_text().splitlines()) if file.exists() else 0

    def damage(self, pattern):
        (entry,) = self.cache.glob(pattern)
        contents = bytearray(entry.read_bytes())
        contents[len(contents) // 2] ^= 1
        entry.write_bytes(contents)

    def test_without_a_cache_every_clone_builds_and_nothing_is_kept(self):
        for name in ("first", "second"):
            self.assertEqual(self.build(name, cached=False), "one")
        self.assertEqual(self.count(self.builds), 2)
        self.assertEqual(self.builds.read_text().split(), [], "Go was told of other caches")
        self.assertFalse(self.cache.exists())

    def test_a_second_clone_takes_what_the_first_built(self):
        for name in ("first", "second"):
            self.assertEqual(self.build(name), "one")
        self.assertEqual(self.count(self.builds), 1)
        self.assertEqual(self.builds.read_text().split(), [str(self.cache / "go-build"), str(self.cache / "go-mod")])

    def test_a_clone_that_differs_builds_its_own(self):
        self.assertEqual(self.build("first"), "one")
        self.assertEqual(self.build("second", text="two"), "two")
        self.assertEqual(self.build("third"), "one")
        self.assertEqual(self.count(self.builds), 2)

    def test_a_damaged_program_is_built_again_and_kept_anew(self):
        self.build("first")
        self.damage("programs/*.tar")
        self.assertEqual(self.build("second"), "one")
        self.assertEqual(self.count(self.builds), 2)
        self.assertEqual(self.build("third"), "one")
        self.assertEqual(self.count(self.builds), 2)

    def test_a_program_without_its_checksum_is_built_again(self):
        self.build("first")
        for checksum in self.cache.glob("programs/*.sha256"):
            checksum.unlink()
        self.assertEqual(self.build("second"), "one")
        self.assertEqual(self.count(self.builds), 2)

    def unpack(self, name, cached=True):
        clone = self.clone(name)
        self.run_tool(clone, "unpack-wheel", "tiny-wheel", str(clone / "unpacked"), cached=cached)
        return (clone / "unpacked/tiny.txt").read_text()

    def test_a_wheel_is_downloaded_once_for_all_clones(self):
        for name in ("first", "second"):
            self.assertEqual(self.unpack(name), "of the wheel")
        self.assertEqual(self.count(self.downloads), 1)

    def test_without_a_cache_every_clone_downloads(self):
        for name in ("first", "second"):
            self.assertEqual(self.unpack(name, cached=False), "of the wheel")
        self.assertEqual(self.count(self.downloads), 2)

    def test_a_damaged_wheel_is_downloaded_again(self):
        self.unpack("first")
        self.damage("wheels/*.whl")
        self.assertEqual(self.unpack("second"), "of the wheel")
        self.assertEqual(self.unpack("third"), "of the wheel")
        self.assertEqual(self.count(self.downloads), 2)

    def test_a_wheel_that_was_exchanged_with_its_checksum_is_not_trusted(self):
        self.unpack("first")
        (entry,) = self.cache.glob("wheels/*.whl")
        entry.write_bytes(b"another")
        checksum = hashlib.sha256(b"another").hexdigest()
        entry.with_name(entry.name + ".sha256").write_text(f"{checksum}  -\n")
        self.assertEqual(self.unpack("second"), "of the wheel")
        self.assertEqual(self.count(self.downloads), 2)

    def source_cache(self, directory):
        return subprocess.run(
            ["bash", "-c", f"source {ROOT}/tools/cache && echo $CCACHE_DIR"],
            env=self.environment | {"OSM_CACHE_DIR": directory},
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
        )

    def test_compiled_cpp_is_kept_in_the_cache(self):
        ran = self.source_cache(str(self.cache))
        self.assertEqual(ran.stdout.strip(), str(self.cache / "ccache"))

    def test_a_relative_path_is_refused(self):
        ran = self.source_cache("cache")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("must be an absolute path", ran.stderr)


if __name__ == "__main__":
    unittest.main()
