#!/usr/bin/python3
"""Requests, connections and paths beyond an UpstreamTrafficSetting's limits are refused, in both modes;
refused requests take no token; a changed HTTP limit keeps open connections; a server that fails repeatedly
is left out for a while.

Each limit has numbers of its own: one that is written a second time as it was changes no route, and keeps its bucket.
"""

import contextlib
import http.client
import pathlib
import sys

from lib.kube import apps
from lib.mesh import meshcase, objects
from lib.mesh.rig import REFUSED
from lib.net.processes import FairClock, wait_for

APP = pathlib.Path(apps.__path__[0]) / "http_app.py"
HTTP, TCP = meshcase.PORT, 7000
HOST, APEX, ADDRESS = "server.server", "apex.server", "10.96.0.12"
CLUSTER = f"server/server|{HTTP}"
PLENTY = {"connections": 1000, "unit": "second"}


def hourly(requests, **more):
    """An HTTP limit that gives no token back while a test runs."""
    return {"requests": requests, "unit": "hour", **more}


def local(**limits):
    return {"rateLimit": {"local": limits}}


class Limits(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client, self.server = self.add_client_and_server()
        self.write_service()
        self.rig.mesh.write(
            "server.yaml",
            objects.service("server", "apex", "10.96.0.13", HTTP, selector={"app": "server"}),
            objects.split("server", "apex", "apex.server.svc.cluster.local", server=1),
            objects.routes("server", "routes", own={"pathRegex": "/own"}, work={"pathRegex": "/(work|lane|tries/.*)"}),
            objects.tcp_route("server", "ledger", TCP),
            *(
                objects.target("server", name, "server", [(source, source)], rule)
                for name, source, rule in (
                    ("work", "client", ("HTTPRouteGroup", "routes", ["work"])),
                    ("own", "server", ("HTTPRouteGroup", "routes", ["own"])),
                    ("ledger", "client", ("TCPRoute", "ledger", None)),
                )
            ),
        )
        self.start_mesh()
        self.server.run("app", sys.executable, str(APP), "--port", str(HTTP))
        self.start_ledger(self.server, TCP)
        for host in (HOST, APEX):
            self.wait_for_status(self.client, 200, host, "/work")
        self.wait_for_ledger()

    def write_service(self, **annotations):
        service = objects.service("server", "server", ADDRESS, HTTP)
        service["spec"]["ports"].append({"name": "tcp-ledger", "port": TCP, "targetPort": TCP})
        service["metadata"]["annotations"] = {
            f"openservicemesh.io/{name.replace('_', '-')}": value for name, value in annotations.items()
        }
        self.rig.mesh.write("service.yaml", service)

    def switch(self, permissive):
        """Changes the mode while no request is limited, so that the mode shows."""
        self.rig.mesh.write("config.yaml", objects.mesh_config(permissive))
        self.wait_for_status(self.client, 200 if permissive else 404, HOST, "/private")

    def set(self, name="limits", host=HOST, **spec):
        self.rig.mesh.write(f"{name}.yaml", objects.upstream_setting("server", name, host, **spec))

    def unset(self):
        self.rig.mesh.remove("limits.yaml")
        self.wait_for_status(self.client, 200, HOST, "/work")
        self.wait_for_ledger()

    def problems(self, name):
        return [
            (p["code"], p["severity"], p["field"])
            for p in self.rig.problems()
            if p["object"] == f"UpstreamTrafficSetting server/{name}"
        ]

    def send(self, path, host=HOST):
        """A connection to the client's sidecar with a request, whose answer is not read."""
        connection = http.client.HTTPConnection(host, HTTP, timeout=5)
        connection.auto_open = 0  # a connection that the sidecar closed is a failure
        connection.sock = self.client.namespace.connect(self.client.resolve(host), HTTP)
        connection.sock.settimeout(5)
        self.addCleanup(connection.close)
        connection.request("GET", path)
        return connection

    @staticmethod
    def receive(connection):
        """(status, headers) of the answer."""
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers

    def repeat(self, connection, times):
        """Statuses of so many requests on one connection, which stays open."""
        statuses = []
        for _ in range(times):
            connection.request("GET", "/work")
            statuses.append(self.receive(connection)[0])
        return statuses

    def ask(self, path, host=HOST):
        with contextlib.closing(self.send(path, host)) as connection:
            return self.receive(connection)

    def assert_limited(self, path, allowed, status=429, host=HOST):
        """So many requests are answered by the application, and further ones by the sidecar."""
        got = [self.ask(path, host)[0] for _ in range(allowed + 3)]
        self.assertEqual(got, [200] * allowed + [status] * 3)

    def assert_overloaded(self):
        status, headers = self.ask("/work")
        self.assertEqual((status, headers["x-envoy-overloaded"]), (503, "true"))

    def wait_for_one(self, gauge):
        wait_for(f"{gauge} is 1", lambda: self.stat(gauge) == 1)

    def stat(self, name):
        """Statistic of the Service's cluster in the client's Envoy."""
        return self.client.stats(f"{HTTP}.{name}$").get(f"cluster.{CLUSTER}.{name}")

    def kept(self):
        """Updates of the server's listeners, and connections that the client's sidecar opened."""
        return self.server.updates()["LDS"], self.stat("upstream_cx_total")

    def note(self):
        """An open connection to the ledger that it answered on, or REFUSED."""
        connection = self.client.namespace.connect(ADDRESS, TCP)
        self.addCleanup(connection.close)
        try:
            connection.sendall(b"x\n")
            if connection.recv(100):
                return connection
        except ConnectionError as closed:
            self.client.assert_live(closed)
        connection.close()
        return REFUSED

    def wait_for_ledger(self):
        wait_for("the ledger answers", lambda: self.ask_ledger(self.client, ADDRESS, TCP))

    def test_requests_beyond_a_rate_are_answered_by_the_servers_sidecar(self):
        for permissive, requests, status, added in ((False, 3, 429, {}), (True, 5, 507, {"x-limited": "yes"})):
            self.switch(permissive)
            with self.subTest("as many as rate and burst say", permissive=permissive):
                answer = (
                    {
                        "responseStatusCode": status,
                        "responseHeadersToAdd": [{"name": n, "value": v} for n, v in added.items()],
                    }
                    if added
                    else {}
                )
                self.set(**local(http=hourly(requests, burst=1, **answer)))
                if not permissive:  # none of these takes a token
                    self.assertEqual({self.ask("/private")[0] for _ in range(9)}, {404})
                    self.assertEqual({self.ask("/own")[0] for _ in range(9)}, {403})
                self.assert_limited("/work", requests + 1, status)
                self.assertEqual({n: self.ask("/work")[1][n] for n in added}, added)
            with self.subTest("a path has a bucket beside the Service's", permissive=permissive):
                self.set(
                    httpRoutes=[
                        {"path": "/lane", **local(**hourly(requests - 1))},
                        {"path": "/private", **local(**hourly(requests))},
                        {"path": "/la.*", **local(**hourly(1))},
                    ],
                    **local(http=hourly(requests + 4)),
                )
                self.assert_limited("/lane", requests - 1)
                self.assert_limited("/work", requests + 4)
                if not permissive:
                    self.assertEqual({self.ask("/private?x=1")[0] for _ in range(9)}, {403})
                    self.rig.mesh.write(
                        "all.yaml",
                        objects.routes("server", "all", all={"pathRegex": ".*"}),
                        objects.target(
                            "server", "all", "server", [("client", "client")], ("HTTPRouteGroup", "all", ["all"])
                        ),
                    )
                self.assert_limited("/private?x=1", requests)
            with self.subTest("a change and the end keep open connections", permissive=permissive):
                self.set(**local(http=hourly(100 + requests)))
                open_one = self.send("/work")
                self.assertEqual(self.receive(open_one)[0], 200)
                before = self.kept()
                self.set(**local(http=hourly(2, burst=requests)))
                self.assertEqual(self.repeat(open_one, requests + 3), [200] * (requests + 2) + [429])
                self.unset()
                self.assertEqual(self.repeat(open_one, 2), [200] * 2)
                self.assertEqual(self.kept(), before)
            if not permissive:
                self.rig.mesh.remove("all.yaml")
                self.wait_for_status(self.client, 404, HOST, "/private")
        with self.subTest("each host name of a Service has its own bucket"):
            self.set("apex", "apex.server.svc.cluster.local", **local(http=hourly(2)))
            self.set(**local(http=hourly(6)))
            self.assert_limited("/work", 2, host=APEX)
            self.assert_limited("/work", 6)
        with self.subTest("a setting without effect is told"):
            self.rig.mesh.write(
                "nobody.yaml", objects.upstream_setting("server", "nobody", "nobody.server", **local(http=hourly(1)))
            )
            self.set(
                httpRoutes=[
                    {"path": "/lane", "rateLimit": {"global": {"descriptors": [{"entries": [{"remoteAddress": {}}]}]}}}
                ]
            )
            self.assertEqual(
                self.problems("limits"), [("unused-field", "notice", "spec.httpRoutes[0].rateLimit.global")]
            )
            self.assertEqual([(p[0], p[2]) for p in self.problems("nobody")], [("dangling-reference", "spec.host")])
            self.assertEqual(self.ask("/work")[0], 200)

    def test_connections_beyond_a_rate_are_closed_by_the_servers_sidecar(self):
        for permissive, connections in ((False, 2), (True, 3)):
            with self.subTest(permissive=permissive):
                self.switch(permissive)
                self.set(**local(tcp={"connections": connections, "unit": "hour", "burst": 1}))
                notes = [self.note() != REFUSED for _ in range(connections + 3)]
                self.assertEqual(notes, [True] * (connections + 1) + [False] * 2)
                self.unset()
        with self.subTest("of an HTTP port too, here with a connection for each request"):
            self.set(
                connectionSettings={"http": {"maxRequestsPerConnection": 1}},
                **local(tcp={"connections": 4, "unit": "hour"}),
            )
            self.assert_limited("/work", 4, status=503)

    def write_own(self, **match):
        """Changes what the server's own account may request there: the routes of the server's port."""
        self.rig.mesh.write(
            "own.yaml",
            objects.routes("server", "more", more={"pathRegex": "/more", **match}),
            objects.target("server", "more", "server", [("server", "server")], ("HTTPRouteGroup", "more", ["more"])),
        )

    def test_a_bucket_of_requests_is_kept_until_a_change_of_the_routes(self):
        self.set(**local(http=hourly(3)))
        self.assertEqual(self.problems("limits"), [("limit-resets", "warning", "spec.rateLimit.local.http.unit")])
        self.assert_limited("/work", 3)
        with self.subTest("a TrafficTarget to another account, and limits of connections"):
            chains = self.server.updates()["LDS"]
            self.rig.mesh.write(
                "other.yaml",
                objects.routes("client", "any", any={"pathRegex": ".*"}),
                objects.target("client", "any", "client", [("server", "server")], ("HTTPRouteGroup", "any", ["any"])),
            )
            self.set(connectionSettings={"tcp": {"maxConnections": 90}}, **local(http=hourly(3), tcp=PLENTY))
            self.assertGreater(self.server.updates()["LDS"], chains)  # the port has a new chain
            self.assertEqual(self.ask("/work")[0], 429)
        with self.subTest("a start of the controller"):
            self.rig.stop_controller()
            self.rig.start_controller()
            self.wait_until_synced()
            self.assertEqual(self.ask("/work")[0], 429)
        with self.subTest("a TrafficTarget to the workload's account"):
            self.write_own()
            self.assert_limited("/work", 3)

    def assert_kept(self, connections, **spec):
        """The bucket is empty, at a connection to the newest chain of the server too: the limit of connections is
        another one, so the client's sidecar connects anew."""
        before = self.stat("upstream_cx_total")
        self.set(connectionSettings={"tcp": {"maxConnections": connections}}, **spec)

        def renewed():
            self.assertEqual(self.ask("/work")[0], 429)
            return self.stat("upstream_cx_total") > before

        wait_for("the client's sidecar connects anew", renewed)

    def assert_refilled(self, requests):
        """Envoy's workers take new routes a moment after it has acknowledged them."""
        wait_for("a request passes", lambda: self.ask("/work")[0] == 200)
        self.assert_limited("/work", requests - 1)

    def rotate_certificate(self):
        """Until the server's sidecar has the new one."""
        names = [c["common_name"] for c in self.rig.admin("GET", "/v1/certificates")["certificates"]]
        name = next(name for name in names if name.startswith("server.server."))
        serial = self.rig.osm_json("certificate", "rotate", name)["serial_number"].lower().lstrip("0")
        wait_for("the server's sidecar has it", lambda: serial in self.server.admin("/certs")[1].lower())

    def test_buckets_of_requests_follow_the_list_of_the_page(self):
        """The list is in docs/mesh-objects.md, and the rest of it in the tests around this one. No step takes anything
        away from the workload: sidecars serve that for 5 s more, and only then the routes change."""
        mesh, limit = self.rig.mesh, local(http=hourly(3))
        mesh.write(
            "guest.yaml",
            objects.account("client", "guest"),
            objects.target("server", "guest", "server", [("client", "guest")], ("HTTPRouteGroup", "routes", ["own"])),
        )
        mesh.write("front.yaml", objects.service("server", "front", "10.96.0.14", HTTP, selector={"app": "nothing"}))
        log = objects.telemetry("server", "log", format="a line")
        twin = objects.service("server", "twin", "10.96.0.15", HTTP + 1, HTTP, selector={"app": "server"})

        def split(**weights):
            mesh.write("split.yaml", objects.split("server", "front", "front.server.svc.cluster.local", **weights))

        def deny(account):
            mesh.write(f"deny-{account}.yaml", objects.denylist(account, [("client", account)]))

        self.set(**limit)
        self.assert_limited("/work", 3)
        new_chain = {
            "Telemetry": lambda: mesh.write("log.yaml", log),
            "http-header-names": lambda: self.write_service(http_header_names="unchecked"),
            "http-paths, normalize": lambda: self.write_service(http_paths="normalize"),
        }
        same_chain = {
            "a certificate": self.rotate_certificate,
            "a Denylist with an account that nothing lets in": lambda: deny("nobody"),
        }
        for number, (what, change) in enumerate((new_chain | same_chain).items()):
            with self.subTest("kept", what=what):
                chains = self.server.updates()["LDS"]
                change()
                if what in new_chain:
                    self.assertGreater(self.server.updates()["LDS"], chains)
                self.assert_kept(70 + number, **limit)
        idle = {"connectionSettings": {"http": {"streamIdleTimeout": "20s"}}, **limit}
        refilled = {
            "http-paths, unchecked": lambda: self.write_service(http_paths="unchecked"),
            "streamIdleTimeout": lambda: self.set(**idle),
            "a Denylist with an account that a TrafficTarget lets in": lambda: deny("guest"),
            "another Service with the target port": lambda: mesh.write("twin.yaml", twin),
            "a TrafficSplit to the Service": lambda: split(server=1),
            "the mode": lambda: mesh.write("config.yaml", objects.mesh_config(permissive=True)),
            "in permissive mode, a Denylist with any account": lambda: deny("anybody"),
        }
        for what, change in refilled.items():
            with self.subTest("full again", what=what):
                change()
                self.assert_refilled(3)
        with self.subTest("kept", what="weights, and a TrafficTarget in permissive mode"):
            split(server=2)
            self.write_own()
            self.assertEqual([self.ask("/work")[0] for _ in range(3)], [429] * 3)

    def test_a_bucket_of_connections_is_kept_until_its_limit_changes(self):
        limit = {"connections": 3, "unit": "hour"}
        self.set(**local(tcp=limit))
        self.assertEqual(self.problems("limits"), [("limit-resets", "warning", "spec.rateLimit.local.tcp.unit")])
        self.assertEqual([self.note() != REFUSED for _ in range(5)], [True] * 3 + [False] * 2)
        with self.subTest("a TrafficTarget to the account, Telemetry, and the idle time of the port"):
            chains = self.server.updates()["LDS"]
            self.rig.mesh.write(
                "more.yaml",
                objects.target("server", "more", "server", [("server", "server")], ("TCPRoute", "ledger", None)),
            )
            self.rig.mesh.write("log.yaml", objects.telemetry("server", "log", format="a line"))
            self.set(connectionSettings={"tcp": {"idleTimeout": "20s"}}, **local(tcp=limit))
            self.assertGreater(self.server.updates()["LDS"], chains)
            self.assertEqual(self.note(), REFUSED)
        with self.subTest("the limit"):
            self.set(**local(tcp={**limit, "connections": 4}))
            self.assertEqual([self.note() != REFUSED for _ in range(6)], [True] * 4 + [False] * 2)

    def test_a_clients_sidecar_bounds_what_it_has_open(self):
        with self.subTest("TCP connections"):
            self.set(connectionSettings={"tcp": {"maxConnections": 2, "connectTimeout": "3s"}})
            held = [self.note() for _ in range(2)]
            self.assertNotIn(REFUSED, held)
            self.assertEqual(self.note(), REFUSED)
            held.pop().close()
            self.wait_for_ledger()
        with self.subTest("time to connect"):
            self.set(connectionSettings={"tcp": {"connectTimeout": "300ms"}})
            lose = ("INPUT", "-p", "tcp", "--dport", "15003", "--syn", "-j", "DROP")
            self.server.namespace.run("iptables", "-I", *lose)
            clock = FairClock()
            self.assertEqual(self.note(), REFUSED)
            self.assertLess(clock.seconds(), 3)  # 5 s without the limit
            self.server.namespace.run("iptables", "-D", *lose)
            late = f"cluster.server/server|{TCP}.upstream_cx_connect_timeout"
            self.assertGreater(self.client.stats("upstream_cx_connect_timeout$")[late], 0)
            self.wait_for_ledger()
        for permissive in (False, True):
            with self.subTest("requests", permissive=permissive):
                self.unset()
                self.switch(permissive)
                self.set(connectionSettings={"http": {"maxRequests": 1}})
                held = self.send(f"/tries/{permissive}?slow=1")
                self.wait_for_one("upstream_rq_active")
                self.assert_overloaded()
                held.close()
                self.wait_for_status(self.client, 200, HOST, "/work")
        with self.subTest("requests that wait for a connection"):
            self.set(connectionSettings={"tcp": {"maxConnections": 1}, "http": {"maxPendingRequests": 1}})
            held = self.send("/tries/held?slow=1")
            self.wait_for_one("upstream_rq_active")
            waiting = self.send("/work")
            self.wait_for_one("upstream_rq_pending_active")
            self.assert_overloaded()
            held.close()
            self.assertEqual(self.receive(waiting)[0], 200)


class Outliers(meshcase.MeshCase):
    """Two servers of one Service; the application of the first is down."""

    def setUp(self):
        super().setUp()
        self.client, first = self.add_client_and_server()
        self.rig.mesh.write(
            "machine-second.yaml", objects.machine("server", "second", "10.200.0.13", "server", {"app": "server"})
        )
        self.servers = [first, self.rig.add_vm("second", "server", "10.200.0.13")]
        self.start_mesh()
        self.apps = [self.serve(server) for server in self.servers]
        wait_for("both servers answer", lambda: {self.ask()[1] for _ in range(6)} == {s.name for s in self.servers})
        self.apps[0].end()
        wait_for("one of them fails", lambda: {self.ask()[0] for _ in range(6)} == {200, 503})

    def ask(self):
        """(status, name of the server or None)."""
        status, body = self.client.get(HOST, HTTP, "/books-bought")
        return status, next((s.name for s in self.servers if s.name in body), None)

    def eject(self, time):
        self.rig.mesh.write(
            "limits.yaml",
            objects.upstream_setting(
                "server",
                "limits",
                HOST,
                connectionSettings={
                    "outlierDetection": {"consecutive5xx": 2, "interval": "100ms", "baseEjectionTime": time}
                },
            ),
        )

        def ejected():
            self.ask()
            name = f"cluster.{CLUSTER}.outlier_detection.ejections_active"
            return self.client.stats("ejections_active$").get(name) == 1

        wait_for("the failing server is ejected", ejected)

    def test_a_server_that_fails_again_and_again_is_left_out_for_a_while(self):
        self.eject("1h")
        self.assertEqual({self.ask() for _ in range(20)}, {(200, "second")})
        self.eject("500ms")
        self.apps[0] = self.serve(self.servers[0])
        wait_for("it is back", lambda: {self.ask() for _ in range(6)} == {(200, s.name) for s in self.servers})


if __name__ == "__main__":
    meshcase.main()
