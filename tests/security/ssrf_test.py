#!/usr/bin/python3
"""An author of objects cannot make the controller connect to a host, or send it a file of the machine
(docs/security.md, threat 15).

usage: ssrf_test.py --bin DIRECTORY
"""

import http.server
import threading

from lib.mesh.daemon import ShopTest, run
from lib.net.processes import wait_for


class Vault(http.server.ThreadingHTTPServer):
    """Records the token of each request."""

    def __init__(self):
        asked = self.asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.headers.get("X-Vault-Token"))
                self.send_error(403)

            do_POST = do_PUT = do_LIST = do_GET

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Case(ShopTest):
    def setUp(self):
        self.vault = Vault()
        self.addCleanup(self.vault.server_close)
        self.addCleanup(self.vault.shutdown)
        super().setUp()
        self.secret = self.folder / "secret"
        self.secret.write_text("hunter2")

    def write_mesh(self):
        super().write_mesh()
        self.tokens = self.folder / "tokens"
        self.tokens.mkdir()
        (self.tokens / "vault").write_text("s.allowed")

    def declare(self, token_file):
        self.write(
            "root.yaml",
            {
                "apiVersion": "config.openservicemesh.io/v1alpha2",
                "kind": "MeshRootCertificate",
                "metadata": {"name": "evil", "namespace": "osm-system"},
                "spec": {
                    "provider": {
                        "vault": {
                            "host": "127.0.0.1",
                            "port": self.vault.server_address[1],
                            "protocol": "http",
                            "role": "mesh",
                            "tokenFile": str(token_file),
                        }
                    }
                },
            },
        )

    def note(self, part):
        """`osm certificate status` says so of the root."""

        def said():
            code, out, err = self.osm("certificate", "status")
            self.assertEqual(code, 0, err)
            return part in " ".join(out.split())

        wait_for(part, said, 20)


class NothingAllowed(Case):
    def test_a_host_that_nobody_allowed_is_not_asked(self):
        self.declare(self.secret)
        self.note("host 127.0.0.1 is not allowed")
        self.assertEqual(self.vault.asked, [])


class HostAllowed(Case):
    FLAGS = ("--vault-allowed-host", "127.0.0.1.")  # flags are read as objects are

    def test_a_file_is_not_read_without_a_directory_of_token_files(self):
        self.declare(self.secret)
        self.note("--vault-token-dir")
        self.assertEqual(self.vault.asked, [])


class DirectoryAllowed(Case):
    @property
    def FLAGS(self):
        return ("--vault-allowed-host", "127.0.0.1", "--vault-token-dir", str(self.tokens))

    def test_only_files_of_the_directory_are_read(self):
        (self.tokens / "link").symlink_to(self.secret)
        for path in (self.secret, self.tokens / "link", self.tokens / ".." / "secret"):
            with self.subTest(path):
                self.declare(path)
                self.note(f"tokenFile {path} is not in --vault-token-dir")
        self.assertEqual(self.vault.asked, [])
        self.declare(self.tokens / "vault")
        wait_for("Vault to be asked", lambda: self.vault.asked, 20)


if __name__ == "__main__":
    run()
