#!/usr/bin/python3
"""Machines join by themselves with a token, which works once, for one machine, and is told to the
controller only. A machine that joins anew is not drained any more.
"""

import base64
import json
import re
import subprocess

from lib.mesh import meshcase
from lib.mesh.rig import PROXY_UID
from lib.net.netns import Switch

JOIN = f"{Switch.ADDRESS}:15129"
HOST = "server.server"


class Join(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client, self.server = self.add_client_and_server()
        self.rig.controller_flags = ("--join-address", JOIN)
        self.rig.start_controller()

    def token(self, machine, *more):
        return self.rig.osm("vm", "token", machine.name, "-n", machine.ns, "--controller", self.rig.ads_address, *more)

    def join(self, machine, token, out=None):
        """`osm vm join` on the machine, with nothing but the token."""
        return subprocess.run(
            machine.namespace.command(
                self.rig.programs.osm,
                "vm",
                "join",
                "--out",
                out or machine.directory,
                "--owner",
                str(PROXY_UID),
                "--xds",
                meshcase.XDS,
            ),
            input=token,
            capture_output=True,
            text=True,
            timeout=30,
        )

    def changed(self, token, **fields):
        read = json.loads(base64.b64decode(token)) | fields
        return base64.b64encode(json.dumps(read).encode()).decode()

    def test_machines_join_by_themselves_and_call_each_other(self):
        for machine in (self.client, self.server):
            joined = self.join(machine, self.token(machine))
            self.assertEqual((0, ""), (joined.returncode, joined.stderr))
            self.assertIn("intercept.sh", joined.stdout)
            machine.namespace.set_hosts((machine.directory / "hosts").read_text())
            machine.namespace.run(machine.directory / "intercept.sh")
            machine.start_proxy()
        self.serve(self.server)
        self.wait_for_status(self.client, 200, HOST)
        self.wait_until_synced()
        log = (self.rig.directory / "osm-controller.log").read_text()
        self.assertNotIn("PRIVATE KEY", log)
        recorded = (self.rig.state / "join-tokens.json").read_text()
        self.assertEqual([], json.loads(recorded)["tokens"])

    def test_a_token_works_once(self):
        token = self.token(self.client)
        self.assertEqual(0, self.join(self.client, token).returncode)
        before = (self.client.directory / "sds_key.pem").read_text()
        again = self.join(self.client, token)
        self.assertEqual(3, again.returncode)
        self.assertIn("the token is not valid", again.stderr)
        self.assertIn("osm vm token", again.stderr)
        self.assertEqual(before, (self.client.directory / "sds_key.pem").read_text())

    def test_a_machine_whose_traffic_is_intercepted_joins_anew(self):
        self.assertEqual(0, self.join(self.client, self.token(self.client)).returncode)
        self.client.namespace.run(self.client.directory / "intercept.sh")
        self.client.start_proxy()
        before = (self.client.directory / "sds_key.pem").read_text()
        again = self.join(self.client, self.token(self.client))
        self.assertEqual((0, ""), (again.returncode, again.stderr))
        self.assertNotEqual(before, (self.client.directory / "sds_key.pem").read_text())

    def test_a_directory_that_cannot_be_made_uses_up_no_token(self):
        token = self.token(self.client)
        self.client.directory.parent.mkdir(parents=True, exist_ok=True)
        self.client.directory.write_text("a file")
        refused = self.join(self.client, token)
        self.assertEqual(1, refused.returncode)
        self.assertIn("Choose another --out", refused.stderr)
        self.client.directory.unlink()
        self.assertEqual(0, self.join(self.client, token).returncode)

    def test_a_drained_machine_that_joins_anew_is_taken_back(self):
        def drained():
            record = json.loads((self.rig.state / "drained-machines.json").read_text())
            return [machine["name"] for machine in record["machines"]]

        token = self.token(self.server)
        for machine in (self.client, self.server):
            self.rig.osm("vm", "drain", machine.name, "-n", machine.ns)
        self.assertEqual(["client", "server"], drained())
        self.assertEqual(0, self.join(self.server, token).returncode)
        self.assertEqual(["client"], drained())

    def test_nobody_but_the_controller_is_told_the_secret(self):
        """A server with another CA, or with another certificate of the mesh, is sent nothing."""
        token = self.token(self.client)
        other = subprocess.run(
            [
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-keyout",
                "/dev/null",
                "-subj",
                "/CN=other",
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        for wrong in ({"roots": other.stdout}, {"server_name": "osm-other.osm-system.svc"}):
            refused = self.join(self.client, self.changed(token, **wrong))
            self.assertNotEqual(0, refused.returncode)
            self.assertIn(JOIN, refused.stderr)
            self.assertFalse(self.client.directory.exists())
        self.assertEqual(0, self.join(self.client, token).returncode)

    def test_what_is_no_token_is_told_and_nothing_is_written(self):
        token = self.token(self.client)
        secret = json.loads(base64.b64decode(token))["secret"]
        for wrong, why in (
            ("", "holds no token"),
            ("abc", "holds no token"),
            (token[:-8], "holds no token"),
            (self.changed(token, secret="0" * 64), "the token is not valid"),
            (self.changed(token, id="x"), "the token is not valid"),
        ):
            refused = self.join(self.client, wrong)
            self.assertNotEqual(0, refused.returncode)
            self.assertIn(why, refused.stderr)
            self.assertNotIn(secret, refused.stderr)
            self.assertFalse(self.client.directory.exists())

    def test_a_token_needs_a_machine_and_a_controller_that_lets_machines_join(self):
        unknown = self.rig.osm(
            "vm", "token", "nobody", "-n", "client", "--controller", self.rig.ads_address, check=False
        )
        self.assertEqual("", unknown)
        self.rig.stop_controller()
        self.rig.controller_flags = ()
        self.rig.start_controller()
        with self.assertRaisesRegex(Exception, re.escape("start it with --join-address")):
            self.token(self.client)


if __name__ == "__main__":
    meshcase.main()
