#!/usr/bin/python3
"""Certificates come from a real Vault, and the mesh goes on while Vault is sealed, is stopped or refuses
the token, which nobody sees.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

from lib.kube.pki import Pki
from lib.mesh import meshcase, objects
from lib.mesh.prometheus import alert_rules, selectors
from lib.mesh.vault_server import PORT as VAULT_PORT
from lib.mesh.vault_server import Vault, documented_commands
from lib.net.netns import Switch
from lib.net.processes import CommandFailed, NotYet, wait_for

PORT = meshcase.PORT
HOST = "server.server"
CLIENT = "client.client.cluster.local"
VAULT = pathlib.Path(
    os.environ.get("OSM_VAULT", pathlib.Path(__file__).resolve().parents[2] / "build/tools/vault/bin/vault")
)
# The controller's messages about Vault name the server, the request, the cause and the remedy. It
# asks Vault for signatures, for the chain of the CA, and about its own token.
SERVER = rf"{re.escape(Switch.ADDRESS)}:{VAULT_PORT}"
ASKED = (
    rf"Vault https://{SERVER}: "
    r"(pki/sign/openservicemesh|pki/cert/ca_chain|auth/token/(?:lookup|renew)-self): "
)
SEALED = ASKED + r"Vault is sealed; unseal it \(vault operator unseal\)"
GONE = ASKED + rf"(PUT|GET) /v1/\1 at {SERVER}: Connection refused"
DENIED = ASKED + (
    r".*permission denied.*; give a token that is valid, with the policy of "
    r"docs/certificates\.md"
)


def validity(text):
    made = objects.mesh_config()
    made["spec"]["certificate"] = {"serviceCertValidityDuration": text}
    return made


def openssl(*arguments):
    return subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=True).stdout


def names_of(file):
    """Subject, alternative names and uses of the first certificate there, in openssl's words."""
    return openssl(
        "x509", "-in", file, "-noout", "-subject", "-ext", "subjectAltName,extendedKeyUsage,basicConstraints"
    )


