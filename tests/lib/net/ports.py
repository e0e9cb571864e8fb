"""Ports for programs that cannot have the kernel choose one, and those of a program that runs."""

import contextlib
import os
import pathlib
import socket


def free_ports(count):
    """Different ports of 127.0.0.1 that nobody has just now, neither for TCP nor for UDP. All are held
    until the last is drawn: the kernel may give a port that was let go a second time."""
    with contextlib.ExitStack() as held:
        ports = []
        while len(ports) < count:
            tcp, udp = (
                held.enter_context(socket.socket(type=kind)) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)
            )
            tcp.bind(("127.0.0.1", 0))
            with contextlib.suppress(OSError):  # somebody has it for UDP
                udp.bind(tcp.getsockname())
                ports.append(tcp.getsockname()[1])
        return ports


def listening(pid):
    """The TCP ports at which a process listens, in its own network namespace."""
    held, ports = set(), set()
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # it is closed meanwhile
            held.add(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in held:  # it listens
                ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return ports
