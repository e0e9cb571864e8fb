#!/usr/bin/python3
"""HTTP/1.1 as clients and applications really speak it passes two real Envoys: names with a dot at their
end, offers to upgrade to TLS, many and long headers, and applications that close connections early.
"""

import http.client
import socket
import threading
import time

from lib.mesh import meshcase, objects
from lib.net.outside import HttpDestination
from lib.net.processes import wait_for

ADDRESS, PORT, FULL = "10.96.0.12", meshcase.PORT, "server.server.svc.cluster.local"
OUTSIDE, OUTSIDE_ADDRESS = "api.example.com", "10.200.0.90"


class Application:
    """An HTTP/1.1 server on `listener`, which it owns. It closes a connection that was idle for so many
    seconds, and answers with the headers of `answer`."""

    def __init__(self, listener, idle=5.0):
        self.listener, self.idle, self.answer, self.heads = listener, idle, [], []
        self.closed_idle = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return  # close() was called
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        connection.settimeout(self.idle)
        with connection, connection.makefile("rb") as stream:
            while True:
                head = []
                try:
                    while line := stream.readline().strip():
                        head.append(line)
                except TimeoutError:
                    self.closed_idle += 1
                    return
                except OSError:
                    return
                if not head:
                    return
                self.heads.append(head)
                lines = [b"HTTP/1.1 200 OK", b"content-length: 0", *self.answer]
                connection.sendall(b"\r\n".join(lines) + b"\r\n\r\n")

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self.listener.close()


class HttpDetails(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client, self.server = self.add_client_and_server()
        self.outside = self.rig.switch.plug_in("outside", OUTSIDE_ADDRESS)
        self.addCleanup(self.outside.delete)
        self.start_mesh()
        self.app = Application(self.server.namespace.listen("127.0.0.1", PORT))
        self.addCleanup(self.app.close)
        self.wait_for_status(self.client, 200, "server.server")

    def ask(self, *headers, host="server.server", address=ADDRESS, port=PORT):
        """(status, what the application heard) of a request, as the client's application sends it."""
        before = len(self.app.heads)
        with self.client.namespace.connect(address, port, timeout=5) as connection:
            lines = ["GET /books-bought HTTP/1.1", f"Host: {host}", *headers]
            connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
            with connection.makefile("rb") as answer:  # Python's client takes 100 headers at most
                line = answer.readline().split()
            if not line:
                raise ConnectionError("closed without an answer")
            return int(line[1]), self.app.heads[before:]

    def status(self, *headers, **more):
        return self.ask(*headers, **more)[0]

    def test_names_and_upgrades_of_clients(self):
        for host in ("server.server.", f"{FULL}.", f"{FULL}.:{PORT}", f"SERVER.Server.:{PORT}"):
            with self.subTest("a dot at the end", host=host):
                status, heard = self.ask(host=host)
                self.assertEqual(status, 200)
                name = heard[0][1].partition(b":")[2].strip().decode().removesuffix(f":{PORT}")
                self.assertFalse(name.endswith("."), name)
        with self.subTest("another host keeps its 404"):
            self.assertEqual(self.status(host="other.server."), 404)
        for upgrade in ("TLS/1.2", "tls/1.0", "TLS/1.2, TLS/1.1"):
            with self.subTest("an offer of TLS", upgrade=upgrade):
                status, heard = self.ask("Connection: Upgrade", f"Upgrade: {upgrade}")
                self.assertEqual(status, 200)
                self.assertFalse([line for line in heard[0] if line.lower().startswith(b"upgrade")])
        with self.subTest("another protocol is refused"):
            self.assertEqual(self.status("Connection: Upgrade", "Upgrade: irc/6.9"), 403)
        self.through_an_egress_and_an_ingress()

    def through_an_egress_and_an_ingress(self):
        web = HttpDestination(self.outside, OUTSIDE_ADDRESS, 80, "out")
        self.addCleanup(web.close)
        self.client.namespace.set_hosts(f"127.0.0.1 localhost\n{OUTSIDE_ADDRESS} {OUTSIDE}\n")
        self.rig.mesh.write(
            "egress.yaml",
            objects.egress("client", "out", ["client"], {80: "http"}, hosts=["API.example.com."]),
            objects.ingress_backend(
                "server", "in", {("server", PORT): {"protocol": "http"}}, ("IPRange", "10.200.0.0/16")
            ),
        )
        offer = ("Connection: Upgrade", "Upgrade: TLS/1.2")
        for host in (OUTSIDE, f"{OUTSIDE}."):
            with self.subTest("an Egress", host=host):
                wait_for(
                    "the Egress is open",
                    lambda: self.status(*offer, host=host, address=OUTSIDE_ADDRESS, port=80) == 200,
                    retry=(ConnectionError, http.client.HTTPException),
                )
        with self.subTest("an IngressBackend"):

            def entered():
                connection = http.client.HTTPConnection("10.200.0.12", PORT)
                connection.sock = self.outside.connect("10.200.0.12", PORT, 5)
                connection.request("GET", "/", headers={"Connection": "Upgrade", "Upgrade": "TLS/1.2"})
                try:
                    return connection.getresponse().status == 200
                finally:
                    connection.close()

            wait_for("the ingress is open", entered, retry=(ConnectionError, http.client.HTTPException))

    def test_limits_of_headers_are_settings(self):
        many = [f"x-{n}: a" for n in range(120)]
        long = ["x-long: " + "a" * 7000] * 10
        self.assertEqual(self.status(*many), 431)
        self.assertEqual(self.status(*long), 431)
        self.app.answer = [f"x-{n}: a".encode() for n in range(120)]
        self.assertEqual(self.status(), 502)
        self.rig.mesh.write(
            "config.yaml", objects.mesh_config(False, sidecar={"headers": {"maxCount": 300, "maxKilobytes": 96}})
        )
        wait_for("many headers pass", lambda: self.status(*many) == 200, 20)
        self.assertEqual(len(self.ask(*long)[1]), 1)
        self.app.answer = [b"x-long: " + b"a" * 7000] * 12
        self.assertEqual(self.status(), 200)
        self.assertEqual(self.status(*[f"x-{n}: a" for n in range(400)]), 431)

    def test_connections_to_the_application_end_before_it_closes_them(self):
        kept = r"server/server\|14001\|local\.upstream_cx_active$"
        with self.subTest("by default after a second"):
            self.assertEqual(self.status(), 200)
            wait_for("the idle connection is closed", lambda: sum(self.server.stats(kept).values()) == 0)
            self.assertEqual(self.app.closed_idle, 0)  # it would have waited for 5 s
        with self.subTest("as the Service's setting says"):
            self.app.idle = 0.4
            self.rig.mesh.write(
                "limits.yaml",
                objects.upstream_setting(
                    "server", "own", FULL, connectionSettings={"http": {"applicationIdleTimeout": "100ms"}}
                ),
            )
            self.status()
            before = self.app.closed_idle
            for _ in range(10):
                self.assertEqual(self.status(), 200)
                time.sleep(0.2)  # longer than the sidecar's time, shorter than the application's
            self.assertEqual(self.app.closed_idle, before)


if __name__ == "__main__":
    meshcase.main()
