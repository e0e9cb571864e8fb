#!/usr/bin/python3
"""Machines know three controllers by one DNS name; a proxy goes to another one when its own is killed or
leaves the name, obeys new policies and renews its certificate there.
"""

import json
import signal

from lib.mesh import meshcase, objects
from lib.mesh.etcd_rig import EtcdRig
from lib.mesh.meshcase import Load
from lib.mesh.replicated_rig import CONTROLLERS
from lib.mesh.rig import ADS_PORT
from lib.net.name_server import ZONE, NameServer
from lib.net.netns import Switch
from lib.net.processes import CommandFailed, NotYet, wait_for

NO_ROUTE = 404  # the client's Envoy: no policy lets it make this request
HOST = "server.server"


class Failover(meshcase.MeshCase):
    make_rig = EtcdRig

    def setUp(self):
        super().setUp()
        self.names = NameServer(self.rig.directory, Switch.ADDRESS, namespace=self.rig.switch.namespace)
        self.addCleanup(self.names.stop)
        self.names.write(controllers=CONTROLLERS.values())
        self.client, self.server = self.add_client_and_server()
        for machine in (self.client, self.server):
            machine.namespace.set_name_server(Switch.ADDRESS)
            machine.controller = f"controllers.{ZONE}:{ADS_PORT}"

    def controller_of(self, machine):
        """The controller that the machine's proxy is connected to."""

        def found():
            at = [
                name
                for name in self.rig.running()
                for proxy in self.rig.admin("GET", "/v1/proxies", state=self.rig.state_of(name))["proxies"]
                if proxy["name"] == f"{machine.ns}/{machine.name}"
            ]
            if len(at) != 1:
                raise NotYet(at)
            return at[0]

        return wait_for(f"{machine.name} is at one controller", found, 40, retry=(CommandFailed,))

    def allow(self, at, group, match):
        """At this controller: the client may make the requests of the match only."""
        file = self.rig.directory / "access.yaml"
        file.write_text(
            json.dumps(
                objects.target("server", "access", "server", [("client", "client")], ("HTTPRouteGroup", group, [match]))
            )
        )
        self.rig.osm("apply", "-f", file, at=at)

    def test_a_proxy_goes_to_another_controller_and_obeys_new_policies_there(self):
        self.rig.mesh.write(
            "routes.yaml", objects.routes("server", "none", none={"pathRegex": "/none", "methods": ["GET"]})
        )
        self.start_mesh()
        self.serve(self.server)
        self.wait_for_status(self.client, 200, HOST)

        with Load(self.client, interval=0.02) as load, self.subTest("its controller is killed"):
            first = self.controller_of(self.client)
            self.rig.controllers[first].end(signal.SIGKILL)
            second = self.controller_of(self.client)
            self.assertNotEqual(first, second)
            self.controller_of(self.server)
            load.check(self, more=50)
        with self.subTest("a policy that is applied now takes effect"):
            other = next(name for name in self.rig.running() if name != second)
            self.allow(other, "none", "none")
            self.wait_for_status(self.client, NO_ROUTE, HOST)
            self.allow(other, "routes", "books")
            self.wait_for_status(self.client, 200, HOST)
        with self.subTest("the machine renews its certificate by the same name"):
            key = (self.client.directory / "sds_key.pem").read_text()
            self.client.namespace.run(self.rig.programs.osm, "vm", "renew", "--dir", self.client.directory, "--force")
            self.assertNotEqual(key, (self.client.directory / "sds_key.pem").read_text())
        with self.subTest("the name loses the address of the present controller, which ends"):
            self.names.write(controllers=[CONTROLLERS[other]])
            self.rig.controllers[second].end(signal.SIGTERM)
            self.assertEqual(self.controller_of(self.client), other)
            self.wait_for_status(self.client, 200, HOST)


if __name__ == "__main__":
    meshcase.main()
