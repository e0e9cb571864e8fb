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
# `host`: of a request; without it the Service's own name. `headers`: name: value, or the values of one
# that is sent several times. A client that gateway() names has no proxy, and `machine` says which one
# it dials.
Call = collections.namedtuple(
    "Call",
    "client address port kind method path headers machine service host",
    defaults=(None, "/", {}, None, None, None),
)

# One end of a call. `service`, `account`: (namespace, name) of the Service and of the account of the
# workloads there; None if the call does not come as far. `answer`: DENIED, or (machine, port). `objects`:
# those of which each decides by itself; NO_OBJECT if the one that would allow the call is missing.
Way = collections.namedtuple("Way", "service account answer objects")
NO_OBJECT = ""
NOTHING = (0, 0)
PERMISSIVE = "MeshConfig spec.traffic.enablePermissiveTrafficPolicyMode"
EGRESS = "MeshConfig spec.traffic.enableEgress"


def outside(address):
    """In place of a machine: a server outside of the mesh, without spaces."""
    return "outside@" + address


def gateway(address):
    """In place of a client: a caller with this address and without a proxy."""
    return "gateway@" + address


def gateway_address(client):
    """The address of a gateway; None: `client` is a machine."""
    return client.partition("@")[2] or None


def header_lines(call):
    """(name, value) of each line of a request's headers."""
    for name, values in call.headers.items():
        for value in (values,) if isinstance(values, str) else values:
            yield name, value


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
        return {way.answer for way in self.ways(call)}

    def ways(self, call):
        """Every Way that the call can take."""
        if gateway_address(call.client):
            return [self._entering(call)]
        if self.is_denied(call.client):
            return [_refusal(self._denylists(self._machine(call.client)))]
        if call.machine is not None:
            return [self._straight(call)]
        service = self._service_at(call.address)
        if service is None:
            return self._headless(call) or self._past_the_mesh(call)
        if not self._knows(call.client, service):
            return [_refusal(self._without_workload(call, service))]
        if call.kind == "http" and call.host and not _is_name_of(service, call):
            return [_refusal({_text(service)})]
        if _refuses_upgrade(call):
            return [_refusal({NO_OBJECT})]
        found = []
        for backend, port in self._backends(service, call):
            reached = [vm for vm in self._behind(backend) if self._may_call(call.client, vm)]
            if not reached:
                found.append(Way(_key(backend), None, DENIED, self._without_workload(call, backend, known=True)))
            for vm in reached:
                found.append(self._decide(call, vm, backend, _number(port, vm)))
        split = self._split_of(service)
        return found or [_refusal({"TrafficSplit " + "/".join(split) if split else _text(service)})]

    def lets_out(self, call):
        """True if global egress passes the call on to a machine of the mesh, as plain text."""
        if gateway_address(call.client) or self.is_denied(call.client) or not self._is_at_machine(call):
            return False
        return self.egress and self._service_at(call.address) is None and not self._headless(call)

    def _is_at_machine(self, call):
        return call.address in {vm["spec"]["address"] for vm in self._machines()}

    def _past_the_mesh(self, call):
        # A workload takes calls of proxies only, and the passage around them is plain text.
        if self._is_at_machine(call):
            return [_refusal({NO_OBJECT})]
        if self.egress:
            return [Way(None, None, (outside(call.address), call.port), {EGRESS})]
        return self._leaving(call) or [_refusal(self._without_egress(call))]

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

    def _selected(self, service):
        selector = service["spec"]["selector"].items()
        return [
            vm
            for vm in self._machines()
            if vm["metadata"]["namespace"] == service["metadata"]["namespace"]
            and selector <= vm["metadata"]["labels"].items()
        ]

    def _behind(self, service):
        return [vm for vm in self._selected(service) if _account(vm) not in self.denied]

    def _headless(self, call):
        """The Way to the machine that is dialled, at a headless Service's port or its own.

        Empty: no headless Service has the address and the port.
        """
        for service in self._objects["Service"].values():
            if service["spec"]["clusterIP"] != "None":
                continue
            for vm in self._behind(service):
                if vm["spec"]["address"] != call.address:
                    continue
                for port in service["spec"]["ports"]:
                    if _kind(port) != call.kind or call.port not in (port["port"], _number(port, vm)):
                        continue
                    if not self._knows(call.client, service):
                        return [_refusal(self._without_workload(call, service))]
                    if _refuses_upgrade(call):
                        return [_refusal({NO_OBJECT})]
                    return [self._decide(call, vm, service, _number(port, vm))]
        return []

    def _knows(self, client, service):
        """True if the client's proxy takes calls of the Service. One without workloads is that of each
        account of its namespace."""
        behind = self._behind(service)
        if self.permissive or behind:
            return self.permissive or any(self._may_call(client, vm) for vm in behind)
        ns, source = service["metadata"]["namespace"], _account(self._machine(client))
        return any(
            source in map(_named, target["spec"]["sources"]) and self._rules(target)
            for (where, _), target in self._objects["TrafficTarget"].items()
            if where == ns
        )

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

    def _without_workload(self, call, service, known=False):
        """The objects because of which no workload behind a Service is left for the client, whose
        proxy takes its calls if it is `known`."""
        behind = self._behind(service)
        denied = [vm for vm in self._selected(service) if vm not in behind]
        denylists = set().union(*map(self._denylists, denied)) if known or not behind else set()
        return denylists or self._without_grant(call, behind)

    def _without_grant(self, call, machines):
        """The TrafficTargets to the machines' accounts that grant nothing."""
        return {_text(target) for vm in machines for target in self._targets(call.client, vm)} or {NO_OBJECT}

    def _denylists(self, vm):
        return {
            _text(made)
            for made in self._objects["Denylist"].values()
            if _account(vm) in map(_named, made["spec"]["serviceAccounts"])
        }

    # -- past the mesh --------------------------------------------------------------------------
    def _leaving(self, call):
        """A Way for each answer that the Egresses of the client's account allow."""
        opened = self._egresses(call)
        kinds = {kind for kind, _, _ in opened}
        if kinds == {"http"} and _refuses_upgrade(call):
            return [_refusal({NO_OBJECT})]
        first = [one for one in opened if one[0] == ("tcp" if "tcp" in kinds else "http")]
        return [
            Way(None, None, answer, {_text(made) for _, its, made in first if its == answer})
            for answer in {answer for _, answer, _ in first}
        ]

    def _at_port(self, call):
        """(Egress, kind of the port, its networks) of those of the client's account with the port."""
        ns, account = _account(self._machine(call.client))
        for (where, _), made in self._objects["Egress"].items():
            spec = made["spec"]
            if where != ns or (ns, account) not in [_named(s) for s in spec["sources"]]:
                continue
            networks = [ipaddress.ip_network(text) for text in spec.get("ipAddresses", [])]
            for port in spec["ports"]:
                kind = "tcp" if port["protocol"].startswith("tcp") else "http"
                if port["number"] == call.port and (kind == "tcp" or _valid_hosts(spec)):
                    yield made, kind, networks

    def _egresses(self, call):
        """(kind of the port, answer, Egress) of each that opens the call."""
        found = []
        for made, kind, networks in self._at_port(call):
            if not _holds_address(networks, call):
                continue
            spec = made["spec"]
            if kind == "tcp":
                found.append(("tcp", (outside(call.address), call.port), made))
            elif call.kind == "http" and self._names_host(spec, call) and self._egress_lacks(made, call) == 0:
                # A host that is written in full is looked up, unless there are addresses.
                host = _plain_host(call)
                full = not networks and host in spec["hosts"]
                found.append(("http", (outside(host if full else call.address), call.port), made))
        return found

    def _without_egress(self, call):
        """The Egresses whose matches lack the fewest parts; else those that lack the host, or the address."""
        here, elsewhere = [], []
        for made, _, networks in self._at_port(call):
            (here if _holds_address(networks, call) else elsewhere).append(made)
        named = [(self._egress_lacks(made, call), _text(made)) for made in here if self._names_host(made["spec"], call)]
        if named:
            return {text for lacks, text in named if lacks == min(named)[0]}
        return {_text(made) for made in here or elsewhere} or {NO_OBJECT}

    @staticmethod
    def _names_host(spec, call):
        return any(_holds_host(host, call) for host in spec.get("hosts", []))

    def _egress_lacks(self, made, call):
        """Number of parts that the nearest match of an Egress lacks; 0: it has none, or one holds the request."""
        ns, names = made["metadata"]["namespace"], made["spec"].get("matches", [])
        groups = [self._objects["HTTPRouteGroup"].get((ns, m["name"])) for m in names]
        path = call.path.partition("?")[0]
        lacks = [_parts_lacking(m, call, path, "strict") for group in groups if group for m in group["spec"]["matches"]]
        return min(lacks, default=99) if names else 0

    # -- from outside of the mesh ---------------------------------------------------------------
    def _entering(self, call):
        """The first Service by name whose IngressBackend has the machine's port decides."""
        vm = self._machine(call.machine)
        ns = vm["metadata"]["namespace"]
        for _, service in sorted(self._objects["Service"].items()):
            name = service["metadata"]["name"]
            served = {_number(port, vm) for port in service["spec"]["ports"]} if vm in self._behind(service) else ()
            found = [
                made
                for (where, _), made in sorted(self._objects["IngressBackend"].items())
                if where == ns
                and (name, call.port) in [(b["name"], b["port"]["number"]) for b in made["spec"]["backends"]]
            ]
            if call.port not in served or not found:
                continue
            sources = found[0]["spec"]["sources"]
            admitted = any(self._admits(source, gateway_address(call.client)) for source in sources)
            answer, by = ((call.machine, call.port) if admitted else DENIED), _text(found[0])
            if _paths(service) == "normalize" and normalized(call.path.partition("?")[0]) is None:
                answer, by = DENIED, _text(service)
            elif _refuses_upgrade(call):
                answer, by = DENIED, NO_OBJECT
            elif _refuses_header_names(service, call):
                answer, by = DENIED, _text(service)
            return Way(_key(service), _account(vm), answer, {by})
        return Way(None, _account(vm), DENIED, {NO_OBJECT})

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
            return _refusal({NO_OBJECT})
        service = self._objects["Service"][call.service]
        return self._decide(call, self._machine(call.machine), service, call.port)

    def _decide(self, call, vm, service, port):
        """The Way to the machine's port, behind the Service."""
        path, paths = call.path.partition("?")[0], _paths(service)
        if call.kind == "http" and paths == "normalize":
            path = normalized(path)
        answer, objects = DENIED, {_text(service)}
        if path is None:
            pass
        elif _refuses_upgrade(call):
            objects = {NO_OBJECT}
        elif _refuses_header_names(service, call):
            pass
        elif self.permissive:
            answer, objects = (vm["metadata"]["name"], port), {PERMISSIVE}
        else:
            least, objects = self._nearest(call, vm, port, path, paths)
            if least == NOTHING:
                answer = vm["metadata"]["name"], port
        return Way(_key(service), _account(vm), answer, objects)

    def targets(self, call, vm_name, port):
        """Names of the TrafficTargets that allow the call at the machine's port, each by itself."""
        vm = self._machine(vm_name)
        paths = self._paths_of_machine(vm_name)
        path = call.path.partition("?")[0]
        path = normalized(path) if call.kind == "http" and paths == "normalize" else path
        least, objects = self._nearest(call, vm, port, path, paths)
        return objects if least == NOTHING else set()

    def _nearest(self, call, vm, port, path, paths):
        """(how far the nearest TrafficTargets are from allowing the call, their names)."""
        found = collections.defaultdict(set)
        for target in self._targets(call.client, vm):
            if self._rules(target):
                found[self._lacking(target, call, port, path, paths)].add(_text(target))
        if found:
            return min(found.items())
        return None, self._without_grant(call, [vm])

    def _lacking(self, target, call, port, path, paths):
        """How far a TrafficTarget is from allowing the call: NOTHING, and more for more that it lacks."""
        rules = self._rules(target)
        ports = [ports for kind, ports in rules if kind == "tcp"]
        bound = ports and not any(p is None or port in p for p in ports)
        http = [match for kind, match in rules if kind == "http"]
        if call.kind == "tcp":
            return (2 if not ports else 1 if bound else 0), 0
        if bound:
            return 1, 0
        if not http:
            return 2, 0
        return 0, min(_parts_lacking(match, call, path, paths) for match in http)

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


