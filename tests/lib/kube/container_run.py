"""One container of a pod: its runs one after another, their probes, and what is reported."""

import json
import os
import pathlib
import re
import signal
import sys
import time

from lib.kube.api import now
from lib.kube.probes import Probe, Prober
from lib.kube.volumes import NotThere, data_of, field
from lib.net.processes import Process

_LAUNCHER = pathlib.Path(__file__).with_name("container.py")


class Backoff:
    """A kubelet's wait before a restart: none before the first, then 10 s, doubled each time up to
    300 s. It begins anew after a run of ten minutes. Time is time.monotonic()'s."""

    FIRST, LONGEST, FORGIVEN_AFTER = 10.0, 300.0, 600.0  # seconds

    def __init__(self):
        self._next = 0.0

    def after(self, seconds):
        """The wait after a run that lasted so long."""
        if seconds >= self.FORGIVEN_AFTER:
            self._next = 0.0
        wait, self._next = self._next, min(max(self.FIRST, self._next * 2), self.LONGEST)
        return wait


def expand(text, env):
    """$(NAME) in commands and variables."""

    def value(found):
        return "$(" + found[1] + ")" if found[0].startswith("$$") else env.get(found[1], found[0])

    return re.sub(r"\$?\$\(([A-Za-z_.\-][\w.\-]*)\)", value, text)


