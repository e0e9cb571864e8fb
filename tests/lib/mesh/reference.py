"""A reference evaluator of policies: the answer that docs/mesh-objects.md gives to one call.

It reads the objects as they stand in the mesh directory, and shares nothing with libosm: neither
its resolved policies nor a resource for Envoy. A test compares its answers with real Envoys.

Not evaluated: Egress and IngressBackend, which have no effect yet (docs/limitations.md), invalid
objects, headless Services and Denylists.
"""
import collections
import re

DENIED = "denied"
OUTSIDE = "outside"  # in place of a machine: an address without Service and machine
CLUSTER = "svc.cluster.local"

# `kind`: http or tcp. `client` and `machine`: names of VirtualMachines. With `machine` the call goes past
# the client's proxy, straight to that machine's `port`, with the client's certificate; TLS then asks
# for the name of `service`, a (namespace, name) pair. Else the client dials `address` and `port`.
Call = collections.namedtuple(
    "Call", "client address port kind method path headers machine service",
    defaults=(None, "/", {}, None, None))

_UNRESERVED = r"%(?:2[de]|3[0-9]|4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9ae])"
_NOT_NORMAL = re.compile(rf"//|\\|/\.\.?(?:/|$)|%2f|%5c|{_UNRESERVED}", re.I)


def normalized(path):
    """`path` in normal form, or None if it has an escaped slash or backslash."""
    if re.search(r"%2f|%5c", path, re.I):
        return None
    path = re.sub(_UNRESERVED, lambda m: chr(int(m[0][1:], 16)), path, flags=re.I)
    kept = []
    parts = path.split("/")[1:]
    for number, part in enumerate(parts):
        if part not in (".", ".."):
            kept.append(part)
            continue
        if part == ".." and kept:
            kept.pop()
        if number == len(parts) - 1:
            kept.append("")
    return re.sub("/+", "/", "/" + "/".join(kept))