class VaultIssues(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        if not VAULT.exists():
            sys.exit(f"{VAULT} is missing: tools/setup --vault builds it")
        self.pki = Pki(self.rig.directory / "vault-pki")
        self.vault = Vault(self.rig, VAULT, self.pki, Switch.ADDRESS)
        commands = documented_commands()
        for block in ("authorities", "role", "token"):
            self.vault.run(commands[block])
        self.token_file = self.vault.directory / "vault-token"
        self.tokens = []
        self.rig.mesh.write("mesh.yaml", objects.namespace("client"))

    def start_controller(self, wait=True, **other):
        """--vault-token-file of the keyword token_file, and so on."""
        self.tokens.append(self.token_file.read_text().strip())
        flags = {
            "host": Switch.ADDRESS,
            "port": VAULT_PORT,
            "ca_file": self.vault.ca,
            "token_file": self.token_file,
        } | other
        self.rig.start_controller(
            "--certificate-manager=vault",
            *(f"--vault-{name.replace('_', '-')}={value}" for name, value in flags.items()),
            wait=wait,
        )

    def start_two_machines(self):
        self.client, self.server = self.add_client_and_server()
        self.start_controller()
        for machine in (self.client, self.server):
            machine.bootstrap()
            machine.start_proxy()
        self.serve(self.server)
        self.wait_for_status(self.client, 200, HOST)
        self.wait_until_synced()

    def certificates(self):
        """{common name: fingerprint} of what the controller holds."""
        return {c["common_name"]: c["fingerprint"] for c in self.rig.admin("GET", "/v1/certificates")["certificates"]}

    def serials(self, machine):
        """Serial numbers of the leaves that an Envoy holds."""
        return set(re.findall(r'"serial_number": "(\w+)"', machine.admin("/certs")[1]))

    def rotate(self):
        """Output of `osm certificate rotate`, successful or not."""
        try:
            return self.rig.osm("certificate", "rotate", CLIENT)
        except CommandFailed as refused:
            return str(refused)

    def troubles(self):
        """Problems of the CA in `osm problems`: {code, cause, ...} each."""
        return [p for p in self.rig.problems() if p["path"] == "certificate authority"]

    def healthy(self):
        text = self.rig.controller_http("/metrics")[1]
        return float(re.search(r"^osm_vault_healthy (\S+)", text, re.M).group(1))

    def assert_serving(self):
        self.assertEqual(self.client.get(HOST, PORT, "/books-bought")[0], 200)
        status, body = self.rig.controller_http("/health/ready")
        self.assertEqual(status, 200)
        self.assertEqual("certificate authority" in body, bool(self.troubles()), body)

    def wait_for_trouble(self, code, cause):
        """Until the one problem of the CA has this code, and a cause that is `cause`, a pattern."""

        def told():
            troubles = self.troubles()
            if [t["code"] for t in troubles] != [code] or not re.fullmatch(cause, troubles[0]["cause"]):
                raise NotYet(troubles)
            return troubles[0]["cause"]

        seen = wait_for(f"osm problems says {code}: {cause}", told, 30, interval=0.2)
        self.assertEqual(self.healthy(), 0)
        self.assertIn(f"cause={json.dumps(seen)}", self.rig.controller_http("/metrics")[1])

    def wait_until_well(self):
        wait_for("no problem is left", lambda: not self.troubles(), 60, interval=0.2)
        wait_for("Vault is healthy", lambda: self.healthy() == 1)

    def tearDown(self):
        logs = "".join(
            log.read_text(errors="replace") for log in self.rig.directory.glob("*.log") if log.name != "vault.log"
        )
        for token in self.tokens:
            self.assertNotIn(token, logs)
            self.assertNotIn(token, self.rig.controller_http("/metrics")[1] if self.rig.controller.running() else "")

    def test_proxies_get_their_leaves_from_vault_and_renewals_survive_its_troubles(self):
        self.start_two_machines()
        with self.subTest("the metrics of the alerts about Vault are there"):
            page = self.rig.controller_http("/metrics")[1]
            for rule in alert_rules()["osm-vault"]:
                for metric, _ in selectors(rule["expr"]):
                    self.assertRegex(page, rf"(?m)^{metric} ")
        with self.subTest("the leaves are Vault's: one identity, both uses, below the root there"):
            root = self.vault.directory / "root.pem"
            held = self.client.admin("/certs")[1]
            self.assertIn("spiffe://cluster.local/ns/client/sa/client", held)
            serial = openssl("x509", "-noout", "-serial", "-in", root).split("=")[1].strip()
            self.assertIn(serial.lower().lstrip("0"), held)  # what it verifies its peers with
            proxy = self.client.directory / "sds_cert.pem"
            self.assertIn("OK", openssl("verify", "-CAfile", root, "-untrusted", proxy, proxy))
            self.assertEqual(proxy.read_text().count("BEGIN CERTIFICATE"), 2)  # without the root
            for use in ("TLS Web Server Authentication", "TLS Web Client Authentication"):
                self.assertIn(use, names_of(proxy))

        with self.subTest("sealed: nothing new is signed, what there is serves, and all is said"):
            before = self.certificates()
            self.vault.seal()
            self.assertRegex(self.rotate(), SEALED)
            self.wait_for_trouble("unavailable", SEALED)
            self.assert_serving()
            self.assertEqual(self.certificates(), before)
        with self.subTest("unsealed: renewed, and in the proxy"):
            held = self.serials(self.client)
            self.vault.unseal()
            self.wait_until_well()
            self.rotate()
            self.assertNotEqual(self.certificates()[CLIENT], before[CLIENT])
            wait_for("Envoy has another leaf", lambda: self.serials(self.client) != held)
            self.wait_for_status(self.client, 200, HOST)

        with self.subTest("gone altogether, and back"):
            self.vault.stop()
            self.rotate()
            self.wait_for_trouble("unavailable", GONE)
            self.assert_serving()
            self.vault.start()
            self.vault.unseal()
            self.wait_until_well()

        with self.subTest("the token is revoked: denied, and that is said; another one is taken"):
            self.vault.run('vault token revoke "$(cat vault-token)"')
            self.assertRegex(self.rotate(), DENIED)
            self.wait_for_trouble("permission-denied", DENIED)
            self.assert_serving()
            self.vault.run(documented_commands()["token"])
            self.tokens.append(self.token_file.read_text().strip())
            before = self.certificates()
            wait_for(
                "a renewal works again",
                lambda: self.rotate() and self.certificates()[CLIENT] != before[CLIENT],
                90,
                interval=0.5,
            )
            self.wait_until_well()
            self.wait_for_status(self.client, 200, HOST)

    def test_certificates_of_a_minute_are_renewed_again_and_again_without_a_request_lost(self):
        self.rig.mesh.write("config.yaml", validity("20s"))
        self.start_two_machines()
        seen, failed = {self.certificates()[CLIENT]}, []

        def renewed():
            status, body = self.client.get(HOST, PORT, "/books-bought")
            if status != 200:
                failed.append((status, body))
            seen.add(self.certificates()[CLIENT])
            return len(seen) >= 4

        wait_for("three renewals", renewed, 90)
        self.assertEqual(failed, [])

    def test_a_token_is_renewed_before_it_ends(self):
        self.vault.run(
            "vault token create -field=token -orphan -no-default-policy "
            "-policy=openservicemesh -period=20s > vault-token"
        )
        self.start_controller()
        accessor = self.lookup()["accessor"]
        renewals = set()

        def renewed():
            looked = self.lookup()
            renewals.add(looked.get("last_renewal"))
            return len(renewals - {None}) >= 2

        wait_for("two renewals", renewed, 60, interval=0.5)
        self.assertEqual(self.lookup()["accessor"], accessor)
        self.assertEqual(self.troubles(), [])

    def lookup(self):
        return self.vault.ask("PUT", "auth/token/lookup", {"token": self.token_file.read_text().strip()})["data"]

    def test_names_of_every_length_are_signed_as_they_are(self):
        # 63 letters each: the proxy's common name is longer than X.520's 64.
        long = "a-name-of-sixty-three-letters-which-is-what-kubernetes-allows-x"
        self.assertEqual(len(long), 63)
        machine = self.add_machine(long, "10.200.0.11", ns="client")
        self.start_controller()
        machine.bootstrap()
        text = names_of(machine.directory / "sds_cert.pem")
        uris = re.findall(r"(URI|DNS|IP Address|email):(\S+)", text)
        self.assertEqual([kind for kind, _ in uris], ["URI"], text)
        self.assertIn(f"/client/{long}", uris[0][1])
        self.assertIn(long, text)
        self.assertNotIn("CA:TRUE", text)

    def wait_for_reason(self, words):
        """Until a controller that starts says that it waits, and why."""

        def told():
            status, body = self.rig.controller_http("/health/ready")
            if status != 503 or not re.search(words, body):
                raise NotYet((status, body))
            return True

        wait_for(f"the start waits: {words}", told, 30, retry=(OSError,))
        self.assertEqual(self.rig.controller_http("/health/alive")[0], 200)

    def test_a_vault_that_is_late_is_waited_for(self):
        self.client, self.server = self.add_client_and_server()
        self.vault.stop()
        self.start_controller(wait=False)
        self.wait_for_reason("Connection refused")
        self.vault.start()
        self.wait_for_reason("Vault is sealed; unseal it")
        self.vault.unseal()
        self.rig.wait_until_ready()
        for machine in (self.client, self.server):
            machine.bootstrap()
            machine.start_proxy()
        self.serve(self.server)
        self.wait_for_status(self.client, 200, HOST)
        self.assertEqual(self.troubles(), [])
        # One line for each reason: away, sealed. What a starting Vault says besides may be seen.
        lines = self.rig.controller.text().count("the start waits")
        self.assertIn(lines, (2, 3), self.rig.controller.text())

    def test_the_start_stops_or_waits_and_names_missing_parts_of_vault(self):
        def said(**flags):
            self.start_controller(wait=False, **flags)
            self.assertNotEqual(self.rig.controller.popen.wait(30), 0)
            text = self.rig.controller.text()
            self.rig.controller.log.unlink()
            return text

        for words, flags in (
            ("check the mount", {"mount": "nowhere"}),
            ("permission denied", {"role": "unknown"}),
            ("certificate is not accepted", {"ca_file": self.vault.directory / "root.pem"}),
        ):
            with self.subTest(words):
                self.start_controller(wait=False, **flags)
                self.wait_for_reason(words)
                self.assertEqual(self.rig.stop_controller(), 0)
        for words, flags in (("plain HTTP", {"protocol": "http"}), ("/nowhere", {"token_file": "/nowhere"})):
            with self.subTest(words):
                self.assertIn(words, said(**flags))
        with self.subTest("a mount that does not know its root"):
            self.vault.run(
                "vault secrets enable -path=half pki\n"
                "vault write -field=csr half/intermediate/generate/internal common_name=half "
                "key_type=ec key_bits=256 > half.csr\n"
                "vault write -field=certificate pki-root/root/sign-intermediate csr=@half.csr "
                "common_name=half ttl=24h > half.pem\n"
                "vault write half/intermediate/set-signed certificate=@half.pem"
            )
            text = said(mount="half")
            self.assertIn("issuers/import", text)
            self.vault.run(
                "vault write half/issuers/import/bundle pem_bundle=@root.pem\n"
                "vault write half/roles/openservicemesh allow_any_name=true "
                "enforce_hostnames=false allowed_uri_sans='spiffe://*' key_type=any\n"
                'echo \'path "half/sign/*" { capabilities = ["update"] }\' | '
                "vault policy write half -\n"
                "vault token create -field=token -policy=half > vault-token"
            )
            self.start_controller(mount="half")


if __name__ == "__main__":
    meshcase.main()
