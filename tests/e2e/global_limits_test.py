#!/usr/bin/python3
"""A real rate-limit server counts requests, headers, paths and connections over two servers, in both modes;
changed descriptors keep open connections; without the server they pass or fail as the setting says.

Each limit is used once, since its count stays.
"""

import contextlib
import http.client
import pathlib
import sys

from lib.kube import apps
from lib.mesh import meshcase, objects
from lib.mesh.rate_limiter import RateLimiter, per_year
from lib.mesh.rig import REFUSED
from lib.net.processes import NotYet, wait_for

APP = pathlib.Path(apps.__path__[0]) / "http_app.py"
HTTP, TCP = meshcase.PORT, 7000
HOST, ADDRESS = "server.server", "10.96.0.12"
LIMITS = {
    "shop": [
        per_year(7, "generic_key", "smi"),
        per_year(9, "generic_key", "permissive"),
        per_year(3, "generic_key", "lane"),
        per_year(4, "generic_key", "later"),
        per_year(0, "generic_key", "tenants", descriptors=[per_year(2, "tenant")]),
        per_year(1, "header_match", "beta"),
        per_year(4, "remote_address", "10.200.0.11"),
        per_year(0, "generic_key", "unlimited"),
    ],
    "wires": [per_year(5, "port", "smi"), per_year(6, "port", "permissive")],
}


def key(value):
    return {"entries": [{"genericKey": {"value": value}}]}


