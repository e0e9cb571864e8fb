"""systemd units, started and stopped as systemd does it, without systemd.

A unit's command runs under the unit's user, environment, limits and capabilities, in a root of its own
where it can write only what the unit permits. Not enforced: SystemCallFilter and the namespaces of
PrivateDevices and ProtectProc; `systemd-analyze verify` reads those.
"""

import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import subprocess

DIRECTORIES = {"State": "var/lib", "Logs": "var/log", "Runtime": "run"}
SPAN = {"": 1, "s": 1, "min": 60, "h": 3600}

# $1 is the root; then come the lines for `mount` and, after `--`, the command.
SETUP = """
set -eu
root=$1; shift
mount --make-rprivate /
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
while [ "$1" != -- ]; do mount $1; shift; done
shift
exec "$@"
"""


class Unit:
    """A unit file. A template needs its instance."""

    def __init__(self, path, instance=""):
        self.path, self.instance = pathlib.Path(path), instance
        self.name = self.path.name.replace("@.", f"@{instance}.")
        self.settings = {}
        for line in self.path.read_text().splitlines():
            if re.match(r"[A-Za-z]+=", line):
                key, value = line.split("=", 1)
                self.settings.setdefault(key, []).append(self._expand(value))

    def _expand(self, text):
        specifiers = {"i": self.instance, "n": self.name, "%": "%"}
        return re.sub("%(.)", lambda found: specifiers[found[1]], text)

    def one(self, key, default=""):
        return self.settings.get(key, [default])[-1]

    def words(self, key):
        return " ".join(self.settings.get(key, [])).split()

    def seconds(self, key):
        number, unit = re.fullmatch(r"(\d+)(s|min|h|)", self.one(key)).groups()
        return int(number) * SPAN[unit]


class Root:
    """The file system that units see: this machine's programs and libraries, with more programs in
    /usr/bin, and users, /etc/osm and /var of its own."""

    def __init__(self, directory, programs, users):
        self.directory = pathlib.Path(directory)
        self.own, self.merged = self.directory / "own", self.directory / "root"
        for path in ("usr/bin", "usr/lib/systemd/system", "etc/osm", "var/lib", "var/log", "run", "tmp"):
            (self.own / path).mkdir(parents=True)
        for path in ("usr", "etc", "var", "run", "tmp", "dev", "proc", "sys"):
            (self.merged / path).mkdir(parents=True)
        for path in ("bin", "sbin", "lib", "lib64"):
            (self.merged / path).symlink_to(f"usr/{path}")
        for program in programs:
            target = self.own / "usr/bin" / program.name
            shutil.copyfile(program, target)
            target.chmod(0o755)
        for file, line in (("passwd", "{0}:x:{1}:{1}::/:/usr/sbin/nologin\n"), ("group", "{0}:x:{1}:\n")):
            text = pathlib.Path("/etc", file).read_text()
            own = [line.format(name, uid) for name, uid in users.items()]
            (self.own / "etc" / file).write_text(text + "".join(own))
        self.users = users | {"root": 0}

    def install(self, folder):
        """Copies the units of a folder, as their packages do."""
        for unit in folder.iterdir():
            if unit.suffix in (".service", ".timer"):
                shutil.copy(unit, self.own / "usr/lib/systemd/system" / unit.name)

    def unit(self, name, instance=""):
        return Unit(self.own / "usr/lib/systemd/system" / name, instance)

    def path(self, inside):
        """The file on this machine of a path that units see."""
        return self.own / str(inside).lstrip("/")

    def mounts(self, writable=()):
        """Lines for `mount`. Everything that is not `writable` is read-only."""
        root, own = self.merged, self.own
        for layer in ("usr", "etc"):
            yield f"-t overlay overlay -o lowerdir={own}/{layer}:/{layer} {root}/{layer}"
        for source in ("dev", "proc", "sys"):
            yield f"--rbind /{source} {root}/{source}"
        yield f"-t tmpfs tmpfs {root}/tmp"
        for folder in ("etc/osm", "var", "run"):
            yield f"--bind {own}/{folder} {root}/{folder}"
            yield f"-o remount,bind,ro {root}/{folder}"
        for path in writable:
            yield f"--bind {self.path(path)} {root}/{path.lstrip('/')}"

    def command(self, *command, writable=()):
        """The command line that runs `command` in this root."""
        return [
            "unshare",
            "--mount",
            "sh",
            "-c",
            SETUP,
            "sh",
            self.merged,
            *self.mounts(writable),
            "--",
            "chroot",
            self.merged,
            *command,
        ]

    def verify(self, *units):
        """What `systemd-analyze verify` says of units."""
        command = self.command("systemd-analyze", "verify", "--man=no", *units, writable=["/run"])
        return subprocess.run([*map(str, command)], capture_output=True, text=True)


