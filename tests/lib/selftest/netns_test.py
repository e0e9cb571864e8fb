#!/usr/bin/python3
"""Machines reach the address of a switch while others are plugged in and leave."""

import os
import socket
import unittest

from lib.net.netns import Switch, ip

PORT = 5300


class Switched(unittest.TestCase):
    def setUp(self):
        self.switch = Switch(f"osm-{os.getpid()}-switched")
        self.addCleanup(self.switch.namespace.delete)

    def plug_in(self, name, address, mac):
        """`mac`: of the switch's end, which the kernel would draw."""
        machine = self.switch.plug_in(name, address)
        self.addCleanup(machine.delete)
        ip("-n", self.switch.namespace.name, "link", "set", f"port{self.switch.ports}", "address", mac)
        return machine

    def datagrams(self):
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        opened.bind((Switch.ADDRESS, PORT))
        opened.settimeout(10)
        return opened

    def test_a_machine_that_comes_or_leaves_cuts_off_no_other(self):
        one = self.plug_in("one", "10.200.0.11", "02:00:00:00:00:09")
        two = self.plug_in("two", "10.200.0.12", "02:00:00:00:00:0a")
        with self.switch.namespace.inside(self.datagrams) as received:

            def say(machine, text):
                def send():
                    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
                        opened.sendto(text, (Switch.ADDRESS, PORT))

                machine.inside(send)
                self.assertEqual(text, received.recv(100))

            say(one, b"one is known")
            say(two, b"two is known")
            three = self.plug_in("three", "10.200.0.13", "02:00:00:00:00:01")
            say(two, b"two while three is there")
            say(three, b"three is known")
            one.delete()
            say(two, b"two without one")
            three.delete()
            say(two, b"two without three")


if __name__ == "__main__":
    unittest.main()