class GlobalLimits(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client = self.add_machine("client", "10.200.0.11")
        self.servers = [self.add_server(f"server-{i}", f"10.200.0.{11 + i}") for i in (1, 2)]
        service = objects.service("server", "server", ADDRESS, HTTP)
        service["spec"]["ports"].append({"name": "tcp-ledger", "port": TCP, "targetPort": TCP})
        self.rig.mesh.write(
            "server.yaml",
            objects.namespace("server"),
            objects.account("server", "server"),
            service,
            objects.routes("server", "routes", work={"pathRegex": "/(work|lane|open)"}),
            objects.tcp_route("server", "ledger", TCP),
            *(
                objects.target("server", name, "server", [("client", "client")], rule)
                for name, rule in (
                    ("work", ("HTTPRouteGroup", "routes", ["work"])),
                    ("ledger", ("TCPRoute", "ledger", None)),
                )
            ),
        )
        self.limiter = RateLimiter(self.rig, LIMITS)
        self.start_mesh()
        for server in self.servers:
            server.run("app", "/usr/bin/env", f"VERSION={server.name}", sys.executable, str(APP), "--port", str(HTTP))
            self.start_ledger(server, TCP)
        for server in self.servers:
            wait_for(f"{server.name} answers", lambda: f'"{server.name}"' in self.client.get(HOST, HTTP, "/work")[1])
        wait_for("the ledger answers", lambda: self.ask_ledger(self.client, ADDRESS, TCP))

    def add_server(self, name, address):
        self.rig.mesh.write(
            f"machine-{name}.yaml", objects.machine("server", name, address, "server", {"app": "server"})
        )
        return self.rig.add_vm(name, "server", address)

    def modes(self):
        for permissive in (False, True):
            self.rig.mesh.write("config.yaml", objects.mesh_config(permissive))
            # The limit of the mode before still answers some requests.
            answers = (200, 429) if permissive else (404,)
            wait_for("the mode has changed", lambda: self.client.get(HOST, HTTP, "/private")[0] in answers)
            yield "permissive" if permissive else "smi"

    def set(self, paths=(), kind="http", **limit):
        """`limit`: fields of the global limit beside the server."""
        self.rig.mesh.write(
            "limits.yaml",
            objects.upstream_setting(
                "server",
                "limits",
                HOST,
                httpRoutes=list(paths),
                rateLimit={
                    "global": {
                        kind: {"rateLimitService": self.limiter.server, "domain": "shop", "timeout": "10s", **limit}
                    }
                },
            ),
        )

    def unset(self):
        self.rig.mesh.write("limits.yaml", objects.upstream_setting("server", "limits", HOST))

    def ask(self, path="/work", **headers):
        """(status, headers, body) on a new connection."""
        with contextlib.closing(self.open()) as connection:
            return self.ask_on(connection, path, headers)

    def open(self):
        connection = http.client.HTTPConnection(HOST, HTTP, timeout=15)
        connection.auto_open = 0
        connection.sock = self.client.namespace.connect(ADDRESS, HTTP)
        connection.sock.settimeout(15)
        self.addCleanup(connection.close)
        return connection

    @staticmethod
    def ask_on(connection, path="/work", headers=None):
        connection.request("GET", path, headers={"Host": HOST, **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()

    def assert_limited(self, allowed, path="/work", status=429, **headers):
        """So many requests are answered, by both servers, and further ones by neither."""
        got = [self.ask(path, **headers) for _ in range(allowed + 3)]
        self.assertEqual([s for s, _, _ in got], [200] * allowed + [status] * 3)
        return [body for s, _, body in got if s == 200], got[-1][1]

    def kept(self):
        """Updates of the servers' listeners, and connections that the client's sidecar opened."""
        opened = self.client.stats(f"{HTTP}.upstream_cx_total$")
        self.assertGreater(sum(opened.values()), 0)
        return [s.updates()["LDS"] for s in self.servers], opened

    def wait_for_answers(self, status):
        def seen():
            got = {self.ask()[0] for _ in range(6)}
            if got != {status}:
                raise NotYet(got)
            return True

        wait_for(f"every answer is {status}", seen, 20)

    def connects(self):
        return self.ask_ledger(self.client, ADDRESS, TCP) != REFUSED

    def test_requests_are_counted_over_all_servers_of_a_service(self):
        for mode in self.modes():
            limit = {"smi": 7, "permissive": 9}[mode]
            with self.subTest("one count", mode=mode):
                self.set(
                    descriptors=[key(mode)],
                    enableXRateLimitHeaders=True,
                    **({"responseStatusCode": 503} if mode == "permissive" else {}),
                )
                if mode == "smi":  # none of these is counted
                    self.assertEqual({self.ask("/private")[0] for _ in range(9)}, {404})
                answers, last = self.assert_limited(limit, status=429 if mode == "smi" else 503)
                for server in self.servers:
                    self.assertTrue(any(f'"{server.name}"' in a for a in answers), answers)
                self.assertEqual("0", last["x-ratelimit-remaining"])
                self.assertEqual("true", last["x-envoy-ratelimited"])
        with self.subTest("a path has descriptors in place of the Service's"):
            self.set(
                [{"path": "/lane", "rateLimit": {"global": {"descriptors": [key("lane")]}}}], descriptors=[key("smi")]
            )
            # A listener that drains still answers with the other status.
            wait_for("the status is the default", lambda: self.ask()[0] == 429)
            self.assert_limited(3, "/lane")
        with self.subTest("descriptors by header"):
            self.set(
                descriptors=[
                    {
                        "entries": [
                            {"genericKey": {"value": "tenants"}},
                            {"requestHeader": {"name": "x-tenant", "key": "tenant"}},
                        ]
                    },
                    {
                        "entries": [
                            {"headerValueMatch": {"value": "beta", "headers": [{"name": "x-release", "exact": "beta"}]}}
                        ]
                    },
                ]
            )
            self.assert_limited(2, **{"x-tenant": "a"})
            self.assert_limited(2, **{"x-tenant": "b"})
            self.assert_limited(1, **{"x-release": "beta"})
            self.assertEqual({self.ask(**{"x-release": "stable"})[0] for _ in range(5)}, {200})
            self.assertEqual({self.ask()[0] for _ in range(5)}, {200})
        with self.subTest("descriptors by the caller's address"):
            self.set(descriptors=[{"entries": [{"remoteAddress": {}}]}])
            self.assert_limited(4)

    def test_a_change_of_descriptors_keeps_open_connections(self):
        self.set(descriptors=[key("unlimited")])
        connection = self.open()
        self.assertEqual([200] * 4, [self.ask_on(connection)[0] for _ in range(4)])  # of both
        before = self.kept()
        self.set(descriptors=[key("later")])
        self.assertEqual([200] * 4 + [429], [self.ask_on(connection)[0] for _ in range(5)])
        self.set([{"path": "/lane", "rateLimit": {"global": {"descriptors": [key("lane")]}}}], descriptors=[])
        self.assertEqual([200] * 5, [self.ask_on(connection)[0] for _ in range(5)])
        self.assertEqual([200] * 3 + [429], [self.ask_on(connection, "/lane")[0] for _ in range(4)])
        self.assertEqual(before, self.kept())

    def test_a_stopped_server_lets_requests_pass_or_fail_as_the_setting_says(self):
        self.set(descriptors=[key("unlimited")], failOpen=False)
        self.assertEqual(200, self.ask()[0])
        self.limiter.stop()
        # A listener that drains still has the filter without `failOpen`.
        self.wait_for_answers(500)
        self.set(descriptors=[key("unlimited")], failOpen=True)
        self.wait_for_answers(200)
        self.set(kind="tcp", descriptors=[{"entries": [{"key": "port", "value": "x"}]}])
        self.assertTrue(all(self.connects() for _ in range(6)))  # open is the default
        self.set(kind="tcp", failOpen=False, descriptors=[{"entries": [{"key": "port", "value": "x"}]}])
        self.assertFalse(any(self.connects() for _ in range(6)))
        self.limiter.start()

        def connects():
            if not self.connects():
                raise NotYet("closed")
            return True

        wait_for("connections pass again", connects, 20)

    def test_connections_are_counted_over_all_servers_of_a_service(self):
        for mode in self.modes():
            with self.subTest(mode=mode):
                self.set(kind="tcp", domain="wires", descriptors=[{"entries": [{"key": "port", "value": mode}]}])
                most = {"smi": 5, "permissive": 6}[mode]
                self.assertEqual([True] * most + [False] * 3, [self.connects() for _ in range(most + 3)])
                self.unset()


if __name__ == "__main__":
    meshcase.main()
