#!/usr/bin/python3
"""Effect of intercept.sh on connections, with the kernel's own iptables and without Envoy.

Listeners stand in for Envoy, and tell where a connection was meant to go.
"""

import os
import pathlib
import socket
import struct
import threading
import unittest

from lib.mesh import meshcase
from lib.mesh.rig import APP_UID, PROXY_UID
from lib.net.netns import Switch, delete_stale

GOLDEN = pathlib.Path(__file__).parent.parent / "data/inject"  # real texts of the script
VM = "10.200.0.11"
SERVICE = "10.96.0.7"
SO_ORIGINAL_DST = 80


class Listener:
    """Answers every connection with "<own port> <original destination>"."""

    def __init__(self, namespace, port, family=socket.AF_INET):
        self.port = port
        self.family = family
        self.socket = namespace.open_socket(family=family)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", port))
        self.socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                meant = ""
                if self.family == socket.AF_INET:
                    try:
                        raw = connection.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
                        port, address = struct.unpack("!2xH4s8x", raw)
                        meant = f"{socket.inet_ntoa(address)}:{port}"
                    except OSError:
                        pass
                connection.sendall(f"{self.port} {meant}".encode())

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def reached(namespace, address, port, uid=0, family=socket.AF_INET):
    """The listener that answered, and the original destination that it saw."""
    try:
        with namespace.connect(address, port, uid=uid, family=family) as connection:
            return connection.recv(100).decode()
    except ConnectionRefusedError:
        return "refused"
    except ConnectionResetError:
        return "reset"


def datagram(sender, receiver, address, port, uid=0):
    """The sender's address as the receiver of one UDP datagram sees it."""

    def udp():
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    with receiver.inside(udp) as end, sender.inside(udp, uid) as start:
        end.bind((address, port))
        end.settimeout(5)
        start.sendto(b"x", (address, port))
        return end.recvfrom(10)[1][0]


class Intercepted(unittest.TestCase):
    """A machine that ran a script."""

    SCRIPT = GOLDEN / "intercept.sh"

    @classmethod
    def setUpClass(cls):
        delete_stale()
        cls.switch = Switch(f"osm-{os.getpid()}-i")
        cls.addClassCleanup(cls.switch.namespace.delete)
        cls.outside = cls.switch.namespace
        cls.vm = cls.switch.plug_in("vm", VM)
        cls.addClassCleanup(cls.vm.delete)
        for port in (15001, 15003, 15010, 22, 8080, 9000):
            cls.addClassCleanup(Listener(cls.vm, port).close)
        cls.addClassCleanup(Listener(cls.vm, 8081, socket.AF_INET6).close)
        for port in (9000, 9050):
            cls.addClassCleanup(Listener(cls.outside, port).close)
        cls.addClassCleanup(Listener(cls.outside, 9001, socket.AF_INET6).close)
        cls.vm.run("sh", cls.SCRIPT)


