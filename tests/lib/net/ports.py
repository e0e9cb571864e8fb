"""Ports for programs that cannot have the kernel choose one."""

import contextlib
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
