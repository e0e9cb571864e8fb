"""Random policy sets over one small mesh, and random calls that they decide about.

The machines, their accounts and their addresses stay; everything else is drawn. `outsider` is the
source of no TrafficTarget, though its account has the name of another one.
"""

import collections
import itertools

from lib.mesh import objects
from lib.mesh.reference import CLUSTER, Call, gateway

CLIENTS = {
    "client-a": ("clients", "a", "10.200.0.11"),
    "client-b": ("clients", "b", "10.200.0.12"),
    "outsider": ("others", "a", "10.200.0.13"),
}
# name: (namespace, account, address, version, the number of its port `rest`). Two accounts have one name.
SERVERS = {
    "api-1": ("shop", "api", "10.200.0.21", "v1", 8080),
    "api-2": ("shop", "api-next", "10.200.0.22", "v2", 9080),
    "store-1": ("store", "api", "10.200.0.23", "v1", 8080),
}
HTTP_PORTS, TCP_PORTS = (8080, 8081, 9080), (7000, 7002, 7003)  # of every server
OUTSIDE_ADDRESSES = ("10.200.0.1", "10.200.0.2")  # each has these ports, and is a gateway
OUTSIDE_PORTS = {9000: "http", 9002: "http", 9001: "tcp"}
# A name in full would be looked up without `ipAddresses`, and nobody here answers for it.
OUTSIDE_HOSTS = ("pay.example.com", "a.pay.example.com", "books.example.org", "10.200.0.1")
EGRESS_HOSTS = ("pay.example.com", "*.example.com", "*.pay.example.com", "books.example.org:9000")
NETWORKS = ("10.200.0.1/32", "10.200.0.2/32", "10.200.0.0/30", "192.0.2.0/24")
# A Service outside of the mesh: its machine has no sidecar.
GATEWAYS = ("edge", "gateways", "10.200.0.2")
# Service: the target ports that an IngressBackend may name.
BACKENDS = {
    ("shop", "api"): (8081,),
    ("shop", "api-v1"): (8080, 8081),
    ("shop", "api-v2"): (9080,),
    ("shop", "api-odd"): (9080,),
    ("store", "store"): (8080, 8081),
}

_REST = {"name": "http", "port": 80, "targetPort": "rest"}
_ADMIN = {"name": "http-admin", "port": 81, "targetPort": 8081}
_EVENTS = {"name": "tcp-events", "port": 7000, "targetPort": 7000}
_RAW = {"name": "raw", "port": 7001, "targetPort": 7002, "appProtocol": "tcp"}
_ODD = {"name": "tcp-odd", "port": 81, "targetPort": 7003}  # 81 is HTTP in the apex
# Of a headless Service: numbers that no workload has, so that both ways to dial one differ.
_PEER = {"name": "http", "port": 8090, "targetPort": "rest"}
_PEER_EVENTS = {"name": "tcp-events", "port": 7010, "targetPort": 7000}
PEERS = ("shop", "peers")
# (namespace, name): (cluster IP, or None of a headless Service, selector, ports)
SERVICES = {
    ("shop", "api"): ("10.96.0.10", {"app": "api"}, (_REST, _ADMIN, _EVENTS, _RAW)),
    ("shop", "api-v1"): ("10.96.0.11", {"version": "v1"}, (_REST, _ADMIN, _EVENTS, _RAW)),
    ("shop", "api-v2"): ("10.96.0.12", {"version": "v2"}, (_REST, _EVENTS)),
    ("shop", "api-odd"): ("10.96.0.13", {"version": "v2"}, (_REST, _ODD)),
    ("store", "store"): ("10.96.0.20", {"app": "store"}, (_REST, _ADMIN, _EVENTS, _RAW)),
    PEERS: (None, {"app": "api"}, (_PEER, _PEER_EVENTS)),
}

