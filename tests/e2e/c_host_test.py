#!/usr/bin/python3
"""The hosts of examples/c_host (C, a directory) and examples/python_host (ctypes, objects in memory)
configure two Envoys each; a permission that is deleted ends calls.
"""

import json
import os
import pathlib
import signal
import sys

from lib.mesh import meshcase, objects
from lib.mesh.rig import ADS_PORT, REFUSED, Machine
from lib.net.netns import Switch
from lib.net.processes import NotYet, wait_for

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


class HostedMachine(Machine):
    """A machine whose files the host's program wrote."""

    def bootstrap(self):
        self.namespace.set_hosts((self.directory / "hosts").read_text())
        self.namespace.run(self.directory / "intercept.sh")


class Hosts(meshcase.MeshCase):
    def start_host(self, ns, *command):
        """Two machines of the host, each with its Envoy; the server serves."""
        rig = self.rig
        self.host = rig.start("host", rig.switch.namespace.command(*command))
        self.host.wait_for_log("ready\n", 20)
        for name, address in (("client", "10.200.0.11"), ("server", "10.200.0.12")):
            rig.machines[name] = HostedMachine(rig, name, ns, address)
            rig.machines[name].bootstrap()
            rig.machines[name].start_proxy()
        self.client, self.server = rig.machines["client"], rig.machines["server"]
        self.serve(self.server)
        self.service = f"server.{ns}"
        self.wait_for_status(self.client, 200, self.service)

    def check_call(self, ns):
        answer = self.client.get(self.service, meshcase.PORT, "/books-bought")[1]
        self.assertIn(f"spiffe://cluster.local/ns/{ns}/sa/client", answer)
        self.assertEqual(self.client.get(self.service, meshcase.PORT, "/books-bought", method="POST")[0], 404)
        for machine in (self.client, self.server):
            key = (machine.directory / "sds_key.pem").stat()
            self.assertEqual((key.st_mode & 0o777, key.st_uid), (0o600, 1500))

    def test_a_host_in_c_configures_two_envoys_from_a_directory(self):
        rig = self.rig
        rig.mesh.write(
            "shop.yaml",
            objects.namespace("shop"),
            objects.account("shop", "client"),
            objects.account("shop", "server"),
            objects.machine("shop", "client", "10.200.0.11", "client"),
            objects.machine("shop", "server", "10.200.0.12", "server"),
            objects.service("shop", "server", "10.96.0.12", meshcase.PORT),
            objects.routes("shop", "reads", get={"pathRegex": ".*", "methods": ["GET"]}),
            objects.target("shop", "access", "server", [("shop", "client")], ("HTTPRouteGroup", "reads", ["get"])),
        )
        self.start_host(
            "shop",
            rig.programs.bin / "c_host",
            f"{Switch.ADDRESS}:{ADS_PORT}",
            rig.mesh.path,
            rig.directory,
            "shop/client",
            "shop/server",
        )
        self.check_call("shop")
        with self.subTest("it shows problems and proxies"):
            rig.mesh.write("bad.yaml", objects.service("shop", "bad", "no address", meshcase.PORT))

            def shown():
                os.kill(self.host.pid, signal.SIGHUP)
                lines = [json.loads(line) for line in self.host.text().split("\n") if line.startswith("{")]
                told = [p["object"] for line in lines for p in line.get("problems", ())]
                proxies = [sorted(p["name"] for p in line["proxies"]) for line in lines if "proxies" in line]
                if "Service shop/bad" not in told or proxies[-1:] != [["shop/client", "shop/server"]]:
                    raise NotYet(self.host.tail())
                return True

            wait_for("the host names the bad Service and both proxies", shown, 20, interval=0.2)
        with self.subTest("it ends cleanly, and calls go on"):
            self.assertEqual(self.host.end(signal.SIGTERM, timeout=15), 0)
            self.wait_for_status(self.client, 200, self.service)

    def test_a_host_in_python_configures_two_envoys_from_memory_and_takes_a_permission_away(self):
        self.start_host(
            "shop",
            sys.executable,
            EXAMPLES / "python_host/python_host.py",
            self.rig.programs.bin / "libosm_c.so",
            f"{Switch.ADDRESS}:{ADS_PORT}",
            self.rig.directory,
        )
        self.check_call("shop")
        os.kill(self.host.pid, signal.SIGHUP)
        self.host.wait_for_log("forbidden, at 2 proxies\n")
        self.wait_for_status(self.client, REFUSED, self.service)
        self.assertEqual(self.host.end(signal.SIGTERM, timeout=15), 0)


if __name__ == "__main__":
    meshcase.main()