class Container:
    """`pod` is the PodRun. All methods but `wake`'s callers run in the pod's thread."""

    def __init__(self, pod, spec, init=False):
        self.pod, self.spec, self.init = pod, spec, init
        self.sidecar = init and spec.get("restartPolicy") == "Always"
        self.name = spec["name"]
        self.process, self.probes = None, {}
        self.state, self.last_state = {"waiting": {"reason": "PodInitializing"}}, {}
        self.restarts, self.backoff, self.started_at, self.again_at = 0, Backoff(), 0.0, 0.0
        self.stopping = False

    # -- starting -------------------------------------------------------------------------------
    def environment(self, image):
        env = {
            "PATH": "/image/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOSTNAME": self.pod.hostname,
            "HOME": "/",
            "PYTHONDONTWRITEBYTECODE": "1",
            **image.env,
            **self.pod.agent.service_environment(),
        }
        sources, ns = self.pod.agent, self.pod.ns
        for source in self.spec.get("envFrom") or []:
            kind, reference = (
                ("ConfigMap", source["configMapRef"]) if "configMapRef" in source else ("Secret", source["secretRef"])
            )
            if found := sources.find(kind, ns, reference["name"]):
                env |= {source.get("prefix", "") + k: v.decode() for k, v in data_of(kind, found).items()}
            elif not reference.get("optional"):
                raise NotThere(f'{kind.lower()} "{reference["name"]}" not found')
        for variable in self.spec.get("env") or []:
            value = self._value(variable)
            if value is not None:
                env[variable["name"]] = expand(value, env)
        return env

    def _value(self, variable):
        source = variable.get("valueFrom")
        if not source:
            return variable.get("value", "")
        if "fieldRef" in source:
            return field(self.pod.obj, source["fieldRef"]["fieldPath"])
        if "resourceFieldRef" in source:
            kind, name = source["resourceFieldRef"]["resource"].split(".", 1)
            return str(((self.spec.get("resources") or {}).get(kind) or {}).get(name, "1"))
        kind, reference = (
            ("Secret", source["secretKeyRef"]) if "secretKeyRef" in source else ("ConfigMap", source["configMapKeyRef"])
        )
        found = self.pod.agent.find(kind, self.pod.ns, reference["name"])
        data = data_of(kind, found) if found else {}
        if reference["key"] in data:
            return data[reference["key"]].decode()
        if reference.get("optional"):
            return None
        raise NotThere(f'{kind.lower()} "{reference["name"]}" has no {reference["key"]}')

    def start(self):
        """Runs it; when that cannot be, says in the state what is waited for."""
        image = self.pod.agent.image(self.spec["image"])
        if image is None:
            self._wait_for("ErrImagePull", f"no program stands for image {self.spec['image']}")
            return
        try:
            env = self.environment(image)
        except NotThere as missing:
            self._wait_for("CreateContainerConfigError", str(missing))
            return
        arguments = self.spec.get("args")
        command = list(self.spec.get("command") or image.entrypoint)
        command += arguments if arguments is not None else ([] if self.spec.get("command") else image.arguments)
        security = self._security(image)
        spec = {
            "netns": self.pod.namespace.name,
            "root": str(self.pod.root_of(self.name)),
            "mounts": self._mounts(image),
            "security": security,
            "env": env,
            "etc": {
                **self.pod.etc(),
                "passwd": _users(security["user"], security["group"]),
                "group": f"root:x:0:\nuser:x:{security['group']}:\n",
            },
            "imageRoot": image.root and str(image.root),
            "readOnlyRoot": security.get("readOnlyRootFilesystem", False),
            "workingDir": self.spec.get("workingDir"),
            "user": security["user"],
            "group": security["group"],
            "groups": security["groups"],
            "parent": os.getpid(),
            "command": [expand(a, env) for a in command],
        }
        file = self.pod.directory / f"{self.name}.json"
        file.write_text(json.dumps(spec))
        file.chmod(0o600)
        self.process = Process(
            f"{self.pod.ns}/{self.pod.name}/{self.name}",
            [sys.executable, "-I", "-S", _LAUNCHER, file],
            self.pod.agent.log_of(self.pod, self.name),
        )
        self.state = {"running": {"startedAt": now()}}
        self.started_at = time.monotonic()
        self.stopping = False
        self._start_probes()
        if not self._hook("postStart"):
            self.signal(signal.SIGKILL)
            self.stopping = True

    def _wait_for(self, reason, message):
        self.state = {"waiting": {"reason": reason, "message": message}}
        self.again_at = time.monotonic() + 0.2

    def _security(self, image):
        pod, own = self.pod.obj["spec"].get("securityContext") or {}, self.spec.get("securityContext") or {}
        merged = {k: v for k, v in {**pod, **own}.items() if v is not None}
        user = merged.get("runAsUser", image.user)
        merged |= {"user": user, "group": merged.get("runAsGroup", user if user == image.user else 0)}
        merged["groups"] = list(pod.get("supplementalGroups") or [])
        if "fsGroup" in pod:
            merged["groups"].append(pod["fsGroup"])
        return merged

    def _mounts(self, image):
        mounts = [{"source": str(host), "target": path, "readOnly": True} for path, host in image.files.items()]
        mounts.append({"source": str(self.pod.hosts_file), "target": "/etc/hosts"})
        for wanted in self.spec.get("volumeMounts") or []:
            source = self.pod.volume_paths[wanted["name"]]
            if wanted.get("subPath"):
                source = source / wanted["subPath"]
            mounts.append(
                {"source": str(source), "target": wanted["mountPath"], "readOnly": wanted.get("readOnly", False)}
            )
        # Outer paths before inner ones.
        return sorted(mounts, key=lambda m: m["target"].count("/"))

    # -- probes and hooks -----------------------------------------------------------------------
    def _prober(self):
        return Prober(self.pod.agent.node_network, self.pod.address, self.spec, self.enter)

    def enter(self, command):
        """The command line that runs `command` inside."""
        security = self._security(self.pod.agent.image(self.spec["image"]))
        return [
            "nsenter",
            "--target",
            str(self.process.pid),
            "--mount",
            "--net",
            "--root",
            "--wd",
            "--setuid",
            str(security["user"]),
            "--setgid",
            str(security["group"]),
            "--",
            *command,
        ]

    def _start_probes(self):
        startup = None
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            if spec := self.spec.get(kind):
                probe = Probe(self._prober(), spec, self.pod.wake, after=startup)
                self.probes[kind] = probe
                startup = probe if kind == "startupProbe" else startup

    def _stop_probes(self):
        for probe in self.probes.values():
            probe.stop()
        self.probes = {}

    def _hook(self, name, timeout=30):
        handler = (self.spec.get("lifecycle") or {}).get(name)
        if not handler or not self.running():
            return True
        passed, why = self._prober().attempt_hook(handler, timeout)
        if not passed:
            self.pod.agent.note(f"{self.process.name}: {name}: {why}")
        return passed

    # -- what it is -----------------------------------------------------------------------------
    def running(self):
        return "running" in self.state

    def ended(self):
        return self.state.get("terminated")

    def started(self):
        probe = self.probes.get("startupProbe")
        return self.running() and (probe is None or probe.passing is True)

    def ready(self):
        if self.spec.get("startupProbe") and not self.started():
            return False
        probe = self.probes.get("readinessProbe")
        return self.running() and (probe is None or probe.passing is True)

    def completed(self):
        return bool(self.ended()) and not self.restarts_after(self.ended()["exitCode"])

    def restarts_after(self, code):
        policy = self.pod.obj["spec"].get("restartPolicy", "Always")
        if self.sidecar or (policy == "Always" and not self.init):
            return True
        return policy != "Never" and code != 0

    def tick(self, may_restart=True):
        """Notices an end, a failed probe, and what is to be started again."""
        if self.process is not None and self.running():
            failed = [
                k for k in ("startupProbe", "livenessProbe") if k in self.probes and self.probes[k].passing is False
            ]
            if failed and not self.stopping:
                self.pod.agent.note(f"{self.process.name}: {failed[0]}: {self.probes[failed[0]].last}")
                self.signal(signal.SIGKILL)
                self.stopping = True
            if not self.process.running():
                self._end_run()
        due = time.monotonic() >= self.again_at
        if may_restart and not self.running() and not self.completed() and due:
            if self.ended():
                self.restarts += 1
                self.last_state = self.state
            self.start()

    def _end_run(self):
        code = self.process.popen.returncode
        code = 128 - code if code < 0 else code
        self._kill_group()
        self._stop_probes()
        started = self.state["running"]["startedAt"]
        self.state = {
            "terminated": {
                "exitCode": code,
                "startedAt": started,
                "finishedAt": now(),
                "reason": "Completed" if code == 0 else "Error",
                "message": self.process.tail(3)[-300:] if code else "",
            }
        }
        ended_at = time.monotonic()
        self.again_at = ended_at + self.backoff.after(ended_at - self.started_at)
        if self.restarts_after(code) and self.pod.deletion is None and not self.pod.finished:
            self.pod.agent.note_restart(self.pod, self.name, code, self.process.tail(5))

    # -- ending ---------------------------------------------------------------------------------
    def begin_stop(self, turn, timeout):
        """preStop at once, SIGTERM when it is its turn (an event). In a thread of its own."""
        if self.running() and not self.stopping:
            self.stopping = True
            self._hook("preStop", timeout)
            turn.wait(timeout)
            self.signal(signal.SIGTERM)

    def signal(self, number):
        if self.process is not None and self.process.running():
            try:
                os.kill(self.process.pid, number)
            except ProcessLookupError:
                pass

    def kill(self):
        if self.process is not None:
            self.process.end(signal.SIGKILL)
            if self.running():
                self._end_run()

    def _kill_group(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # what it has left behind
        except (ProcessLookupError, PermissionError):
            pass

    # -- reporting ------------------------------------------------------------------------------
    def status(self):
        waiting = self.ended() and not self.completed() and self.pod.deletion is None
        state = {"waiting": {"reason": "CrashLoopBackOff"}} if waiting else self.state
        return {
            "name": self.name,
            "image": self.spec["image"],
            "imageID": self.spec["image"],
            "ready": bool(self.completed() and self.ended()["exitCode"] == 0)
            if self.init and not self.sidecar
            else self.ready(),
            "started": self.started(),
            "restartCount": self.restarts,
            "state": state,
            "lastState": self.state if waiting else self.last_state,
            "containerID": f"e2e://{self.process.pid}" if self.process else "",
        }


def _users(user, group):
    return "root:x:0:0:root:/root:/bin/sh\n" + ("" if user == 0 else f"user:x:{user}:{group}:user:/:/bin/sh\n")
