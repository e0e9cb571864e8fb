"""The certificates of a test's cluster, made by openssl(1)."""

import pathlib
import subprocess

from lib.kube.api import Credentials


def _openssl(*arguments):
    ran = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True)
    if ran.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]}: {ran.stderr}")


class Pki:
    """One CA, and everything under it; files in `directory`."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(mode=0o700)
        self.ca, self.ca_key = self.directory / "ca.crt", self.directory / "ca.key"
        self._make(self.ca, self.ca_key, "/CN=e2e", "basicConstraints=critical,CA:TRUE")
        self.account_key = self.directory / "accounts.key"
        # In the old form: the API server takes the public half of no other.
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.account_key)

    def _make(self, certificate, key, subject, *extensions):
        arguments = ["-addext", "keyUsage=critical,digitalSignature,keyCertSign"]
        if certificate != self.ca:
            arguments = ["-CA", self.ca, "-CAkey", self.ca_key, "-addext", "basicConstraints=critical,CA:FALSE"]
        for extension in extensions:
            arguments += ["-addext", extension]
        config = self.directory / "openssl.cnf"
        config.write_text("[req]\ndistinguished_name=d\n[d]\n")
        _openssl(
            "req",
            "-x509",
            "-config",
            config,
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            2,
            "-subj",
            subject,
            "-keyout",
            key,
            "-out",
            certificate,
            *arguments,
        )

    def server(self, name, *alternatives, uses="serverAuth"):
        """(certificate, key) of a server with these subject alternative names."""
        certificate, key = self.directory / f"{name}.crt", self.directory / f"{name}.key"
        self._make(
            certificate, key, f"/CN={name}", f"extendedKeyUsage={uses}", "subjectAltName=" + ",".join(alternatives)
        )
        return certificate, key

    def user(self, name, group=None):
        """The Credentials of a user, by client certificate."""
        file = name.replace(":", "-")
        certificate, key = self.directory / f"{file}.crt", self.directory / f"{file}.key"
        subject = (f"/O={group}" if group else "") + f"/CN={name}"
        self._make(certificate, key, subject, "extendedKeyUsage=clientAuth")
        return Credentials(certificate, key)

    def nameless(self):
        """The Credentials of somebody whom the CA knows, and who is nobody in particular."""
        certificate, key = self.directory / "nameless.crt", self.directory / "nameless.key"
        self._make(certificate, key, "/", "extendedKeyUsage=clientAuth")
        return Credentials(certificate, key)