def _refusal(objects):
    """A Way that ends before any workload."""
    return Way(None, None, DENIED, objects)


def _text(made):
    """An object as explanations name it."""
    return "{} {}/{}".format(made["kind"], made["metadata"]["namespace"], made["metadata"]["name"])


def _plain_host(call):
    """The host of a request in lower case, without the dialled port and without one dot at the end of the
    name, or behind all."""
    host = call.host.lower()
    if host.endswith("."):
        return host[:-1].removesuffix(f":{call.port}")
    name, mark, port = host.partition(":")
    return (name.removesuffix(".") + mark + port).removesuffix(f":{call.port}")


def _is_name_of(service, call):
    """The client's namespace is never the Service's, so that short names mean nothing."""
    name = "{name}.{namespace}".format(**service["metadata"])
    names = [name] + [f"{name}.{more}" for more in ("svc", "svc.cluster", CLUSTER)]
    return _plain_host(call) in names


def _valid_hosts(spec):
    """Hosts of an Egress: one with a port is invalid if it lacks that, and ports for HTTP are without hosts."""
    numbers = {str(port["number"]) for port in spec["ports"]}
    return [host for host in spec["hosts"] if {host.partition(":")[2]} <= {""} | numbers]


def _holds_host(written, call):
    name, _, port = written.partition(":")
    host = _plain_host(call)
    if port and int(port) != call.port:
        return False
    if name.startswith("*."):
        return host.endswith(name[1:]) and host != name[1:]
    return host == name