class Manager:
    """Starts and stops units in a root. `prefix` is a command that runs others, in a network
    namespace for example."""

    def __init__(self, root, prefix=()):
        self.root, self.prefix = root, list(prefix)

    def _directories(self, unit):
        """Makes the unit's directories. Result: (writable paths, environment)."""
        user = self.root.users[unit.one("User", "root")]
        writable, environment = unit.words("ReadWritePaths"), {}
        for kind, parent in DIRECTORIES.items():
            for name in unit.words(f"{kind}Directory"):
                path = self.root.path(f"{parent}/{name}")
                path.mkdir(exist_ok=True)
                path.chmod(int(unit.one(f"{kind}DirectoryMode", "0755"), 8))
                os.chown(path, user, user)
                writable.append(f"/{parent}/{name}")
                environment[f"{kind.upper()}_DIRECTORY"] = f"/{parent}/{name}"
        return writable, environment

    def _environment(self, unit):
        found = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"}
        for file in unit.words("EnvironmentFile"):
            for line in self.root.path(file).read_text().splitlines():
                if re.match(r"\w+=", line):
                    name, value = line.split("=", 1)
                    found[name] = "".join(shlex.split(value))
        return found

    @staticmethod
    def _words(line, environment):
        """Words of a command line: $NAME as a word is split, ${NAME} inside of one is not."""
        for word in shlex.split(line):
            if re.fullmatch(r"\$\w+", word):
                yield from environment.get(word[1:], "").split()
            else:
                yield re.sub(r"\$\{(\w+)\}", lambda found: environment.get(found[1], ""), word)

    @staticmethod
    def descriptors(unit):
        """LimitNOFILE, or this process's limit where that is lower: systemd may raise it."""
        return min(int(unit.one("LimitNOFILE", "1024")), resource.getrlimit(resource.RLIMIT_NOFILE)[1])

    def command(self, unit, key, more=()):
        writable, directories = self._directories(unit)
        environment = self._environment(unit) | directories
        user = self.root.users[unit.one("User", "root")]
        setting = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        if unit.one("NoNewPrivileges") == "yes":
            setting.append("--no-new-privs")
        if "CapabilityBoundingSet" in unit.settings:
            kept = [f"+{each.removeprefix('CAP_').lower()}" for each in unit.words("CapabilityBoundingSet")]
            setting.append("--bounding-set=" + ",".join(["-all", *kept]))
        limit = ["prlimit", f"--nofile={self.descriptors(unit)}"]
        shell = ["sh", "-c", f'umask {unit.one("UMask", "0022")}; exec "$@"', "sh"]
        values = [f"{name}={value}" for name, value in environment.items()]
        return [
            *map(
                str,
                (
                    *self.prefix,
                    *self.root.command(
                        *limit,
                        *setting,
                        "env",
                        "-i",
                        *values,
                        *shell,
                        *self._words(unit.one(key), environment),
                        *more,
                        writable=writable,
                    ),
                ),
            )
        ]

    def start(self, unit, log):
        """A unit of Type=exec. Result: it runs; see stop()."""
        with open(log, "ab") as output:
            return subprocess.Popen(
                self.command(unit, "ExecStart"), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )

    def run(self, unit, key="ExecStart", more=()):
        """A unit of Type=oneshot. `more`: arguments behind those of the line."""
        return subprocess.run(
            self.command(unit, key, more), capture_output=True, text=True, timeout=unit.seconds("TimeoutStartSec")
        )

    @staticmethod
    def stop(unit, process):
        """Result: the exit status. Failure: TimeoutExpired, where systemd would kill the process."""
        process.send_signal(signal.Signals[unit.one("KillSignal")])
        return process.wait(unit.seconds("TimeoutStopSec"))
