"""Certificates with any content, made by openssl and not by the mesh."""

import datetime
import subprocess

_DATE = "%Y%m%d%H%M%SZ"
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


def openssl(*arguments, **more):
    """Output of openssl. `more`: arguments of subprocess.run."""
    ran = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, timeout=30, **more)
    if ran.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]}: {ran.stderr}")
    return ran.stdout


def certify(directory, file, extensions, since, until, signer=None, common_name=None):
    """(certificate file, key file), named after `file`, over a new key. `signer`: another such pair;
    None for a certificate that is its own issuer. `since` and `until`: datetimes in UTC."""
    certificate, key, request = (directory / f"{file}.{end}" for end in ("crt", "key", "csr"))
    openssl(
        "req",
        "-new",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-subj",
        f"/CN={common_name or file}",
        "-keyout",
        key,
        "-out",
        request,
    )
    (directory / "index").touch()
    (directory / "config").write_text(_CONFIG.format(directory=directory))
    (directory / "extensions").write_text("[x]\n" + "\n".join(extensions))
    openssl(
        "ca",
        "-batch",
        "-notext",
        "-config",
        directory / "config",
        "-in",
        request,
        "-out",
        certificate,
        "-startdate",
        since.strftime(_DATE),
        "-enddate",
        until.strftime(_DATE),
        "-extfile",
        directory / "extensions",
        "-extensions",
        "x",
        "-keyfile",
        signer[1] if signer else key,
        *(("-cert", signer[0]) if signer else ("-selfsign",)),
    )
    return certificate, key


class Authority:
    """Issues under `pem`, a file with a CA's key and certificate; without one, under its own."""

    def __init__(self, directory, pem=None):
        self.directory = directory
        directory.mkdir()
        self.pem = pem or directory / "ca.pem"
        if pem is None:
            now = datetime.datetime.now(datetime.timezone.utc)
            files = certify(
                directory,
                "ca",
                ["basicConstraints = critical, CA:TRUE"],
                now,
                now + datetime.timedelta(days=2),
                common_name="somebody else",
            )
            self.pem.write_text("".join(file.read_text() for file in files))

    def files(self, label, uris, not_before, not_after, uses="clientAuth", common_name="x"):
        """(certificate file, key file) for these URIs, a list or one."""
        uris = [uris] if isinstance(uris, str) else uris
        extensions = [
            "subjectAltName = " + ", ".join(f"URI:{uri}" for uri in uris),
            "keyUsage = critical, digitalSignature",
            f"extendedKeyUsage = {uses}",
        ]
        return certify(self.directory, label, extensions, not_before, not_after, (self.pem, self.pem), common_name)

    def named(self, label, *names, uses="clientAuth", common_name="x"):
        """(certificate file, key file) for `names`, as "DNS:a.b" or "URI:spiffe://a/b"."""
        now, day = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(days=1)
        extensions = [
            "subjectAltName = " + ", ".join(names),
            "keyUsage = critical, digitalSignature",
            f"extendedKeyUsage = {uses}",
        ]
        return certify(self.directory, label, extensions, now - day, now + day, (self.pem, self.pem), common_name)

    def for_days(self, label, uris, ago=1, left=1, uses="clientAuth"):
        """The same, valid since so many days ago and for so many from now on."""
        now, day = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(days=1)
        return self.files(label, uris, now - ago * day, now + left * day, uses)

    def issue(self, common_name, uri, not_before, not_after, uses="clientAuth"):
        """(certificate, key) as PEM text."""
        files = self.files("issued", uri, not_before, not_after, uses, common_name)
        return tuple(file.read_text() for file in files)
