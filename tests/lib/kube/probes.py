"""HTTP, HTTPS, TCP, exec and gRPC probes and hooks of containers, sent from the node as a kubelet sends
them.
"""

import http.client
import ssl
import subprocess
import threading
import time

from google.protobuf import wrappers_pb2
from google.protobuf.message import DecodeError

from lib.net import http2

_SERVING = 1  # of grpc.health.v1.HealthCheckResponse.ServingStatus
_FAST = 0.2  # between probes that wait for the first success; a kubelet takes the whole period


def port_of(container, port):
    """A number, or the name of one of the container's ports."""
    if isinstance(port, int) or str(port).isdigit():
        return int(port)
    for named in container.get("ports") or []:
        if named.get("name") == port:
            return named["containerPort"]
    raise ValueError(f"{container['name']} has no port {port}")


class Prober:
    """The way to one container: from `node` (a Namespace) at the pod's address, or inside."""

    def __init__(self, node, address, container, enter):
        self.node, self.address, self.container, self.enter = node, address, container, enter

    def attempt(self, handler, timeout):
        """(succeeded, why not)."""
        try:
            for kind in ("httpGet", "tcpSocket", "exec", "grpc", "sleep"):
                if kind in handler:
                    return getattr(self, f"_{kind}")(handler[kind], timeout)
            return False, f"a handler of an unknown kind: {sorted(handler)}"
        except (OSError, ValueError, http.client.HTTPException, DecodeError, subprocess.TimeoutExpired) as failed:
            return False, repr(failed)

    def attempt_hook(self, handler, timeout):
        """The same for a lifecycle hook: a kubelet takes any response for success, and knows no
        tcpSocket."""
        if "tcpSocket" in handler:
            return False, "a hook cannot be of kind tcpSocket"
        passed, why = self.attempt(handler, timeout)
        return passed or why.startswith("HTTP "), why

    def _httpGet(self, get, timeout):  # the handlers' names are Kubernetes'
        address = get.get("host") or self.address
        port = port_of(self.container, get["port"])
        raw = self.node.connect(address, port, timeout)
        if get.get("scheme", "HTTP") == "HTTPS":
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # as a kubelet
            raw = context.wrap_socket(raw)
        connection = http.client.HTTPConnection(address, port, timeout=timeout)
        connection.sock = raw
        try:
            headers = {"User-Agent": "kube-probe/1.31", "Connection": "close"}
            headers |= {h["name"]: h["value"] for h in get.get("httpHeaders") or []}
            connection.request("GET", get.get("path") or "/", headers=headers)
            response = connection.getresponse()
            body = response.read(2000)
            return 200 <= response.status < 400, f"HTTP {response.status} {body[:200]!r}"
        finally:
            connection.close()

    def _tcpSocket(self, target, timeout):
        self.node.connect(target.get("host") or self.address, port_of(self.container, target["port"]), timeout).close()
        return True, ""

    def _exec(self, target, timeout):
        ran = subprocess.run(self.enter(target["command"]), capture_output=True, text=True, timeout=timeout)
        return ran.returncode == 0, (ran.stdout + ran.stderr)[-500:]

    def _sleep(self, target, timeout):
        time.sleep(min(target["seconds"], timeout))
        return True, ""

    def _grpc(self, target, timeout):
        """grpc.health.v1.Health/Check. Its messages have one field each, of the same number and type
        as that of protobuf's wrappers."""
        question = wrappers_pb2.StringValue(value=target.get("service") or "")
        with http2.Connection(self.node.connect(self.address, target["port"], timeout)) as call:
            stream = call.open("/grpc.health.v1.Health/Check", question.SerializeToString(), end=True)
            answer = wrappers_pb2.Int32Value.FromString(call.message(stream)).value
            return answer == _SERVING, f"not serving: {answer}"


class Probe:
    """One probe of one container run, in a thread. `passing` is its verdict: None until there is
    one; `on_change` is called when it changes."""

    def __init__(self, prober, spec, on_change, after=None):
        self.prober, self.spec, self.on_change, self.after = prober, spec, on_change, after
        self.passing, self.last = None, ""
        self._stopped = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def stop(self):
        self._stopped.set()

    def _run(self):
        if self.after is not None:
            while self.after.passing is not True:
                if self._stopped.wait(0.05):
                    return
        period = self.spec.get("periodSeconds", 10)
        successes = failures = 0
        if self._stopped.wait(self.spec.get("initialDelaySeconds", 0)):
            return
        counted = time.monotonic() - period
        while not self._stopped.is_set():
            passed, self.last = self.prober.attempt(self.spec, self.spec.get("timeoutSeconds", 1))
            if passed:
                successes, failures = successes + 1, 0
                if successes >= self.spec.get("successThreshold", 1):
                    self._conclude(True)
            else:
                successes = 0
                if time.monotonic() - counted >= period:  # failures count once in a period
                    failures, counted = failures + 1, time.monotonic()
                if failures >= self.spec.get("failureThreshold", 3):
                    self._conclude(False)
            self._stopped.wait(period if self.passing else min(period, _FAST))

    def _conclude(self, passing):
        if self.passing != passing and not self._stopped.is_set():
            self.passing = passing
            self.on_change()
