"""A reference evaluator of policies: the answer that docs/mesh-objects.md gives to one call.

It reads the objects as they stand in the mesh directory, and shares nothing with libosm: neither
its resolved policies nor a resource for Envoy. A test compares its answers with real Envoys.

Not evaluated: TLS of Egresses and IngressBackends, host names that a sidecar looks up, invalid objects,
splits of a headless Service, calls of a denied client past the mesh, and calls straight to a denied
machine: a denied proxy keeps an older configuration.
"""

import collections
import ipaddress
import re

DENIED = "denied"
CLUSTER = "svc.cluster.local"

# `kind`: http or tcp. `client` and `machine`: names of VirtualMachines. With `machine` the call goes past
# the client's proxy, straight to that machine's `port`, with the client's certificate; TLS then asks
# for the name of `service`, a (namespace, name) pair. Else the client dials `address` and `port`; of
# the workload of a headless Service, `service` says which Service is meant, and decides nothing.
# `host`: of a request; without it the Service's own name. A client that gateway() names has no proxy,
# and `machine` says which one it dials.
Call = collections.namedtuple(
    "Call",
    "client address port kind method path headers machine service host",
    defaults=(None, "/", {}, None, None, None),
)


def outside(address):
    """In place of a machine: a server outside of the mesh, without spaces."""
    return "outside@" + address


def gateway(address):
    """In place of a client: a caller with this address and without a proxy."""
    return "gateway@" + address


