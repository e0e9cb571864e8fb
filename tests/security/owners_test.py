#!/usr/bin/python3
"""An author of one namespace takes no address of another one, nor of hosts outside of the mesh: by a Service,
a VirtualMachine or a headless Service (docs/security.md, threat 17). Real Envoys, and a directory with one
controller or etcd with two. The thief's namespace comes first by name, and its objects second in time.

usage: owners_test.py --bin DIRECTORY --envoy FILE
"""

from lib.mesh import meshcase, objects
from lib.mesh.environments import TwoOverEtcd
from lib.net.processes import NotYet, wait_for

PORT = meshcase.PORT
CLUSTER_IP, SERVER, THIEF, OUTSIDE = "10.96.0.12", "10.200.0.12", "10.200.0.13", "8.8.8.8"
CODES = ("conflicting-address", "address-not-allotted")


def tcp(name, cluster_ip):
    return objects.service("aaa", name, cluster_ip, PORT, protocol="tcp", selector={"app": "ghost"})


class Owners:
    def setUp(self):
        super().setUp()
        self.client, self.server = self.add_client_and_server()
        self.thief = self.add_machine("thief", THIEF, "aaa", {"app": "ghost"})
        self.rig.mesh.write(
            "headless.yaml", objects.service("server", "direct", "None", PORT, selector={"app": "server"})
        )
        self.start_mesh()
        self.serve(self.server)
        self.serve(self.thief, version="evil")
        self.rig.mesh.write(
            "aaa-policy.yaml",
            objects.tcp_route("aaa", "any", PORT),
            objects.target("aaa", "access", "thief", [("client", "client")], ("TCPRoute", "any", [])),
        )
        for address in (CLUSTER_IP, SERVER):
            self.wait_for_version(address, "v1")

    def answer(self, address):
        return self.client.request(address, PORT, "/books-bought", "server.server")

    def wait_for_version(self, address, version):
        def seen():
            got = self.answer(address)
            if got[0] != 200 or f'"version":"{version}"' not in got[1].replace(" ", ""):
                raise NotYet(got)
            return True

        wait_for(f"{address} answers as {version}", seen, 20)

    def losses(self, state):
        """{object: (code, cause)} of the claims that one controller has left out."""
        listed = self.rig.admin("GET", "/v1/problems", state=state)["problems"]
        return {p["object"]: (p["code"], p["cause"]) for p in listed if p["code"] in CODES}

    def wait_for_losses(self, *wanted):
        """Every controller names these (object, code), and no others. Result: its words for each."""
        found = []

        def seen():
            found[:] = [self.losses(state) for state in self.rig.states()]
            told = [{(name, code) for name, (code, _) in each.items()} for each in found]
            if any(each != set(wanted) for each in told):
                raise NotYet(found)
            return True

        wait_for("the losses", seen, 20)
        for each in found:
            self.assertEqual(each, found[0])
        return {name: cause for name, (_, cause) in found[0].items()}

    def listens(self, address):
        """True if the client's Envoy takes connections to the address."""
        return f"outbound_{address}_{PORT}" in self.client.admin("/listeners")[1]

    def steal(self, *stolen):
        """The thief's objects appear; nothing is waited for."""
        self.rig.mesh.write("zzz-stolen.yaml", *stolen, wait=False)

    def give_back(self):
        self.rig.mesh.remove("zzz-stolen.yaml", wait=False)
        self.wait_for_losses()

    def allot(self, *allotments):
        config = objects.mesh_config(addresses={"allotments": list(allotments)})
        self.rig.mesh.write("config.yaml", config, wait=False)

    def test_no_address_of_another_namespace_is_taken(self):
        ghost = objects.machine("aaa", "ghost", SERVER, "thief", {"app": "ghost"})
        for what, stolen, loser, field_of in (
            ("its cluster IP by a Service", [tcp("evil", CLUSTER_IP)], "Service aaa/evil", "Service server/server"),
            ("its machine's address by a Service", [tcp("evil", SERVER)], "Service aaa/evil", "server/server"),
            (
                "its machine's address by a machine",
                [ghost, tcp("evil", "None")],
                "VirtualMachine aaa/ghost",
                "VirtualMachine server/server",
            ),
            (
                "its cluster IP by a machine",
                [objects.machine("aaa", "ghost", CLUSTER_IP, "thief", {"app": "ghost"}), tcp("evil", "None")],
                "VirtualMachine aaa/ghost",
                "Service server/server",
            ),
        ):
            with self.subTest(what):
                self.steal(*stolen)
                causes = self.wait_for_losses((loser, "conflicting-address"))
                self.assertIn(field_of, causes[loser])
                for address in (CLUSTER_IP, SERVER):
                    self.assertIn("v1", self.answer(address)[1])
                self.give_back()

    def test_an_owner_keeps_its_address_over_a_restart_and_gives_it_up_by_leaving(self):
        self.steal(tcp("evil", CLUSTER_IP))
        lost = ("Service aaa/evil", "conflicting-address")
        before = self.wait_for_losses(lost)
        self.restart()
        self.assertEqual(self.wait_for_losses(lost), before)
        self.wait_for_version(CLUSTER_IP, "v1")
        self.rig.mesh.remove("server.yaml", wait=False)
        self.wait_for_losses()
        self.wait_for_version(CLUSTER_IP, "evil")

    def test_an_outside_address_needs_an_allotment(self):
        stolen = (
            tcp("evil", OUTSIDE),
            objects.machine("aaa", "ghost", "8.8.8.9", "thief", {"app": "ghost"}),
            tcp("direct", "None"),
        )
        both = [(name, CODES[1]) for name in ("Service aaa/evil", "VirtualMachine aaa/ghost")]
        self.steal(*stolen)
        self.wait_for_losses(*both)
        self.assertFalse(self.listens(OUTSIDE))
        self.allot({"networks": ["8.8.8.0/24"], "namespaces": ["aaa"]})
        self.wait_for_losses()
        wait_for("the listener", lambda: self.listens(OUTSIDE), 20)
        self.allot({"networks": ["8.8.8.0/24"], "namespaces": ["server"]})
        self.wait_for_losses(*both)
        wait_for("no listener", lambda: not self.listens(OUTSIDE), 20)

    def test_a_private_network_can_be_allotted_too(self):
        self.allot(
            {"networks": ["0.0.0.0/0"], "namespaces": []},
            {"networks": ["10.200.0.0/16", "10.96.0.0/16"], "namespaces": ["server", "client"]},
            {"networks": [f"{THIEF}/32"], "namespaces": ["aaa"]},
        )
        self.steal(tcp("evil", "10.200.0.99"), tcp("worse", "192.168.0.9"))
        self.wait_for_losses(*((f"Service aaa/{name}", "address-not-allotted") for name in ("evil", "worse")))
        self.assertFalse(self.listens("10.200.0.99"))
        self.wait_for_version(CLUSTER_IP, "v1")


class Directory(Owners, meshcase.MeshCase):
    def restart(self):
        self.rig.stop_controller()
        self.rig.start_controller()

    def test_an_older_file_that_comes_back_is_new(self):
        self.rig.mesh.remove("server.yaml", wait=False)
        self.steal(tcp("evil", CLUSTER_IP))
        self.wait_for_version(CLUSTER_IP, "evil")
        self.rig.mesh.write("server.yaml", objects.service("server", "server", CLUSTER_IP, PORT), wait=False)
        self.wait_for_losses(("Service server/server", "conflicting-address"))


class Etcd(Owners, meshcase.MeshCase):
    make_rig = TwoOverEtcd

    def restart(self):
        """The second controller reads at once, in the order of keys, what the first one saw come."""
        self.rig.stop_one("controller-2")
        self.rig.start_one("controller-2")
        self.rig.wait_until_answering("controller-2")
        self.rig.wait_until_ready()


if __name__ == "__main__":
    meshcase.main()
