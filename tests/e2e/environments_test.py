#!/usr/bin/python3
"""One mesh in a directory, in etcd and in Kubernetes: commands of `osm` answer the same in each, whichever
controller is asked."""

import collections
import json
import re
import time
import unittest

from lib.mesh import environments, meshcase, objects
from lib.mesh.xds_client import ENDPOINTS
from lib.net.processes import FairClock, NotYet, wait_for

WEB, API = "shop/web-1", "shop/api-1"
CLUSTER_IP, ADDRESS = "10.96.0.80", "10.1.0.2"  # of the Service, of the server
SHOP = objects.shop(CLUSTER_IP)
ORPHAN = objects.target("shop", "orphan", "api", [("shop", "api")], ("HTTPRouteGroup", "missing", ["read"]))
MORE = objects.books_for("more", "web", "api")
# Another account may read the books: only the server's proxy is sent something new.
WIDER = objects.target(
    "shop", "web-api", "api", [("shop", "web"), ("shop", "other")], ("HTTPRouteGroup", "books", ["read"])
)
# Another route of the server.
REFUSED = [
    objects.routes("shop", "songs", read={"pathRegex": "/songs.*", "methods": ["GET"]}),
    objects.target("shop", "songs", "api", [("shop", "web")], ("HTTPRouteGroup", "songs", ["read"])),
]
BOUND = 5  # seconds, after which an endpoint is announced without an acknowledgement
MARGIN = 2  # fair seconds for all else between the write and the client's proxy
# Another Service of the server, which its proxy does not serve yet.
LATE = objects.service("shop", "late", "10.96.0.81", 8081, selector={"app": "api"})
BROKEN = objects.target("shop", "broken", "api", [("shop", "web")], ("NoSuchKind", "books", ["read"]))

# -- what a command says, without what must differ ---------------------------------------------------
OF_A_STORE = {"uid", "generation", "creationTimestamp", "resourceVersion"}  # of an object's metadata
# Findings about the cluster itself; the exit code says that they are in order.
OF_A_CLUSTER = re.compile(
    r"(Kubernetes$|CustomResourceDefinitions$|(Deployment|\w+WebhookConfiguration|MeshConfig|Secret|Namespace|Pod) )"
)


def problems(answer):
    """Without the files and lines."""
    return sorted((p["severity"], p["object"], p["field"], p["code"]) for p in answer["problems"])


def decision(answer):
    return answer["allowed"], answer["reason"], problems(answer)


def explanation(answer):
    steps = [*answer["steps"], *(step for way in answer["ways"] for step in way["steps"])]
    ways = [(way["answer"], way["not_connected"]) for way in answer["ways"]]
    return answer["verdict"], ways, [(s["step"], s["effect"], s["object"]) for s in steps]


def owners(answer):
    """[object, code, the owner of its address] of all problems but one."""
    told = [p for p in answer["problems"] if p["object"] != DANGLING[1]]
    owner = re.compile(r".* already belongs to (.*?), so .*")
    return sorted((p["object"], p["code"], owner.sub(r"\1", p["cause"])) for p in told)


def progress(answer):
    """Without the generation, which each controller counts for itself."""
    lagging = [lag["workload"] for lag in answer["lagging"]]
    return answer["phase"], answer["concerned"], answer["applied"], lagging, answer["not_connected"]


def proxies(answer):
    """Without addresses, times, versions and the controllers' names."""
    connected = {p["name"]: {kind: t["state"] for kind, t in p["types"].items()} for p in answer["proxies"]}
    return connected, [(e["common_name"].partition(".")[2], e["claimed"]) for e in answer["expected"]]


def certificates(answer):
    """Each controller has one of its own, and on Kubernetes another one for its webhook."""
    return sorted({c["common_name"] for c in answer["certificates"] if c["usage"] != "webhook"})


def findings(answer):
    return [(f["verdict"], f["subject"], f["text"]) for f in answer["findings"] if not OF_A_CLUSTER.match(f["subject"])]


def document(answer):
    metadata = {name: value for name, value in answer["metadata"].items() if name not in OF_A_STORE}
    return {**answer, "metadata": metadata}


def participants(answer):
    names = {p["uuid"]: p["name"] for p in answer["proxies"]}
    return [names[uuid] for uuid in answer["participants"]]


def endpoints(answer):
    listed = [(e["address"], e["port"], e["service_port"], e["identity"], e["provider"]) for e in answer["endpoints"]]
    return answer["service"], answer["identities"], listed, answer["ingress"]