def gateway_address(client):
    """The address of a gateway; None: `client` is a machine."""
    return client.partition("@")[2] or None


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
        self.denied = {
            _named(account)
            for made in self._objects["Denylist"].values()
            for account in made["spec"]["serviceAccounts"]
        }

    def outcomes(self, call):
        """The set of answers that are right: DENIED, or (machine, port) of the workload that answers."""
        if gateway_address(call.client):
            return {self._entering(call)}
        if self.is_denied(call.client):
            return {DENIED}
        if call.machine is not None:
            return {self._straight(call)}
        service = self._service_at(call.address)
        if service is None and (dialled := self._headless(call)):
            return {dialled}
        if service is None:
            meshed = call.address in {vm["spec"]["address"] for vm in self._machines()}
            # A workload takes calls of proxies only, and the passage around them is plain text.
            if meshed:
                return {DENIED}
            if self.egress:
                return {(outside(call.address), call.port)}
            return self._leaving(call) or {DENIED}
        if not any(self._may_call(call.client, vm) for vm in self._behind(service)):
            return {DENIED}
        if call.kind == "http" and call.host and not _is_name_of(service, call):
            return {DENIED}
        found = set()
        for backend, port in self._backends(service, call):
            reached = [vm for vm in self._behind(backend) if self._may_call(call.client, vm)]
            if not reached:
                found.add(DENIED)
            for vm in reached:
                found.add(self._decide(call, vm, backend, _number(port, vm)))
        return found or {DENIED}

    def split(self, call):
        """The TrafficSplit that divides the call; None: none does, or the Service is headless."""
        service = self._service_at(call.address)
        return service and self._split_of(service)

    def retry(self, call):
        """The Retry of a request to a Service with an address, in a set; empty: there is none."""
        flags = self._objects["MeshConfig"]["osm-system", "osm-mesh-config"]["spec"]["featureFlags"]
        service = self._service_at(call.address)
        if service is None or call.kind != "http" or not flags["enableRetryPolicy"]:
            return set()
        account = _account(self._machine(call.client))
        for (ns, name), made in sorted(self._objects["Retry"].items()):
            if _named(made["spec"]["source"]) == account and _key(service) in map(_named, made["spec"]["destinations"]):
                return {f"Retry {ns}/{name}"}
        return set()

    def setting(self, service, requests, connections):
        """The UpstreamTrafficSetting of a Service, (namespace, name), in a set, if it limits any of these."""
        for (ns, name), made in sorted(self._objects["UpstreamTrafficSetting"].items()):
            if (ns, made["spec"]["host"].split(".")[0]) != service:
                continue
            limited = requests or (connections and "connectionSettings" in made["spec"])
            return {f"UpstreamTrafficSetting {ns}/{name}"} if limited else set()
        return set()

    def service(self, call):
        """(namespace, name) of the Service with that address; None: a headless one, or none."""
        service = self._service_at(call.address)
        return service and _key(service)

    def is_denied(self, machine):
        """True if a Denylist names the machine's account."""
        return gateway_address(machine) is None and _account(self._machine(machine)) in self.denied

    def seen_path(self, call, answer):
        """The target that the application reads in an HTTP request."""
        path, mark, query = call.path.partition("?")
        if not answer[0].startswith(outside("")) and self._paths_of_machine(answer[0]) == "normalize":
            path = normalized(path)
        return path + mark + query

    # -- the client's side ----------------------------------------------------------------------
    def _machines(self):
        """Those of the mesh."""
        meshed = {name for (_, name), made in self._objects["Namespace"].items() if made["metadata"]["labels"]}
        return [vm for vm in self._objects["VirtualMachine"].values() if vm["metadata"]["namespace"] in meshed]

    def _machine(self, name):
        return next(vm for vm in self._machines() if vm["metadata"]["name"] == name)

    def _service_at(self, address):
        return next((s for s in self._objects["Service"].values() if s["spec"]["clusterIP"] == address), None)

    def _behind(self, service):
        selector = service["spec"]["selector"].items()
        return [
            vm
            for vm in self._machines()
            if vm["metadata"]["namespace"] == service["metadata"]["namespace"]
            and selector <= vm["metadata"]["labels"].items()
            and _account(vm) not in self.denied
        ]

    def _headless(self, call):
        """The answer of the machine that is dialled, at a headless Service's port or its own.

        None: no headless Service that the client may call has the address and the port.
        """
        for service in self._objects["Service"].values():
            if service["spec"]["clusterIP"] != "None":
                continue
            behind = self._behind(service)
            if not any(self._may_call(call.client, vm) for vm in behind):
                continue
            for vm in behind:
                if vm["spec"]["address"] != call.address:
                    continue
                for port in service["spec"]["ports"]:
                    if _kind(port) == call.kind and call.port in (port["port"], _number(port, vm)):
                        return self._decide(call, vm, service, _number(port, vm))
        return None

    def _backends(self, service, call):
        """(Service, port) pairs of which each may get the call."""
        ns, _ = _key(service)
        wanted = _port(service, call.port, call.kind)
        if wanted is None:
            return
        split = self._split_of(service)
        if split is None:
            yield service, wanted
            return
        for entry in self._objects["TrafficSplit"][split]["spec"]["backends"]:
            backend = self._objects["Service"].get((ns, entry["service"]))
            port = backend and _port(backend, call.port, call.kind)
            if port and entry["weight"] > 0:
                yield backend, port

    def _split_of(self, service):
        """(namespace, name) of the first TrafficSplit by name; None: there is none."""
        ns, name = _key(service)
        for (where, split), made in sorted(self._objects["TrafficSplit"].items()):
            if where == ns and _apex(made) == name:
                return where, split
        return None

    def _may_call(self, client, vm):
        return self.permissive or any(self._rules(target) for target in self._targets(client, vm))

    # -- past the mesh --------------------------------------------------------------------------
    def _leaving(self, call):
        """The answers that the Egresses of the client's account allow."""
        opened = self._egresses(call)
        by_tcp = {answer for kind, answer in opened.values() if kind == "tcp"}
        return by_tcp or {answer for _, answer in opened.values()}

    def egresses(self, call):
        """Names of the Egresses that open the call, each by itself."""
        opened = self._egresses(call)
        kinds = {kind for kind, _ in opened.values()}
        first = "tcp" if "tcp" in kinds else "http"
        return {f"Egress {'/'.join(name)}" for name, (kind, _) in opened.items() if kind == first}

    def _egresses(self, call):
        """{(namespace, name): (kind of the port, answer)}."""
        ns, account = _account(self._machine(call.client))
        found = {}
        for (where, name), made in self._objects["Egress"].items():
            spec = made["spec"]
            if where != ns or (ns, account) not in [_named(s) for s in spec["sources"]]:
                continue
            networks = [ipaddress.ip_network(text) for text in spec.get("ipAddresses", [])]
            if networks and not any(ipaddress.ip_address(call.address) in one for one in networks):
                continue
            for port in spec["ports"]:
                if port["number"] != call.port:
                    continue
                if port["protocol"].startswith("tcp"):
                    found[where, name] = "tcp", (outside(call.address), call.port)
                elif call.kind == "http" and self._requests(ns, spec, call):
                    # A host that is written in full is looked up, unless there are addresses.
                    full = not networks and call.host in spec["hosts"]
                    found[where, name] = "http", (outside(call.host if full else call.address), call.port)
        return found

    def _requests(self, ns, spec, call):
        """True if the hosts and matches of an Egress hold the request."""
        if not any(_holds_host(host, call) for host in spec.get("hosts", [])):
            return False
        groups = [self._objects["HTTPRouteGroup"].get((ns, m["name"])) for m in spec.get("matches", [])]
        path = call.path.partition("?")[0]
        return not groups or any(
            _holds(match, call, path, "strict") for group in groups if group for match in group["spec"]["matches"]
        )

    # -- from outside of the mesh ---------------------------------------------------------------
    def _entering(self, call):
        """The first Service by name whose IngressBackend has the machine's port decides."""
        vm = self._machine(call.machine)
        ns = vm["metadata"]["namespace"]
        for _, service in sorted(self._objects["Service"].items()):
            name = service["metadata"]["name"]
            served = {_number(port, vm) for port in service["spec"]["ports"]} if vm in self._behind(service) else ()
            found = [
                made["spec"]
                for (where, _), made in sorted(self._objects["IngressBackend"].items())
                if where == ns
                and (name, call.port) in [(b["name"], b["port"]["number"]) for b in made["spec"]["backends"]]
            ]
            if call.port not in served or not found:
                continue
            admitted = any(self._admits(source, gateway_address(call.client)) for source in found[0]["sources"])
            refused = _paths(service) == "normalize" and normalized(call.path.partition("?")[0]) is None
            refused = refused or _refuses_header_names(service, call)
            return (call.machine, call.port) if admitted and not refused else DENIED
        return DENIED

    def _admits(self, source, address):
        if source["kind"] == "IPRange":
            return ipaddress.ip_address(address) in ipaddress.ip_network(source["name"])
        selector = self._objects["Service"][source["namespace"], source["name"]]["spec"]["selector"]
        return any(
            vm["spec"]["address"] == address
            and vm["metadata"]["namespace"] == source["namespace"]
            and selector.items() <= vm["metadata"]["labels"].items()
            for vm in self._objects["VirtualMachine"].values()
        )

    # -- the server's side ----------------------------------------------------------------------
    def has(self, kind):
        return bool(self._objects[kind])

    def is_served(self, call):
        """Of a call past the proxy: if the machine has a chain for the TLS name."""
        service = self._objects["Service"][call.service]
        vm = self._machine(call.machine)
        served = {_number(p, vm) for p in service["spec"]["ports"] if _kind(p) == call.kind}
        return vm in self._behind(service) and call.port in served

    def _straight(self, call):
        if not self.is_served(call):
            return DENIED
        service = self._objects["Service"][call.service]
        return self._decide(call, self._machine(call.machine), service, call.port)

    def _decide(self, call, vm, service, port):
        allowed = vm["metadata"]["name"], port
        paths = _paths(service)
        path = call.path.partition("?")[0]
        if call.kind == "http" and paths == "normalize":
            path = normalized(path)
            if path is None:
                return DENIED
        if _refuses_header_names(service, call):
            return DENIED
        if self.permissive:
            return allowed
        return allowed if any(self._allowing(call, vm, port, path, paths)) else DENIED

    def targets(self, call, vm_name, port):
        """Names of the TrafficTargets that allow the call at the machine's port, each by itself."""
        vm = self._machine(vm_name)
        ns = vm["metadata"]["namespace"]
        paths = next(_paths(s) for (where, _), s in self._objects["Service"].items() if where == ns)
        path = call.path.partition("?")[0]
        path = normalized(path) if call.kind == "http" and paths == "normalize" else path
        made = self._allowing(call, vm, port, path, paths)
        return {"TrafficTarget {namespace}/{name}".format(**target["metadata"]) for target in made}

    def _allowing(self, call, vm, port, path, paths):
        for target in self._targets(call.client, vm):
            rules = self._rules(target)
            ports = [ports for kind, ports in rules if kind == "tcp"]
            if ports and not any(p is None or port in p for p in ports):
                continue
            http = [match for kind, match in rules if kind == "http"]
            if ports if call.kind == "tcp" else any(_holds(match, call, path, paths) for match in http):
                yield target

    def _targets(self, client, vm):
        """TrafficTargets from the account of the machine `client` to that of `vm`."""
        source, destination = _account(self._machine(client)), _account(vm)
        for (ns, _), made in self._objects["TrafficTarget"].items():
            spec = made["spec"]
            if (
                ns == destination[0]
                and _named(spec["destination"]) == destination
                and source in [_named(s) for s in spec["sources"]]
            ):
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
                found += [
                    ("http", match) for match in made["spec"]["matches"] if match["name"] in rule.get("matches", [])
                ]
        return found

    def _paths_of_machine(self, name):
        """A test gives all Services of a namespace the same annotation."""
        ns = self._machine(name)["metadata"]["namespace"]
        return next(_paths(s) for (where, _), s in self._objects["Service"].items() if where == ns)


