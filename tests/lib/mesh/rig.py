"""`Rig` (a mesh of network namespaces), `Machine` (a virtual machine with Envoy) and `MeshDirectory` (the
controller's YAML), for the end-to-end tests and the demo.

Everything is real: the controller, Envoy, iptables, the workloads. Every machine is a network
namespace on a bridge that lies in a namespace too, so the host's own network is never touched.

    with Rig(programs) as rig:
        rig.mesh.write("all.yaml", {"apiVersion": "v1", "kind": "Namespace", ...})
        rig.start_controller()
        vm = rig.add_vm("client", "web", "10.200.0.11")
        vm.start_proxy()
        vm.run("app", "/path/of/app", "--flag")
"""

import atexit
import contextlib
import ipaddress
import itertools
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading

import yaml

from lib.mesh import admin
from lib.mesh.watcher import ProxyWatcher
from lib.net.netns import Switch, delete_stale, ip
from lib.net.processes import CommandFailed, Process, wait_for

PROXY_UID = 1500
APP_UID = 1501
ADS_PORT = 15128
HTTP_PORT = 9091
XDS = os.environ.get("OSM_E2E_XDS", "delta")  # the variant that the proxies speak: delta or sotw
REFUSED = 0  # in place of a status: the mesh closed the connection without an answer
_runs = itertools.count()


class NotLive(AssertionError):
    """An Envoy that must be live is not: what was seen beside it says nothing about the mesh."""


class Programs:
    """Paths of the binaries. Envoy and the workloads run as other users, who must reach them."""

    def __init__(self, bin_dir, envoy):
        bin_dir = pathlib.Path(bin_dir).resolve()
        self.bin = bin_dir
        self.controller = bin_dir / "osm-controller"
        self.osm = bin_dir / "osm"
        self.bookstore = bin_dir / "bookstore"
        self.envoy = pathlib.Path(envoy).resolve()

    def check(self):
        if os.geteuid() != 0:
            sys.exit("network namespaces need root")
        for tool in ("ip", "iptables", "setpriv", "openssl"):
            if shutil.which(tool) is None:
                sys.exit(f"{tool} is missing: tools/setup installs it")
        for program in (self.controller, self.osm, self.bookstore, self.envoy):
            if not program.exists():
                sys.exit(f"{program} is missing: tools/setup, then build the release preset")

    def reachable(self, program, directory):
        """`program`, or a copy of it in `directory` when a folder above it is closed to others."""
        if all(p.stat().st_mode & stat.S_IXOTH for p in program.parents):
            return program
        copy = pathlib.Path(directory) / program.name
        if not copy.exists():
            shutil.copy(program, copy)
            copy.chmod(0o755)
        return copy


class MeshDirectory:
    """The directory of YAML that the controller reads. Objects are written as JSON, which is YAML.

    A write waits until every connected proxy that it concerns has acknowledged it, so that what is
    read next shows it. With wait=False it does not: for tests about the way of a change, refusals,
    and proxies that cannot answer. Result: the mesh's generation that has the change; None if
    nothing was waited for.
    """

    def __init__(self, path, acknowledged=None):
        """`acknowledged(objects)` waits for the proxies, if a controller runs; its result is the generation."""
        self.path = pathlib.Path(path)
        self.path.mkdir()
        self.acknowledged = acknowledged or (lambda objects: None)
        self._objects = {}  # of each file

    def write(self, name, *objects, wait=True):
        return self.write_text(name, "\n---\n".join(json.dumps(o, indent=1) for o in objects) + "\n", wait)

    def write_text(self, name, text, wait=True):
        self.replace(name, text)
        return self._changed(name, objects_of(text), wait)

    def remove(self, name, wait=True):
        (self.path / name).unlink()
        return self._changed(name, {}, wait)

    def copy_from(self, directory):
        for source in sorted(pathlib.Path(directory).glob("*.yaml")):
            self.write_text(source.name, source.read_text())

    def replace(self, name, text):
        """As an editor does it: a new file moved over the old one."""
        fresh = self.path.parent / f"{name}.new"
        fresh.write_text(text)
        os.rename(fresh, self.path / name)

    def _changed(self, name, after, wait):
        before = self._objects.get(name, {})
        self._objects[name] = after
        changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        return self.acknowledged([(after.get(key) or before[key]) for key in changed]) if wait else None