class Interception(Intercepted):
    def test_a_connection_from_outside_reaches_the_inbound_listener_which_learns_its_aim(self):
        self.assertEqual(reached(self.outside, VM, 8080), f"15003 {VM}:8080")

    def test_a_port_without_a_listener_reaches_the_inbound_listener_too(self):
        self.assertEqual(reached(self.outside, VM, 4711), f"15003 {VM}:4711")

    def test_ssh_and_the_metrics_port_are_reached_directly(self):
        self.assertEqual(reached(self.outside, VM, 22), f"22 {VM}:22")
        self.assertEqual(reached(self.outside, VM, 15010), f"15010 {VM}:15010")

    def test_an_application_dialling_a_service_reaches_the_outbound_listener(self):
        for uid in (0, APP_UID):
            self.assertEqual(reached(self.vm, SERVICE, 80, uid), f"15001 {SERVICE}:80")

    def test_any_process_of_the_proxys_user_goes_out_directly_and_no_other(self):
        self.assertTrue(reached(self.vm, Switch.ADDRESS, 9000, PROXY_UID).startswith("9000"))
        for uid in (0, APP_UID, PROXY_UID - 1):
            self.assertEqual(reached(self.vm, Switch.ADDRESS, 9000, uid), f"15001 {Switch.ADDRESS}:9000")

    def test_loopback_is_left_alone_for_both(self):
        for uid in (APP_UID, PROXY_UID):
            self.assertTrue(reached(self.vm, "127.0.0.1", 8080, uid).startswith("8080"))

    def test_an_application_reaches_its_own_machine_directly(self):
        self.assertTrue(reached(self.vm, VM, 8080, APP_UID).startswith("8080"))

    def test_the_proxy_dialling_its_own_machine_is_inbound_like_anybody(self):
        self.assertEqual(reached(self.vm, VM, 8080, PROXY_UID), f"15003 {VM}:8080")

    def test_the_proxys_listeners_refuse_to_be_dialled_directly(self):
        for port in (15001, 15003):
            self.assertEqual(reached(self.outside, VM, port), "refused" if port == 15003 else f"15003 {VM}:15001")
            for address in ("127.0.0.1", VM):
                self.assertEqual(reached(self.vm, address, port, APP_UID), "refused")

    def test_ipv6_does_not_lead_around_the_mesh(self):
        self.assertEqual(reached(self.outside, "fd00:200::2", 8081, family=socket.AF_INET6), "refused")
        self.assertTrue(reached(self.vm, "::1", 8081, APP_UID, socket.AF_INET6).startswith("8081"))

    def test_ipv6_leaves_a_machine_directly(self):
        for uid in (APP_UID, PROXY_UID):
            self.assertTrue(reached(self.vm, "fd00:200::1", 9001, uid, socket.AF_INET6).startswith("9001"))

    def test_udp_passes_in_both_directions(self):
        self.assertEqual(datagram(self.outside, self.vm, VM, 8080), Switch.ADDRESS)
        self.assertEqual(datagram(self.vm, self.outside, Switch.ADDRESS, 9000, APP_UID), VM)

    def test_open_connections_survive_applying_the_rules_again(self):
        with self.outside.connect(VM, 22) as connection:
            self.vm.run("sh", self.SCRIPT)
            self.assertTrue(connection.recv(100))
        self.assertEqual(reached(self.outside, VM, 8080), f"15003 {VM}:8080")


class Exclusions(Intercepted):
    """The script that excludes ports 9000 to 9039 both ways, the networks 172.16.0.0/12 inbound and 10.1.0.0/16
    outbound, and that includes 10.0.0.0/8 and 192.168.0.0/16 only."""

    SCRIPT = GOLDEN / "intercept_everything.sh"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for address in ("172.16.0.9", "10.1.0.5", "10.2.0.5", "192.168.0.5", "198.51.100.5"):
            cls.outside.run("ip", "address", "add", f"{address}/32", "dev", "lo")

    def from_address(self, address):
        """What a connection from this address of the outside to the machine's port 8080 reaches."""
        with self.outside.inside(socket.socket) as client:
            client.settimeout(5)
            client.bind((address, 0))
            client.connect((VM, 8080))
            return client.recv(100).decode()

    def test_an_excluded_network_reaches_the_machine_directly_and_others_do_not(self):
        self.assertEqual(self.from_address("172.16.0.9"), f"8080 {VM}:8080")
        self.assertEqual(self.from_address("192.168.0.5"), f"15003 {VM}:8080")

    def test_an_excluded_inbound_port_is_reached_directly(self):
        self.assertEqual(reached(self.outside, VM, 9000), f"9000 {VM}:9000")
        self.assertEqual(reached(self.outside, VM, 8080), f"15003 {VM}:8080")

    def test_an_excluded_outbound_port_and_network_are_dialled_directly(self):
        self.assertTrue(reached(self.vm, "10.2.0.5", 9000, APP_UID).startswith("9000"))
        self.assertTrue(reached(self.vm, "10.1.0.5", 9050, APP_UID).startswith("9050"))

    def test_only_included_networks_go_through_the_proxy(self):
        for address in ("10.2.0.5", "192.168.0.5"):
            self.assertEqual(reached(self.vm, address, 9050, APP_UID), f"15001 {address}:9050")
        self.assertTrue(reached(self.vm, "198.51.100.5", 9050, APP_UID).startswith("9050"))


if __name__ == "__main__":
    meshcase.main()