def services(answer):
    return [(s["service"], s["port"], s["target_port"]) for s in answer["services"]]


def identity(answer):
    return answer["mode"], answer["inbound"], answer["outbound"], services(answer)


def policies(answer):
    """Without the files and lines."""
    names = ("object", "source", "destination", "destination_services", "routes")
    return answer["mode"], [tuple(policy[name] for name in names) for policy in answer["policies"]]


def expected(answer):
    """The workloads and accounts of the proxies, without their UUIDs."""
    return sorted((e["common_name"].partition(".")[2], e["claimed"]) for e in answer["expected"])


def denied(answer):
    return [(d["kind"], d["name"], d["object"]) for d in answer["denied"]]


Command = collections.namedtuple("Command", "arguments view answer stdin", defaults=(None, None))
DANGLING = ("warning", "TrafficTarget shop/orphan", "spec.rules[0].name", "dangling-reference")
NOTHING = "HTTPRouteGroup shop/missing is not there, or is invalid and left out; this rule allows nothing"
CLIENT = {kind: "SYNCED" for kind in ("SDS", "CDS", "EDS", "LDS", "RDS")}
SERVER = {**CLIENT, "EDS": "NOT SENT"}  # its own application is at a fixed address
WARNED = ("warning", "TrafficTarget shop/orphan", f"spec.rules[0].name: {NOTHING}")
COUNTED = ("ok", "Controllers", "1 problems with objects, notices included")

PORT = ("shop/api", 80, 8080)  # of the Service, and its target

EXPLAIN = "policy explain shop/web shop/api --path /books -o json"
PATH = [
    ("source", "allows", "ServiceAccount shop/web"),
    ("destination", "allows", "Service shop/api"),
    ("client", "allows", "TrafficTarget shop/web-api"),
    ("endpoints", "allows", "Service shop/api"),
]
ALLOWED = [*PATH, ("server", "allows", "TrafficTarget shop/web-api")]
REACHED = f"policy lets the call reach {ADDRESS}:8080"

# {title: its command, its view, and (exit code, the view of its answer)}; a view `str` takes the text.
COMMANDS = {
    "policy check": Command(
        "policy check shop/web shop/api -o json",
        decision,
        (0, (True, "allowed by TrafficTarget shop/web-api: GET /books.*", [DANGLING])),
    ),
    "policy explain": Command(
        "policy explain shop/web shop/api -o json",
        explanation,
        (3, ("denied", [("404 from the sidecar", [])], [*PATH, ("server", "denies", "TrafficTarget shop/web-api")])),
    ),
    "policy explain of an allowed call": Command(EXPLAIN, explanation, (0, ("allowed", [(REACHED, [])], ALLOWED))),
    "problems": Command("problems -o json", problems, (0, [DANGLING])),
    "problems --strict": Command("problems --strict -o json", problems, (1, [DANGLING])),
    "status of an object without effect": Command(
        "status traffictarget shop/orphan -o json",
        lambda answer: (answer["phase"], answer["removed"], problems(answer)),
        (1, ("Rejected", False, [DANGLING])),
    ),
    "proxy list": Command(
        "proxy list -o json",
        proxies,
        (0, ({"shop/api-1": SERVER, "shop/web-1": CLIENT}, [("web-1.shop", True), ("api.shop", True)])),
    ),
    "status --wait": Command(
        "status traffictarget shop/web-api --wait --timeout 20s -o json", progress, (0, ("Applied", 2, 2, [], []))
    ),
    "check": Command("check -o json", findings, (0, [WARNED, COUNTED, ("ok", "Proxies", "2 are connected")])),
    "check --strict": Command("check --strict -o json", lambda answer: "findings" in answer, (1, True)),
    "participants": Command("proxy list -o json", participants, (0, [API])),
    "proxy list --expected": Command(
        "proxy list --expected -o json", expected, (0, [("api.shop", True), ("web-1.shop", True)])
    ),
    "service get": Command(
        "service get shop/api -o json",
        endpoints,
        (0, ("shop/api", ["shop/api"], [(ADDRESS, 8080, "http", "shop/api", "vm")], [])),
    ),
    "service get of an unknown one": Command("service get shop/gone -o json", endpoints, (1, None)),
    "identity get": Command("identity get shop/api -o json", identity, (0, ("SMI", ["shop/web"], [], [PORT]))),
    "identity get of a caller": Command("identity get shop/web -o json", identity, (0, ("SMI", [], ["shop/api"], []))),
    "policy list": Command(
        "policy list -o json",
        policies,
        (
            0,
            (
                "SMI",
                [
                    ("TrafficTarget shop/orphan", "shop/api", "shop/api", ["shop/api"], []),
                    ("TrafficTarget shop/web-api", "shop/web", "shop/api", ["shop/api"], ["GET /books.*"]),
                ],
            ),
        ),
    ),
    "get": Command("get traffictarget shop/web-api -o json", document, (0, SHOP[-1])),
    "get an account": Command("get serviceaccount shop/web -o json", document, (0, SHOP[1])),
}
STATUS = "status traffictarget shop/web-api --wait --timeout"
LAGS = Command(f"{STATUS} 1s -o json", progress, (5, ("Pending", 2, 1, [API], [])))
APPLIED = Command(f"{STATUS} 20s -o json", progress, (0, ("Applied", 2, 2, [], [])))
# The client's proxy has not acknowledged that the server's machine is drained.
DRAIN = "vm drain api-1 -n shop --timeout"
DRAIN_LAGS = Command(f"{DRAIN} 2s -o json", progress, (5, ("Pending", 2, 1, [WEB], [])))
DRAINED = Command(f"{DRAIN} 30s -o json", progress, (0, ("Applied", 2, 2, [], [])))
NOT_CONNECTED = f"{REACHED}, whose proxy is not connected"
AWAY = Command(EXPLAIN, explanation, (0, ("allowed", [(NOT_CONNECTED, [ADDRESS])], ALLOWED)))
# The Service that has the address.
DIALLED = Command(
    f"policy explain shop/web {CLUSTER_IP} --port 80 --host api.shop --path /books -o json",
    lambda answer: [(way["service"], way["addresses"]) for way in answer["ways"]],
    (0, [("shop/api", [ADDRESS])]),
)
DENIED = Command("deny list -o json", denied, (0, [("account", "shop/web", "Denylist osm-system/stolen")]))
# A denied account's proxies are not connected.
DENIAL = Command(
    "status denylist osm-system/stolen --wait --timeout 20s -o json", progress, (0, ("Applied", 1, 1, [], [WEB]))
)
CERTIFICATES = ["api.shop.cluster.local", "osm-controller.osm-system", "web.shop.cluster.local"]


