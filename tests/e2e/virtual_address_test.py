#!/usr/bin/python3
"""Services without an address get one of `--service-cidr`; calls to it work, and it is the same after a
restart and when Services come.
"""

import ipaddress

from lib.mesh import meshcase, objects
from lib.net.processes import NotYet, wait_for

NETWORK = "240.240.0.0/12"
HOST = "server.server"


class VirtualAddress(meshcase.MeshCase):
    def hosts(self, machine):
        """Addresses by name, of the hosts file that a bootstrap writes now."""
        out = self.rig.directory / f"again-{machine.name}-{len(list(self.rig.directory.iterdir()))}"
        self.rig.osm(
            "vm", "bootstrap", machine.name, "-n", machine.ns, "--controller", self.rig.ads_address, "--out", out
        )
        names = {}
        for line in (out / "hosts").read_text().splitlines():
            address, *rest = line.split("#")[0].split() or [""]
            names.update(dict.fromkeys(rest, address))
        return names

    def test_a_call_by_an_allocated_address_works_before_and_after_a_restart(self):
        client, server = self.add_client_and_server()
        self.rig.mesh.write(
            "server.yaml",
            objects.service("server", "server", None, meshcase.PORT),
            objects.service("server", "other", None, meshcase.PORT, selector={"app": "server"}),
            objects.routes("server", "routes", books={"pathRegex": "/books-bought"}),
            objects.target(
                "server", "access", "server", [("client", "client")], ("HTTPRouteGroup", "routes", ["books"])
            ),
        )
        self.rig.controller_flags = ("--service-cidr", NETWORK)
        self.start_mesh()
        self.serve(server)
        self.wait_for_status(client, 200, HOST)
        before = self.hosts(client)
        for name in (HOST, "other.server"):
            self.assertIn(ipaddress.ip_address(before[name]), ipaddress.ip_network(NETWORK))
        self.assertNotEqual(before[HOST], before["other.server"])
        self.assertEqual(client.resolve(HOST), before[HOST])
        status, _ = client.request(before[HOST], meshcase.PORT, "/books-bought", HOST)
        self.assertEqual(200, status)

        self.rig.stop_controller()
        self.rig.start_controller()
        self.wait_until_synced()
        # A Service that comes later moves no other.
        self.rig.mesh.write(
            "later.yaml", objects.service("server", "later", None, meshcase.PORT, selector={"app": "server"})
        )

        def with_the_later_one():
            names = self.hosts(client)
            if "later.server" not in names:
                raise NotYet(sorted(names))
            return names

        after = wait_for("the later Service has an address", with_the_later_one, 20)
        self.assertEqual(before, {name: after[name] for name in before})
        self.wait_for_status(client, 200, HOST)
        self.assertEqual([], self.rig.problems())


if __name__ == "__main__":
    meshcase.main()
