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
from lib.mesh.rig import ADS_PORT, HTTP_PORT, MeshDirectory, Rig
from lib.net.processes import CommandFailed, NotYet, wait_for

CLIENT_PORT, PEER_PORT = 2379, 2380
MEMBERS = {f"etcd-{n}": f"10.200.250.{n}" for n in (1, 2, 3)}
CONTROLLERS = {f"controller-{n}": f"10.200.251.{n}" for n in (1, 2, 3)}


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
            self.rig.osm("apply", "-f", self.path / name)

    def remove(self, name, wait=True):
        self.rig.osm("delete", "-f", self.path / name)
        return super().remove(name, wait)


class EtcdRig(Rig):
    def __init__(self, programs, keep=False):
        if shutil.which("etcd") is None:
            sys.exit("etcd is missing: tools/setup --kubernetes installs it")
        super().__init__(programs, keep)
        self.mesh.path.rmdir()
        self.mesh = AppliedDirectory(self.mesh.path, self)
        self.pki = Pki(self.directory / "etcd-pki")
        self.serving = self.pki.server(
            "etcd", "IP:127.0.0.1", *(f"IP:{address}" for address in MEMBERS.values()), uses="serverAuth,clientAuth"
        )
        self.user = self.pki.user("osm")
        self.member_flags, self.login = (), ()  # of each member; of each controller, as a user
        self.root_password = None  # of etcd's users; None: they are off
        self.members, self.controllers, self.hosts = {}, {}, {}
        for name, address in {**MEMBERS, **CONTROLLERS}.items():
            self.hosts[name] = self.switch.plug_in(name, address)

    # -- etcd -----------------------------------------------------------------------------------
    def start_member(self, name):
        certificate, key = self.serving
        data = self.directory / f"{name}-data"
        fresh = not data.exists()
        data.mkdir(mode=0o700, exist_ok=True)
        address = MEMBERS[name]
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
                ",".join(f"{n}=http://{a}:{PEER_PORT}" for n, a in MEMBERS.items()),
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
        for name in MEMBERS:
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
                    f"https://{MEMBERS[name]}:{CLIENT_PORT}/v3/{path}",
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
    def running(self):
        return [name for name, controller in self.controllers.items() if controller.running()]

    def state_of(self, name):
        return self.directory / f"{name}-state"

    def start_one(self, name):
        """With an empty state directory, always."""
        shutil.rmtree(self.state_of(name), ignore_errors=True)
        address = CONTROLLERS[name]
        self.controllers[name] = self.start(
            name,
            self.hosts[name].command(
                self.programs.controller,
                "--mesh-etcd",
                "/osm",
                "--etcd-endpoints",
                ",".join(f"https://{a}:{CLIENT_PORT}" for a in MEMBERS.values()),
                "--etcd-ca-file",
                self.pki.ca,
                "--etcd-cert-file",
                self.user.certificate,
                "--etcd-key-file",
                self.user.key,
                "--state-dir",
                self.state_of(name),
                "--ads-address",
                f"{address}:{ADS_PORT}",
                "--http-address",
                f"{address}:{HTTP_PORT}",
                "--replica-address",
                address,
                *self.login,
                *self.controller_flags,
            ),
        )

    def start_controller(self, *_, wait=True):
        first = not self.controllers
        self.start_members()
        for name in CONTROLLERS:
            if name not in self.running():
                self.start_one(name)
        for name in CONTROLLERS:
            wait_for(f"{name} answers", lambda: self.osm("version", at=name), 40, retry=(CommandFailed,))
        self.controller = self.controllers["controller-1"]
        if first and any(self.mesh.path.iterdir()):
            self.osm("apply", "-f", self.mesh.path)
        if wait:
            self.wait_until_ready()

    def stop_controller(self, how=signal.SIGTERM):
        self.members["etcd-1"].end(how)
        return self.controllers["controller-1"].end(how)

    def http(self, name, path):
        return self.hosts[name].http(CONTROLLERS[name], HTTP_PORT, "GET", path)

    def count_of(self, name, series):
        """A counter of this controller; 0 before it is counted first."""
        found = re.search(rf"^{re.escape(series)} (\S+)$", self.http(name, "/metrics")[1], re.M)
        return float(found.group(1)) if found else 0

    def wait_until_ready(self, timeout=40):
        for name in self.running():

            def ready():
                if not self.controllers[name].running():
                    raise AssertionError(f"{name} ended: {self.controllers[name].tail()}")
                answer = self.http(name, "/health/ready")
                if answer[0] != 200:
                    raise NotYet(answer)
                return True

            wait_for(f"{name} is ready", ready, timeout)

    def osm(self, *arguments, at=None, state=None, **more):
        """At the controller `at`, or the last one that runs."""
        return super().osm(*arguments, state=state or self.state_of(at or self.running()[-1]), **more)

    def osm_json(self, *arguments):
        """At the controller of the machine's proxy, to rotate its certificate; else at the last one
        that runs."""
        at = self.machines[arguments[2].split(".")[0]].at if arguments[:2] == ("certificate", "rotate") else None
        return json.loads(self.osm(*arguments, "-o", "json", at=at))

    def admin(self, method, path, body=None, state=None):
        """At the last controller that runs; the proxies of all."""
        asked = [state] if state else self.states() if path == "/v1/proxies" else self.states()[-1:]
        answers = [super(EtcdRig, self).admin(method, path, body, each) for each in asked]
        if "proxies" in answers[0]:
            answers[0]["proxies"] = [p for answer in answers for p in answer["proxies"]]
        return answers[0]

    def states(self):
        return [self.state_of(name) for name in self.running()]

    def add_vm(self, name, ns, address):
        """The machines are at the controllers in turn."""
        machine = super().add_vm(name, ns, address)
        self.place(machine, list(CONTROLLERS)[(len(self.machines) - 1) % len(CONTROLLERS)])
        return machine

    def place(self, machine, controller):
        """Before the machine is bootstrapped: its proxy connects to this controller."""
        machine.at, machine.controller = controller, f"{CONTROLLERS[controller]}:{ADS_PORT}"

    def close(self):
        closes = not self.closed and not self.keep
        super().close()
        for host in getattr(self, "hosts", {}).values() if closes else ():
            host.delete()
