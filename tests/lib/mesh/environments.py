"""One mesh in each environment: a directory with one controller, etcd with two, Kubernetes with two.
Tests of commands run on all of them.

    mesh = Etcd(programs)
    mesh.start(objects.shop())
    mesh.write(objects.books_for("more", "api", "web"))    # both controllers have read it
    code, out, err = mesh.osm("status", "tt", "shop/more")
    proxy = mesh.connect_proxy("shop/web-1", at="controller-2")
    proxy.fall_silent()
    mesh.stop()

Everything is real but the proxies, which are xds_proxy.XdsProxy. start_envoy() has a real Envoy.
"""

import json
import os
import signal
import subprocess
import urllib.parse

from lib.kube.api import ApiError
from lib.kube.kubernetes_rig import KubernetesRig
from lib.mesh.etcd_rig import EtcdRig
from lib.mesh.replicated_rig import ReplicatedRig, first
from lib.mesh.rig import ADS_PORT
from lib.mesh.xds_proxy import XdsProxy
from lib.net import http2
from lib.net.processes import NotYet, wait_for


class Refused(Exception):
    """The environment did not take an object, with its words."""


class DirectoryRig(ReplicatedRig):
    """The rig of one controller, which is on a machine of its own as the others are."""

    CONTROLLERS = first(1)

    def source_flags(self, name):
        return "--mesh-dir", self.mesh.path


class TwoOverEtcd(EtcdRig):
    CONTROLLERS = first(2)
    MEMBERS = {"etcd-1": "10.200.250.1"}


class Controller:
    """One controller of an environment."""

    def __init__(self, rig, name):
        self._rig, self.name, self.address = rig, name, rig.ads_address_of(name)

    def running(self):
        return self.name in self._rig.running()

    def start(self):
        """Until it is ready."""
        self._rig.start_one(self.name)
        self._rig.wait_until_answering(self.name)
        self._rig.wait_until_ready()

    def stop(self, how=signal.SIGTERM):
        """Its exit status."""
        return self._rig.stop_one(self.name, how)

    def restart(self, how=signal.SIGTERM):
        self.stop(how)
        self.start()

    def http(self, path):
        """(status, body) of its open port."""
        return self._rig.http(self.name, path)

    def admin(self, path, method="GET", body=None):
        """(status, object) of its admin API."""
        return self._rig.admin_at(self.name, path, method, body)

    def log(self):
        """The lines that it has logged, as objects."""
        lines = self._rig.controllers[self.name].text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]


class Environment:
    """The interface of all three. `programs`: a rig.Programs."""

    NAME = ""
    make_rig = None

    def __init__(self, programs):
        self.rig = self.make_rig(programs)
        self.controllers = {name: Controller(self.rig, name) for name in self.rig.CONTROLLERS}
        self._proxies = []

    # -- its life -------------------------------------------------------------------------------
    def start(self, objects=()):
        """Until every controller is ready and has read the objects."""
        raise NotImplementedError

    def stop(self, failed=False):
        """`failed`: the logs are kept, and their directory is named. AssertionError: an Envoy ended or
        refused an update, or was silent."""
        for proxy in self._proxies:
            proxy.close()
        self.rig.failed = failed
        try:
            self.rig.watcher.check()
        except AssertionError:
            self.rig.failed = True
            raise
        finally:
            self.rig.close()

    def restart(self):
        """Every controller has ended before the first one starts: none tells another what it knew."""
        for controller in self.controllers.values():
            controller.stop()
        for controller in self.controllers.values():
            controller.start()

    # -- objects --------------------------------------------------------------------------------
    def write(self, *objects):
        """Creates or replaces objects, until every controller that runs has read them. Failure: Refused."""
        self._put(objects)
        self._wait_until_read(objects, True)

    def put(self, *objects):
        """The same without a wait: for a change that a proxy is to hold back. Failure: Refused."""
        self._put(objects)

    def delete(self, *objects):
        """The same for objects that go; only kind and name of each count."""
        self._remove(objects)
        self._wait_until_read(objects, False)

    def _put(self, objects):
        raise NotImplementedError

    def _remove(self, objects):
        raise NotImplementedError

    def _wait_until_read(self, objects, present):
        for controller in self.controllers.values():
            for one in objects if controller.running() else ():
                wait_for(
                    f"{controller.name} has read {one['kind']} {one['metadata']['name']}",
                    lambda c=controller, o=one: _has_read(c, o, present),
                    20,
                )

    # -- commands -------------------------------------------------------------------------------
    def osm(self, *arguments, at=None, stdin=None):
        """(exit code, stdout, stderr) of `osm`, as an operator runs it here; with `at`, on the machine
        of that controller, which alone is asked."""
        flags = ("--state-dir", self.rig.state_of(at)) if at else self.flags()
        ran = subprocess.run(
            self.rig.switch.namespace.command(self.rig.programs.osm, *arguments, *flags),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            env={"PATH": os.environ["PATH"], "HOME": str(self.rig.directory)},
        )
        return ran.returncode, ran.stdout, ran.stderr

    def osm_json(self, *arguments, **more):
        """(exit code, object) of `osm` with `-o json`."""
        code, out, err = self.osm(*arguments, "-o", "json", **more)
        try:
            return code, json.loads(out)
        except ValueError:
            raise AssertionError(f"osm {' '.join(map(str, arguments))}: {code}: {out}{err}") from None

    def flags(self):
        """Those by which `osm` finds this mesh."""
        running = next(c for c in self.controllers.values() if c.running())
        return "--state-dir", self.rig.state_of(running.name)

    # -- proxies --------------------------------------------------------------------------------
    def connect_proxy(self, workload, at=None):
        """An XdsProxy of the machine NAMESPACE/NAME at a controller (default: the first one), which
        has acknowledged its configuration."""
        controller = self.controllers[at] if at else next(iter(self.controllers.values()))
        files = self._bootstrap(workload, controller)
        context = http2.client_context(files / "cacert.pem", (files / "sds_cert.pem", files / "sds_key.pem"))
        host = controller.address.removesuffix(f":{ADS_PORT}")
        plain = self.rig.switch.namespace.connect(host, ADS_PORT, timeout=10)
        proxy = XdsProxy(http2.PatientConnection(context.wrap_socket(plain)))
        self._proxies.append(proxy)
        proxy.wait_until_configured()
        wait_for(f"{controller.name} knows that {workload} is configured", lambda: _is_synced(controller, workload))
        return proxy

    def _bootstrap(self, workload, controller):
        ns, _, name = workload.partition("/")
        files = self.rig.directory / f"proxy-{ns}-{name}"
        if not files.exists():
            code, _, err = self.osm(
                "vm", "bootstrap", name, "-n", ns, "--controller", controller.address, "--out", files
            )
            if code != 0:
                raise AssertionError(f"osm vm bootstrap {name}: {code}: {err}")
        return files

    def start_envoy(self, workload, address, at=None):
        """A rig.Machine with that address, whose real Envoy is live at a controller."""
        ns, _, name = workload.partition("/")
        machine = self.rig.add_vm(name, ns, address)
        self.rig.place(machine, at or next(iter(self.controllers)))
        machine.start_proxy()
        return machine


