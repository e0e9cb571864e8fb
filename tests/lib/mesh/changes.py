"""Random sequences of legal changes of one small mesh, and the calls that they are about.

The machines, their accounts and their addresses stay. Each change writes or deletes one object, or does
something to a controller or a proxy, so that any part of a sequence is legal too.
"""

import collections
import copy

from lib.mesh import objects
from lib.mesh.reference import CLUSTER, DENIED, Call, Reference, gateway, outside

# name: (namespace, account, address)
CLIENTS = {"buyer": ("clients", "a", "10.200.0.11"), "reader": ("clients", "b", "10.200.0.12")}
# name: (namespace, account, address, version, the number of its port `rest`)
SERVERS = {
    "api-1": ("shop", "api", "10.200.0.21", "v1", 8080),
    "api-2": ("shop", "api", "10.200.0.22", "v1", 8080),
    "api-3": ("shop", "api", "10.200.0.23", "v1", 8080),
    "next-1": ("shop", "next", "10.200.0.24", "v2", 9080),
}
HTTP_PORTS, TCP_PORTS = (8080, 8081, 9080), (7000,)  # of every server
OUTSIDE, GATEWAY = "10.200.0.1", "10.200.0.2"
OUTSIDE_PORTS = {9000: "http", 9001: "tcp"}

_REST = {"name": "http", "port": 80, "targetPort": "rest"}
_ADMIN = {"name": "http-admin", "port": 81, "targetPort": 8081}
_EVENTS = {"name": "tcp-events", "port": 7000, "targetPort": 7000}
# name: (cluster IP, selector, ports)
_SERVICES = {
    "api": ("10.96.0.10", {"app": "api"}, (_REST, _ADMIN, _EVENTS)),
    "api-v1": ("10.96.0.11", {"version": "v1"}, (_REST, _ADMIN, _EVENTS)),
    "api-v2": ("10.96.0.12", {"version": "v2"}, (_REST, _ADMIN, _EVENTS)),
    "pool": ("10.96.0.13", {"pool": "yes"}, (_REST,)),
    "extra": ("10.96.0.14", {"version": "v1"}, (_REST,)),
    "peers": (None, {"app": "api"}, ({"name": "http", "port": 8090, "targetPort": "rest"},)),
}
_HTTP = (
    ("GET", "/books", {}),
    ("GET", "/papers/x/price", {}),
    ("POST", "/buy", {}),
    ("GET", "/admin", {"x-role": "admin"}),
    ("GET", "/elsewhere", {}),
)
# Short, since the logs of hundreds of sequences are kept.
_LOG = (
    "%START_TIME% %REQ(:AUTHORITY)%%REQ(:PATH)% %RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% "
    "%UPSTREAM_HOST% %UPSTREAM_TRANSPORT_FAILURE_REASON% %CONNECTION_TERMINATION_DETAILS%"
)
_MOST = 2000  # limits are above the load

# `kind`: one of KINDS. `put`: an object to write; `delete`: one to delete; `act`: (verb, arguments) of what
# is no object. `waits`: until the change is applied, before the next one.
Step = collections.namedtuple("Step", "kind put delete act waits", defaults=(None, None, None, True))
# `start`: objects before the steps. `lagging`: the machine whose proxy is slow. `places`: {machine:
# controller}. `calls`: of the load.
Sequence = collections.namedtuple("Sequence", "start steps lagging places calls")


def key_of(made):
    return made["kind"], made["metadata"].get("namespace", ""), made["metadata"]["name"]


def base():
    """The mesh that a sequence begins with, before it is varied: {key: object}."""
    made = [objects.namespace(ns) for ns in ("clients", "shop")]
    for name, (ns, account, address) in CLIENTS.items():
        made += [objects.account(ns, account), objects.machine(ns, name, address, account)]
    for name, (ns, account, address, version, rest) in SERVERS.items():
        labels = {"app": "api", "version": version, "pool": "no" if name in ("api-3", "next-1") else "yes"}
        vm = objects.machine(ns, name, address, account, labels)
        vm["spec"]["ports"] = [{"name": "rest", "port": rest}]
        made += [objects.account(ns, account), vm]
    made += [
        objects.namespace("edge", labels={}),
        objects.account("edge", "gateway"),
        objects.machine("edge", "gateway-1", GATEWAY, "gateway", {"app": "gateways"}),
        objects.service("edge", "gateways", "10.96.0.99", 80),
        objects.mesh_config(featureFlags={"enableRetryPolicy": True}),
        objects.telemetry("osm-system", "short", format=_LOG),
        *(_service(name) for name in ("api", "api-v1", "api-v2", "pool")),
        objects.routes(
            "shop",
            "read",
            books={"pathRegex": "/books.*", "methods": ["GET"]},
            price={"pathRegex": "/papers/[^/]+/price", "methods": ["GET"]},
        ),
        objects.routes(
            "shop",
            "write",
            buy={"pathRegex": "/buy", "methods": ["POST"]},
            admin={"pathRegex": "/admin", "headers": [{"x-role": "adm.*"}]},
        ),
        objects.tcp_route("shop", "events", 7000),
        _target("api-a", "api", "a", "read", "write"),
        _target("api-b", "api", "b", "read"),
        _target("next-a", "next", "a", "read", "write"),
        _target("next-b", "next", "b", "read"),
        *(
            objects.target("shop", f"{to}-tcp", to, [("clients", "a")], ("TCPRoute", "events", None))
            for to in ("api", "next")
        ),
    ]
    return {key_of(one): one for one in made}


