#!/usr/bin/python3
"""A machine that asks resolves Services that come and go, by UDP and by the libc; other names reach its
name server; `--remove` gives that back.
"""

import json
import socket
import struct

from lib.mesh import meshcase, objects
from lib.net.name_server import NameServer
from lib.net.netns import Switch
from lib.net.processes import NotYet, wait_for

HOST = "server.server"
PEERS, MEMBERS = "peers.server.svc.cluster.local", [f"10.200.0.{n}" for n in range(31, 40)]


def skip_name(data, at):
    while data[at]:
        if data[at] & 0xC0:
            return at + 2
        at += data[at] + 1
    return at + 1


def addresses_in(data):
    questions, answers = struct.unpack(">HH", data[4:8])
    at = 12
    for _ in range(questions):
        at = skip_name(data, at) + 4
    found = []
    for _ in range(answers):
        at = skip_name(data, at)
        kind, _, _, size = struct.unpack(">HHIH", data[at : at + 10])
        at += 10
        if kind == 1:
            found.append(socket.inet_ntoa(data[at : at + size]))
        at += size
    return found


def question_for(name):
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + labels + b"\x00\x00\x01\x00\x01"


class LiveNames(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.names = NameServer(self.rig.directory, Switch.ADDRESS, namespace=self.rig.switch.namespace)
        self.addCleanup(self.names.stop)
        self.names.write(other=["10.200.0.99"], **{PEERS: MEMBERS})
        self.client, self.server = self.add_client_and_server()
        for machine in (self.client, self.server):
            machine.namespace.set_name_server(Switch.ADDRESS)
        asking = objects.machine("client", "client", "10.200.0.11", "client")
        asking["metadata"]["annotations"] = {"openservicemesh.io/dns": "enabled"}
        self.rig.mesh.write(
            "machine-client.yaml", objects.namespace("client"), objects.account("client", "client"), asking
        )
        self.start_mesh()
        self.serve(self.server)

    def ask(self, machine, name):
        """IPv4 addresses that an application on the machine gets for the name. As the libc does, it asks
        again if no answer comes: one is lost while Envoy replaces its listener."""
        question = question_for(name)

        def asking():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as application:
                application.settimeout(2)
                application.connect((Switch.ADDRESS, 53))
                for _ in range(3):
                    try:
                        application.send(question)
                        return addresses_in(application.recv(512))
                    except OSError as failed:
                        last = failed
                raise NotYet(last)

        try:
            return machine.namespace.inside(asking)
        except NotYet as failed:
            raise NotYet(f"{failed}\n{self.path_to_name_server(machine)}") from failed

    def path_to_name_server(self, machine):
        """Where a question may have been lost: neighbours, connections and drops at both ends, and the name server."""
        seen = []
        for where, *command in (
            (machine.namespace, "ip", "-s", "neigh"),
            (machine.namespace, "nstat", "-azs", "UdpOutDatagrams", "UdpNoPorts", "UdpInErrors", "TcpExtTCPTimeouts"),
            (machine.namespace, "cat", "/proc/net/stat/nf_conntrack"),
            (machine.namespace, "iptables", "-t", "nat", "-vnL"),
            (self.rig.switch.namespace, "ip", "-s", "-s", "link", "show", "br0"),
            (self.rig.switch.namespace, "ss", "-uan", "sport", "=", "53"),
            (self.rig.switch.namespace, "cat", f"/proc/{self.names.process.pid}/schedstat"),
        ):
            seen.append(f"{where.name}: {' '.join(command)}\n{where.run(*command, check=False).stdout}")
        return "\n".join([*seen, self.names.process.tail(5)])

    def ask_by_tcp(self, machine, name):
        question = question_for(name)
        with machine.namespace.connect(Switch.ADDRESS, 53, timeout=5) as connection:
            connection.sendall(struct.pack(">H", len(question)) + question)
            with connection.makefile("rb") as answer:
                return addresses_in(answer.read(struct.unpack(">H", answer.read(2))[0]))

    def wait_for_name(self, machine, name, wanted):
        def seen():
            got = self.ask(machine, name)
            if got != wanted:
                raise NotYet(got)
            return True

        wait_for(f"{machine.name} resolves {name} to {wanted}", seen, 15)

    def listeners(self, machine):
        dump = json.loads(machine.admin("/listeners?format=json")[1])
        return {status["name"] for status in dump["listener_statuses"]}

    def test_names_follow_Services_without_a_step_on_the_machine(self):
        self.wait_for_name(self.client, HOST, ["10.96.0.12"])
        self.wait_for_name(self.client, HOST + ".svc.cluster.local", ["10.96.0.12"])
        self.wait_for_status(self.client, 200, HOST)  # every proxy knows its peers
        status, _ = self.client.request(self.ask(self.client, HOST)[0], meshcase.PORT, "/books-bought", HOST)
        self.assertEqual(200, status)

        with self.subTest("a Service that is added later resolves, for the libc too"):
            self.assertEqual([], self.ask(self.client, "later.server"))
            self.rig.mesh.write(
                "later.yaml",
                objects.service("server", "later", "10.96.0.77", meshcase.PORT, selector={"app": "server"}),
            )
            self.wait_for_name(self.client, "later.server", ["10.96.0.77"])
            found = self.client.namespace.run("getent", "ahostsv4", "later.server.svc").stdout
            self.assertTrue(found.startswith("10.96.0.77"), found)

        with self.subTest("other names are those of the machine's name server"):
            self.wait_for_name(self.client, "other.mesh.test", ["10.200.0.99"])
            self.assertEqual([], self.ask(self.client, "nobody.mesh.test"))

        with self.subTest("a machine that does not ask has no such listener"):
            self.assertIn("dns-listener", self.listeners(self.client))
            self.assertNotIn("dns-listener", self.listeners(self.server))
            self.assertEqual([], self.ask(self.server, "later.server"))
            self.assertEqual(["10.200.0.99"], self.ask(self.server, "other.mesh.test"))

        with self.subTest("name servers are asked by TCP past the proxy, by machines that ask Envoy and others"):
            for machine in (self.client, self.server):
                self.assertEqual(["10.200.0.99"], self.ask_by_tcp(machine, "other.mesh.test"))

        with self.subTest("nothing else on port 53 goes past the proxy"):
            elsewhere = self.rig.switch.plug_in("elsewhere", "10.200.0.98")
            self.addCleanup(elsewhere.delete)
            with elsewhere.listen("10.200.0.98", 53), self.assertRaises(ConnectionError):
                with self.client.namespace.connect("10.200.0.98", 53) as connection:
                    connection.sendall(b"\0")
                    if not connection.recv(1):
                        raise ConnectionError("closed")

        with self.subTest("of a headless Service's nine members Envoy gives eight, and TCP all"):
            self.rig.mesh.write(
                "peers.yaml",
                objects.service("server", "peers", "None", meshcase.PORT, selector={"app": "peers"}),
                *(
                    objects.machine("server", f"peer-{n}", address, "server", {"app": "peers"})
                    for n, address in enumerate(MEMBERS)
                ),
            )
            some = self.ask(self.client, PEERS)
            self.assertEqual(8, len(set(some)), some)
            self.assertLess(set(some), set(MEMBERS))
            self.assertEqual(sorted(MEMBERS), sorted(self.ask_by_tcp(self.client, PEERS)))
            self.assertEqual(sorted(MEMBERS), sorted(self.ask(self.server, PEERS)))

        with self.subTest("a Service that is gone does not resolve"):
            self.rig.mesh.remove("later.yaml")
            self.wait_for_name(self.client, "later.server", [])
            self.wait_for_name(self.client, HOST, ["10.96.0.12"])

        with self.subTest("--remove gives the name server back"):
            self.client.namespace.run(self.client.directory / "intercept.sh", "--remove")
            self.wait_for_name(self.client, HOST, [])
            self.wait_for_name(self.client, "other.mesh.test", ["10.200.0.99"])


if __name__ == "__main__":
    meshcase.main()
