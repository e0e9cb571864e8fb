#!/usr/bin/python3
"""A TLS session from before a change of trust or of policy gives no more than a new one, at the
server's Envoy and at the controller's ADS port (docs/security.md, threat 33).

usage: resumption_test.py --bin DIRECTORY --envoy FILE
"""

import http.client
import ssl

from lib.mesh import meshcase, objects
from lib.mesh.authority import Authority, openssl
from lib.mesh.rig import ADS_PORT, PROXY_UID
from lib.mesh.roots import RootCase
from lib.mesh.xds_client import CLUSTER, AdsStream
from lib.net import http2
from lib.net.netns import Switch
from lib.net.processes import wait_for

PORT = meshcase.PORT
CLIENT = "spiffe://cluster.local/ns/client/sa/client"
VERSIONS = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
OTHER_UUID = "11111111-2222-4333-8444-555555555555"


def passive(name):
    """A root that is trusted and never signs."""
    return {
        "apiVersion": "config.openservicemesh.io/v1alpha2",
        "kind": "MeshRootCertificate",
        "metadata": {"name": name, "namespace": "osm-system"},
        "spec": {
            "role": "passive",
            "trustDomain": "cluster.local",
            "provider": {"tresor": {"ca": {"secretRef": {"name": f"{name}-ca", "namespace": "osm-system"}}}},
        },
    }


class Caller:
    """One identity and one version of TLS. `session`: of the last call."""

    def __init__(self, case, identity, version, alpn):
        self.case, self.session, self.resumed = case, None, False
        self.context = http2.client_context(identity=identity, alpn=alpn)
        self.context.minimum_version = self.context.maximum_version = version

    def connect(self, address, port, server_name=None):
        """With the session of the last call, if there was one."""
        plain = self.case.client.namespace.connect(address, port, timeout=10, uid=PROXY_UID)
        return self.context.wrap_socket(plain, server_hostname=server_name, session=self.session)

    def note(self, tls):
        self.session, self.resumed = tls.session, tls.session_reused


class EnvoyCaller(Caller):
    """A workload that dials the server's Envoy."""

    def __init__(self, case, authority, label, version):
        super().__init__(case, authority.for_days(f"workload-{label}", CLIENT), version, "osm")

    def call(self):
        """The status of a request. Failure: OSError."""
        connection = http.client.HTTPConnection("server.server")
        connection.sock = self.connect(self.case.server.address, PORT, "server.server.svc.cluster.local")
        try:
            connection.request("GET", "/books-bought")
            status = connection.getresponse().status
            self.note(connection.sock)
            return status
        finally:
            connection.close()


class ControllerCaller(Caller):
    """A proxy that asks the controller for its clusters."""

    def __init__(self, case, authority, label, version):
        names = openssl("x509", "-in", case.client.directory / "sds_cert.pem", "-noout", "-ext", "subjectAltName")
        uri = names.split("URI:")[1].split()[0].strip(",")
        super().__init__(case, authority.for_days(f"proxy-{label}", uri), version, "h2")

    def call(self):
        """200. Failure: http2.Ended for a refused stream, another OSError for a refused handshake."""
        tls = self.connect(Switch.ADDRESS, ADS_PORT)
        stream = AdsStream(http2.Connection(tls))
        try:
            stream.ask(CLUSTER)
            stream.response()
            self.note(tls)
            return 200
        finally:
            stream.close()


class Resumption(RootCase):
    def setUp(self):
        super().setUp()
        self.client, self.server = self.add_client_and_server()
        self.rig.mesh.write("root.yaml", passive("other"))
        self.rig.start_controller()
        for machine in (self.client, self.server):  # the client has no Envoy: this test is it
            machine.bootstrap()
        self.server.start_proxy()
        self.serve(self.server)
        self.wait_for_states(other="trusted", own="signing")
        self.own = Authority(self.rig.directory / "own", self.rig.state / "ca" / "ca.pem")
        self.other = Authority(self.rig.directory / "other", self.rig.state / "roots" / "other" / "ca.pem")

    def callers(self, authority, name):
        """Callers at both places with a session, which resumed it once."""
        made = [
            kind(self, authority, f"{name}-{version.name}", version)
            for kind in (EnvoyCaller, ControllerCaller)
            for version in VERSIONS
        ]
        for caller in made:
            wait_for("a call succeeds", lambda: self.status(caller) == 200)
            self.assertEqual(caller.call(), 200)
            with self.subTest(
                "only the controller, which compares the end of the certificate, resumes", caller=type(caller).__name__
            ):
                self.assertEqual(caller.resumed, isinstance(caller, ControllerCaller))
        return made

    def status(self, caller):
        """The status of a call, None for a refused handshake."""
        try:
            return caller.call()
        except (http2.Ended, TimeoutError):
            raise
        except OSError:  # ssl.SSLError is one
            return None

    def wait_for_refusal(self, authority):
        """Until new connections are refused at both places."""
        for kind in (EnvoyCaller, ControllerCaller):
            fresh = kind(self, authority, "fresh", VERSIONS[1])

            def refused():
                fresh.session = None
                return self.status(fresh) is None

            wait_for(f"{kind.__name__} is refused", refused)

    def test_a_session_does_not_outlive_trust_or_permission(self):
        withdrawn, own = self.callers(self.other, "withdrawn"), self.callers(self.own, "own")

        self.rig.mesh.remove("root.yaml")
        wait_for("the root is dropped", lambda: "other" not in self.roots())
        self.wait_for_refusal(self.other)
        for caller in withdrawn:
            with self.subTest("of a withdrawn root", caller=type(caller).__name__):
                self.assertIsNone(self.status(caller))
        for caller in own:
            with self.subTest("of the root that stays", caller=type(caller).__name__):
                self.assertEqual(caller.call(), 200)
                self.assertFalse(caller.resumed)  # the certificate was verified again

        for caller in own:  # permissions end, certificates stay valid
            caller.call()
        # The machine first: the Envoy obeys the policy only after the controller has read both.
        self.rig.mesh.write(
            "machine-client.yaml",
            objects.namespace("client"),
            objects.account("client", "client"),
            objects.machine("client", "client", self.client.address, "client", uuid=OTHER_UUID),
        )
        self.rig.mesh.write("server.yaml", objects.service("server", "server", "10.96.0.12", PORT))
        fresh = EnvoyCaller(self, self.own, "after", VERSIONS[1])
        wait_for("the permission is gone", lambda: fresh.call() in (403, 404))
        for caller in own:
            with self.subTest("of a workload whose permission is gone", caller=type(caller).__name__):
                if isinstance(caller, EnvoyCaller):
                    self.assertIn(caller.call(), (403, 404))
                elif caller.context.maximum_version == VERSIONS[1]:  # five seconds each
                    with self.assertRaisesRegex(http2.Ended, "unknown-proxy"):
                        caller.call()


if __name__ == "__main__":
    meshcase.main()