def _holds_address(networks, call):
    return not networks or any(ipaddress.ip_address(call.address) in one for one in networks)


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


def _header(call, name):
    """The value of a header as a proxy compares it; None: the request has none."""
    values = [value for other, value in header_lines(call) if other == name]
    return ",".join(values) if values else None


def _refuses_upgrade(call):
    """True if a request asks for another protocol than a proxy gives. TLS is ignored, and so is HTTP/2 alone."""
    if call.kind != "http" or "upgrade" not in _tokens(call, "connection"):
        return False
    asked = _tokens(call, "upgrade")
    return asked != ["h2c"] and [one for one in asked if not one.startswith("tls/")] not in ([], ["websocket"])


def _tokens(call, name):
    return [one.strip().lower() for one in (_header(call, name) or "").split(",") if one.strip()]


def _parts_lacking(match, call, path, paths):
    """Number of parts of a match, which are path, method and each header, that the request lacks."""
    wanted = match.get("pathRegex", ".*")
    other_form = wanted != ".*" and paths == "strict" and _NOT_NORMAL.search(path)
    lacks = int(bool(other_form) or re.fullmatch(wanted, path) is None)
    lacks += bool(match.get("methods")) and call.method not in match["methods"]
    for header in match.get("headers", []):
        for name, wanted in header.items():
            value = _header(call, name)
            lacks += value is None or re.fullmatch(wanted, value) is None
    return lacks
