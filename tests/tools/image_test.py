#!/usr/bin/python3
"""Container images are equal when made again elsewhere; their bill names every program and library; a
registry gives what it took; the programs run as their user, and rules are written with nft or legacy.

usage: image_test.py --bin DIRECTORY [--registry PROGRAM]
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from lib.net.ports import free_ports
from lib.net.processes import Process

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGE = ROOT / "tools/image"
NAMES = ("osm-controller", "osm-injector", "osm-init")
REGISTRY = """version: 0.1
storage: {{filesystem: {{rootdirectory: {directory}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""
options = argparse.Namespace()


def run(*command, **more):
    ran = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=120, **more)
    if ran.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: {ran.returncode}: {ran.stderr}")
    return ran.stdout


def digests(layout):
    index = json.loads((layout / "index.json").read_text())
    return {m["annotations"]["org.opencontainers.image.ref.name"]: m["digest"] for m in index["manifests"]}


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="osm-image-test-")
        cls.addClassCleanup(directory.cleanup)
        cls.directory = pathlib.Path(directory.name)
        cls.directory.chmod(0o755)  # the images' users look into it
        cls.layout = cls.directory / "images"
        run(IMAGE, "--bin", options.bin, "--out", cls.layout)


class Bytes(Case):
    def test_the_same_programs_elsewhere_give_the_same_digests(self):
        elsewhere = self.directory / "elsewhere"
        shutil.copytree(
            options.bin,
            elsewhere / "bin",
            ignore=lambda _, names: [n for n in names if n not in (*NAMES, "osm", "osm-cni")],
        )
        shutil.copy(options.bin.parent / "osm.cdx.json", elsewhere)
        run(IMAGE, "--bin", elsewhere / "bin", "--out", elsewhere / "images")
        self.assertEqual(digests(elsewhere / "images"), digests(self.layout))
        self.assertEqual(set(digests(self.layout)), set(NAMES))

    def test_an_image_is_replaced_and_its_old_blobs_are_gone(self):
        layout = self.directory / "replaced"
        for time in ("1", "2"):
            run(IMAGE, "--out", layout, "osm-init", env={**os.environ, "SOURCE_DATE_EPOCH": time})
        # A layer, a configuration and a manifest.
        self.assertEqual(len(list((layout / "blobs/sha256").iterdir())), 3)

    def test_no_program_knows_where_it_was_built(self):
        for name in (*NAMES[:2], "osm", "osm-cni"):
            found = re.findall(
                rb"[^\0]*" + re.escape(os.fsencode(ROOT)) + rb"[^\0]*", (options.bin / name).read_bytes()
            )
            self.assertEqual(found[:3], [], name)

    def test_a_wrong_name_is_refused(self):
        ran = subprocess.run([IMAGE, "osm-proxy"], capture_output=True, text=True)
        self.assertEqual(
            (ran.returncode, ran.stderr),
            (1, ("image: osm-proxy is no image; there are osm-controller, osm-injector, osm-init\n")),
        )

    def test_programs_that_are_not_built_are_named(self):
        ran = subprocess.run(
            [IMAGE, "--bin", self.directory / "none", "--out", self.directory / "x", "osm-injector"],
            capture_output=True,
            text=True,
        )
        self.assertEqual(ran.returncode, 1)
        self.assertIn("build the target osm_sbom", ran.stderr)


class Pulled(Case):
    """What a node has after it took the images from a registry."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        [port] = free_ports(1)
        configuration = cls.directory / "registry.yaml"
        configuration.write_text(REGISTRY.format(directory=cls.directory / "registry", port=port))
        registry = Process("registry", [options.registry, "serve", configuration], cls.directory / "registry.log")
        cls.addClassCleanup(registry.end)
        registry.wait_for_log("listening on")
        cls.pulled, cls.configs, cls.roots = cls.directory / "pulled", {}, {}
        for name in NAMES:
            there = f"docker://127.0.0.1:{port}/mesh/{name}:test"
            run("skopeo", "copy", "--insecure-policy", "--dest-tls-verify=false", f"oci:{cls.layout}:{name}", there)
            run("skopeo", "copy", "--insecure-policy", "--src-tls-verify=false", there, f"oci:{cls.pulled}:{name}")
            cls.configs[name] = json.loads(run("skopeo", "inspect", "--config", f"oci:{cls.pulled}:{name}"))
            run("umoci", "raw", "unpack", "--image", f"{cls.pulled}:{name}", cls.directory / f"{name}.root")
            cls.roots[name] = cls.directory / f"{name}.root"

    def files(self, name):
        return [p for p in self.roots[name].rglob("*") if p.is_file() and not p.is_symlink()]

    def test_the_registry_gives_what_it_took(self):
        self.assertEqual(digests(self.pulled), digests(self.layout))

    def test_users_and_labels(self):
        for name, user in zip(NAMES, ("1500:1500", "1500:1500", "0:0")):
            config = self.configs[name]["config"]
            self.assertEqual(config["User"], user)
            labels = config["Labels"]
            self.assertEqual(labels["org.opencontainers.image.title"], name)
            self.assertEqual(labels["org.opencontainers.image.licenses"], "Apache-2.0")
            self.assertRegex(labels["org.opencontainers.image.version"], r"^\d+\.\d+\.\d+$")

    def test_files_belong_to_root_and_give_nobody_more_rights(self):
        for name in NAMES:
            for path in [self.roots[name], *self.roots[name].rglob("*")]:
                status = path.lstat()
                self.assertEqual((status.st_uid, status.st_gid), (0, 0), path)
                if path.is_file() and not path.is_symlink():
                    self.assertFalse(status.st_mode & 0o6022, path)  # setuid, setgid, write

    def test_the_bill_names_each_program_and_library_with_its_bytes(self):
        for name in NAMES:
            bill = json.loads((self.roots[name] / "usr/share/osm/osm.cdx.json").read_text())
            listed = {h["content"]: c for c in bill["components"] for h in c.get("hashes", [])}
            binaries = [p for p in self.files(name) if p.read_bytes()[:4] == b"\x7fELF"]
            self.assertGreater(len(binaries), 5)
            for binary in binaries:
                component = listed.get(hashlib.sha256(binary.read_bytes()).hexdigest())
                self.assertIsNotNone(component, binary)
                if not component["name"].startswith("osm"):
                    self.assertRegex(component["purl"], r"^pkg:deb/debian/.+@.+\?arch=")
            packages = {re.match(r"pkg:deb/debian/([^@]+)@", c["purl"])[1] for c in bill["components"] if "purl" in c}
            for package in packages | {"libosm"}:  # with its license
                self.assertTrue(
                    (self.roots[name] / "usr/share/doc" / package / "copyright").exists(), f"{name}: {package}"
                )

    def test_daemons_run_as_their_user_without_a_shell(self):
        for name in NAMES[:2]:
            config, root = self.configs[name]["config"], self.roots[name]
            said = run("chroot", f"--userspec={config['User']}", root, *config["Entrypoint"], "--version")
            self.assertIn(name, said)
            self.assertFalse((root / "usr/bin/sh").exists())
            self.assertTrue(
                (root / "etc/ssl/certs/ca-certificates.crt").read_text().startswith("-----BEGIN CERTIFICATE-----")
            )
        said = run(
            "chroot",
            "--userspec=1500:1500",
            self.roots["osm-controller"],
            "osm",
            "version",
            "--client",
            env={"PATH": self.configs["osm-controller"]["config"]["Env"][0].removeprefix("PATH=")},
        )
        self.assertIn("client:", said)

    def test_init_writes_rules_with_nft_or_else_with_legacy(self):
        script = (
            "set -e; printf '*nat\\n-A OUTPUT -p tcp -m owner --uid-owner 1500 -j RETURN\\n"
            "COMMIT\\n' | iptables-restore -w --noflush; "
            "printf '*filter\\n-A INPUT -p tcp -j REJECT\\nCOMMIT\\n' | ip6tables-restore -w; "
            "iptables-save -t nat; ip6tables-save -t filter"
        )
        root = self.roots["osm-init"]
        legacy = self.directory / "legacy.root"  # a kernel without nft, as the wrapper sees it
        shutil.copytree(root, legacy, symlinks=True)
        (legacy / "usr/sbin/xtables-nft-multi").write_text("#!/bin/sh\nexit 1\n")
        for tried, by_nft in ((root, True), (legacy, False)):
            said = run("unshare", "--net", "chroot", tried, "/bin/sh", "-c", script, env={"PATH": "/usr/sbin:/usr/bin"})
            self.assertIn("--uid-owner 1500 -j RETURN", said)
            self.assertIn("-A INPUT -p tcp -j REJECT", said)
            self.assertEqual("(nf_tables)" in said, by_nft)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument(
        "--registry", type=pathlib.Path, default=ROOT / "build/tools/docker-registry/usr/bin/docker-registry"
    )
    options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
