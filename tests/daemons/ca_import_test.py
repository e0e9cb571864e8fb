#!/usr/bin/python3
"""An operator's CA becomes the mesh's, or is refused with a reason.

usage: ca_import_test.py --bin DIRECTORY
"""

import datetime
import subprocess

from lib.mesh import objects
from lib.mesh.authority import certify, openssl
from lib.mesh.daemon import DaemonTest, run

SIGNS = "basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"
LEAF = "basicConstraints=critical,CA:FALSE", "keyUsage=critical,digitalSignature"


def january(year):
    return datetime.datetime(year, 1, 1, tzinfo=datetime.timezone.utc)


class CaImport(DaemonTest):
    def setUp(self):
        super().setUp()
        self.write("shop.yaml", *objects.shop())
        self.store = self.state / "ca" / "ca.pem"
        self.files = self.folder / "authority"
        self.files.mkdir()

    def make(self, name, extensions=SIGNS, signer=None, until=2050):
        """(certificate file, key file), signed by such a pair or by itself."""
        return certify(
            self.files, name, ["subjectKeyIdentifier=hash", *extensions], january(2020), january(until), signer
        )

    def flags(self, certificate, key):
        return "--ca-cert", str(certificate), "--ca-key", str(key)

    def controller(self, certificate, key):
        controller = self.start(*self.flags(certificate, key))
        controller.wait_until_ready()
        return controller

    def bootstrap(self):
        """Files of a machine: its certificate with the intermediates, and its roots."""
        out = self.folder / "machine"
        code, _, err = self.osm(
            "vm", "bootstrap", "api-1", "-n", "shop", "--controller", "192.0.2.1:15128", "--out", out
        )
        self.assertEqual((code, err), (0, ""))
        return out / "sds_cert.pem", out / "cacert.pem"

    def test_a_root_signs_for_the_mesh_and_the_flags_may_stay(self):
        root = self.make("root")
        for start in ("the first", "with the same in the store"):
            with self.subTest(start):
                controller = self.controller(*root)
                chain, roots = self.bootstrap()
                openssl("verify", "-CAfile", root[0], chain)
                self.assertEqual(roots.read_text().split(), root[0].read_text().split())
                self.assertEqual(controller.stop(), 0)
        with self.subTest("without the flags"):
            controller = self.start()
            controller.wait_until_ready()
            openssl("verify", "-CAfile", root[0], self.bootstrap()[0])
            self.assertEqual(controller.stop(), 0)
        self.assertEqual(self.store.stat().st_mode & 0o777, 0o600)

    def test_an_intermediate_signs_with_its_chain_and_the_root_is_what_is_trusted(self):
        root = self.make("root")
        certificate, key = self.make("intermediate", signer=root)
        signing = certificate.read_text()
        certificate.write_text(signing + root[0].read_text())
        controller = self.controller(certificate, key)
        chain, roots = self.bootstrap()
        self.assertEqual(roots.read_text().split(), root[0].read_text().split())
        self.assertIn(signing.strip(), chain.read_text())
        openssl("verify", "-CAfile", roots, "-untrusted", chain, chain)
        self.assertEqual(controller.stop(), 0)

    def test_wrong_cas_are_refused_and_the_store_stays_empty(self):
        root = self.make("root")
        other = self.make("other")
        alone = self.make("alone", signer=root)
        text = self.files / "text"
        text.write_text("no PEM\n")
        nothing = self.files / "nothing"
        expired = self.make("expired", until=2021)
        leaf = self.make("leaf", LEAF)
        cases = (  # (case, files, the words that this refusal alone has)
            ("another's key", root[0], other[1], "the private key does not belong to the certificate"),
            ("an expired one", *expired, "has expired: renew it first"),
            ("a leaf", *leaf, "is not a CA (basicConstraints CA:TRUE, keyUsage keyCertSign)"),
            ("an intermediate without its root", *alone, "has no issuer in the chain"),
            ("no certificate", text, root[1], "no PEM certificate"),
            ("no key", root[0], text, "no unencrypted PEM private key"),
            ("no certificate file", nothing, root[1], f"{nothing}: cannot be read"),
            ("no key file", root[0], nothing, f"{nothing}: cannot be read"),
        )
        for what, certificate, key, why in cases:
            with self.subTest(what):
                line = self.refused(*self.flags(certificate, key))
                self.assertEqual({words for *_, words in cases if words in line}, {why}, line)
                if nothing not in (certificate, key):
                    self.assertIn(f"--ca-cert {certificate}, --ca-key {key}", line)
                self.assertFalse(self.store.exists())
        # The next start is not hindered.
        self.assertEqual(self.controller(*root).stop(), 0)

    def test_another_ca_in_the_store_stays_and_the_remedy_is_told(self):
        first, second = self.make("first"), self.make("second")
        self.assertEqual(self.controller(*first).stop(), 0)
        held = self.store.read_text()
        line = self.refused(*self.flags(*second))
        self.assertIn(f"certificate authority {self.store} holds another CA", line)
        self.assertIn("rotate to the new one with a MeshRootCertificate", line)
        self.assertEqual(self.store.read_text(), held)

    def test_flags_that_contradict_are_told(self):
        root = self.make("root")
        self.assertIn(
            "--certificate-manager tresor",
            self.refused(*self.flags(*root), "--certificate-manager", "vault", "--vault-host", "vault.example"),
        )
        for program in ("osm-controller", "osm-injector"):
            done = subprocess.run(
                [self.bin / program, "--kubeconfig", self.folder / "none", "--ca-cert", root[0]],
                capture_output=True,
                text=True,
                timeout=30,
            )
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("--ca-cert requires --ca-key", done.stderr)
            for flag in ("--vault-host", "--vault-allowed-host"):
                for host in ("https://vault.example", "vault.example:8200", "a_b"):
                    done = subprocess.run(
                        [self.bin / program, "--kubeconfig", self.folder / "none", flag, host],
                        capture_output=True,
                        text=True,
                        timeout=30,
                    )
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn(f"'{host}' must be a host name or an IP address", done.stderr)


if __name__ == "__main__":
    run()
