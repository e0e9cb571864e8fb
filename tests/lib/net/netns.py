"""Network namespaces, a switch between them, and sockets opened inside a namespace."""

import ctypes
import errno
import http.client
import os
import pathlib
import select
import shutil
import socket
import subprocess
import threading

from lib.net.processes import CommandFailed, FairClock

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000
_ETC = pathlib.Path("/etc/netns")


def ip(*arguments):
    ran = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if ran.returncode != 0:
        raise CommandFailed(f"ip {' '.join(arguments)}: {ran.stderr.strip()}")
    return ran.stdout


def _connect(opened, address, timeout):
    """Within so many fair seconds: the Envoy that answers may wait for a core."""
    opened.setblocking(False)
    failed, clock, poller = opened.connect_ex(address), None, select.poll()
    poller.register(opened, select.POLLOUT)
    while failed == errno.EINPROGRESS:
        if poller.poll(1000 * min(timeout, 0.1)):
            failed = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        elif clock is None:
            clock = FairClock()
        elif clock.seconds() > timeout:
            raise TimeoutError(f"no connection to {address} within {timeout:g} s")
    if failed:
        raise OSError(failed, f"{address}: {os.strerror(failed)}")
    opened.settimeout(timeout)


class Namespace:
    """One network namespace, with its own /etc/hosts and /etc/resolv.conf."""

    def __init__(self, name):
        self.name = name
        ip("netns", "add", name)
        (_ETC / name).mkdir(parents=True)
        self.set_hosts("127.0.0.1 localhost\n::1 localhost\n")
        # Nobody answers there: a name that hosts does not know fails at once.
        (_ETC / name / "resolv.conf").write_text("nameserver 127.0.0.1\noptions attempts:1\n")
        ip("-n", name, "link", "set", "lo", "up")

    def set_hosts(self, text):
        (_ETC / self.name / "hosts").write_text(text)

    def set_name_server(self, address):
        (_ETC / self.name / "resolv.conf").write_text(f"nameserver {address}\n")

    def command(self, *arguments):
        """The command line that runs `arguments` inside."""
        return ["ip", "netns", "exec", self.name, *map(str, arguments)]

    def run(self, *arguments, check=True):
        ran = subprocess.run(self.command(*arguments), capture_output=True, text=True)
        if check and ran.returncode != 0:
            raise CommandFailed(f"{arguments} in {self.name}: {ran.stdout}{ran.stderr}")
        return ran

    def inside(self, function, uid=0):
        """function()'s result; sockets that it opens are inside, and owned by `uid` as far as
        iptables is concerned."""
        result, failure = [], []

        def run():  # a thread of its own, because setns and setfsuid change the calling thread
            try:
                with open(f"/run/netns/{self.name}") as handle:
                    if _LIBC.setns(handle.fileno(), _CLONE_NEWNET) != 0:
                        raise OSError(ctypes.get_errno(), f"setns to {self.name}")
                _LIBC.setfsuid(uid)
                result.append(function())
            except BaseException as failed:
                failure.append(failed)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if failure:
            raise failure[0]
        return result[0]

    def open_socket(self, uid=0, family=socket.AF_INET):
        return self.inside(lambda: socket.socket(family, socket.SOCK_STREAM), uid)

    def listen(self, address, port):
        opened = self.open_socket()
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((address, port))
        opened.listen(64)
        return opened

    def connect(self, address, port, timeout=2, uid=0, family=socket.AF_INET):
        opened = self.open_socket(uid, family)
        try:
            _connect(opened, (address, port), timeout)
        except OSError:
            opened.close()
            raise
        return opened

    def http(self, address, port, method, path, headers=None, body=None, timeout=5):
        """(status, body) of one request made from inside.

        Failure: a ConnectionError says that no byte of an answer came.
        """
        connection = http.client.HTTPConnection(address, port, timeout=timeout)
        connection.sock = self.connect(address, port, timeout)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            response = connection.getresponse()
            try:
                return response.status, response.read().decode()
            except ConnectionError as failed:
                raise http.client.IncompleteRead(b"") from failed
        finally:
            connection.close()

    def delete(self):
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True)
        shutil.rmtree(_ETC / self.name, ignore_errors=True)
        try:
            _ETC.rmdir()
        except OSError:
            pass  # others' are there


class Switch:
    """A namespace with a bridge: the network between the machines, and where the controller is."""

    ADDRESS = "10.200.0.1"
    # Else a bridge has the lowest address of its ports, which changes when machines or pods come and go. Others
    # send to the former one until they ask again, and the kernel drops that: up to half a minute for UDP.
    MAC = "02:00:0a:c8:00:01"

    def __init__(self, prefix):
        self.prefix = prefix
        self.namespace = Namespace(f"{prefix}-switch")
        self.ports = 0
        name = self.namespace.name
        ip("-n", name, "link", "add", "br0", "address", self.MAC, "type", "bridge")
        ip("-n", name, "address", "add", f"{self.ADDRESS}/16", "dev", "br0")
        ip("-n", name, "address", "add", "fd00:200::1/64", "dev", "br0", "nodad")
        ip("-n", name, "link", "set", "br0", "up")

    def plug_in(self, name, address):
        """A new namespace with one interface on the bridge."""
        machine = Namespace(f"{self.prefix}-{name}")
        try:
            self.ports += 1
            switch = self.namespace.name
            port = f"port{self.ports}"
            ip("-n", switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", machine.name)
            ip("-n", switch, "link", "set", port, "master", "br0", "up")
            ip("-n", machine.name, "address", "add", f"{address}/16", "dev", "eth0")
            ip("-n", machine.name, "address", "add", f"fd00:200::{self.ports + 1:x}/64", "dev", "eth0", "nodad")
            ip("-n", machine.name, "link", "set", "eth0", "up")
            # Service addresses are nowhere; a route makes the kernel offer them to iptables.
            ip("-n", machine.name, "route", "add", "default", "via", self.ADDRESS)
        except Exception:
            machine.delete()
            raise
        return machine


def delete_stale():
    """Namespaces of runs that were killed: their names hold the process id of their run."""
    for line in ip("netns", "list").splitlines():
        name = line.split()[0]
        parts = name.split("-")
        if name.startswith("osm-") and len(parts) >= 3 and parts[1].isdigit():
            if not os.path.exists(f"/proc/{parts[1]}") and not pids_in(name):
                subprocess.run(["ip", "netns", "del", name], capture_output=True)
                shutil.rmtree(_ETC / name, ignore_errors=True)


def pids_in(name):
    return subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split()
