"""One pod on this machine: a network namespace, its containers in their order, and its status."""

import os
import pathlib
import shutil
import threading
import time

from lib.kube.api import MERGE, ApiError, now, path_of
from lib.kube.container_run import Container
from lib.kube.volumes import NotThere, Volumes
from lib.net.netns import Namespace, ip

_TICK = 0.1


class PodRun:
    """Runs from its making until it is `gone`, in a thread of its own.

    `agent` gives find(kind, ns, name), image(), address(), note(), log_of(), api and the switch.
    """

    def __init__(self, agent, obj):
        self.agent, self.obj = agent, obj
        meta = obj["metadata"]
        self.ns, self.name, self.uid = meta["namespace"], meta["name"], meta["uid"]
        self.hostname = (obj["spec"].get("hostname") or self.name)[:63]
        self.number = agent.next_number()
        self.directory = agent.directory / f"{self.ns}.{self.name}.{self.number}"
        self.directory.mkdir(parents=True)
        self.hosts_file = self.directory / "hosts"
        self.hosts_file.touch()
        self.volumes = Volumes(self.directory / "volumes", obj, agent)
        self.volume_paths, self.namespace, self.address = {}, None, None
        self.deletion = None  # the monotonic time by which it has to end
        self.removed = False  # it is no longer in the API
        self.started_at, self._published, self._disputed = now(), None, False
        self._publish_at = self._refresh_at = 0.0
        self.gone = threading.Event()
        self._wake = threading.Event()
        spec = obj["spec"]
        self.init_all = [Container(self, c, init=True) for c in spec.get("initContainers") or []]
        self.init_steps = [c for c in self.init_all if not c.sidecar]
        self.sidecars = [c for c in self.init_all if c.sidecar]
        self.containers = [Container(self, c) for c in spec["containers"]]
        self.initialized, self.waiting_for = False, None
        self.init_failed = self.finished = False
        # Containers die with the thread that started them (PR_SET_PDEATHSIG), which is this one.
        self.thread = threading.Thread(target=self._run, name=f"pod {self.ns}/{self.name}", daemon=True)

    def start(self):
        self.thread.start()

    # -- from other threads ---------------------------------------------------------------------
    def wake(self):
        self._wake.set()

    def see(self, obj):
        """Its object has changed. A node that was thought dead has its pods called unready; what is
        true is said again."""
        if self._published and _is_ready(obj["status"]) != _is_ready(self._published):
            self._disputed = True
            self.wake()

    def delete(self, seconds):
        """Ends gracefully; a second call may only shorten it."""
        deadline = time.monotonic() + seconds
        if self.deletion is None or deadline < self.deletion:
            self.deletion = deadline
            self.wake()

    def remove(self):
        """It is gone from the API: no grace, no status."""
        self.removed = True
        self.delete(0)

    # -- its life -------------------------------------------------------------------------------
    def _run(self):
        try:
            self._live()
        except Exception as failed:  # one pod's trouble is told, and is not the others'
            self.agent.note(f"pod {self.ns}/{self.name}: {failed!r}")
        finally:
            self._end()

    def _live(self):
        self._until(self._have_volumes)
        if self.deletion is not None:
            return
        self._make_network()
        self._publish()
        for container in self.init_all:
            container.start()
            if not self._until(lambda c=container: self._init_done(c)):
                return
        self.initialized = True
        for container in self.containers:
            container.start()
        self._until(lambda: all(c.completed() for c in self.containers))
        if self.deletion is None:  # a job's pod: its sidecars are told to end
            self.finished = True
            self._stop(30)
            self._tear_down()
            self._until(lambda: False)

    def _init_done(self, container):
        if container.sidecar:
            return container.started()
        if container.completed() and container.ended()["exitCode"] != 0:
            self.init_failed = self.finished = True  # restartPolicy Never: the pod has failed
        return container.completed() and not self.init_failed

    def _until(self, condition):
        """Looks after what runs until it is true; false when the pod is to end before."""
        while self.deletion is None:
            done = condition()
            self._tick()
            if done:
                return True
            self._wake.wait(_TICK)
            self._wake.clear()
        return False

    def _tick(self, may_restart=True):
        for container in self.init_all + self.containers:
            if container.process is not None or "message" in container.state.get("waiting", {}):
                container.tick(may_restart and not self.finished)
        if time.monotonic() >= self._refresh_at and self.volume_paths:
            self._refresh_at = time.monotonic() + 1
            self.volumes.refresh()
        self._publish()

    def _have_volumes(self):
        try:
            self.volume_paths = self.volumes.make()
            self.waiting_for = None
            return True
        except (NotThere, ApiError, OSError) as missing:
            self.waiting_for = str(missing)
            return False

    def _make_network(self):
        agent = self.agent
        self.address = agent.address(self.obj["spec"]["nodeName"])
        self.namespace = Namespace(f"{agent.prefix}-pod{self.number}")
        switch, name, port = agent.node_network.name, self.namespace.name, f"pod{self.number}"
        ip("-n", switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("-n", switch, "link", "set", port, "master", "br0", "up")
        ip("-n", name, "address", "add", f"{self.address}/32", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        # Every packet goes by the router, so that kube-proxy sees a connection's both directions.
        ip("-n", name, "route", "add", agent.router, "dev", "eth0", "scope", "link")
        ip("-n", name, "route", "add", "default", "via", agent.router)
        self.obj.setdefault("status", {}).update(
            podIP=self.address, podIPs=[{"ip": self.address}], hostIP=agent.host_address
        )
        self.set_hosts(agent.hosts_of(self.ns))
        agent.observe(self, True)

    def set_hosts(self, text):
        """In place, since it is bind-mounted; the old end is cut off last."""
        if self.address is None:
            return
        own = [f"{self.address} {self.hostname}"] + [
            f"{a['ip']} {' '.join(a['hostnames'])}" for a in self.obj["spec"].get("hostAliases") or []
        ]
        content = ("127.0.0.1 localhost\n::1 localhost\n" + "\n".join(own) + "\n" + text).encode()
        descriptor = os.open(self.hosts_file, os.O_WRONLY)
        try:
            os.pwrite(descriptor, content, 0)
            os.ftruncate(descriptor, len(content))
        finally:
            os.close(descriptor)

    def etc(self):
        domain = self.agent.domain
        # Nobody answers there: a name that hosts does not know fails at once.
        return {
            "hostname": self.hostname + "\n",
            "resolv.conf": f"nameserver 127.0.0.1\nsearch {self.ns}.svc.{domain} "
            f"svc.{domain} {domain}\noptions attempts:1 ndots:5\n",
        }

    def root_of(self, container):
        path = self.directory / "root" / container
        path.mkdir(parents=True, exist_ok=True)
        return pathlib.Path(path)

    # -- the end --------------------------------------------------------------------------------
    def _stop(self, seconds):
        """Containers first, then sidecars from the last to the first."""
        if self.namespace is not None:
            self.agent.observe(self, False)
        deadline = time.monotonic() + seconds
        groups = [self.containers + self.init_steps] + [[s] for s in self.sidecars[::-1]]
        turns = [threading.Event() for _ in groups]
        for group, turn in zip(groups, turns):
            for container in group:
                threading.Thread(target=container.begin_stop, args=(turn, max(0.1, seconds)), daemon=True).start()
        for group, turn in zip(groups, turns):
            turn.set()
            while any(c.running() for c in group):
                if time.monotonic() > min(deadline, self.deletion or deadline):
                    for container in group:
                        container.kill()
                self._tick(may_restart=False)
                self._wake.wait(0.02)
                self._wake.clear()

    def _end(self):
        try:
            seconds = 0 if self.deletion is None else max(0.0, self.deletion - time.monotonic())
            self._stop(seconds)
            for container in self.init_all + self.containers:
                container.kill()
        finally:
            self._tear_down()
            self._delete_from_api()
            if not self.agent.keep:
                shutil.rmtree(self.directory, ignore_errors=True)
            self.agent.api.close()
            self.agent.forget(self)
            self.gone.set()

    def _tear_down(self):
        if self.namespace is not None:
            namespace, self.namespace = self.namespace, None
            namespace.delete()
            self.agent.release(self.address)

    def _delete_from_api(self):
        while not self.removed and not self.agent.stop.event.is_set():
            try:
                self._publish(force=True)
                self.agent.api.delete("Pod", self.ns, self.name, gracePeriodSeconds=0, preconditions={"uid": self.uid})
                return
            except ApiError as failed:
                if failed.code in (404, 409):
                    return
            except OSError:
                pass  # the API server is away: later
            self.agent.stop.event.wait(0.2)

    # -- status ---------------------------------------------------------------------------------
    def phase(self):
        ends = [c.ended() for c in self.containers]
        over = all(ends) and (self.deletion is not None or all(c.completed() for c in self.containers))
        if (self.init_failed or over) and not any(s.running() for s in self.sidecars):
            failed = self.init_failed or any(e["exitCode"] for e in ends)
            return "Failed" if failed else "Succeeded"
        return "Running" if self.initialized else "Pending"

    def status(self):
        phase = self.phase()
        finished = phase in ("Succeeded", "Failed")
        ready = phase == "Running" and all(c.ready() for c in self.containers + self.sidecars)
        reason = "PodCompleted" if finished else "ContainersNotReady"
        conditions = [
            ("PodReadyToStartContainers", self.namespace is not None, "", self.waiting_for),
            ("Initialized", self.initialized or phase == "Succeeded", "ContainersNotInitialized", ""),
            ("Ready", ready, reason, ""),
            ("ContainersReady", ready, reason, ""),
            ("PodScheduled", True, "", ""),
        ]
        status = {
            "phase": phase,
            "startTime": self.started_at,
            "hostIP": self.agent.host_address,
            "hostIPs": [{"ip": self.agent.host_address}],
            "conditions": [self._condition(*c) for c in conditions],
            "initContainerStatuses": [c.status() for c in self.init_all],
            "containerStatuses": [c.status() for c in self.containers],
        }
        if self.address:
            status |= {"podIP": self.address, "podIPs": [{"ip": self.address}]}
        return status

    def _condition(self, kind, true, reason, message):
        value = "True" if true else "False"
        old = next(
            (c for c in (self._published or {}).get("conditions", []) if c["type"] == kind and c["status"] == value),
            None,
        )
        return {
            "type": kind,
            "status": value,
            "reason": "" if true else reason,
            "message": message or "",
            "lastTransitionTime": old["lastTransitionTime"] if old else now(),
        }

    def _publish(self, force=False):
        """To the API, when it differs from what was; again later when that fails."""
        if self.removed or (not force and time.monotonic() < self._publish_at):
            return
        status = self.status()
        if status == self._published and not self._disputed:
            return
        self._disputed = False
        try:
            self.agent.api.request(
                "PATCH",
                path_of("Pod", self.ns, self.name, "status"),
                {"metadata": {"uid": self.uid}, "status": status},
                MERGE,
            )
            self._published = status
        except ApiError as failed:
            if failed.code not in (404, 409):
                self.agent.note(f"status of {self.ns}/{self.name}: {failed}")
            self._publish_at = time.monotonic() + 0.3
        except OSError:
            self._publish_at = time.monotonic() + 0.3


def _is_ready(status):
    return any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", []))
