#!/usr/bin/python3
"""Real Envoys refuse peers with wrong certificates: expired, from the future, of another CA, of
another identity; and, in the controller's place, any other genuine certificate of the mesh
(docs/security.md, threats 11 and 12).

usage: peers_test.py --bin DIRECTORY --envoy FILE
"""

import http.client

from lib.mesh import meshcase
from lib.mesh.authority import Authority
from lib.mesh.impostor import Impostor
from lib.mesh.rig import ADS_PORT, PROXY_UID
from lib.mesh.xds_client import WorkloadCertificate
from lib.net import http2
from lib.net.netns import Switch
from lib.net.processes import wait_for

HOST, PORT, PATH = "server.server", meshcase.PORT, "/books-bought"
SERVER_NAME = "server.server.svc.cluster.local"
DOMAIN = "spiffe://cluster.local"
CLIENT, SERVER = f"{DOMAIN}/ns/client/sa/client", f"{DOMAIN}/ns/server/sa/server"
CONTROLLER = f"{DOMAIN}/osm/controller"
BOTH = "clientAuth, serverAuth"
FAILURES = ("fail_verify_error", "fail_verify_no_cert", "fail_verify_san")


class Peers(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client, self.server = self.add_client_and_server()
        self.start_mesh()
        self.serve(self.server)
        self.wait_for_status(self.client, 200, HOST)
        self.mesh = self.rig.state / "ca" / "ca.pem"

    def issue(self, label, uri, uses=BOTH, days_ago=1, days_left=1, ca=None):
        """(chain, key) files of what the mesh would not issue; of another CA with ca=False."""
        label = label.replace(" ", "-").replace("'", "")
        authority = Authority(self.rig.directory / f"authority-{label}", self.mesh if ca is None else None)
        return authority.for_days(label, uri, days_ago, days_left, uses)

    def wrong(self, uri, other, uses=BOTH):
        """{kind: (identity, which of Envoy's counters tells)} of those who must be refused."""
        return {
            "expired": (self.issue("expired", uri, uses, 3, -1), "fail_verify_error"),
            "not valid yet": (self.issue("not yet", uri, uses, -1, 3), "fail_verify_error"),
            "another CA, the same names": (self.issue("other ca", uri, uses, ca=False), "fail_verify_error"),
            "the mesh's CA, another identity": (self.issue("other identity", other, uses), "fail_verify_san"),
        }

    def counters(self, machine, scope):
        """{counter: sum} of failed verifications where the names begin with `scope`."""
        stats = machine.stats(r"ssl\.fail_verify")
        return {
            kind: sum(
                value for name, value in stats.items() if name.startswith(scope) and name.endswith(f".ssl.{kind}")
            )
            for kind in FAILURES
        }

    def assert_counted(self, machine, scope, before, counter):
        """Only `counter` of all failure counters rose."""
        wait_for(f"{machine.name} counts {counter}", lambda: self.counters(machine, scope)[counter] > before[counter])
        after = self.counters(machine, scope)
        for other in set(FAILURES) - {counter}:
            self.assertEqual(after[other], before[other], other)

    def test_a_server_with_another_identity_is_sent_nothing(self):
        self.server.stop_proxy()
        self.server.namespace.run(self.server.directory / "intercept.sh", "--remove")

        def ask(identity):
            """(status, what the impostor heard)"""
            listener = self.server.namespace.listen(self.server.address, PORT)
            with Impostor(listener, identity) as impostor:
                status = self.client.get(HOST, PORT, PATH)[0]
            return status, impostor.heard

        for kind, (identity, counter) in self.wrong(SERVER, CLIENT).items():
            with self.subTest(kind):
                before = self.counters(self.client, "cluster.")
                self.assertEqual(ask(identity), (503, []))
                self.assert_counted(self.client, "cluster.", before, counter)
        with self.subTest("a machine's proxy certificate is no server's"):
            own = [self.server.directory / file for file in ("sds_cert.pem", "sds_key.pem")]
            self.assertEqual(ask(own), (503, []))
        with self.subTest("the right one, made in the same way, is spoken to"):
            before = self.counters(self.client, "cluster.")
            self.assertNotEqual(ask(self.issue("right", SERVER))[1], [])
            self.assertEqual(self.counters(self.client, "cluster."), before)

    def dial(self, identity):
        """The status of a request straight to the server's Envoy, past our own."""
        plain = self.client.namespace.connect(self.server.address, PORT, uid=PROXY_UID)
        context = http2.client_context(identity=identity, alpn="osm")
        connection = http.client.HTTPConnection(HOST)
        connection.sock = context.wrap_socket(plain, server_hostname=SERVER_NAME)
        try:
            connection.request("GET", PATH)
            return connection.getresponse().status
        finally:
            connection.close()

    def test_a_client_with_another_identity_is_told_nothing(self):
        cases = self.wrong(CLIENT, f"{DOMAIN}/osm/proxy/11111111-2222-4333-8444-555555555555/client/client")
        cases["none"] = (None, "fail_verify_no_cert")
        cases["another trust domain"] = (
            self.issue("foreign", "spiffe://evil.local/ns/client/sa/client"),
            "fail_verify_san",
        )
        for kind, (identity, counter) in cases.items():
            with self.subTest(kind):
                before = self.counters(self.server, "listener.")
                with self.assertRaises(OSError):  # ssl.SSLError is one
                    self.dial(identity)
                self.assert_counted(self.server, "listener.", before, counter)
        before = self.counters(self.server, "listener.")
        with self.subTest("another workload is known, and not allowed"):
            self.assertEqual(self.dial(self.issue("other", f"{DOMAIN}/ns/other/sa/other")), 403)
        with self.subTest("a name that only resembles the client's is not allowed"):
            for i, uri in enumerate(
                (
                    CLIENT + "x",
                    CLIENT + "/",
                    f"{DOMAIN}/ns/Client/sa/client",
                    f"{DOMAIN}/ns/*/sa/*",
                    f"{DOMAIN}/ns/client/sa/../sa/client",
                )
            ):
                self.assertEqual(self.dial(self.issue(f"alike {i}", uri)), 403, uri)
        with self.subTest("the right one, made in the same way, is answered"):
            self.assertEqual(self.dial(self.issue("right", CLIENT)), 200)
        self.assertEqual(self.counters(self.server, "listener."), before)

    def test_a_genuine_certificate_of_the_mesh_does_not_make_a_controller(self):
        genuine = WorkloadCertificate(self.client, Switch.ADDRESS, ADS_PORT, self.rig.directory)
        hook = f"{DOMAIN}/osm/webhook/osm-injector, DNS:osm-injector.osm-system.svc"
        cases = {
            "a workload's own": ((genuine.chain, genuine.key), "fail_verify_san"),
            "a webhook's": (self.issue("hook", hook, "serverAuth"), "fail_verify_san"),
            "an administrator's": (self.issue("admin", f"{DOMAIN}/osm/admin", "serverAuth"), "fail_verify_san"),
            "longer than the controller's": (self.issue("longer", CONTROLLER + "/x", "serverAuth"), "fail_verify_san"),
            "another trust domain's controller's": (
                self.issue("foreign", "spiffe://evil.local/osm/controller", "serverAuth"),
                "fail_verify_san",
            ),
            "the controller's, expired": (self.issue("old", CONTROLLER, "serverAuth", 3, -1), "fail_verify_error"),
            "another CA's controller's": (self.issue("ca", CONTROLLER, "serverAuth", ca=False), "fail_verify_error"),
        }
        right = self.issue("right", CONTROLLER, "serverAuth")
        scope = "cluster.osm-controller."
        self.rig.stop_controller()

        def in_its_place(identity):
            return Impostor(self.rig.switch.namespace.listen(Switch.ADDRESS, ADS_PORT), identity)

        for kind, (identity, counter) in cases.items():
            with self.subTest(kind):
                before = self.counters(self.client, scope)
                with in_its_place(identity) as impostor:
                    self.assert_counted(self.client, scope, before, counter)
                self.assertEqual(impostor.heard, [])
        with self.subTest("the right one, made in the same way, is spoken to"):
            with in_its_place(right) as impostor:
                wait_for("Envoy speaks", lambda: impostor.heard)
            self.assertTrue(impostor.heard[0].startswith(http2.PREFACE))
        with self.subTest("and the real one is come back to"):
            self.rig.start_controller()
            self.wait_until_synced()
            self.assertEqual(self.client.get(HOST, PORT, PATH)[0], 200)


if __name__ == "__main__":
    meshcase.main()
