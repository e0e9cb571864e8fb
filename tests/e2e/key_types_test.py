#!/usr/bin/python3
"""ECDSA, Ed25519 and RSA keys replace each other under load without a failed request."""

import ssl
import subprocess

from lib.mesh import meshcase, objects
from lib.mesh.rig import ADS_PORT, PROXY_UID
from lib.net.netns import Switch
from lib.net.processes import wait_for

HOST, PORT = "server.server", meshcase.PORT
MARKS = {"ECDSA": "ASN1 OID: prime256v1", "RSA": "Public-Key: (2048 bit)", "Ed25519": "ED25519 Public-Key"}
CONTROLLER = "osm-controller.osm-system"


class KeyTypes(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client, self.server = self.add_client_and_server()
        self.start_mesh()
        self.serve(self.server)
        self.wait_for_status(self.client, 200, HOST)

    def shown(self, address, port, server_name, alpn):
        """The key of the certificate that is shown there, as openssl tells it; past our proxy."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols([alpn])
        plain = self.client.namespace.connect(address, port, uid=PROXY_UID)
        with context.wrap_socket(plain, server_hostname=server_name) as tls:
            certificate = tls.getpeercert(binary_form=True)
        return subprocess.run(
            ["openssl", "x509", "-inform", "der", "-noout", "-text"], input=certificate, capture_output=True, check=True
        ).stdout.decode()

    def wait_for_keys(self, algorithm, controllers=True):
        everybody = [
            ("the server", (self.server.address, PORT, "server.server.svc.cluster.local", "osm")),
            ("the controller", (Switch.ADDRESS, ADS_PORT, None, "h2")),
        ]
        for who, where in everybody[: 2 if controllers else 1]:
            wait_for(f"{who} shows a key of {algorithm}", lambda: MARKS[algorithm] in self.shown(*where))

    def names(self):
        return [c["common_name"] for c in self.rig.admin("GET", "/v1/certificates")["certificates"]]

    def rotate(self, name):
        """Until the proxies that use it have it."""
        serial = self.rig.osm_json("certificate", "rotate", name)["serial_number"].lower().lstrip("0")
        if name == CONTROLLER:
            return
        wait_for(
            f"a proxy has {name} {serial}",
            lambda: any(serial in m.admin("/certs")[1].lower() for m in self.rig.machines.values()),
        )

    def choose(self, algorithm):
        made = objects.mesh_config()
        made["spec"]["certificate"] = {"keyAlgorithm": algorithm}
        self.rig.mesh.write("config.yaml", made)

        def taken():  # the one question whose answer depends on it
            self.rig.osm("certificate", "rotate", CONTROLLER)
            return MARKS[algorithm] in self.shown(Switch.ADDRESS, ADS_PORT, None, "h2")

        wait_for(f"the controller makes keys of {algorithm}", taken, 20)

    def test_keys_change_kind_and_back_under_load_and_no_request_fails(self):
        self.wait_for_keys("ECDSA")
        load = meshcase.Load(self.client)
        self.addCleanup(load.stop)
        for algorithm in ("Ed25519", "RSA", "Ed25519", "ECDSA"):
            with self.subTest(algorithm):
                self.choose(algorithm)
                for name in self.names():  # one after another: old and new meet
                    before = load.requests
                    self.rotate(name)
                    wait_for("requests between", lambda: load.requests >= before + 5)
                self.wait_for_keys(algorithm)
                # Whoever connects anew is taken too. The controller's own first key may be made
                # before it has read which kind is wanted.
                self.rig.stop_controller()
                self.rig.start_controller()
                self.wait_until_synced()
                wait_for("every leaf is made anew", lambda: len(self.names()) == 3)
                self.wait_for_keys(algorithm, controllers=False)
                self.assertEqual(load.failures, [])
        load.stop()
        self.assertEqual(load.failures, [])

    def test_a_proxys_own_key_is_of_the_kind_that_the_mesh_asks_for_and_is_taken(self):
        for algorithm in ("Ed25519", "RSA"):
            with self.subTest(algorithm):
                self.choose(algorithm)
                self.client.bootstrap()
                own = subprocess.run(
                    ["openssl", "x509", "-noout", "-text", "-in", self.client.directory / "sds_cert.pem"],
                    capture_output=True,
                    check=True,
                ).stdout.decode()
                self.assertIn(MARKS[algorithm], own)
                self.client.stop_proxy()
                self.client.start_proxy()
                self.wait_for_status(self.client, 200, HOST)


if __name__ == "__main__":
    meshcase.main()
