#!/usr/bin/python3
"""A real etcd passes its contract."""

import shutil
import sys

from contract import real

from lib.net.processes import wait_for

ADDRESS = "127.0.0.1"
PORT = 2379


class EtcdContract(real.ContractCase):
    def test_a_real_etcd_keeps_the_contract(self):
        if shutil.which("etcd") is None:
            sys.exit("etcd is missing: tools/setup --kubernetes installs it")
        namespace = self.rig.switch.namespace
        url = f"http://{ADDRESS}:{PORT}"
        data = self.rig.directory / "etcd"
        data.mkdir(mode=0o700)
        etcd = self.rig.start(
            "etcd",
            namespace.command(
                "etcd",
                "--data-dir",
                data,
                "--listen-client-urls",
                url,
                "--advertise-client-urls",
                url,
                "--listen-peer-urls",
                "http://127.0.0.1:2380",
                "--logger",
                "zap",
                "--log-level",
                "warn",
            ),
        )

        def healthy():
            if not etcd.running():
                raise AssertionError(f"etcd ended: {etcd.tail()}")
            return "true" in namespace.http(ADDRESS, PORT, "GET", "/health")[1]

        wait_for("etcd is healthy", healthy, 30, interval=0.1)
        self.run_contract("etcd", {"OSM_CONTRACT_ETCD": f"{ADDRESS}:{PORT}"})


if __name__ == "__main__":
    real.main()