# pathRegex: paths that it accepts
PATHS = {
    None: ("/", "/anything"),
    ".*": ("/x/y", "/books"),
    "/books": ("/books",),
    "/books/.*": ("/books/1", "/books/", "/books/a/b"),
    "/books.*": ("/books", "/bookshelf/2"),
    "/books/[0-9]+": ("/books/42",),
    "/(books|papers)": ("/books", "/papers"),
    r"/a\.b": ("/a.b",),
    "/papers/[^/]+/price": ("/papers/x/price",),
    "/[a-z]{3}": ("/abc",),
    "/papers(/.*)?": ("/papers", "/papers/x/price"),
    r"/\w+/\d+/?": ("/books/7", "/papers/7/"),
}
OTHER_PATHS = (
    "/axb",
    "/Books",
    "/books/x42",
    "/papers/x/y/price",
    "/booksx",
    "/x/books",
    "/books?x=/papers",
    "/papers/1?y=//..",
    "/books/../papers",
    "/books/./1",
    "/books//1",
    "//books",
    "/books/..",
    "/papers/../books/1",
    "/books/%31",
    "/%62ooks",
    "/books/a%2Fb",
    "/books/a%5Cb",
    "/books/%2e%2E/papers",
    "/books/a%20b",
    "/books/%23",
    "/books/%3fx",
    "/books/%252e%252e/1",
)
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD")
# header: {expression: values that it accepts}
HEADERS = {
    "x-level": {"gold": ("gold",), "(gold|silver)": ("silver",), "g.*": ("green",)},
    "x-role": {".*": ("any", ""), "adm[a-z]+": ("admin",)},
}

# Values of `upgrade`. Proxies give a WebSocket, and answer a request for HTTP/2 or TLS as if it did not ask.
UPGRADES = ("websocket", "WebSocket", "TLS/1.2", "h2c", "x", "websocket, x", "TLS/1.2, websocket", "tls/1.0, h2c")

PolicySet = collections.namedtuple("PolicySet", "objects calls")


def fixed():
    """The objects that every set has."""
    made = [
        objects.namespace(ns) for ns in sorted({row[0] for row in itertools.chain(CLIENTS.values(), SERVERS.values())})
    ]
    for name, (ns, account, address) in CLIENTS.items():
        made += [objects.account(ns, account), objects.machine(ns, name, address, account)]
    for name, (ns, account, address, version, rest) in SERVERS.items():
        labels = {"app": name.split("-")[0], "version": version}
        vm = objects.machine(ns, name, address, account, labels)
        vm["spec"]["ports"] = [{"name": "rest", "port": rest}]
        made += [objects.account(ns, account), vm]
    edge, gateways, address = GATEWAYS
    made += [
        objects.namespace(edge, labels={}),
        objects.account(edge, "gateway"),
        objects.machine(edge, "gateway-1", address, "gateway", {"app": gateways}),
        objects.service(edge, gateways, "10.96.0.99", 80),
    ]
    return made


def draw(rng, calls):
    """One PolicySet with so many calls."""
    return _Drawing(rng).policy_set(calls)


