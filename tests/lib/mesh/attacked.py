"""A controller with a small mesh and the credentials of its machines."""
import datetime
import pathlib

from lib.mesh.authority import Authority
from lib.mesh.daemon import (DaemonTest, account, machine, namespace, routes, run, service,  # noqa: F401
                    target, wait_for)
from lib.net import http2

SHOP = [namespace("shop"), account("shop", "web"), account("shop", "api"),
        service("shop", "api", "10.9.0.1"), machine("shop", "api-1", "api", "10.1.0.2", "api"),
        machine("shop", "web-1", "web", "10.1.0.3", "web"), routes("shop", "books"),
        target("shop", "web-api", "shop/web", "shop/api", "books")]
DOMAIN = "spiffe://cluster.local"


class MeshTest(DaemonTest):
    FLAGS = ()

    def setUp(self):
        super().setUp()
        self.write("shop.yaml", *SHOP)
        self.controller = self.start(*self.FLAGS)
        self.addCleanup(lambda: self.controller.process.poll() is None and self.controller.stop())
        self.controller.wait_until_ready()
        self.ads = self.controller.addresses["ads_address"]
        self.web = self.proxy("web-1")
        self.roots = self.folder / "web-1" / "cacert.pem"

    def proxy(self, name):
        """(chain, key) files of a machine's proxy certificate."""
        out = self.folder / name
        code, _, err = self.osm("vm", "bootstrap", name, "-n", "shop", "--controller", self.ads,
                                "--out", out)
        self.assertEqual(code, 0, err)
        return out / "sds_cert.pem", out / "sds_key.pem"

    def uuid(self, name):
        expected = self.controller.admin("/v1/proxies")[1]["expected"]
        return next(p["uuid"] for p in expected if f".{name}." in p["common_name"])

    def issued(self, label, uri, days_ago=1, days_left=1, pem=None):
        """(chain, key) files of what the mesh would not issue; under its own CA unless `pem`."""
        now = datetime.datetime.now(datetime.timezone.utc)
        authority = Authority(self.folder / f"authority-{label}", pem)
        chain, key = authority.issue("x", uri, now - datetime.timedelta(days=days_ago),
                                     now + datetime.timedelta(days=days_left))
        files = (self.folder / f"{label}.pem", self.folder / f"{label}.key")
        for path, text in zip(files, (chain, key)):
            path.touch(mode=0o600)
            path.write_text(text)
        return files

    def connect(self, identity=None, timeout=20):
        return http2.Connection(self.ads, self.roots, identity, timeout)

    def assert_served(self, identity=None):
        """A proxy that comes now is configured."""
        with self.connect(identity or self.web) as connection:
            self.assertTrue(connection.first_bytes(connection.open(body=http2.CLUSTERS)))

    def resident(self):
        """The controller's memory in MB."""
        status = pathlib.Path(f"/proc/{self.controller.process.pid}/status").read_text()
        return int(next(l for l in status.splitlines() if l.startswith("VmRSS:")).split()[1]) / 1024

    def descriptors(self):
        return len(list(pathlib.Path(f"/proc/{self.controller.process.pid}/fd").iterdir()))
