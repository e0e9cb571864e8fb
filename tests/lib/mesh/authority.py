"""Certificates that the mesh would never issue, for tests of how they are refused."""
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
x509_extensions = x
unique_subject = no
[p]
commonName = supplied
[x]
subjectAltName = URI:{uri}
keyUsage = critical, digitalSignature
extendedKeyUsage = {uses}
"""


def _openssl(*arguments):
    ran = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True)
    if ran.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]}: {ran.stderr}")


class Authority:
    """Issues under `pem`, a file with a CA's key and certificate; without one, under its own."""

    def __init__(self, directory, pem=None):
        self.directory = directory
        directory.mkdir()
        self.pem = pem or directory / "ca.pem"
        if pem is None:
            _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                     "-subj", "/CN=somebody else", "-days", 2, "-keyout", self.pem, "-out",
                     directory / "certificate.pem")
            with open(self.pem, "a") as both:
                both.write((directory / "certificate.pem").read_text())
        (directory / "index").touch()

    def issue(self, common_name, uri, not_before, not_after, uses="clientAuth"):
        """(certificate, key) as PEM text."""
        d = self.directory
        (d / "config").write_text(_CONFIG.format(directory=d, uri=uri, uses=uses))
        _openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                 "-subj", f"/CN={common_name}", "-keyout", d / "key.pem", "-out", d / "request.pem")
        _openssl("ca", "-batch", "-notext", "-config", d / "config", "-cert", self.pem, "-keyfile",
                 self.pem, "-startdate", not_before.strftime(_DATE), "-enddate",
                 not_after.strftime(_DATE), "-in", d / "request.pem", "-out", d / "issued.pem")
        return (d / "issued.pem").read_text(), (d / "key.pem").read_text()