class Directory(Environment):
    NAME = "directory"
    make_rig = DirectoryRig

    def start(self, objects=()):
        self._put(objects)
        self.controllers["controller-1"].start()
        self._wait_until_read(objects, True)

    def _put(self, objects):
        for one in objects:
            self.rig.mesh.write(_file_of(one), one, wait=False)

    def _remove(self, objects):
        for one in objects:
            self.rig.mesh.remove(_file_of(one), wait=False)


class Etcd(Environment):
    NAME = "etcd"
    make_rig = TwoOverEtcd

    def start(self, objects=()):
        self.rig.start_controller(wait=False)
        self.write(*objects)
        self.rig.wait_until_ready()

    def _put(self, objects):
        self._change("apply", objects)

    def _remove(self, objects):
        self._change("delete", objects)

    def _change(self, command, objects):
        text = "\n---\n".join(map(json.dumps, objects))
        code, _, err = self.osm(command, "-f", "-", stdin=text) if objects else (0, "", "")
        if code != 0:
            raise Refused(err)


class Kubernetes(Environment):
    """Namespaces cannot be deleted: the part of Kubernetes that empties them does not run."""

    NAME = "kubernetes"
    make_rig = KubernetesRig

    def start(self, objects=()):
        self.rig.start_controller()
        self.write(*objects)

    def flags(self):
        return "--kubeconfig", self.rig.cluster.kubeconfig

    def _put(self, objects):
        try:
            self.rig.api.apply(*objects)
        except ApiError as refused:
            raise Refused(str(refused)) from refused

    def _remove(self, objects):
        for one in objects:
            self.rig.api.delete(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"])


ALL = (Directory, Etcd, Kubernetes)


def _file_of(one):
    metadata = one["metadata"]
    return f"{one['kind']}.{metadata.get('namespace', '')}.{metadata['name']}.yaml".lower()


def _is_synced(controller, workload):
    status, answer = controller.admin("/v1/proxies")
    own = [p for p in answer["proxies"] if p["name"] == workload and p["connected_at"]]
    states = [t["state"] for p in own for t in p["types"].values()]
    if status != 200 or not states or set(states) - {"SYNCED", "NOT SENT"}:
        raise NotYet((status, states))
    return True


def _has_read(controller, one, present):
    """The route of `osm status` answers after the controller has read what is stored. An object that
    shapes no proxy is not found, but it was looked for. On Kubernetes the controller may only list
    ServiceAccounts, so that their list is asked for."""
    kind, metadata = one["kind"], one["metadata"]
    asked = {"group": one["apiVersion"].rpartition("/")[0], "kind": kind, "namespace": metadata.get("namespace", "")}
    if kind == "ServiceAccount":
        status, answer = controller.admin(f"/v1/objects?{urllib.parse.urlencode(asked)}")
        known = status == 200 and metadata["name"] in [o["metadata"]["name"] for o in answer["objects"]]
        if status != 200 or known != present:
            raise NotYet((status, answer))
        return True
    status, answer = controller.admin(f"/v1/status?{urllib.parse.urlencode({**asked, 'name': metadata['name']})}")
    waits = status == 200 and answer["phase"] == "Pending" and not answer["lagging"]
    if waits or status not in (200, 404):
        raise NotYet((status, answer))
    return True
