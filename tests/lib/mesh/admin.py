"""A controller's admin socket, asked without the command `osm`."""

import contextlib
import http.client
import json
import socket
import urllib.parse

from lib.net.processes import CommandFailed, NotYet, Timeout, wait_for


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        try:
            self.sock.connect(str(self.path))
        except FileNotFoundError as absent:  # as if nobody listened: the controller starts
            raise ConnectionRefusedError(f"{self.path}: there is no admin socket") from absent


def ask(state, method, path, body=None):
    """(status, answer) of the controller with this state directory."""
    with contextlib.closing(UnixConnection(state / "admin.sock")) as connection:
        connection.request(method, path, json.dumps(body) if body is not None else None)
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def answer_of(state, method, path, body=None):
    """The answer. Failure: CommandFailed with the controller's words, as from the command."""
    status, answer = ask(state, method, path, body)
    if status != 200:
        raise CommandFailed(f"{method} {path}: {status}: {answer}")
    return answer


def own_proxies(state):
    """The proxies that are connected to this controller. It lists those of the others too."""
    return [proxy for proxy in answer_of(state, "GET", "/v1/proxies")["proxies"] if proxy["connected_at"]]


def status_path(thing):
    """GET /v1/status of an object."""
    group, _, _ = thing["apiVersion"].rpartition("/")
    metadata = thing["metadata"]
    return "/v1/status?" + urllib.parse.urlencode(
        {"group": group, "kind": thing["kind"], "namespace": metadata.get("namespace", ""), "name": metadata["name"]}
    )


def generation_everywhere(state, things):
    """The mesh's generation that has these objects, or no longer has them, once every connected
    proxy that they concern has acknowledged it.

    Not yet: NotYet says who is behind. An object that shapes no proxy is not waited for, and one
    that is rejected only until the mesh is without it.
    """
    generation = 0
    for thing in things:
        status, answer = ask(state, "GET", status_path(thing))
        if status == 404:
            continue
        if status != 200:
            raise NotYet(f"{status}: {answer}")
        behind = ", ".join(f"{lag['workload']} {lag['detail']}".strip() for lag in answer["lagging"])
        if behind or answer["phase"] not in ("Applied", "Rejected"):
            raise NotYet(f"{answer['object']}: {answer['phase']}; behind: {behind or 'nobody'}")
        generation = max(generation, answer["generation"])
    return generation


def wait_until_acknowledged(states, things, timeout=20):
    """Until generation_everywhere() has a result at each of these controllers. Result: the first
    controller's; None if there is no controller."""
    generations = []
    for state in states:
        try:
            found = wait_for("every proxy acknowledges", lambda: [generation_everywhere(state, things)], timeout)
        except Timeout as late:
            raise Timeout(f"{late}; wait=False is for a change that a proxy refuses or cannot acknowledge") from late
        generations += found
    return generations[0] if generations else None