def _is_name_of(service, call):
    """The client's namespace is never the Service's, so that short names mean nothing."""
    name = "{name}.{namespace}".format(**service["metadata"])
    names = [name] + [f"{name}.{more}" for more in ("svc", "svc.cluster", CLUSTER)]
    return call.host.removesuffix(f":{call.port}") in names


def _holds_host(host, call):
    name, _, port = host.partition(":")
    if port and int(port) != call.port:
        return False
    if name.startswith("*."):
        return call.host.endswith(name[1:]) and call.host != name[1:]
    return call.host == name


def _named(account):
    return account["namespace"], account["name"]


def _account(vm):
    return vm["metadata"]["namespace"], vm["spec"]["serviceAccount"]


def _key(made):
    return made["metadata"]["namespace"], made["metadata"]["name"]


def _apex(split):
    return split["spec"]["service"].split(":")[0].split(".")[0]


def _kind(port):
    """http or tcp."""
    protocol = port.get("appProtocol") or port["name"].split("-")[0]
    return "tcp" if protocol == "tcp" else "http"


def _port(service, number, kind):
    return next((p for p in service["spec"]["ports"] if p["port"] == number and _kind(p) == kind), None)


def _number(port, vm):
    """The workload's port: its own number, or the one that the machine gives the name."""
    wanted = port["targetPort"]
    if isinstance(wanted, int):
        return wanted
    return next(p["port"] for p in vm["spec"]["ports"] if p["name"] == wanted)


def _paths(service):
    return service["metadata"].get("annotations", {}).get("openservicemesh.io/http-paths", "strict")


def _refuses_header_names(service, call):
    names = service["metadata"].get("annotations", {}).get("openservicemesh.io/http-header-names", "strict")
    return call.kind == "http" and names == "strict" and any("_" in name for name in call.headers)


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
