"""A TLS server with whatever certificate it has got hold of."""
import socket
import ssl
import threading


class Impostor:
    """Shows `identity`, (chain file, key file), at a port that lies in a namespace. `heard`: the
    first bytes of everybody who believed it."""

    def __init__(self, namespace, address, port, identity):
        self.heard = []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.set_alpn_protocols(["osm", "h2"])
        self.context.load_cert_chain(*identity)
        self.listener = namespace.open_socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind((address, port))
        self.listener.listen(16)
        self.thread = threading.Thread(target=self._accept)
        self.thread.start()

    def _accept(self):
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return  # close() was called
            plain.settimeout(5)
            try:
                with self.context.wrap_socket(plain, server_side=True) as tls:
                    first = tls.recv(100)
            except OSError:  # ssl.SSLError is one: turned away
                first = b""
            if first:
                self.heard.append(first)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self.listener.close()
        self.thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