def objects_of(text):
    """{(apiVersion, kind, namespace, name): object} of a file; empty if it is not YAML."""
    objects = {}
    with contextlib.suppress(yaml.YAMLError):
        for o in yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            with contextlib.suppress(KeyError, TypeError, AttributeError):
                metadata = o["metadata"]
                objects[o["apiVersion"], o["kind"], metadata.get("namespace"), metadata["name"]] = o
    return objects


class Machine:
    """A VM: its namespace, its proxy and its workloads."""

    def __init__(self, rig, name, ns, address):
        self.rig, self.name, self.ns, self.address = rig, name, ns, address
        self.namespace = rig.switch.plug_in(name, address)
        self.directory = rig.directory / name
        self.controller = None  # address of another controller than the rig's
        self.proxy = None
        self.processes = []

    def bootstrap(self):
        """Joins the mesh as an operator does: ask the controller, install hosts, intercept."""
        self.rig.osm(
            "vm",
            "bootstrap",
            self.name,
            "-n",
            self.ns,
            "--controller",
            self.controller or self.rig.ads_address,
            "--out",
            self.directory,
            "--owner",
            PROXY_UID,
            "--xds",
            XDS,
        )
        self.namespace.set_hosts((self.directory / "hosts").read_text())
        self.namespace.run(self.directory / "intercept.sh")

    def start_proxy(self, wait=True, extra=()):
        if not self.directory.exists():
            self.bootstrap()
        self.proxy = self.rig.start(
            f"{self.name}.envoy", self.namespace.command(*self.proxy_command(), "--concurrency", "1", *extra)
        )
        self.rig.watcher.watch(self, self.proxy.running)
        if wait:
            self.wait_until_live()

    def proxy_command(self):
        """The command that stands in the bootstrap's header, so that it is tested too."""
        text = (self.directory / "bootstrap.yaml").read_text()
        found = re.search(r"^#   (setpriv (?:.*\\\n#)*.*)$", text, re.M)
        command = shlex.split(found.group(1).replace("\\\n#", " "))
        if self.rig.drain_seconds is not None:
            command[command.index("--drain-time-s") + 1] = str(self.rig.drain_seconds)
        at = command.index("envoy")
        envoy = self.rig.programs.reachable(self.rig.programs.envoy, self.rig.directory)
        return command[:at] + [str(envoy)] + command[at + 1 :]

    def wait_until_live(self, timeout=20):
        def live():
            if not self.proxy.running():
                raise AssertionError(f"{self.proxy.name} ended: {self.proxy.tail()}")
            return self.admin("/ready")[0] == 200

        wait_for(f"Envoy of {self.name} is live", live, timeout)

    def assert_live(self, seen):
        """NotLive, with what was `seen`, unless the Envoy here runs and is ready."""
        if self.proxy is None or not self.proxy.running():
            raise NotLive(f"{seen!r}, but no Envoy runs on {self.name}")
        try:
            answer = self.admin("/ready")
        except OSError as failed:
            answer = 0, repr(failed)
        if answer[0] != 200:
            raise NotLive(f"{seen!r}, but Envoy of {self.name} is not ready: {answer}")

    def stop_proxy(self, how=signal.SIGTERM):
        self.rig.watcher.forget(self)
        self.proxy.end(how)

    def freeze_proxy(self):
        """Envoy neither answers nor ends, until thaw_proxy()."""
        self.rig.watcher.forget(self)
        os.kill(self.proxy.pid, signal.SIGSTOP)

    def thaw_proxy(self):
        os.kill(self.proxy.pid, signal.SIGCONT)
        self.rig.watcher.watch(self, self.proxy.running)

    def run(self, name, *command):
        """A workload, as a user that is neither root nor the proxy's."""
        program = self.rig.programs.reachable(pathlib.Path(command[0]), self.rig.directory)
        process = self.rig.start(
            f"{self.name}.{name}",
            self.namespace.command(
                "setpriv", f"--reuid={APP_UID}", f"--regid={APP_UID}", "--clear-groups", program, *command[1:]
            ),
        )
        self.processes.append(process)
        return process

    def admin(self, path, method="GET"):
        return self.namespace.http("127.0.0.1", 15000, method, path)

    def stats(self, pattern):
        """{name: value} of Envoy's counters and gauges that match."""
        status, body = self.admin(f"/stats?format=json&filter={pattern}")
        if status != 200:
            raise RuntimeError(f"Envoy of {self.name}: {status} {body}")
        return {s["name"]: s["value"] for s in json.loads(body)["stats"] if "name" in s}

    def updates(self):
        """Number of updates that Envoy accepted, by type."""
        stats = self.stats("update_success$")
        kinds = {
            "CDS": r"^cluster_manager\.cds\.",
            "LDS": r"^listener_manager\.lds\.",
            "RDS": r"\.rds\.",
            "SDS": r"^sds\.",
            "EDS": r"^cluster\..*update_success$",
        }
        return {kind: sum(v for n, v in stats.items() if re.search(pattern, n)) for kind, pattern in kinds.items()}

    def get(self, host, port, path, method="GET", timeout=5):
        """(status, body) of an application's request to a service, or (REFUSED, how).

        Refused: the connection is closed before an answer, and the Envoy here is live. Failure:
        everything else raises, such as a time-out, an unknown host, half an answer, NotLive.
        """
        return self.request(self.resolve(host), port, path, f"{host}:{port}", method, timeout)

    def request(self, address, port, path, host, method="GET", timeout=5):
        """get() of an address, whatever the host is called."""
        try:
            return self.namespace.http(address, port, method, path, {"Host": host}, timeout=timeout)
        except ConnectionError as closed:
            self.assert_live(closed)
            return REFUSED, repr(closed)

    def resolve(self, host):
        for line in (self.directory / "hosts").read_text().splitlines():
            address, *names = line.split("#")[0].split() or [""]
            if host in names:
                return address
        try:
            return str(ipaddress.ip_address(host))
        except ValueError:
            raise LookupError(f"{host} is not in the hosts file of {self.name}") from None