class EnvironmentsTest:
    """The tests; a subclass names the environment. Each test finds the shop and two proxies, the
    client's at the first controller and the server's at the last."""

    maxDiff = None
    environment = None  # a class of lib.mesh.environments
    written_elsewhere = None  # the answer of `osm apply` where it does not write

    @classmethod
    def setUpClass(cls):
        cls.mesh, cls.failed = cls.environment(meshcase._programs), True
        cls.addClassCleanup(lambda: cls.mesh.stop(cls.failed))
        cls.mesh.start([*SHOP, ORPHAN])
        cls.first, cls.last = [list(cls.mesh.controllers)[n] for n in (0, -1)]
        cls.failed = False

    def setUp(self):
        self.addCleanup(self.note_failure)
        self.web = self.connect(WEB, self.first)
        self.api = self.connect(API, self.last)

    def connect(self, workload, at):
        proxy = self.mesh.connect_proxy(workload, at)
        self.addCleanup(proxy.close)
        return proxy

    def note_failure(self):
        result = self._outcome.result
        if any(getattr(test, "test_case", test) is self for test, _ in result.failures + result.errors):
            type(self).failed = True

    def ask(self, command, at=None):
        """(exit code, the view of the answer; None if there is only an error). Without `at`, as an
        operator asks."""
        code, out, err = self.mesh.osm(*command.arguments.split(), at=at, stdin=command.stdin)
        if command.view is str:
            return code, (out + err).replace(str(self.mesh.rig.mesh.path), "MESH")
        answer = json.loads(out)
        return code, None if "error" in answer else command.view(answer)

    def ways(self):
        """Ways to ask: each controller alone, and as an operator does."""
        return [*self.mesh.controllers, None]

    def expect(self, command, never=None):
        """Whichever controller is asked, the answer becomes this one, and never has the exit code
        `never`. What others report is a few seconds old."""
        for at in self.ways():

            def answers(at=at):
                answer = self.ask(command, at)
                self.assertNotEqual(answer[0], never, (at, answer))
                if answer != command.answer:
                    raise NotYet(answer)
                return True

            with self.subTest(command.arguments, at=at):
                wait_for(f"{at or 'the mesh'} answers {command.answer}", answers, 30)

    # -- tests ----------------------------------------------------------------------------------
    def test_commands_answer_the_same(self):
        for command in COMMANDS.values():
            self.expect(command)

    def test_a_participant_and_its_services_are_told_by_every_controller(self):
        answer = self.mesh.osm_json("proxy", "list", at=self.last)[1]
        [uuid] = [p["uuid"] for p in answer["proxies"] if p["name"] == API]
        self.expect(Command("proxy list --participants -o json", lambda told: told, (0, {"participants": [uuid]})))
        self.expect(Command(f"proxy services shop/{uuid} -o json", services, (0, [PORT])))

    def test_a_proxy_that_leaves_is_told_of_in_an_explanation(self):
        self.api.close()
        self.expect(AWAY)

    def test_certificates_of_all_controllers_are_the_same(self):
        asked = Command("certificate list -o json", certificates)
        found = {name for at in self.mesh.controllers for name in self.ask(asked, at)[1]}
        self.assertEqual(sorted(found), CERTIFICATES)

    def test_objects_are_written_by_the_command_or_it_names_the_way(self):
        apply = Command("apply -f -", str, (0, "TrafficTarget shop/more created\n"), json.dumps(MORE))
        delete = Command("delete traffictarget shop/more", str, (0, "TrafficTarget shop/more deleted\n"))
        for command, at in ((apply, self.first), (delete, self.last)):
            way = self.written_elsewhere
            self.assertEqual(self.ask(command, at), (2, f"osm: {way} [invalid-argument]\n") if way else command.answer)

    def test_status_waits_for_a_proxy_that_lags(self):
        self.addCleanup(self.mesh.write, *SHOP)
        self.api.fall_silent()
        self.mesh.write(WIDER)
        wait_for("the proxy is sent its new configuration", self.api.owes)
        self.expect(LAGS, never=0)
        self.api.acknowledge()
        wait_for("the proxy has answered", lambda: self.api.owes() == 0)
        self.expect(APPLIED)

    def test_a_drain_waits_for_a_client_that_lags(self):
        self.addCleanup(lambda: self.mesh.osm(*f"{DRAIN} 30s --undo".split()))
        self.web.fall_silent()
        self.ask(DRAIN_LAGS, self.last)  # at the controller that the client is not at
        wait_for("the client is sent its new endpoints", self.web.owes)
        self.expect(DRAIN_LAGS, never=0)
        self.web.acknowledge()
        self.expect(DRAINED)
        drained = [p for p in self.mesh.osm_json("problems")[1]["problems"] if p["object"].endswith(API)]
        self.assertEqual(len(drained), 1)
        self.expect(Command("problems -o json", problems, (0, sorted([DANGLING, *problems({"problems": drained})]))))

    def test_a_denied_account_is_denied_everywhere(self):
        stolen = objects.denylist("stolen", [("shop", "web")])
        self.mesh.write(stolen)
        self.addCleanup(self.mesh.delete, stolen)
        self.web.wait_until_ended()
        for command in (DENIAL, DENIED):
            self.expect(command)
        self.expect(Command("proxy list -o json", lambda answer: sorted(proxies(answer)[0]), (0, [API])))

    def test_every_metric_of_each_controller_has_its_help(self):
        for controller in self.mesh.controllers.values():
            status, text = controller.http("/metrics")
            kinds, helps = (set(re.findall(rf"^# {word} (\S+) \S", text, re.M)) for word in ("TYPE", "HELP"))
            self.assertEqual((status, kinds - helps), (200, set()), controller.name)
            self.assertGreater(len(kinds), 30)

    def test_a_real_envoy_is_configured_by_the_controller_that_a_test_names(self):
        machine = objects.machine("shop", "web-2", "10.200.0.12", "web", {"app": "web"})
        self.mesh.write(machine)
        self.addCleanup(self.mesh.delete, machine)
        envoy = self.mesh.start_envoy("shop/web-2", "10.200.0.12", at=self.last)
        self.addCleanup(envoy.stop_proxy)
        code, answer = self.mesh.osm_json("proxy", "list", at=self.last)
        self.assertIn("shop/web-2", [p["name"] for p in answer["proxies"]], code)
        self.assertIn("shop/api|8080", envoy.admin("/clusters")[1])

    def test_an_endpoint_waits_for_its_proxy_five_seconds_at_most(self):
        """The client's controller may not know yet that the server's proxy is connected; then it does not wait."""
        self.api.fall_silent()
        self.addCleanup(self.api.acknowledge)
        address = ADDRESS.encode()

        def known():
            return address in self.web.resources[ENDPOINTS].get("shop/late|8081", b"")

        def waited():
            begin, clock = time.monotonic(), FairClock()
            self.mesh.put(LATE)
            wait_for("the client's proxy has the endpoint", known, 30)
            took, fair = time.monotonic() - begin, clock.seconds()
            self.assertLess(fair, BOUND + MARGIN)
            self.mesh.delete(LATE)
            wait_for("the Service is gone", lambda: not known(), 20)
            if took < BOUND:
                raise NotYet(f"after {took:.3f} s")
            return True

        wait_for("an endpoint that waits", waited, 40)

    def test_a_refusal_is_told_with_the_words_of_the_proxy(self):
        self.addCleanup(self.mesh.delete, *REFUSED)
        self.api.refuse("not this one", responses=1)
        self.mesh.write(*REFUSED)

        def told():
            code, answer = self.mesh.osm_json("problems", at=self.last)
            causes = [p["cause"] for p in answer["problems"] if p["code"] == "refused-by-proxy"]
            if code != 1 or not causes:
                raise NotYet((code, answer))
            return causes

        self.assertIn(": shop/api-1 (", str(wait_for("the refusal", told, 20, interval=0.25)))
        self.assertIn("not this one", str(told()))
        every = self.ask(Command("problems -o json", problems), self.last)
        self.expect(Command("problems -o json", problems, every))

    def test_the_older_object_of_two_namespaces_keeps_an_address(self):
        """After a restart of all controllers too: those of etcd start without a state."""
        owner_of = {
            "VirtualMachine aaa/ghost": f"VirtualMachine {API}",
            "VirtualMachine aaa/shadow": "Service shop/api",
        }
        ghost, shadow = (objects.machine("aaa", n, at, n) for n, at in (("ghost", ADDRESS), ("shadow", CLUSTER_IP)))
        thief = objects.service("aaa", "thief", CLUSTER_IP, 80)
        started = time.time()
        wait_for("another second, which is Kubernetes' unit of age", lambda: time.time() >= started + 1)
        self.mesh.write(objects.namespace("aaa"), ghost, shadow)
        self.addCleanup(self.mesh.delete, ghost, shadow)
        if self.mesh.NAME == "kubernetes":
            with self.assertRaisesRegex(environments.Refused, "already allocated"):
                self.mesh.write(thief)
        else:
            self.mesh.write(thief)
            self.addCleanup(self.mesh.delete, thief)
            owner_of["Service aaa/thief"] = "Service shop/api"
        lost = sorted((loser, "conflicting-address", owner) for loser, owner in owner_of.items())
        owned = Command("problems -o json", owners, (1, lost))
        self.expect(owned)
        self.expect(DIALLED)
        for proxy in (self.web, self.api):
            proxy.close()
        self.mesh.restart()
        self.expect(owned)
        self.expect(DIALLED)

    def test_an_invalid_object_is_refused_or_left_out(self):
        if self.mesh.NAME == "directory":
            self.mesh.write(BROKEN)
            self.addCleanup(self.mesh.delete, BROKEN)
            code, answer = self.mesh.osm_json("problems")
            self.assertIn("TrafficTarget shop/broken", [p["object"] for p in answer["problems"]])
            self.assertEqual((code, self.mesh.osm("check")[0]), (1, 1))
            return
        with self.assertRaisesRegex(environments.Refused, r"spec\.rules\[0\]\.kind"):
            self.mesh.write(BROKEN)

    def test_a_controller_restarts_and_a_proxy_comes_back(self):
        stopped = self.mesh.controllers[self.last]
        self.assertEqual(stopped.stop(), 0)
        self.api.wait_until_ended()
        self.assertFalse(stopped.running())
        self.addCleanup(self.mesh.write, *SHOP)
        self.mesh.write(WIDER)
        stopped.start()
        self.assertEqual([line["message"] for line in stopped.log()].count("osm-controller started"), 2)
        self.connect(API, self.last)
        code, answer = self.mesh.osm_json("proxy", "list", at=self.last)
        self.assertIn(API, [p["name"] for p in answer["proxies"]], code)


class InADirectory(EnvironmentsTest, unittest.TestCase):
    environment = environments.Directory
    written_elsewhere = "this controller only reads the mesh's objects; edit the files in MESH"


class InEtcd(EnvironmentsTest, unittest.TestCase):
    environment = environments.Etcd


class InKubernetes(EnvironmentsTest, unittest.TestCase):
    environment = environments.Kubernetes
    written_elsewhere = "the mesh's objects are in Kubernetes; write them with kubectl"


if __name__ == "__main__":
    meshcase.main()
