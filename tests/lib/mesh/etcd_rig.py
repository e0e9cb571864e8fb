"""`EtcdRig`, a rig with three members of etcd and three controllers, each on a machine of its own, and
users of etcd.

The mesh directory is what an operator applies: a file that is written there is applied, and what is
in one that is removed is deleted. stop_controller() takes one controller and one member away, and
start_controller() starts what does not run, controllers with an empty state directory.
"""

import base64
import json
import re
import shutil
import signal
import subprocess
import sys

from lib.kube.pki import Pki
from lib.mesh.replicated_rig import ReplicatedRig
from lib.mesh.rig import MeshDirectory
from lib.net.processes import CommandFailed, wait_for

CLIENT_PORT, PEER_PORT = 2379, 2380
PATIENTLY = "--timeout", "50s"  # on a busy machine each write to etcd may take a second
MEMBERS = {f"etcd-{n}": f"10.200.250.{n}" for n in (1, 2, 3)}


def encoded(text):
    return base64.b64encode(text.encode()).decode()


class AppliedDirectory(MeshDirectory):
    """Files are applied as soon as there is a controller."""

    def __init__(self, path, rig):
        super().__init__(path, rig.wait_until_acknowledged)
        self.rig = rig

    def replace(self, name, text):
        super().replace(name, text)
        if self.rig.running():
            self.rig.osm("apply", "-f", self.path / name, *PATIENTLY)

    def remove(self, name, wait=True):
        self.rig.osm("delete", "-f", self.path / name, *PATIENTLY)
        return super().remove(name, wait)


class EtcdRig(ReplicatedRig):
    MEMBERS = MEMBERS

    def __init__(self, programs, keep=False):
        if shutil.which("etcd") is None:
            sys.exit("etcd is missing: tools/setup --kubernetes installs it")
        super().__init__(programs, keep)
        self.mesh.path.rmdir()
        self.mesh = AppliedDirectory(self.mesh.path, self)
        self.pki = Pki(self.directory / "etcd-pki")
        self.serving = self.pki.server(
            "etcd",
            "IP:127.0.0.1",
            *(f"IP:{address}" for address in self.MEMBERS.values()),
            uses="serverAuth,clientAuth",
        )
        self.user = self.pki.user("osm")
        self.member_flags, self.login = (), ()  # of each member; of each controller, as a user
        self.root_password = None  # of etcd's users; None: they are off
        self.members = {}

    # -- etcd -----------------------------------------------------------------------------------
    def start_member(self, name):
        certificate, key = self.serving
        data = self.directory / f"{name}-data"
        fresh = not data.exists()
        data.mkdir(mode=0o700, exist_ok=True)
        address = self.MEMBERS[name]
        self.members[name] = self.start(
            name,
            self.hosts[name].command(
                "etcd",
                "--name",
                name,
                "--data-dir",
                data,
                "--listen-client-urls",
                f"https://0.0.0.0:{CLIENT_PORT}",
                "--advertise-client-urls",
                f"https://{address}:{CLIENT_PORT}",
                "--listen-peer-urls",
                f"http://{address}:{PEER_PORT}",
                "--initial-advertise-peer-urls",
                f"http://{address}:{PEER_PORT}",
                "--initial-cluster",
                ",".join(f"{n}=http://{a}:{PEER_PORT}" for n, a in self.MEMBERS.items()),
                "--initial-cluster-state",
                "new" if fresh else "existing",
                "--cert-file",
                certificate,
                "--key-file",
                key,
                "--client-cert-auth",
                "--trusted-ca-file",
                self.pki.ca,
                "--logger",
                "zap",
                "--log-level",
                "warn",
                *self.member_flags,
            ),
        )

    def start_members(self):
        for name in self.MEMBERS:
            if name not in self.members or not self.members[name].running():
                self.start_member(name)
        wait_for("etcd has a leader", lambda: self.etcd("kv/range", key="AA=="), 30, retry=(CommandFailed,))

    def turn_users_on(self, permission, **others):
        """The user osm, with one role that has this permission only: arguments of `etcdctl role
        grant-permission osm`. `others`: the same for other users. Passwords are names backwards."""
        for name, granted in {"root": None, "osm": permission, **others}.items():
            self.etcd("auth/user/add", name=name, password=name[::-1])
            self.etcd("auth/role/add", name=name)
            self.etcd("auth/user/grant", user=name, role=name)
            if granted:
                kind, key, prefix = re.fullmatch(r"(\w+) (\S+)( --prefix=true)?", granted).groups()
                end = {"range_end": encoded(key[:-1] + chr(ord(key[-1]) + 1))} if prefix else {}
                self.etcd("auth/role/grant", name=name, perm={"permType": kind.upper(), "key": encoded(key), **end})
        self.etcd("auth/enable")
        self.user, self.root_password = self.pki.nameless(), "toor"
        self.login = self.login_of("osm")

    def login_of(self, name):
        file = self.directory / f"{name}-password"
        file.write_text(f"{name[::-1]}\n")
        return "--etcd-user", name, "--etcd-password-file", file

    def etcd(self, path, **body):
        """The answer of a member that runs to an administrator."""
        headers = ()
        if self.root_password and path != "auth/authenticate":
            token = self.etcd("auth/authenticate", name="root", password=self.root_password)["token"]
            headers = "-H", f"Authorization: {token}"
        ran = None
        for name, member in self.members.items():
            if not member.running():
                continue
            ran = subprocess.run(
                self.switch.namespace.command(
                    "curl",
                    "-sS",
                    "--fail",
                    "--max-time",
                    "5",
                    "--cacert",
                    self.pki.ca,
                    "--cert",
                    self.user.certificate,
                    "--key",
                    self.user.key,
                    *headers,
                    "-d",
                    json.dumps(body),
                    f"https://{self.MEMBERS[name]}:{CLIENT_PORT}/v3/{path}",
                ),
                capture_output=True,
                text=True,
            )
            if ran.returncode == 0:
                return json.loads(ran.stdout)
        raise CommandFailed(f"{path}: {ran.stderr if ran else 'no member runs'}")

    def keys(self):
        """The keys below /osm/."""
        listed = self.etcd("kv/range", key=encoded("/osm/"), range_end=encoded("/osm0"), keys_only=True)
        return [base64.b64decode(pair["key"]).decode() for pair in listed.get("kvs", [])]

    # -- controllers ----------------------------------------------------------------------------
    def source_flags(self, name):
        return (
            *("--mesh-etcd", "/osm"),
            *("--etcd-endpoints", ",".join(f"https://{a}:{CLIENT_PORT}" for a in self.MEMBERS.values())),
            *("--etcd-ca-file", self.pki.ca),
            *("--etcd-cert-file", self.user.certificate),
            *("--etcd-key-file", self.user.key),
            *("--replica-address", self.CONTROLLERS[name]),
            *self.login,
        )

    def start_one(self, name):
        """With an empty state directory, always."""
        shutil.rmtree(self.state_of(name), ignore_errors=True)
        super().start_one(name)

    def start_controller(self, *_, wait=True):
        first = not self.controllers
        self.start_members()
        for name in self.CONTROLLERS:
            if name not in self.running():
                self.start_one(name)
        self.wait_until_answering(*self.CONTROLLERS)
        self.controller = self.controllers["controller-1"]
        if first and any(self.mesh.path.iterdir()):
            self.osm("apply", "-f", self.mesh.path, *PATIENTLY)
        if wait:
            self.wait_until_ready()

    def stop_controller(self, how=signal.SIGTERM):
        self.members["etcd-1"].end(how)
        return self.controllers["controller-1"].end(how)