class Rig:
    def __init__(self, programs, keep=False):
        programs.check()
        self.programs, self.keep, self.failed = programs, keep, False
        self.prefix = f"osm-{os.getpid()}-{next(_runs)}"
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix=f"{self.prefix}-"))
        self.directory.chmod(0o755)
        self.state = self.directory / "state"
        self.ads_address = f"{Switch.ADDRESS}:{ADS_PORT}"
        self.mesh = MeshDirectory(self.directory / "mesh", self.wait_until_acknowledged)
        self.machines, self.processes = {}, []
        self.controller = None
        self.controller_flags = ()
        self.drain_seconds = None  # of every Envoy; None: as its command says
        self.switch = None
        self.watcher = ProxyWatcher()
        self.closed = False
        end_on_signals()
        atexit.register(self.close)
        delete_stale()
        self.switch = Switch(self.prefix)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.failed = self.failed or (kind is not None and issubclass(kind, Exception))
        self.close()

    # -- processes ------------------------------------------------------------------------------
    def start(self, name, command):
        with signals_later():
            process = Process(name, command, self.directory / f"{name}.log", survive=self.keep)
            self.processes.append(process)
        return process

    def start_controller(self, *more, wait=True):
        """`more`: flags beside the usual ones and `controller_flags`."""
        self.controller = self.start(
            "osm-controller",
            self.switch.namespace.command(
                self.programs.controller,
                "--mesh-dir",
                self.mesh.path,
                "--state-dir",
                self.state,
                "--ads-address",
                self.ads_address,
                "--http-address",
                f"{Switch.ADDRESS}:{HTTP_PORT}",
                *self.controller_flags,
                *more,
            ),
        )
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self, timeout=20):
        def ready():
            if not self.controller.running():
                raise AssertionError(f"osm-controller ended: {self.controller.tail()}")
            return self.controller_http("/health/ready")[0] == 200

        wait_for("the controller is ready", ready, timeout)

    def stop_controller(self, how=signal.SIGTERM):
        return self.controller.end(how)

    def controller_http(self, path):
        return self.switch.namespace.http(Switch.ADDRESS, HTTP_PORT, "GET", path)

    def osm(self, *arguments, check=True, state=None):
        """`osm` with the admin socket in `state`, or else this mesh's; its standard output."""
        command = [str(a) for a in (self.programs.osm, *arguments, "--state-dir", state or self.state)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if check and ran.returncode != 0:
            raise CommandFailed(f"{' '.join(command)}: {ran.returncode}: {ran.stdout}{ran.stderr}")
        return ran.stdout

    def admin(self, method, path, body=None, state=None):
        """What the admin socket in `state`, or else this mesh's, answers: osm() without a process."""
        return admin.answer_of(state or self.state, method, path, body)

    def osm_json(self, *arguments):
        """The command's answer. A condition that is asked again and again uses admin()."""
        return json.loads(self.osm(*arguments, "-o", "json"))

    def problems(self):
        return self.admin("GET", "/v1/problems")["problems"]

    def states(self):
        """State directories of the controllers that run."""
        return [self.state] if self.controller is not None and self.controller.running() else []

    def wait_until_acknowledged(self, objects):
        return admin.wait_until_acknowledged(self.states(), objects)

    # -- machines -------------------------------------------------------------------------------
    def add_vm(self, name, ns, address):
        machine = Machine(self, name, ns, address)
        self.machines[name] = machine
        return machine

    # -- the end --------------------------------------------------------------------------------
    def close(self):
        if self.closed:
            return
        self.closed = True
        atexit.unregister(self.close)
        self.watcher.stop()
        if self.keep:
            self.leave_running()
            return
        with signals_held():
            for process in self.processes:
                if process.running():
                    os.kill(process.pid, signal.SIGTERM)
            for process in self.processes:
                process.end(timeout=3)
            for machine in self.machines.values():
                machine.namespace.delete()
            if self.switch is not None:
                self.switch.namespace.delete()
            if self.failed:
                print(f"logs are kept in {self.directory}", file=sys.stderr)
            else:
                shutil.rmtree(self.directory, ignore_errors=True)

    def leave_running(self):
        state = {"prefix": self.prefix, "pids": [[p.pid, started(p.pid)] for p in self.processes if p.running()]}
        (self.directory / "run.json").write_text(json.dumps(state))


def started(pid):
    """When a process started, in ticks: tells it from a later one with its id."""
    return int(_stat(pid)[19])


def _stat(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def _runs_still(pid, since):
    try:
        fields = _stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return False
    return fields[0] != "Z" and int(fields[19]) == since


def stop_kept(directory):
    """Ends a run that was left running, and removes what it made."""
    directory = pathlib.Path(directory)
    state = json.loads((directory / "run.json").read_text())
    for pid, since in state["pids"]:
        if _runs_still(pid, since):
            os.kill(pid, signal.SIGTERM)
    wait_for("the processes to end", lambda: not any(_runs_still(*p) for p in state["pids"]))
    for line in ip("netns", "list").splitlines():
        name = line.split()[0]
        if name.startswith(state["prefix"] + "-"):
            ip("netns", "del", name)
            shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)
    shutil.rmtree(directory)


def end_on_signals():
    """SIGTERM and SIGHUP unwind like Ctrl-C, so that everything is cleaned up."""

    def unwind(number, _frame):
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, unwind)
    signal.signal(signal.SIGHUP, unwind)


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class signals_later:
    """A process that starts is in the list of those to end before a signal has its effect. The
    process itself inherits nothing: with a mask it would ignore the signal that ends it."""

    def __enter__(self):
        self.came, self.handlers = None, {}
        if threading.current_thread() is threading.main_thread():  # no other one is interrupted
            self.handlers = {each: signal.signal(each, self.note) for each in ENDING}

    def note(self, number, _frame):
        self.came = number

    def __exit__(self, *_):
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
        if self.came is not None:
            signal.raise_signal(self.came)


class signals_held:
    """Cleaning up is not interrupted, nor are the commands that it runs."""

    def __enter__(self):
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)

    def __exit__(self, *_):
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)
