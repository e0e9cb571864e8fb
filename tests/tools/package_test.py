#!/usr/bin/python3
"""The Debian packages install in a fresh Debian 12; the programs run, the controller serves the bookstore,
a consumer builds with `libosm-dev`; an upgrade keeps the conffile; a purge leaves nothing but a CA, its
user and the mesh's objects.

usage: package_test.py [--packages DIRECTORY] [--root DIRECTORY]

  --packages   packages that are built already; else tools/package builds them
  --root       a root of Debian 12 that `tools/debian-root make` made, which is copied; else one is made
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from lib.net.processes import wait_for

SOURCE = pathlib.Path(__file__).resolve().parents[2]
RUNTIME, NAMES = "libosm0.1", ("libosm0.1", "libosm-dev", "osm-controller", "osm-injector", "osm")
# Written by dpkg, apt and ldconfig for every package.
NOISE = (
    r"var/(lib/(dpkg|apt|systemd)|cache|log)/|etc/ld.so.cache|"
    r"etc/(passwd|group|shadow|gshadow|subuid|subgid)-$|root/|tmp/|run/"
)
OPTIONS = None


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="osm-packages-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.packages = OPTIONS.packages
        if cls.packages is None:
            release = pathlib.Path("/etc/os-release").read_text()
            here = re.search(r'^VERSION_ID="?12"?$', release, re.M) and re.search("^ID=debian$", release, re.M)
            subprocess.run([SOURCE / "tools/package", *([] if here else ["--debian", "12"])], check=True)
            cls.packages = SOURCE / ("build/packages" if here else "build/packages-12")
        cls.files = {re.match(r"[^_]+", file.name)[0]: file for file in cls.packages.glob("*.deb")}
        cls.root = cls.folder / "root"
        if OPTIONS.root:
            subprocess.run(["cp", "-a", OPTIONS.root, cls.root], check=True)
        else:
            subprocess.run(
                [SOURCE / "tools/debian-root", "make", "bookworm", cls.root, "systemd", "iptables"], check=True
            )
        cls.inside("apt-get", "update")

    @classmethod
    def command(cls, *command):
        return [
            str(a)
            for a in (
                SOURCE / "tools/debian-root",
                "run",
                cls.root,
                "--bind",
                cls.packages,
                "--bind",
                SOURCE / "tests",
                "--bind",
                SOURCE / "examples",
                "--",
                *command,
            )
        ]

    @classmethod
    def inside(cls, *command, fails=False):
        """Output of a command in the root, which must succeed (or must fail)."""
        ran = subprocess.run(
            cls.command(*command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL
        )
        if (ran.returncode != 0) != fails:
            raise AssertionError(f"{' '.join(map(str, command))}: {ran.returncode}\n{ran.stdout[-5000:]}")
        return ran.stdout

    def install(self, *names):
        files = [self.files[name] for name in names]
        return self.inside("apt-get", "install", "-y", "--no-install-recommends", *files)

    def purge(self, *names):
        said = self.inside("apt-get", "purge", "-y", *names)
        self.inside("apt-get", "autoremove", "-y", "--purge")
        return said

    def path(self, inside):
        return self.root / inside.lstrip("/")

    def state(self):
        """Every file with its kind, mode and owner, except those that a package manager keeps."""
        seen = {}
        for folder in ("etc", "usr", "var", "opt"):
            for path in (self.root / folder).rglob("*"):
                name = str(path.relative_to(self.root))
                if not re.match(NOISE, name):
                    status = path.lstat()
                    seen[name] = (oct(status.st_mode), status.st_uid, status.st_gid)
        for name in ("passwd", "group"):
            for line in (self.root / "etc" / name).read_text().splitlines():
                seen[f"{name}: {line}"] = True
        return seen

    def start(self):
        """The controller by the command line of its unit, with the environment file of the package."""
        environment = self.path("/etc/osm/controller.env").read_text()
        options = re.search(r'^OSM_CONTROLLER_OPTIONS="(.*)"$', environment, re.M)[1]
        line = re.search(
            "^ExecStart=(.*)$", self.path("/usr/lib/systemd/system/osm-controller.service").read_text(), re.M
        )[1]
        line = line.replace("$OSM_CONTROLLER_OPTIONS", options)
        line = re.sub(r"0\.0\.0\.0:15128|127\.0\.0\.1:9091", "127.0.0.1:0", line)
        state = self.path("/var/lib/osm")
        if not state.exists():  # StateDirectory=
            state.mkdir(mode=0o700)
            self.inside("chown", "osm:osm", "/var/lib/osm")
        log = open(self.folder / "controller.log", "w+")
        self.addCleanup(log.close)
        process = subprocess.Popen(
            self.command("setpriv", "--reuid=osm", "--regid=osm", "--init-groups", *line.split()),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        self.addCleanup(lambda: process.poll() is None and process.kill())

        def started():
            text = pathlib.Path(log.name).read_text()
            self.assertIsNone(process.poll(), text)
            return "osm-controller started" in text

        wait_for("the controller has started", started, 60)
        return process

    def stop(self, process):
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(20), 0)

    def test_they_run_and_go_without_a_trace(self):
        self.install(RUNTIME, "osm")  # what other packages leave behind is there already
        self.purge("osm", RUNTIME)
        before = self.state()
        said = self.install(RUNTIME, "osm-controller", "osm-injector", "osm")
        self.assertNotIn("warning", said.lower().replace("debconf: delaying", ""))
        for program in ("osm", "osm-controller", "osm-injector"):
            self.assertRegex(self.inside(program, "--version"), r"0\.1\.0")
        for page in ("man1/osm.1", "man8/osm-controller.8", "man8/osm-injector.8"):
            self.assertTrue(self.path(f"/usr/share/man/{page}.gz").exists(), page)
        self.assertFalse(list(self.path("/etc/systemd/system").rglob("osm-*")), "a unit is enabled")
        self.units()

        self.assertEqual(self.inside("stat", "-c", "%U:%G %a", "/etc/osm/mesh").strip(), "root:osm 750")
        for file in (SOURCE / "examples/bookstore/mesh").glob("*.yaml"):
            shutil.copy(file, self.path("/etc/osm/mesh"))
        controller = self.start()
        wait_for(
            "it is ready",
            lambda: "ALLOWED" in self.inside("osm", "policy", "check", "bookbuyer/bookbuyer", "bookstore/bookstore-v1"),
            30,
            retry=(AssertionError,),
        )
        self.assertIn("No problems", self.inside("osm", "problems"))
        self.stop(controller)

        self.an_upgrade_keeps_the_conffile()
        said = self.purge("osm-controller", "osm-injector", "osm", RUNTIME)
        self.assertIn("it holds the CA", said)
        left = {name: value for name, value in self.state().items() if before.get(name) != value}
        self.assertTrue(self.path("/var/lib/osm/ca/ca.pem").exists())
        for name in left:
            self.assertRegex(name, r"^(var/lib/osm(/|$)|etc/osm(/mesh(/|$)|$)|(passwd|group): osm:)")
        command = re.search(r"osm-controller:   (rm -r .*)", said)[1]
        self.inside("sh", "-c", command)
        shutil.rmtree(self.path("/etc/osm"))
        self.assertEqual(self.state(), before)

        self.install("osm-controller", RUNTIME)  # and never started
        self.purge("osm-controller", RUNTIME)
        self.assertEqual(self.state(), before)

    def units(self):
        """systemd understands them where the packages put them."""
        script = self.path("/etc/osm/web-1/intercept.sh")
        script.parent.mkdir()
        script.write_text("#!/bin/sh\n")
        script.chmod(0o700)
        envoy = self.path("/usr/local/bin/envoy")
        envoy.write_text("#!/bin/sh\n")
        envoy.chmod(0o755)
        said = self.inside(
            "systemd-analyze",
            "verify",
            "--man=no",
            "osm-controller.service",
            *(
                f"osm-{name}@web-1.{kind}"
                for name, kind in (
                    ("intercept", "service"),
                    ("envoy", "service"),
                    ("renew", "service"),
                    ("renew", "timer"),
                )
            ),
        )
        self.assertEqual([line for line in said.splitlines() if "osm" in line], [])
        shutil.rmtree(script.parent)
        envoy.unlink()

    def an_upgrade_keeps_the_conffile(self):
        conffile = self.path("/etc/osm/controller.env")
        conffile.write_text(conffile.read_text() + "# ours\n")
        authority = self.path("/var/lib/osm/ca/ca.pem").read_bytes()
        self.inside("apt-get", "install", "-y", "--reinstall", self.files["osm-controller"])
        self.assertIn("# ours", conffile.read_text())
        self.assertEqual(self.path("/var/lib/osm/ca/ca.pem").read_bytes(), authority)
        self.inside("apt-get", "remove", "-y", "osm-controller")
        self.assertFalse(self.path("/usr/bin/osm-controller").exists())
        self.assertIn("# ours", conffile.read_text())

    def test_a_consumer_builds_with_libosm_dev(self):
        self.addCleanup(self.purge, "libosm-dev", RUNTIME)
        self.install(RUNTIME, "libosm-dev")
        self.inside("apt-get", "install", "-y", "--no-install-recommends", "g++", "cmake", "ninja-build", "pkg-config")
        installed = self.inside("dpkg-query", "-f", "${db:Status-Abbrev} ${Package}\n", "-W")
        self.assertNotRegex(installed, "(?m)^ii.*boost")
        work = "/tmp/consumer"
        programs = SOURCE / "tests/consumer/programs"
        self.inside("cmake", "-G", "Ninja", "-S", SOURCE / "tests/consumer/find_package", "-B", work)
        self.inside("cmake", "--build", work, "--target", "front_door", "mesh")
        for name in ("front_door", "mesh"):
            self.assertEqual(self.inside(f"{work}/{name}"), f"{name}: ok\n")
        self.inside(
            "sh",
            "-ec",
            f"g++ -std=c++20 {programs}/front_door.cpp -o /tmp/by-pkg-config "
            "$(pkg-config --cflags --libs osm) && /tmp/by-pkg-config",
        )
        control = self.inside("dpkg-query", "-f", "${Recommends}", "-W", "libosm-dev")
        self.inside("apt-get", "install", "-y", "--no-install-recommends", control.strip())
        self.inside("cmake", "--build", work, "--target", "machines")
        self.assertEqual(self.inside(f"{work}/machines"), "machines: ok\n")

    def test_the_packages_are_as_debian_wants_them(self):
        self.assertEqual(set(self.files), set(NAMES))
        ran = subprocess.run(
            [
                "lintian",
                "--allow-root",
                "--fail-on",
                "error",
                "--tag-display-limit",
                "0",
                "--suppress-tags",
                "bogus-mail-host,bogus-mail-host-in-debian-changelog",  # DEBEMAIL is unset
                *self.files.values(),
            ],
            capture_output=True,
            text=True,
        )
        self.assertEqual(ran.returncode, 0, ran.stdout)
        for name in ("osm-controller", "osm-injector", "osm", "libosm-dev"):
            depends = subprocess.run(
                ["dpkg-deb", "-f", self.files[name], "Depends"], check=True, capture_output=True, text=True
            ).stdout
            self.assertRegex(depends, rf"{re.escape(RUNTIME)} \(= 0\.1\.0-1~deb12\)")
        depends = subprocess.run(
            ["dpkg-deb", "-f", self.files[RUNTIME], "Depends"], check=True, capture_output=True, text=True
        ).stdout
        for library in ("libgrpc++", "libprotobuf", "libssl3", "libyaml-cpp", "libc6"):
            self.assertIn(library, depends)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--packages", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--root", type=lambda path: pathlib.Path(path).resolve())
    OPTIONS, rest = parser.parse_known_args()
    if os.geteuid() != 0:
        sys.exit("a root of Debian needs root")
    for tool in ("mmdebstrap", "lintian"):
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is missing: tools/setup --packages installs it")
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