def _service(name):
    address, selector, ports = _SERVICES[name]
    made = objects.service("shop", name, address or "None", 0, selector=dict(selector))
    made["spec"]["ports"] = [dict(port) for port in ports]
    return made


def _target(name, to, account, *groups):
    matches = {"read": ["books", "price"], "write": ["admin", "buy"]}
    return objects.target(
        "shop", name, to, [("clients", account)], *(("HTTPRouteGroup", group, matches[group]) for group in groups)
    )


def catalogue():
    """Every call that a load may make."""
    made = []
    for client in CLIENTS:
        for name, (address, _, ports) in _SERVICES.items():
            host = f"{name}.shop.{CLUSTER}"
            for port in ports:
                if address is None:
                    dialled = [(row[2], number) for row in SERVERS.values() for number in (port["port"], row[4])]
                else:
                    dialled = [(address, port["port"])]
                for where, number in dialled:
                    service = ("shop", name) if address is None else None
                    if port["name"].startswith("tcp"):
                        made.append(Call(client, where, number, "tcp"))
                        continue
                    made += [
                        Call(client, where, number, "http", method, path, headers, service=service, host=host)
                        for method, path, headers in (_HTTP if port is _REST else _HTTP[:1])
                    ]
        made += [
            Call(client, OUTSIDE, 9000, "http", "GET", path, host="pay.example.com") for path in ("/books", "/other")
        ]
        made.append(Call(client, OUTSIDE, 9001, "tcp"))
    made += [
        Call(gateway(GATEWAY), SERVERS[name][2], 8080, "http", "GET", "/books", machine=name, host="api.shop")
        for name in ("api-1", "api-2")
    ]
    return made


class World:
    """Answers of the objects of one era: lib.mesh.reference, and where it knows no answer."""

    def __init__(self, held):
        self._reference = Reference(list(held.values()))
        config = copy.deepcopy(held["MeshConfig", "osm-system", "osm-mesh-config"])
        config["spec"]["traffic"]["enablePermissiveTrafficPolicyMode"] = True
        self._without_policy = Reference(list({**held, key_of(config): config}.values()))
        self._machines = {name for kind, _, name in held if kind == "VirtualMachine"}

    def outcomes(self, call):
        """A set of DENIED and (machine, port), or None."""
        if self._is_denied(call.machine or call.client) and (call.machine or call.address == OUTSIDE):
            return None  # a denied proxy keeps an older configuration
        return _real(self._reference.outcomes(call))

    def offered(self, call):
        """(machine, port) pairs to which the client's proxy may send the call, if policy allows that."""
        return _real(self._without_policy.outcomes(call)) - {DENIED}

    def refused(self, call):
        """(machine, port) pairs whose proxies refuse the call by policy."""
        if call.machine or call.address == OUTSIDE:
            return frozenset()
        ports = TCP_PORTS if call.kind == "tcp" else HTTP_PORTS
        if self._reference.permissive and not self._is_denied(call.client):
            return frozenset()
        return frozenset(
            (name, port)
            for name in SERVERS
            for port in ports
            if self._is_denied(call.client) or not self._reference.targets(call, name, port)
        )

    def passes(self, call):
        """True if the client's proxy lets the call out as TCP to a machine of the mesh."""
        return call.machine is None and self._reference.lets_out(call)

    def denied(self):
        return frozenset(name for name in (*CLIENTS, *SERVERS) if self._is_denied(name))

    def _is_denied(self, machine):
        return machine in self._machines and self._reference.is_denied(machine)


