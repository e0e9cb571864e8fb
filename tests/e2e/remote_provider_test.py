#!/usr/bin/python3
"""The machine of a provider process serves; calls continue while the process or its platform is away; an
account that it may not name is left out and reported.

A machine whose endpoints and workload come from a provider process in Python, examples/consul_provider,
over --providers. Consul is a stand-in that follows its HTTP API (lib/net/consul.py).
"""

import json
import signal

from lib.mesh import meshcase, objects
from lib.net.consul import Catalog, Consul
from lib.net.processes import NotYet, wait_for

PORT = meshcase.PORT


class RemoteProvider(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.consul = Consul()
        self.addCleanup(self.consul.stop)
        self.catalog = Catalog(self.consul.url)
        self.client = self.add_machine("client", "10.200.0.11")
        # No VirtualMachine and no selector: the server is in Consul only.
        self.server = self.rig.add_vm("server", "server", "10.200.0.12")
        self.rig.mesh.write(
            "server.yaml",
            objects.namespace("server"),
            objects.account("server", "server"),
            objects.service("server", "server", "10.96.0.12", PORT, selector={}),
            objects.routes("server", "routes", books={"pathRegex": "/books-bought"}),
            objects.target(
                "server", "access", "server", [("client", "client")], ("HTTPRouteGroup", "routes", ["books"])
            ),
        )
        self.socket = f"unix:{self.rig.directory / 'consul.sock'}"
        file = self.rig.directory / "providers.yaml"
        file.write_text(
            json.dumps(
                [
                    {
                        "name": "consul",
                        "address": self.socket,
                        "allow": [{"namespace": "server", "serviceAccounts": ["server"]}],
                    }
                ]
            )
        )
        self.rig.controller_flags = ("--providers", file)
        self.register()
        self.start_provider()
        self.start_mesh()
        self.serve(self.server)
        self.wait_for_status(self.client, 200, "server.server")

    def register(self, account="server", **more):
        self.catalog.register("server", self.server.address, "server", PORT, account, **{"osm-port": "http"}, **more)

    def start_provider(self):
        script = self.rig.programs.bin / "consul_provider" / "consul_provider.py"
        self.provider = self.rig.start(
            "consul_provider",
            ["/usr/bin/python3", script, "--listen", self.socket, "--consul", self.consul.url, "--namespace", "server"],
        )

    def wait_for_health(self, wanted):
        series = f'osm_endpoints_provider_healthy{{provider="consul"}} {wanted}\n'
        wait_for(f"the provider's health is {wanted}", lambda: series in self.rig.controller_http("/metrics")[1], 30)

    def wait_for_problem(self, *parts):
        def told():
            for problem in self.rig.problems():
                text = json.dumps(problem)
                if all(part in text for part in parts):
                    return True
            raise NotYet(self.rig.problems())

        wait_for(f"a problem with {parts}", told, 30)

    def test_calls_continue_while_the_provider_is_away(self):
        with meshcase.Load(self.client) as load:
            self.provider.end(signal.SIGKILL)
            self.wait_for_health(0)
            self.wait_for_problem("unavailable", "provider consul", "its last lists are kept")
            load.check(self, more=50)
            self.start_provider()
            self.wait_for_health(1)
            load.check(self)
            with self.subTest("its platform is away"):
                self.consul.stop()
                self.wait_for_health(0)
                self.wait_for_problem("it does not reach its platform")
                load.check(self)
                self.consul.start()
                self.wait_for_health(1)
                load.check(self)

    def test_changes_of_the_platform_reach_the_clients(self):
        self.register(status="critical")
        self.wait_for_status(self.client, 503, "server.server")
        self.register()
        self.wait_for_status(self.client, 200, "server.server")

    def test_an_instance_is_called_at_a_port_of_its_own(self):
        own = PORT + 7  # and the Service's target port is PORT
        self.serve(self.server, port=own)
        self.catalog.register("server", self.server.address, "server", own, "server", **{"osm-port": "http"})

        def moved():
            clusters = self.client.admin("/clusters")[1]
            if f"{self.server.address}:{own}::" not in clusters or f"{self.server.address}:{PORT}::" in clusters:
                raise NotYet(clusters)
            return True

        wait_for("the client has the new port only", moved, 20)
        self.wait_for_status(self.client, 200, "server.server")
        with meshcase.Load(self.client) as load:
            load.check(self, more=50)
        told = self.rig.osm_json("policy", "explain", "client/client", "server.server", "--path", "/books-bought")
        [way] = told["ways"]
        self.assertEqual((way["port"], way["answer"]), (own, f"policy lets the call reach {self.server.address}:{own}"))
        self.assertEqual(self.rig.problems(), [])
        with self.subTest("a path that no route covers is refused there, too"):
            self.wait_for_status(self.client, 404, "server.server", path="/other")

    def test_an_account_outside_of_allow_is_left_out_and_reported(self):
        with meshcase.Load(self.client) as load:
            self.catalog.register("other", "10.200.0.99", "server", PORT, "admin", **{"osm-port": "http"})
            self.wait_for_problem(
                "permission-denied", "server/server", "10.200.0.99", "may not name account 'server/admin'", "`allow`"
            )
            self.wait_for_problem("permission-denied", "server/other", "'server/admin'")
            load.check(self, more=50)
            dump = self.client.admin("/clusters")[1]
            self.assertNotIn("10.200.0.99", dump)
            self.assertIn(self.server.address, dump)
            self.catalog.deregister("other")

            def gone():
                problems = self.rig.problems()
                if any(p["code"] == "permission-denied" for p in problems):
                    raise NotYet(problems)
                return True

            wait_for("the problems are gone", gone, 30)
            load.check(self)


if __name__ == "__main__":
    meshcase.main()
