#!/usr/bin/python3
"""A vendor's agent joins a mesh by a token, keeps the certificate current, and ends when it is told.

usage: machine_agent_test.py --bin DIR
"""

import signal
import subprocess

from lib.mesh.authority import openssl
from lib.mesh.daemon import ShopTest, run


class MachineAgent(ShopTest):
    FLAGS = ("--join-address", "127.0.0.1:0")

    def setUp(self):
        super().setUp()
        self.machine = self.folder / "web-1"
        ads = self.controller.addresses["ads_address"]
        code, self.token, error = self.osm("vm", "token", "web-1", "-n", "shop", "--controller", ads)
        self.assertEqual((0, ""), (code, error))

    def start_agent(self, token):
        file = self.folder / "token"
        file.write_text(token)
        agent = subprocess.Popen(
            [self.bin / "machine_agent", "run", self.machine, file],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(lambda: agent.poll() is None and agent.kill())
        return agent

    def end(self, agent):
        agent.send_signal(signal.SIGTERM)
        out, error = agent.communicate(timeout=30)
        self.assertEqual((0, ""), (agent.returncode, error))
        return out

    def test_it_joins_once_and_then_keeps_the_certificate_current(self):
        agent = self.start_agent(self.token)
        self.assertRegex(agent.stdout.readline(), r"^joined as proxy [-0-9a-f]{36}$")
        self.assertEqual("current\n", agent.stdout.readline())
        self.end(agent)
        key = openssl("pkey", "-pubout", "-in", self.machine / "sds_key.pem")
        self.assertEqual(key, openssl("x509", "-noout", "-pubkey", "-in", self.machine / "sds_cert.pem"))
        self.assertEqual(0o600, (self.machine / "sds_key.pem").stat().st_mode & 0o777)
        with self.subTest("started again, it needs no token"):
            again = self.start_agent("of before")
            self.assertEqual("current\n", again.stdout.readline())
            self.end(again)

    def test_a_token_that_is_none_is_refused_and_nothing_is_written(self):
        agent = self.start_agent("sesame")
        out, error = agent.communicate(timeout=30)
        self.assertEqual((1, ""), (agent.returncode, out))
        self.assertIn("holds no token", error)
        self.assertNotIn("sesame", error)
        self.assertFalse(self.machine.exists())


if __name__ == "__main__":
    run()
