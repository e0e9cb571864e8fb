"""A real name server, dnsmasq, for a zone that a test writes."""

import os
import pathlib
import shutil
import signal
import socket
import sys

from lib.net.processes import NotYet, Process, wait_for

ZONE = "mesh.test"


class NameServer:
    """Answers for *.mesh.test; other names are refused. `services`: {SRV name: (host, port)}."""

    def __init__(self, directory, address="127.0.0.1", port=53, services=None, namespace=None):
        program = shutil.which("dnsmasq") or "/usr/sbin/dnsmasq"
        if not os.path.exists(program):
            sys.exit("dnsmasq is missing: tools/setup installs it")
        self.address, self.port, self.namespace = address, port, namespace
        self.directory = pathlib.Path(directory)
        self.hosts = self.directory / "zone.hosts"
        self.hosts.write_text("")
        self.command = [
            program,
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--no-resolv",
            "--no-hosts",
            f"--addn-hosts={self.hosts}",
            f"--local=/{ZONE}/",
            "--local-ttl=1",
            f"--port={port}",
            f"--listen-address={address}",
            "--bind-interfaces",
            "--pid-file=",
            "--log-facility=-",
            "--log-queries",
            f"--user={os.environ.get('USER', 'root') if os.geteuid() else 'root'}",
            *(f"--srv-host={name},{host},{number},0,10" for name, (host, number) in (services or {}).items()),
        ]
        self.process = None
        self.start()

    def start(self):
        command = self.namespace.command(*self.command) if self.namespace else self.command
        self.process = Process("dnsmasq", command, self.directory / "dnsmasq.log")
        self.wait_until_it_answers()

    def stop(self):
        self.process.end(signal.SIGKILL)

    def write(self, **names):
        """name=[addresses], in place of all others. A name without a dot is under mesh.test."""
        full = {name if "." in name else f"{name}.{ZONE}": addresses for name, addresses in names.items()}
        self.hosts.write_text("".join(f"{address} {name}\n" for name, all in full.items() for address in all))
        os.kill(self.process.pid, signal.SIGHUP)

    def wait_until_it_answers(self):
        # ns.mesh.test, A: any answer will do.
        question = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x02ns\x04mesh\x04test\x00\x00\x01\x00\x01"

        def ask():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
                asking.settimeout(0.2)
                asking.connect((self.address, self.port))
                asking.send(question)
                try:
                    return asking.recv(512)[:2] == question[:2]
                except OSError as failed:
                    raise NotYet(failed) from failed

        wait_for("dnsmasq answers", lambda: self.namespace.inside(ask) if self.namespace else ask())
