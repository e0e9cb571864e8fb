"""A TLS server with any certificate, in place of a peer."""

import socket
import ssl
import threading


class Impostor:
    """Shows `identity`, (chain file, key file), to everybody who comes to `listener`, which it owns
    from then on. `shaken`: how many handshakes succeeded; `heard`: the first bytes of each who said
    anything after it."""

    def __init__(self, listener, identity):
        self.listener, self.heard, self.shaken = listener, [], 0
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.set_alpn_protocols(["osm", "h2"])
        self.context.load_cert_chain(*identity)
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
                    self.shaken += 1
                    if first := tls.recv(100):
                        self.heard.append(first)
            except OSError:  # ssl.SSLError is one: turned away
                plain.close()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self.listener.close()
        self.thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
