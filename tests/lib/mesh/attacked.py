"""A controller with a small mesh and the credentials of its machines."""

import pathlib

from lib.mesh.authority import Authority
from lib.mesh.daemon import ShopTest
from lib.mesh.xds_client import CLUSTERS, STATE_OF_THE_WORLD
from lib.net import http2
from lib.net.processes import wait_for

DOMAIN = "spiffe://cluster.local"


class MeshTest(ShopTest):
    def setUp(self):
        super().setUp()
        self.ads = self.controller.addresses["ads_address"]
        self.web = self.proxy("web-1")
        self.roots = self.folder / "web-1" / "cacert.pem"

    def proxy(self, name):
        """(chain, key) files of a machine's proxy certificate."""
        out = self.folder / name
        code, _, err = self.bootstrap(name, out, controller=self.ads)
        self.assertEqual(code, 0, err)
        return out / "sds_cert.pem", out / "sds_key.pem"

    def uuid(self, name):
        path = f"/v1/vm/subject?name={name}&namespace=shop"
        return self.controller.admin(path)[1]["common_name"].split(".")[0]

    def issued(self, label, uri, days_ago=1, days_left=1, pem=None):
        """(chain, key) files of what the mesh would not issue; under its own CA unless `pem`."""
        authority = Authority(self.folder / f"authority-{label}", pem)
        return authority.for_days(label, uri, days_ago, days_left)

    def connect(self, identity=None):
        return http2.Connection.tls(self.ads, self.roots, identity)

    def status_of(self, identity):
        """gRPC's status of a stream of clusters that is refused."""
        with self.connect(identity) as connection:
            return connection.status(connection.open(STATE_OF_THE_WORLD, CLUSTERS))

    def assert_served(self, identity=None):
        """A proxy that comes now is configured. As Envoy does, it comes again after a GOAWAY, which new
        connections get while there is no memory for them."""
        wait_for("a proxy is configured", lambda: self.is_configured(identity or self.web), 20, retry=http2.CLOSED)

    def is_configured(self, identity):
        with self.connect(identity) as connection:
            stream = connection.open(STATE_OF_THE_WORLD, CLUSTERS)
            self.assertIn(b"envoy.config.cluster.v3.Cluster", connection.message(stream))
        return True

    def resident(self):
        """The controller's memory in MB."""
        status = pathlib.Path(f"/proc/{self.controller.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) / 1024

    def descriptors(self):
        return len(list(pathlib.Path(f"/proc/{self.controller.process.pid}/fd").iterdir()))
