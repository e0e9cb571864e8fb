"""A real Consul on the loopback interface: one server, with TLS, ACLs that deny by default, and data
on disk. It has the methods of the stand-in (consul.py)."""

import http.client
import json
import shutil

from lib.net.consul import Catalog
from lib.net.ports import free_ports
from lib.net.processes import NotYet, Process, wait_for

POLICY = 'service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }'


class RealConsul:
    management = "c9a5b1de-0000-4000-8000-1f0e5ab6d201"

    def __init__(self, program, directory, certificate, ca, token):
        if not program.exists():
            raise AssertionError(f"{program} is missing: tools/setup --consul builds it")
        self.program = program
        self.directory, self.token, self.process = directory / "consul", token, None
        self.directory.mkdir()
        https, server, lan = free_ports(3)
        self.url = f"https://127.0.0.1:{https}"
        self.admin = Catalog(self.url, ca, self.management)
        certificate, key = map(str, certificate)
        (self.directory / "config.json").write_text(
            json.dumps(
                {
                    "server": True,
                    "bootstrap_expect": 1,
                    "node_name": "server",
                    "data_dir": str(self.directory / "data"),
                    "bind_addr": "127.0.0.1",
                    "log_level": "debug",  # logs each answer
                    "disable_update_check": True,
                    "performance": {"raft_multiplier": 1},
                    "ports": {
                        "https": https,
                        "server": server,
                        "serf_lan": lan,
                        "serf_wan": -1,
                        "http": -1,
                        "grpc": -1,
                        "grpc_tls": -1,
                        "dns": -1,
                    },
                    "tls": {"https": {"cert_file": certificate, "key_file": key}},
                    "acl": {
                        "enabled": True,
                        "default_policy": "deny",
                        "tokens": {"initial_management": self.management, "agent": self.management},
                    },
                }
            )
        )
        self.start()

    def start(self):
        self.process = Process(
            "consul", [self.program, "agent", f"-config-file={self.directory / 'config.json'}"], self.directory / "log"
        )
        wait_for(
            "Consul has a leader and its own node", self._ready, 60, interval=0.1, retry=(http.client.HTTPException,)
        )
        self.accept(self.token)

    def _ready(self):
        if not self.process.running():
            raise AssertionError(f"Consul ended: {self.process.tail()}")
        try:
            return json.loads(self.admin.ask("GET", "/v1/catalog/nodes")[0])
        except RuntimeError as failed:
            raise NotYet(failed) from failed

    def stop(self):
        self.process.end(timeout=20)

    def forget(self):
        shutil.rmtree(self.directory / "data")

    def accept(self, token, readable=True):
        """The only token for reading from now on. Not `readable`: it has no policy."""
        for old in json.loads(self.admin.ask("GET", "/v1/acl/tokens")[0]):
            if old["Description"] == "provider":
                self.admin.ask("DELETE", f"/v1/acl/token/{old['AccessorID']}")
        policies = json.loads(self.admin.ask("GET", "/v1/acl/policies")[0])
        if "provider" not in {policy["Name"] for policy in policies}:
            self.admin.put("/v1/acl/policy", {"Name": "provider", "Rules": POLICY})
        self.admin.put(
            "/v1/acl/token",
            {"SecretID": token, "Description": "provider", "Policies": [{"Name": "provider"}] if readable else []},
        )
        self.token = token

    def snapshot(self):
        return self.admin.ask("GET", "/v1/snapshot")[0]

    def restore(self, saved):
        self.admin.ask("PUT", "/v1/snapshot", saved)

    def answers(self):
        """Number of queries that were answered to others than us."""
        return sum("Request finished" in line and "wait=50s" in line for line in self.process.text().splitlines())