class Reference:
    """Answers of one set of `objects`."""

    def __init__(self, objects):
        self._objects = collections.defaultdict(dict)
        for made in objects:
            metadata = made["metadata"]
            self._objects[made["kind"]][metadata.get("namespace", ""), metadata["name"]] = made
        traffic = self._objects["MeshConfig"]["osm-system", "osm-mesh-config"]["spec"]["traffic"]
        self.permissive = traffic["enablePermissiveTrafficPolicyMode"]
        self.egress = traffic["enableEgress"]

    def outcomes(self, call):
        """The set of answers that are right: DENIED, or (machine, port) of the workload that answers."""
        if call.machine is not None:
            return {self._straight(call)}
        service = self._service_at(call.address)
        if service is None:
            meshed = call.address in {vm["spec"]["address"] for vm in self._machines()}
            # A workload takes calls of proxies only, and the passage around them is plain text.
            return {(OUTSIDE, call.port) if self.egress and not meshed else DENIED}
        if not any(self._may_call(call.client, vm) for vm in self._behind(service)):
            return {DENIED}
        found = set()
        for backend, port in self._backends(service, call):
            reached = [vm for vm in self._behind(backend) if self._may_call(call.client, vm)]
            if not reached:
                found.add(DENIED)
            for vm in reached:
                found.add(self._decide(call, vm, backend, _number(port, vm)))
        return found or {DENIED}

    def seen_path(self, call, answer):
        """The target that the application reads in an HTTP request."""
        path, mark, query = call.path.partition("?")
        if answer[0] != OUTSIDE and self._paths_of_machine(answer[0]) == "normalize":
            path = normalized(path)
        return path + mark + query

    # -- the client's side ----------------------------------------------------------------------
    def _machines(self):
        return self._objects["VirtualMachine"].values()

    def _machine(self, name):
        return next(vm for vm in self._machines() if vm["metadata"]["name"] == name)

    def _service_at(self, address):
        return next((s for s in self._objects["Service"].values()
                     if s["spec"]["clusterIP"] == address), None)

    def _behind(self, service):
        selector = service["spec"]["selector"].items()
        return [vm for vm in self._machines()
                if vm["metadata"]["namespace"] == service["metadata"]["namespace"]
                and selector <= vm["metadata"]["labels"].items()]

    def _backends(self, service, call):
        """(Service, port) pairs of which each may get the call."""
        ns, name = service["metadata"]["namespace"], service["metadata"]["name"]
        wanted = _port(service, call.port, call.kind)
        if wanted is None:
            return
        splits = [s["spec"] for (where, _), s in self._objects["TrafficSplit"].items()
                  if where == ns and _apex(s) == name]
        if not splits:
            yield service, wanted
            return
        for entry in splits[0]["backends"]:
            backend = self._objects["Service"].get((ns, entry["service"]))
            port = backend and _port(backend, call.port, call.kind)
            if port and entry["weight"] > 0:
                yield backend, port

    def _may_call(self, client, vm):
        return self.permissive or any(
            self._rules(target) for target in self._targets(client, vm))

    # -- the server's side ----------------------------------------------------------------------
    def _straight(self, call):
        service = self._objects["Service"][call.service]
        vm = self._machine(call.machine)
        served = {_number(p, vm) for p in service["spec"]["ports"] if _kind(p) == call.kind}
        if vm not in self._behind(service) or call.port not in served:
            return DENIED
        return self._decide(call, vm, service, call.port)

    def _decide(self, call, vm, service, port):
        allowed = vm["metadata"]["name"], port
        paths = _paths(service)
        path = call.path.partition("?")[0]
        if call.kind == "http" and paths == "normalize":
            path = normalized(path)
            if path is None:
                return DENIED
        if self.permissive:
            return allowed
        for target in self._targets(call.client, vm):
            rules = self._rules(target)
            ports = [ports for kind, ports in rules if kind == "tcp"]
            if ports and not any(p is None or port in p for p in ports):
                continue
            if call.kind == "tcp" and ports:
                return allowed
            if call.kind == "http" and any(_holds(match, call, path, paths)
                                           for kind, match in rules if kind == "http"):
                return allowed
        return DENIED

    def _targets(self, client, vm):
        """TrafficTargets from the account of the machine `client` to that of `vm`."""
        source, destination = _account(self._machine(client)), _account(vm)
        for (ns, _), made in self._objects["TrafficTarget"].items():
            spec = made["spec"]
            if ns == destination[0] and _named(spec["destination"]) == destination and source in [
                    _named(s) for s in spec["sources"]]:
                yield made

    def _rules(self, target):
        """("http", match) and ("tcp", ports or None for any). Empty: the target allows nothing."""
        ns, found = target["metadata"]["namespace"], []
        for rule in target["spec"]["rules"]:
            made = self._objects[rule["kind"]].get((ns, rule["name"]))
            if rule["kind"] == "TCPRoute":
                if made is None:
                    return []
                found.append(("tcp", made["spec"]["matches"].get("ports") or None))
            elif made is not None:
                found += [("http", match) for match in made["spec"]["matches"]
                          if match["name"] in rule.get("matches", [])]
        return found

    def _paths_of_machine(self, name):
        """A test gives all Services of a namespace the same annotation."""
        ns = self._machine(name)["metadata"]["namespace"]
        return next(_paths(s) for (where, _), s in self._objects["Service"].items() if where == ns)


def _named(account):
    return account["namespace"], account["name"]


def _account(vm):
    return vm["metadata"]["namespace"], vm["spec"]["serviceAccount"]


def _apex(split):
    return split["spec"]["service"].split(":")[0].split(".")[0]


def _kind(port):
    """http or tcp."""
    protocol = port.get("appProtocol") or port["name"].split("-")[0]
    return "tcp" if protocol == "tcp" else "http"


def _port(service, number, kind):
    return next((p for p in service["spec"]["ports"]
                 if p["port"] == number and _kind(p) == kind), None)


def _number(port, vm):
    """The workload's port: its own number, or the one that the machine gives the name."""
    wanted = port["targetPort"]
    if isinstance(wanted, int):
        return wanted
    return next(p["port"] for p in vm["spec"]["ports"] if p["name"] == wanted)


def _paths(service):
    return service["metadata"].get("annotations", {}).get(
        "openservicemesh.io/http-paths", "strict")


def _holds(match, call, path, paths):
    if match.get("methods") and call.method not in match["methods"]:
        return False
    for header in match.get("headers", []):
        for name, wanted in header.items():
            if not re.fullmatch(wanted, call.headers.get(name, "")) or name not in call.headers:
                return False
    wanted = match.get("pathRegex", ".*")
    if wanted == ".*":
        return True
    if paths == "strict" and _NOT_NORMAL.search(path):
        return False
    return re.fullmatch(wanted, path) is not None
