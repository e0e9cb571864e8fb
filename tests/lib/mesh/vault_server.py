"""A real Vault with TLS, in one namespace: initialised, unsealed and set up by the commands that
docs/certificates.md shows."""

import http.client
import json
import os
import pathlib
import re
import ssl
import subprocess

from lib.net.processes import wait_for

PORT = 8200
DOCUMENT = pathlib.Path(__file__).resolve().parents[3] / "docs" / "certificates.md"
_CONFIG = """
ui = false
disable_mlock = true
api_addr = "https://{address}:{port}"
storage "file" {{ path = "{data}" }}
listener "tcp" {{
  address = "0.0.0.0:{port}"
  tls_cert_file = "{certificate}"
  tls_key_file = "{key}"
}}
"""


def documented_commands():
    """The blocks of commands for Vault in the page's section about it, in their order."""
    section = re.search(r"^## Vault\n(.*?)^## ", DOCUMENT.read_text(), re.M | re.S).group(1)
    blocks = re.findall(r"^```sh\n(vault .*?)^```", section, re.M | re.S)
    if len(blocks) != 4:
        raise AssertionError(f"{DOCUMENT}: {len(blocks)} blocks of `vault` in the section on Vault")
    return dict(zip(("authorities", "role", "token", "kubernetes"), blocks))


class Vault:
    def __init__(self, rig, program, pki, address, *names):
        self.rig, self.program, self.address = rig, program, address
        self.directory = rig.directory / "vault"
        self.directory.mkdir(mode=0o700)
        self.ca = pki.ca
        certificate, key = pki.server("vault", f"IP:{address}", *names)
        (self.directory / "config.hcl").write_text(
            _CONFIG.format(address=address, port=PORT, data=self.directory / "data", certificate=certificate, key=key)
        )
        self.process, self.root_token, self.unseal_key = None, None, None
        self.start()
        made = self.ask("PUT", "sys/init", {"secret_shares": 1, "secret_threshold": 1})
        self.root_token, self.unseal_key = made["root_token"], made["keys"][0]
        self.unseal()

    def start(self):
        self.process = self.rig.start(
            "vault",
            self.rig.switch.namespace.command(self.program, "server", f"-config={self.directory / 'config.hcl'}"),
        )

        def answers():
            if not self.process.running():
                raise AssertionError(f"Vault ended: {self.process.tail()}")
            # An error is an answer too: 501 before it is initialised, 503 while it is sealed.
            return self._request("GET", "sys/health")[0] in (200, 501, 503)

        wait_for("Vault answers", answers, 30, interval=0.1)

    def stop(self):
        self.process.end()

    def seal(self):
        self.ask("PUT", "sys/seal")

    def unseal(self):
        self.ask("PUT", "sys/unseal", {"key": self.unseal_key})
        wait_for("Vault is active", lambda: self._request("GET", "sys/health")[0] == 200, 30)

    def ask(self, method, path, body=None):
        """Vault's answer to an administrator."""
        status, text = self._request(method, path, body)
        if status not in (200, 204):
            raise RuntimeError(f"Vault: {path}: {status} {text}")
        return json.loads(text) if text else {}

    def _request(self, method, path, body=None):
        context = ssl.create_default_context(cafile=str(self.ca))
        with self.rig.switch.namespace.connect(self.address, PORT, timeout=10) as plain:
            with context.wrap_socket(plain, server_hostname=self.address) as wrapped:
                connection = http.client.HTTPConnection(self.address, PORT)
                connection.sock = wrapped
                headers = {"X-Vault-Token": self.root_token} if self.root_token else {}
                connection.request(
                    method, f"/v1/{path}", headers=headers, body=json.dumps(body or {}) if method != "GET" else None
                )
                response = connection.getresponse()
                return response.status, response.read().decode()

    def run(self, script):
        """A script of `vault` commands, as its administrator runs it, in the server's directory."""
        environment = {
            "PATH": f"{self.program.parent}:{os.environ['PATH']}",
            "HOME": str(self.directory),
            "VAULT_TOKEN": self.root_token,
            "VAULT_ADDR": f"https://{self.address}:{PORT}",
            "VAULT_CACERT": str(self.ca),
        }
        ran = subprocess.run(
            self.rig.switch.namespace.command("bash", "-euo", "pipefail", "-c", script),
            cwd=self.directory,
            env=environment,
            capture_output=True,
            text=True,
        )
        if ran.returncode != 0:
            raise RuntimeError(f"{script}\n{ran.stdout}{ran.stderr}")
        return ran.stdout
