#!/usr/bin/python3
"""--ca-cert and --ca-key: an operator's CA becomes the mesh's, or it is said why not.

usage: ca_import_test.py --bin DIRECTORY
"""
import subprocess

from lib.mesh.daemon import DaemonTest, account, machine, namespace, run, service

_CONFIG = """
[ca]
default_ca = d
[d]
database = {directory}/index
new_certs_dir = {directory}
rand_serial = yes
default_md = sha256
policy = p
unique_subject = no
[p]
commonName = supplied
"""
SIGNS = "basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"
LEAF = "basicConstraints=critical,CA:FALSE", "keyUsage=critical,digitalSignature"


class CaImport(DaemonTest):
    def setUp(self):
        super().setUp()
        self.write("shop.yaml", namespace("shop"), account("shop", "api"),
                   service("shop", "api", "10.9.0.1"),
                   machine("shop", "api-1", "api", "10.1.0.2", "api"))
        self.store = self.state / "ca" / "ca.pem"
        self.files = self.folder / "authority"
        self.files.mkdir()
        (self.files / "index").touch()
        (self.files / "config").write_text(_CONFIG.format(directory=self.files))

    def openssl(self, *arguments):
        done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True,
                              timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def make(self, name, extensions=SIGNS, above=None, since="20250101000000Z",
             until="20500101000000Z"):
        """Files <name>.crt and <name>.key, signed by `above` or by itself."""
        f, signer = self.files, above or name
        self.openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                     "-subj", f"/CN={name}", "-keyout", f / f"{name}.key", "-out", f / f"{name}.csr")
        (f / "extensions").write_text("[x]\nsubjectKeyIdentifier = hash\n" + "\n".join(extensions))
        self.openssl("ca", "-batch", "-notext", "-config", f / "config", "-in", f / f"{name}.csr",
                     "-out", f / f"{name}.crt", "-startdate", since, "-enddate", until,
                     "-keyfile", f / f"{signer}.key", "-extfile", f / "extensions",
                     "-extensions", "x",
                     *(("-cert", f / f"{above}.crt") if above else ("-selfsign",)))
        return f / f"{name}.crt", f / f"{name}.key"

    def flags(self, certificate, key):
        return "--ca-cert", str(certificate), "--ca-key", str(key)

    def controller(self, certificate, key):
        controller = self.start(*self.flags(certificate, key))
        controller.wait_until_ready()
        return controller

    def bootstrap(self):
        """What a machine is given: its certificate with what is above it, and its roots."""
        out = self.folder / "machine"
        code, _, err = self.osm("vm", "bootstrap", "api-1", "-n", "shop", "--controller",
                                "192.0.2.1:15128", "--out", out)
        self.assertEqual((code, err), (0, ""))
        return out / "sds_cert.pem", out / "cacert.pem"

    def refused(self, certificate, key, *more):
        """The last line of a controller that does not start."""
        done = subprocess.run(
            [self.bin / "osm-controller", "--mesh-dir", self.mesh, "--state-dir", self.state,
             "--ads-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0",
             *self.flags(certificate, key), *more], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertNotIn("PRIVATE", done.stderr)
        return done.stderr.splitlines()[-1]

    def test_a_root_signs_for_the_mesh_and_the_flags_may_stay(self):
        root = self.make("root")
        for start in ("the first", "with the same in the store"):
            with self.subTest(start):
                controller = self.controller(*root)
                chain, roots = self.bootstrap()
                self.openssl("verify", "-CAfile", root[0], chain)
                self.assertEqual(roots.read_text().split(), root[0].read_text().split())
                self.assertEqual(controller.stop(), 0)
        with self.subTest("without the flags"):
            controller = self.start()
            controller.wait_until_ready()
            self.openssl("verify", "-CAfile", root[0], self.bootstrap()[0])
            self.assertEqual(controller.stop(), 0)
        self.assertEqual(self.store.stat().st_mode & 0o777, 0o600)

    def test_an_intermediate_signs_with_its_chain_and_the_root_is_what_is_trusted(self):
        root = self.make("root")
        certificate, key = self.make("intermediate", above="root")
        signing = certificate.read_text()
        certificate.write_text(signing + root[0].read_text())
        controller = self.controller(certificate, key)
        chain, roots = self.bootstrap()
        self.assertEqual(roots.read_text().split(), root[0].read_text().split())
        self.assertIn(signing.strip(), chain.read_text())
        self.openssl("verify", "-CAfile", roots, "-untrusted", chain, chain)
        self.assertEqual(controller.stop(), 0)

    def test_what_is_no_ca_is_refused_and_the_store_stays_empty(self):
        root = self.make("root")
        other = self.make("other")
        alone = self.make("alone", above="root")
        text = self.files / "text"
        text.write_text("no PEM\n")
        for what, certificate, key, why in (
                ("another's key", root[0], other[1], "does not belong"),
                ("an expired one", *self.make("expired", until="20250201000000Z"), "expired"),
                ("a leaf", *self.make("leaf", LEAF), "CA"),
                ("an intermediate without its root", *alone, "root"),
                ("no certificate", text, root[1], "certificate"),
                ("no key", root[0], text, "key"),
                ("no file", self.files / "nothing", root[1], "nothing: cannot be read")):
            with self.subTest(what):
                line = self.refused(certificate, key)
                self.assertIn(why, line)
                self.assertIn(str(certificate), line)
                self.assertFalse(self.store.exists())
        # The next start is not hindered.
        self.assertEqual(self.controller(*root).stop(), 0)

    def test_another_ca_in_the_store_stays_and_the_remedy_is_told(self):
        first, second = self.make("first"), self.make("second")
        self.assertEqual(self.controller(*first).stop(), 0)
        held = self.store.read_text()
        line = self.refused(*second)
        self.assertIn(str(self.store), line)
        self.assertIn("MeshRootCertificate", line)
        self.assertEqual(self.store.read_text(), held)

    def test_flags_that_contradict_are_told(self):
        root = self.make("root")
        self.assertIn("--certificate-manager tresor", self.refused(
            *root, "--certificate-manager", "vault", "--vault-host", "vault.example"))
        for program in ("osm-controller", "osm-injector"):
            done = subprocess.run(
                [self.bin / program, "--kubeconfig", self.folder / "none", "--ca-cert", root[0]],
                capture_output=True, text=True, timeout=30)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("--ca-cert requires --ca-key", done.stderr)


if __name__ == "__main__":
    run()
