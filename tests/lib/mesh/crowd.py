"""Hundreds of proxies of a shop's machines, without Envoys: each has a certificate of its own and one
ADS stream, on a connection of its own."""

import concurrent.futures
import selectors
import time

from lib.mesh import objects
from lib.mesh.xds_client import CLUSTERS, STATE_OF_THE_WORLD
from lib.net import http2
from lib.net.processes import UNREACHABLE, wait_for

_THREADS = 16


class Crowd:
    """`test`: a ShopTest, whose mesh gets so many machines."""

    def __init__(self, test, size):
        self.names = [f"crowd-{i}" for i in range(size)]
        test.write(
            "crowd.yaml",
            *(
                objects.machine("shop", name, f"10.2.{i // 250}.{i % 250 + 1}", "web", {"app": "web"})
                for i, name in enumerate(self.names)
            ),
        )
        self.folder = test.folder / "crowd"
        self.pool = concurrent.futures.ThreadPoolExecutor(_THREADS)
        test.addCleanup(self.close)
        self.streams = {}  # name: (connection, number of its stream)

        def bootstrap(name):
            code, _, err = test.bootstrap(name, self.folder / name)
            assert code == 0, err

        self.folder.mkdir()
        wait_for(
            "the machines are read",
            lambda: test.controller.admin(f"/v1/vm/subject?name={self.names[-1]}&namespace=shop")[0] == 200,
        )
        list(self.pool.map(bootstrap, self.names))

    def connect(self, address, deadline):
        """Every proxy without a stream connects, until it has clusters."""

        def begin(name):
            while True:
                try:
                    return name, self._begin(name, address)
                except (*http2.CLOSED, *UNREACHABLE) as failed:
                    if time.monotonic() > deadline:
                        raise AssertionError(f"{name} is not configured: {failed!r}") from failed
                    time.sleep(0.2)

        missing = [name for name in self.names if name not in self.streams]
        self.streams.update(self.pool.map(begin, missing))

    def _begin(self, name, address):
        folder = self.folder / name
        connection = http2.PatientConnection.tls(
            address, folder / "cacert.pem", (folder / "sds_cert.pem", folder / "sds_key.pem")
        )
        try:
            stream = connection.open(STATE_OF_THE_WORLD, CLUSTERS)
            connection.message(stream)
        except BaseException:
            connection.close()
            raise
        return connection, stream

    def ends(self, deadline):
        """Follows all streams to their ends. Result: [(time, gRPC's status)], in order."""
        ends = []
        with selectors.DefaultSelector() as selector:
            for name, (connection, _) in self.streams.items():
                selector.register(connection.socket, selectors.EVENT_READ, name)
            while self.streams:
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                assert ready, f"{len(self.streams)} streams have not ended"
                now = time.monotonic()
                for key, _ in ready:
                    status = self._end(*self.streams[key.data])
                    if status is not False:
                        ends.append((now, status))
                        selector.unregister(key.fileobj)
                        self.streams.pop(key.data)[0].close()
        return ends

    @staticmethod
    def _end(connection, stream):
        """Status of the stream's end (None: it was cut), False if it goes on."""
        try:
            while True:
                connection.advance()
                ended = connection.streams[stream][1]
                if ended:
                    return ended.status
                if not connection.socket.pending():
                    return False
        except (*http2.CLOSED, OSError):
            return None

    def drop(self):
        for connection, _ in self.streams.values():
            connection.close()
        self.streams = {}

    def close(self):
        self.drop()
        self.pool.shutdown()