def _real(outcomes):
    """Outside of the mesh nobody answers but at OUTSIDE_PORTS."""
    nobody = {one for one in outcomes if one[0].startswith(outside("")) and one[1] not in OUTSIDE_PORTS}
    return (outcomes - nobody) | ({DENIED} if nobody else set())


def deciders(call):
    """Machines whose proxies decide about a call."""
    if call.machine:
        return frozenset({call.machine})
    return frozenset({call.client} if call.address == OUTSIDE else {call.client, *SERVERS})


def apply(held, step):
    """The objects after a step."""
    after = dict(held)
    if step.put:
        after[key_of(step.put)] = step.put
    if step.delete:
        after.pop(key_of(step.delete), None)
    return after


def draw(rng, controllers, steps=23, calls=16):
    """A Sequence over these controllers, with at least so many changes of objects."""
    held = base()
    for _ in range(rng.randint(0, 6)):
        held = apply(held, _Change(rng, held).make(rng.choice(sorted(_STILL))))
    # Kinds that change what everybody may do are taken back soon.
    names = rng.sample(sorted(KINDS - _BRIEF), steps - 2 * len(_BRIEF))
    for brief in sorted(_BRIEF):
        at = rng.randint(0, len(names) - 2)
        names[at:at] = [brief]
        names.insert(at + rng.randint(2, 4), brief)
    made, now = [], held
    for name in names:
        step = _Change(rng, now).make(name)
        made.append(step._replace(waits=rng.random() < 0.4))
        now = apply(now, step)
    machines = [*CLIENTS, *SERVERS]
    restarted = rng.choice(controllers)
    how = rng.choice(("SIGTERM", "SIGKILL"))
    made.insert(rng.randint(2, len(made) // 2), Step("restart", act=("restart", restarted, how), waits=False))
    made.insert(rng.randint(2, len(made)), Step("move", act=("move", rng.choice(machines)), waits=False))
    made.insert(rng.randint(2, len(made)), Step("rotate", act=("rotate", rng.choice(machines)), waits=False))
    places = {name: rng.choice(controllers) for name in machines}
    return Sequence(held, made, rng.choice(machines), places, _chosen(rng, held, made, calls))


def _chosen(rng, held, steps, count):
    """Calls that are mostly allowed; some whose answer changes, and some others."""
    worlds = [World(held)]
    for step in steps:
        if not step.act:
            held = apply(held, step)
            worlds.append(World(held))
    allowed, changing, others = [], [], []
    for call in catalogue():
        answers = [world.outcomes(call) for world in worlds]
        good = sum(1 for answer in answers if answer and DENIED not in answer)
        group = allowed if good > len(worlds) * 0.7 else changing if good else others
        group.append(call)
    made = []
    for group, share in ((allowed, 0.5), (changing, 0.35), (others, 0.15)):
        made += rng.sample(group, min(len(group), round(count * share)))
    return made


class _Change:
    """Makes one step of a kind, from the objects that are there."""

    def __init__(self, rng, held):
        self.rng, self.held = rng, held

    def make(self, kind):
        put, delete = getattr(self, kind)()
        return Step(kind, put, delete)

    def _copy(self, kind, ns, name):
        return copy.deepcopy(self.held[kind, ns, name])

    def _there(self, kind, ns, name):
        return (kind, ns, name) in self.held

    def _toggle(self, made):
        """The object is deleted if it is there, and else written."""
        return (None, made) if key_of(made) in self.held else (made, None)

    def _edit_or_toggle(self, made):
        """It is written, or deleted one time in three if it is there."""
        if key_of(made) in self.held and (self.held[key_of(made)] == made or self.rng.random() < 0.33):
            return None, made
        return made, None

    # -- permissions ----------------------------------------------------------------------------
    def target_sources(self):
        names = [name for kind, _, name in sorted(self.held) if kind == "TrafficTarget"]
        made = self._copy("TrafficTarget", "shop", self.rng.choice(names))
        sources = made["spec"]["sources"]
        account = self.rng.choice(("a", "b"))
        left = [source for source in sources if source["name"] != account]
        if len(left) < len(sources) and left:
            made["spec"]["sources"] = left
        elif len(left) == len(sources):
            sources.append({"kind": "ServiceAccount", "name": account, "namespace": "clients"})
        else:
            sources.append({"kind": "ServiceAccount", "name": "b" if account == "a" else "a", "namespace": "clients"})
        return made, None

    def target_rules(self):
        to, account = self.rng.choice(("api", "next")), self.rng.choice(("a", "b"))
        groups = self.rng.choice((("read",), ("read", "write"), ("write", "read")))
        made = _target(f"{to}-{account}", to, account, *groups)
        if self.rng.random() < 0.3:
            made["spec"]["rules"][0]["matches"] = made["spec"]["rules"][0]["matches"][:1]
        return made, None

    def target(self):
        to, account = self.rng.choice(("api", "next")), self.rng.choice(("a", "b"))
        return self._toggle(_target(f"{to}-{account}", to, account, "read"))

    def target_spare(self):
        made = _target("spare", self.rng.choice(("api", "next")), self.rng.choice(("a", "b")), "read", "write")
        return self._edit_or_toggle(made)

    def target_tcp(self):
        name = self.rng.choice(("api", "next"))
        made = objects.target("shop", f"{name}-tcp", name, [("clients", "a")], ("TCPRoute", "events", None))
        return self._toggle(made)

    def routes_edit(self):
        made = objects.routes(
            "shop",
            "read",
            books={
                "pathRegex": self.rng.choice(("/books", "/books.*", "/(books|papers)")),
                "methods": self.rng.choice((["GET"], ["GET", "HEAD"])),
            },
            price={"pathRegex": self.rng.choice(("/papers/[^/]+/price", "/papers/.*", "/elsewhere"))},
        )
        return made, None

    def routes(self):
        group = base()["HTTPRouteGroup", "shop", "write"]
        return self._toggle(group)

    def tcp_route(self):
        made = objects.tcp_route("shop", "events", *self.rng.choice(((7000,), (7000, 7002), (7002,), (7000, 8080))))
        return self._edit_or_toggle(made)

    def permissive(self):
        return self._mesh_config("traffic", "enablePermissiveTrafficPolicyMode")

    def denylist(self):
        if self._there("Denylist", "osm-system", "stolen"):
            return None, objects.denylist("stolen")
        return objects.denylist("stolen", [self.rng.choice((("clients", "b"), ("shop", "next")))]), None

    # -- traffic --------------------------------------------------------------------------------
    def split(self):
        return self._toggle(objects.split("shop", "api", "api", api_v1=50, api_v2=50))

    def split_weights(self):
        weights = self.rng.choice(((90, 10), (10, 90), (100, 0), (0, 100), (50, 50)))
        return objects.split("shop", "api", "api", api_v1=weights[0], api_v2=weights[1]), None

    def setting(self):
        name = self.rng.choice(("api", "pool", "api-v1"))
        spec = self.rng.choice(
            (
                {"connectionSettings": {"http": {"maxRequests": _MOST, "maxPendingRequests": _MOST}}},
                {"connectionSettings": {"tcp": {"maxConnections": _MOST, "connectTimeout": "5s"}}},
                {"connectionSettings": {"http": {"applicationIdleTimeout": "5s", "maxRequestsPerConnection": 50}}},
                {"rateLimit": {"local": {"http": {"requests": _MOST, "unit": "second", "burst": _MOST}}}},
                {"rateLimit": {"local": {"tcp": {"connections": _MOST, "unit": "second", "burst": _MOST}}}},
                {"httpRoutes": [{"path": "/books", "rateLimit": {"local": {"requests": _MOST, "unit": "second"}}}]},
            )
        )
        return self._edit_or_toggle(objects.upstream_setting("shop", name, f"{name}.shop.{CLUSTER}", **spec))

    def retry(self):
        account = self.rng.choice(("a", "b"))
        made = objects.retry(
            "clients", f"retry-{account}", account, [("shop", "api-v2")], numRetries=self.rng.randint(1, 5)
        )
        return self._edit_or_toggle(made)

    # -- Services and machines ------------------------------------------------------------------
    def service(self):
        return self._toggle(_service("extra"))

    def headless(self):
        return self._toggle(_service("peers"))

    def service_port(self):
        made = self._copy("Service", "shop", self.rng.choice(("api", "api-v1", "api-v2")))
        ports = made["spec"]["ports"]
        left = [port for port in ports if port["name"] != _ADMIN["name"]]
        made["spec"]["ports"] = left if len(left) < len(ports) else [*ports, dict(_ADMIN)]
        return made, None

    def target_port(self):
        made = self._copy("Service", "shop", "pool")
        port = made["spec"]["ports"][0]
        port["targetPort"] = "rest" if port["targetPort"] == 8081 else 8081
        return made, None

    def selector(self):
        made = self._copy("Service", "shop", "pool")
        wide = made["spec"]["selector"] == {"version": "v1"}
        made["spec"]["selector"] = {"pool": "yes"} if wide else {"version": "v1"}
        return made, None

    def paths(self):
        made = self._copy("Service", "shop", self.rng.choice(("pool", "api-v1")))
        made["metadata"]["annotations"] = {
            "openservicemesh.io/http-paths": self.rng.choice(("strict", "normalize", "unchecked")),
            "openservicemesh.io/http-header-names": self.rng.choice(("strict", "unchecked")),
        }
        return made, None

    def machine(self):
        made = self._copy("VirtualMachine", "shop", self.rng.choice(("api-2", "api-3")))
        labels = made["metadata"]["labels"]
        labels["pool"] = "no" if labels["pool"] == "yes" else "yes"
        return made, None

    def version(self):
        """One machine leaves the Service api-v1, or comes back."""
        made = self._copy("VirtualMachine", "shop", "api-3")
        labels = made["metadata"]["labels"]
        labels["version"] = "v0" if labels["version"] == "v1" else "v1"
        return made, None

    def providers(self):
        made = {
            "apiVersion": "workload.openservicemesh.io/v1alpha1",
            "kind": "ServiceProvider",
            "metadata": {"name": "pool", "namespace": "shop"},
            "spec": {"service": "pool", "providers": [{"name": "vm", "weight": self.rng.randint(1, 9)}]},
        }
        return self._edit_or_toggle(made)

    def account(self):
        return self._toggle(objects.account("shop", "another"))

    # -- in and out -----------------------------------------------------------------------------
    def egress(self):
        made = objects.egress(
            "clients",
            "pay",
            self.rng.choice((["a"], ["a", "b"])),
            self.rng.choice(({9000: "http"}, {9000: "http", 9001: "tcp"}, {9001: "tcp"})),
            ["pay.example.com"],
            [f"{OUTSIDE}/32"],
            self.rng.choice(((), ("paid",))),
        )
        return self._edit_or_toggle(made)

    def egress_routes(self):
        """Routes of an Egress."""
        return objects.routes("clients", "paid", pay={"pathRegex": self.rng.choice(("/books", "/.*"))}), None

    def enable_egress(self):
        return self._mesh_config("traffic", "enableEgress")

    def ingress(self):
        sources = self.rng.choice(
            ((("IPRange", f"{GATEWAY}/32"),), (("Service", "gateways", "edge"),), (("IPRange", "192.0.2.0/24"),))
        )
        ports = self.rng.choice(((8080,), (8080, 8081)))
        backends = {("api-v1", port): {"protocol": "http"} for port in ports}
        return self._edit_or_toggle(objects.ingress_backend("shop", "gateway", backends, *sources))

    # -- the mesh -------------------------------------------------------------------------------
    def _mesh_config(self, section, field):
        made = self._copy("MeshConfig", "osm-system", "osm-mesh-config")
        settings = made["spec"].setdefault(section, {})
        settings[field] = not settings.get(field, False)
        return made, None

    def health_checks(self):
        return self._mesh_config("featureFlags", "enableEnvoyActiveHealthChecks")

    def wasm_stats(self):
        return self._mesh_config("featureFlags", "enableWASMStats")

    def tls(self):
        made = self._copy("MeshConfig", "osm-system", "osm-mesh-config")
        sidecar = made["spec"].setdefault("sidecar", {})
        sidecar["tlsMinProtocolVersion"] = "TLSv1_3" if sidecar.get("tlsMinProtocolVersion") != "TLSv1_3" else "TLSv1_2"
        return made, None

    def headers(self):
        made = self._copy("MeshConfig", "osm-system", "osm-mesh-config")
        made["spec"].setdefault("sidecar", {})["headers"] = {"maxCount": self.rng.choice((100, 120, 150))}
        return made, None

    def telemetry(self):
        exports = {"openTelemetry": {"extensionService": {"namespace": "shop", "name": "collector"}}}
        made = objects.telemetry(
            "shop",
            "logs",
            self.rng.choice((None, {"version": "v1"})),
            format=f"{self.rng.choice((1, 2))} {_LOG}",
            **self.rng.choice(({}, exports)),
        )
        return self._edit_or_toggle(made)

    def extension(self):
        """A collector that nobody runs: no request waits for it."""
        return self._edit_or_toggle(
            objects.extension_service("shop", "collector", OUTSIDE, self.rng.choice((4317, 4318)))
        )

    def root(self):
        """A root that is trusted and never signs, so it can be taken back at any time."""
        return self._toggle(objects.root("next", "passive"))


KINDS = frozenset(name for name in vars(_Change) if not name.startswith("_") and name != "make")
_BRIEF = frozenset({"permissive", "enable_egress", "denylist"})
_STILL = KINDS - _BRIEF  # kinds that vary the mesh before the steps
