"""The explanations of `osm policy explain` about the calls of lib.mesh.reference, by the admin API and by
the command.
"""

import json
import subprocess
import urllib.parse

from lib.mesh.reference import DENIED, gateway_address, header_lines, outside

DENIED_EXIT = 3  # exit code of the command


def _limiting(steps):
    """The objects of the notes about limits."""
    return {step["object"] for step in steps if step["step"] == "limits" and step["object"] != "MeshConfig"}


def _deciding(told, way):
    """The step that decides a way."""
    return [step for step in told["steps"] + way["steps"] if step["effect"] != "notes"][-1]


class Explainer:
    """Asks one controller, and compares its explanations with what happened."""

    def __init__(self, ask, command, clients, servers):
        """`ask(path)`: the answer of the admin API. `command`: `osm policy explain` and its flags.
        `clients`, `servers`: as in lib.mesh.policy_sets."""
        self._ask, self._command = ask, command
        self._clients, self._servers = clients, servers
        self._at = {row[2]: name for name, row in servers.items()}

    def question(self, call, host):
        """The parameters of the question about a call."""
        asked = {
            "source": f"workload:{self._clients.get(call.client, '?')[0]}/{call.client}",
            "destination": f"host:{call.address}",
            "port": str(call.port),
        }
        if call.headers:
            asked["headers"] = "\n".join(f"{name}: {value}" for name, value in header_lines(call))
        if address := gateway_address(call.client):
            return {**asked, "source": f"gateway:{address}", "method": call.method, "path": call.path}
        if call.machine is not None:
            asked["destination"] = "account:" + "/".join(self._servers[call.machine][:2])
        if call.kind == "http":
            asked |= {"method": call.method, "path": call.path, "host": host}
        elif call.machine is not None:
            asked["host"] = host  # TLS asks for this name
        return asked

    def explain(self, asked):
        return self._ask("/v1/policy/explain?" + urllib.parse.urlencode(asked))

    def explain_by_command(self, asked):
        """(exit code, the answer) of the command itself."""
        words = [asked["source"], asked["destination"]]
        for name in ("port", "method", "path", "host"):
            if name in asked:
                words += [f"--{name}", asked[name]]
        for line in asked.get("headers", "").splitlines():
            words += ["--header", line]
        ran = subprocess.run(
            [*map(str, self._command), *words, "-o", "json"], capture_output=True, text=True, timeout=60
        )
        return ran.returncode, json.loads(ran.stdout)

    def outcomes(self, call, told):
        """The answers that an explanation holds possible, in the form of Reference.outcomes()."""
        return set().union(*(self._answers(call, way) for way in told["ways"]))

    def _answers(self, call, way):
        if not way["allowed"]:
            return {DENIED}
        if call.machine is not None:
            return {(call.machine, way["port"])}
        if not way["service"]:
            return {(outside(address), way["port"]) for address in way["addresses"]}
        return {(self._at[address], way["port"]) for address in way["addresses"]}

    def misnamed(self, call, told, reference):
        """A sentence if a way names another object than one that allows or denies it, or other objects
        that take part than those in force; else None."""
        if wrong := self._misnamed_part(call, told, reference):
            return wrong
        for way in told["ways"]:
            last = _deciding(told, way)
            named = last["object"] + (" " + last["field"] if last["object"] == "MeshConfig" else "")
            right = set().union(
                *(
                    one.objects
                    for one in reference.ways(call)
                    if one.answer in self._answers(call, way)
                    and "/".join(one.service or ()) == way["service"]
                    and "/".join(one.account or ()) == way["account"]
                )
            )
            if named not in right:
                return f"{last} is not of one of {sorted(right)}"
        return None

    @staticmethod
    def _misnamed_part(call, told, reference):
        """The same for the split, the Retry and the UpstreamTrafficSettings of a call that comes to the
        workloads of a Service with an address."""
        service = reference.service(call)
        if gateway_address(call.client) or call.machine is not None or service is None:
            return None
        if not any(way["service"] and way["account"] for way in told["ways"]):
            return None
        split, http = reference.split(call), call.kind == "http"
        divided = {step["object"] for step in told["steps"] if step["step"] == "split"}
        if divided != ({f"TrafficSplit {'/'.join(split)}"} if split else set()):
            return f"the split is {split}, and not {divided}"
        right = reference.retry(call) | reference.setting(service, http, split is None)
        named = _limiting(told["steps"])
        if named != right:
            return f"{right} take part, and not {named}"
        for way in told["ways"]:
            backend = tuple(way["service"].split("/"))
            right = reference.setting(backend, False, True) if split and way["account"] else set()
            if _limiting(way["steps"]) != right:
                return f"{right} take part in {way}"
        return None

    @staticmethod
    def statuses(told):
        """Of the refusals that an explanation holds possible; 0: the connection is closed."""
        return {way["status"] for way in told["ways"] if not way["allowed"]}

    @staticmethod
    def unclear(told):
        """A sentence if a way ends without the step that decides, else None."""
        for way in told["ways"]:
            last = _deciding(told, way)
            if last["effect"] != ("allows" if way["allowed"] else "denies") or not last["reason"]:
                return f"{last} does not decide {way}"
            if way["allowed"] and not last["object"]:
                return f"{last} names no object"
        return None