class _Drawing:
    def __init__(self, rng):
        self.rng, self.targets, self.egresses = rng, [], []
        self.denied = []  # accounts
        self.services_here = dict(SERVICES)
        self.groups, self.tcp_routes = {}, {}  # namespace: {name: object}

    def chance(self, share):
        return self.rng.random() < share

    def some(self, of, least, most):
        of = list(of)
        return self.rng.sample(of, self.rng.randint(least, min(most, len(of))))

    def policy_set(self, calls):
        flags = {"enableRetryPolicy": self.chance(0.8)}
        made = [objects.mesh_config(permissive=self.chance(0.1), egress=self.chance(0.3), featureFlags=flags)]
        if self.chance(0.4):
            del self.services_here[PEERS]
        if self.chance(0.25):
            made.append(self.denylist())
        for ns in ("shop", "store"):
            made += self.services(ns) + self.routes(ns)
        for ns in ("clients", "others"):
            made += self.routes(ns)
        self.egresses = [self.egress(f"egress-{n}") for n in range(self.rng.randint(0, 4))]
        made += self.egresses
        made += [self.ingress(ns, f"ingress-{n}") for ns in ("shop", "store") for n in range(self.rng.randint(0, 2))]
        self.targets = [self.target(number) for number in range(self.rng.randint(2, 6))]
        made += self.targets
        if self.chance(0.5):
            made.append(self.split())
        made += self.retries() + self.settings()
        return PolicySet(made, [self.answerable_call() for _ in range(calls)])

    # -- objects --------------------------------------------------------------------------------
    def services(self, ns):
        paths = self.rng.choices(("strict", "normalize", "unchecked"), (6, 1, 1))[0]
        names = self.rng.choices(("strict", "unchecked"), (6, 1))[0]
        made = []
        for (where, name), (address, selector, ports) in self.services_here.items():
            if where == ns:
                service = objects.service(ns, name, address or "None", 0, selector=selector)
                service["spec"]["ports"] = list(ports)
                service["metadata"]["annotations"] = {
                    "openservicemesh.io/http-paths": paths,
                    "openservicemesh.io/http-header-names": names,
                }
                made.append(service)
        return made

    def routes(self, ns):
        self.groups[ns] = {
            name: objects.routes(ns, name, **{f"m{i}": self.match() for i in range(self.rng.randint(1, 4))})
            for name in ("g1", "g2")
        }
        ports = (8080, 8080, 8081, 9080, 7000, 7002, 7003, 80, 81, 7001)
        self.tcp_routes[ns] = {
            name: objects.tcp_route(ns, name, *sorted(set(self.some(ports, 1, 4)))) for name in ("t1", "t2")
        }
        self.tcp_routes[ns]["any"] = objects.tcp_route(ns, "any")
        if self.chance(0.5):
            self.tcp_routes[ns]["any"]["spec"]["matches"] = {}
        return [*self.groups[ns].values(), *self.tcp_routes[ns].values()]

    def match(self):
        made = {}
        path = self.rng.choice(list(PATHS))
        if path is not None:
            made["pathRegex"] = path
        if self.chance(0.6):
            made["methods"] = self.some(METHODS, 1, 2)
        if self.chance(0.3):
            made["headers"] = [{name: self.rng.choice(list(HEADERS[name]))} for name in self.some(HEADERS, 1, 2)]
        return made

    def target(self, number):
        ns, account = self.rng.choice([row[:2] for row in SERVERS.values()])
        sources = [("clients", "a"), ("clients", "a"), ("clients", "b"), ("clients", "b"), ("shop", "a")]
        rules = [
            ("HTTPRouteGroup", name, sorted(self.some(("m0", "m1", "m2", "unknown"), 2, 4)))
            for name in self.some(("g1", "g2", "missing"), 0, 2)
        ]
        if not rules or self.chance(0.4):
            names = self.rng.choices((("t1",), ("t2",), ("any",), ("t1", "t2"), ("t1", "missing")), (4, 4, 1, 1, 1))[0]
            rules += [("TCPRoute", name, None) for name in names]
        self.rng.shuffle(rules)
        return objects.target(ns, f"target-{number}", account, self.some(sources, 1, 2), *rules)

    def split(self):
        weights = {
            name: self.rng.choice((0, 1, 1, 50))
            for name in self.some(("api", "api_v1", "api_v2", "api_odd", "api_v9"), 1, 3)
        }
        apex = self.rng.choice(("api", "api.shop", "api.shop.svc:80", f"api.shop.{CLUSTER}"))
        return objects.split("shop", "split", apex, **weights)

    def retries(self):
        """Some name one Service twice: the first object by name counts."""
        made = []
        for number in range(self.rng.randint(0, 4)):
            ns, account = self.rng.choice([row[:2] for row in CLIENTS.values()])
            made.append(
                objects.retry(
                    ns, f"retry-{number}", account, self.some(SERVICES, 1, 3), retryOn="refused-stream", numRetries=1
                )
            )
        return made

    def settings(self):
        """Limits that no call here reaches."""
        made = []
        for number in range(self.rng.randint(0, 4)):
            ns, name = self.rng.choice(list(SERVICES))
            spec = {"rateLimit": {"local": {"http": {"requests": 100_000, "unit": "second"}}}}
            if self.chance(0.5):
                spec["connectionSettings"] = {"tcp": {"maxConnections": 1000}}
            made.append(objects.upstream_setting(ns, f"setting-{number}", f"{name}.{ns}.{CLUSTER}", **spec))
        return made

    def egress(self, name):
        ns, sources = self.rng.choice((("clients", ("a", "b")), ("others", ("a",))))
        ports = {
            number: self.rng.choice(
                ("http", "http", "http", "tcp") if kind == "http" else ("tcp", "tcp-server-first", "http")
            )
            for number, kind in self.rng.sample(sorted(OUTSIDE_PORTS.items()), self.rng.randint(1, 3))
        }
        hosts, addresses = ["10.200.0.1"], self.some(NETWORKS, 1, 2)
        if self.chance(0.7):
            hosts = self.some(EGRESS_HOSTS, 1, 3) if self.chance(0.9) else []
        else:
            addresses = []  # the sidecar looks the host up
        groups = self.some(("g1", "g2", "missing"), 1, 2) if self.chance(0.5) else []
        return objects.egress(ns, name, self.some(sources, 1, 2), ports, hosts, addresses, groups)

    def ingress(self, ns, name):
        ports = self.some(
            [(service, port) for (where, service), numbers in BACKENDS.items() if where == ns for port in numbers], 1, 3
        )
        sources = [("IPRange", network) for network in self.some(NETWORKS, 0, 2)]
        if not sources or self.chance(0.4):
            sources.append(("Service", GATEWAYS[1], GATEWAYS[0]))
        return objects.ingress_backend(ns, name, {port: {"protocol": "http"} for port in ports}, *sources)

    def denylist(self):
        # Two denied proxies could go on to call each other, by their older configurations.
        rows = self.rng.choice((CLIENTS, SERVERS)).values()
        self.denied = self.some(sorted({row[:2] for row in rows}), 1, 2)
        return objects.denylist("stolen", self.denied)

    # -- calls ----------------------------------------------------------------------------------
    def answerable_call(self):
        """One that the objects decide. A denied proxy keeps an older configuration: at its own
        machine, and for calls past the mesh, that decides."""
        while True:
            call = self.call()
            past_the_mesh = call.address in OUTSIDE_ADDRESSES and CLIENTS[call.client][:2] in self.denied
            at_denied = call.machine is not None and SERVERS[call.machine][:2] in self.denied
            if not past_the_mesh and not at_denied:
                return call

    def call(self):
        """Mostly one that a rule allows, or that differs from such a one in a single part."""
        if self.chance(0.08):
            return self.entering()
        call = self.granted() if self.chance(0.8) else self.any_call()
        if self.chance(0.35):
            call = self.changed(call)
        return self.past_the_proxy(call) if self.chance(0.25) else call

    def granted(self):
        spec = self.rng.choice(self.targets)["spec"]
        rule = self.rng.choice([r for r in spec["rules"] if r["name"] != "missing"] or spec["rules"])
        ns, account = spec["destination"]["namespace"], spec["destination"]["name"]
        source = spec["sources"][0]
        client = next((n for n, row in CLIENTS.items() if row[:2] == (source["namespace"], source["name"])), "client-a")
        kind = "http" if rule["kind"] == "HTTPRouteGroup" else "tcp"
        server = next(n for n, row in SERVERS.items() if row[:2] == (ns, account))
        service = self.rng.choice([key for key, row in self.services_here.items() if selects(row[1], key, server)])
        ports = [p for p in SERVICES[service][2] if is_tcp(p) == (kind == "tcp")]
        if not ports:
            return self.any_call()
        call = self.dial(client, service, self.rng.choice(ports), server)
        group = self.groups[ns].get(rule["name"])
        return self.matching(call, group) if kind == "http" and group else call._replace(method="GET")

    def matching(self, call, group):
        match = self.rng.choice(group["spec"]["matches"][:3])
        headers = {
            name: self.rng.choice(HEADERS[name][expression])
            for header in match.get("headers", [])
            for name, expression in header.items()
        }
        made = call._replace(
            method=self.rng.choice(match.get("methods", METHODS)),
            path=self.rng.choice(PATHS[match.get("pathRegex")]),
            headers=headers,
        )
        return self.repeated(made, self.rng.choice(list(headers))) if headers and self.chance(0.5) else made

    def dial(self, client, service, port, server):
        """A Service by its cluster IP; of a headless one `server`, at the Service's port or its own."""
        kind = "tcp" if is_tcp(port) else "http"
        if SERVICES[service][0] is not None:
            host = self.host(service, port["port"]) if kind == "http" and self.chance(0.2) else None
            return Call(client, SERVICES[service][0], port["port"], kind, host=host)
        number = self.rng.choice((port["port"], number_at(port, server)))
        return Call(client, SERVERS[server][2], number, kind, service=service)

    def host(self, service, port):
        """One of the Service's names, or a host that is none."""
        name = ".".join(reversed(service))
        return self.rng.choice(
            (
                f"{name}:{port}",
                f"{name}.",
                f"{name}.svc.:{port}",
                name.upper(),
                f"{name}.SVC.{CLUSTER}.",
                f"{name}..",
                f"{name}:{port}.",
                f"{name}.svc",
                f"{name}.{CLUSTER}",
                service[1],
                "store.store",
                "api-v1.shop.svc:80",
                "books.example.org",
            )
        )

    def spelled(self, host, port):
        """The host as it is, or as some clients write it."""
        if self.chance(0.6):
            return host
        return self.rng.choice((f"{host}.", host.upper(), f"{host}:{port}", f"{host}.:{port}"))

    def any_call(self):
        client = self.rng.choice(list(CLIENTS))
        if self.chance(0.5 if self.egresses else 0.15):
            return self.leaving(client)
        if self.chance(0.1):
            name = self.rng.choice(list(SERVERS))
            return Call(client, SERVERS[name][2], SERVERS[name][4], "http", "GET", "/books")
        service = self.rng.choice(list(self.services_here))
        port = self.rng.choice(SERVICES[service][2])
        server = self.rng.choice([name for name in SERVERS if SERVERS[name][0] == service[0]])
        call = self.dial(client, service, port, server)
        return self.changed(call._replace(method="GET", path="/books")) if call.kind == "http" else call

    def entering(self):
        """A call of a gateway, straight to a workload."""
        server = self.rng.choice(list(SERVERS))
        made = Call(
            gateway(self.rng.choice(OUTSIDE_ADDRESSES)),
            SERVERS[server][2],
            self.rng.choice(HTTP_PORTS),
            "http",
            self.rng.choice(METHODS),
            machine=server,
        )
        known = [path for paths in PATHS.values() for path in paths]
        made = made._replace(path=self.rng.choice(self.rng.choice((known, OTHER_PATHS))))
        return self.with_header(made) if self.chance(0.3) else made

    def leaving(self, client):
        """A call past the mesh, mostly one that an Egress is about."""
        address, port = self.rng.choice(OUTSIDE_ADDRESSES), self.rng.choice(list(OUTSIDE_PORTS))
        host = self.spelled(self.rng.choice(OUTSIDE_HOSTS), port)
        call = Call(client, address, port, OUTSIDE_PORTS[port], host=host)
        if call.kind == "tcp":
            return call
        named = [g for egress in self.egresses for g in egress["spec"].get("matches", []) if g["name"] != "missing"]
        groups = self.groups[CLIENTS[client][0]]
        if named and self.chance(0.7):
            return self.matching(call, groups[self.rng.choice(named)["name"]])
        return call._replace(method="GET", path="/books")

    def changed(self, call):
        part = self.rng.choice(("client", "path", "path", "method", "header", "header", "header", "port"))
        if part == "client":
            return call._replace(client=self.rng.choice(list(CLIENTS)))
        if part == "port":
            row = SERVICES.get(call.service) or next((r for r in SERVICES.values() if r[0] == call.address), None)
            same = [p["port"] for p in row[2] if is_tcp(p) == (call.kind == "tcp")] if row else []
            return call._replace(port=self.rng.choice(same or [call.port]))
        if call.kind == "tcp":
            return call
        if part == "path":
            known = [p for paths in PATHS.values() for p in paths]
            return call._replace(path=self.rng.choice(self.rng.choice((known, OTHER_PATHS))))
        if part == "method":
            return call._replace(method=self.rng.choice(METHODS))
        return self.with_header(call)

    def with_header(self, call):
        """The request with other headers: some are sent twice, and some ask for another protocol."""
        kind = self.rng.choices(("underscore", "upgrade", "repeated", "other"), (1, 4, 1, 2))[0]
        if kind == "underscore":
            return call._replace(headers=call.headers | {"x_level": "gold"})
        if kind == "upgrade":
            asked = {"connection": self.rng.choice(("Upgrade", "upgrade", "keep-alive"))}
            return call._replace(headers=call.headers | asked | {"upgrade": self.rng.choice(UPGRADES)})
        name = self.rng.choice(list(HEADERS))
        if kind == "repeated":
            return self.repeated(call, name)
        return call._replace(headers={name: self.rng.choice(_values(name))})

    def repeated(self, call, name):
        """The request with a header twice: behind the value that a rule accepts, if there is one."""
        kept = call.headers.get(name)
        again = kept if isinstance(kept, str) else self.rng.choice(_values(name)), self.rng.choice(_values(name))
        return call._replace(headers=call.headers | {name: again if self.chance(0.7) else again[::-1]})

    def past_the_proxy(self, call):
        """The same straight to a server, at one of its ports, or `call` if it names no Service."""
        service = call.service or next((key for key, row in SERVICES.items() if row[0] == call.address), None)
        if service is None:
            return call
        server = self.rng.choice([n for n, row in SERVERS.items() if row[0] == service[0]])
        port = next((p for p in SERVICES[service][2] if p["port"] == call.port), None)
        if port is None:  # dialled at the workload's own port
            return call
        return call._replace(address=SERVERS[server][2], port=number_at(port, server), machine=server, service=service)


def _values(name):
    """What calls may say in a header."""
    return [*(value for accepted in HEADERS[name].values() for value in accepted), "golden"]


def number_at(port, server):
    """The number that a server gives a Service's port."""
    return SERVERS[server][4] if port["targetPort"] == "rest" else port["targetPort"]


def is_tcp(port):
    return "tcp" in (port.get("appProtocol"), port["name"].split("-")[0])


def selects(selector, service, server):
    ns, _, _, version, _ = SERVERS[server]
    return service[0] == ns and selector.items() <= {"app": server.split("-")[0], "version": version}.items()
