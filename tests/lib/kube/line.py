"""A TCP line to a server that a test can cut, and that counts."""

import contextlib
import socket
import struct
import threading


class Line:
    """Listens at `address` inside of `namespace` and leads to `address`:`port` there.

    carried: the bytes so far, both ways, as they are in TCP."""

    def __init__(self, namespace, address, port):
        self.namespace, self.address, self.target = namespace, address, port
        self._lock, self._ends = threading.Lock(), set()
        self.port = self.carried = 0
        self.mend()

    def mend(self):
        """From now on it connects (again), at the same port."""
        listener = self.namespace.open_socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self.address, self.port))
        listener.listen(64)
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def cut(self):
        """Ends every connection; new ones are refused."""
        with self._lock:
            listener, self._listener = self._listener, None
            ends, self._ends = self._ends, set()
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
            listener.close()
        for end in ends:
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RDWR)  # wakes recv()

    def _accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
                server = self.namespace.connect(self.address, self.target)
                server.settimeout(None)
            except OSError:
                if self._listener is not listener:
                    return
                continue
            with self._lock:
                if self._listener is not listener:
                    client.close()
                    server.close()
                    return
                self._ends |= {client, server}
            threading.Thread(target=self._carry, args=(client, server), daemon=True).start()

    def _carry(self, client, server):
        back = threading.Thread(target=self._pump, args=(server, client), daemon=True)
        back.start()
        self._pump(client, server)
        back.join()
        with self._lock:
            self._ends -= {client, server}
        client.close()
        server.close()

    def _pump(self, one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                with self._lock:
                    self.carried += len(data)
                other.sendall(data)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
