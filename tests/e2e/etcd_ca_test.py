#!/usr/bin/python3
"""The CA in a real etcd survives a race of twenty processes and outages, and untrusted servers and users
are refused. Two controllers rotate its root together, one of them cut off or killed.
"""

import base64
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys

from lib.kube.pki import Pki
from lib.mesh import meshcase, objects
from lib.mesh.racing import check_races
from lib.mesh.renewal import keep_renewing
from lib.mesh.rig import ADS_PORT, HTTP_PORT
from lib.mesh.roots import RootCase
from lib.net.netns import Switch
from lib.net.processes import CommandFailed, NotYet, wait_for

PORT = 2379
KEY = "/osm/ca"
COULD_NOT_CONNECT = 7  # curl's exit status


def _base64(text):
    return base64.b64encode(text.encode()).decode()


def documented_permission():
    """The permission of etcd's user in docs/certificates.md, in the form of etcd's API."""
    page = pathlib.Path(__file__).resolve().parents[2] / "docs/certificates.md"
    key, prefix = re.search(
        r"^etcdctl role grant-permission osm readwrite (\S+)( --prefix=true)?$", page.read_text(), re.M
    ).groups()
    permission = {"permType": "READWRITE", "key": _base64(key)}
    if prefix:  # up to the first key that does not begin so
        permission["range_end"] = _base64(key[:-1] + chr(ord(key[-1]) + 1))
    return permission


class EtcdCa(RootCase):
    def setUp(self):
        super().setUp()
        if shutil.which("etcd") is None:
            sys.exit("etcd is missing: tools/setup --kubernetes installs it")
        self.pki = Pki(self.rig.directory / "etcd-pki")
        # Its gateway is a client of etcd, with the same certificate.
        self.serving = self.pki.server("etcd", f"IP:{Switch.ADDRESS}", "IP:127.0.0.1", uses="serverAuth,clientAuth")
        self.client = self.pki.user("osm")
        self.url = f"https://{Switch.ADDRESS}:{PORT}"
        self.etcd = None
        self.rig.mesh.write("mesh.yaml", objects.namespace("client"))

    # -- etcd -----------------------------------------------------------------------------------
    def start_etcd(self):
        certificate, key = self.serving
        data = self.rig.directory / "etcd"
        data.mkdir(mode=0o700, exist_ok=True)
        self.etcd = self.rig.start(
            "etcd",
            self.rig.switch.namespace.command(
                "etcd",
                "--data-dir",
                data,
                "--listen-client-urls",
                f"https://0.0.0.0:{PORT}",
                "--advertise-client-urls",
                self.url,
                "--listen-peer-urls",
                "http://127.0.0.1:2380",
                "--cert-file",
                certificate,
                "--key-file",
                key,
                "--client-cert-auth",
                "--trusted-ca-file",
                self.pki.ca,
                "--logger",
                "zap",
                "--log-level",
                "warn",
            ),
        )

        def answers():
            if not self.etcd.running():
                raise AssertionError(f"etcd ended: {self.etcd.tail()}")
            return self.ask("kv/range", key="AA==")

        wait_for("etcd answers", answers, 30, interval=0.1)

    def ask(self, path, **body):
        """etcd's answer to an administrator."""
        ran = subprocess.run(
            self.rig.switch.namespace.command(
                "curl",
                "-sS",
                "--fail",
                "--max-time",
                "5",
                "--cacert",
                self.pki.ca,
                "--cert",
                self.client.certificate,
                "--key",
                self.client.key,
                "-d",
                json.dumps(body),
                f"{self.url}/v3/{path}",
            ),
            capture_output=True,
            text=True,
        )
        if ran.returncode == COULD_NOT_CONNECT:
            raise ConnectionError(ran.stderr)
        if ran.returncode != 0:
            raise CommandFailed(f"{path}: curl ended with {ran.returncode}: {ran.stderr}")
        return json.loads(ran.stdout)

    def value(self, key):
        """The text at a key; None: there is no such key."""
        pairs = self.ask("kv/range", key=_base64(key)).get("kvs")
        return base64.b64decode(pairs[0]["value"]).decode() if pairs else None

    # -- the controller -------------------------------------------------------------------------
    def arguments(self, **other):
        """--etcd-KEY_FILE=... of the keyword key_file."""
        values = {
            "endpoints": self.url,
            "key": KEY,
            "ca_file": self.pki.ca,
            "cert_file": self.client.certificate,
            "key_file": self.client.key,
            **other,
        }
        return ["--ca-store=etcd"] + [f"--etcd-{name.replace('_', '-')}={value}" for name, value in values.items()]

    def start_fails(self, *arguments):
        """Log of a controller that does not start."""
        self.rig.start_controller(*arguments, wait=False)
        status = self.rig.controller.popen.wait(30)
        text = self.rig.controller.text()
        self.rig.controller.log.unlink()
        self.assertEqual(status, 1, text)
        self.assertNotIn("PRIVATE KEY", text)
        return text

    def start_waits(self, *words, **flags):
        """A controller with these flags waits when it starts, and says why. It ends on a signal."""
        self.rig.start_controller(*self.arguments(**flags), wait=False)
        self.wait_for_reason(*words)
        self.assertEqual(0, self.rig.stop_controller())

    def wait_for_reason(self, *words):
        """Until a controller that starts says that it waits, and why."""

        def told():
            status, body = self.rig.controller_http("/health/ready")
            if status != 503 or not all(word in body for word in words):
                raise NotYet((status, body))
            return True

        wait_for(f"the start waits: {words}", told, 30, retry=(OSError,))

    def start_second_controller(self):
        """On a machine of its own, over the same objects: the machine and the state directory."""
        machine = self.rig.add_vm("second", "second", "10.200.0.2")
        state = self.rig.directory / "second-state"
        self.second = self.rig.start(
            "osm-controller-second",
            machine.namespace.command(
                self.rig.programs.controller,
                "--mesh-dir",
                self.rig.mesh.path,
                "--state-dir",
                state,
                "--ads-address",
                f"{machine.address}:{ADS_PORT}",
                "--http-address",
                f"{machine.address}:{HTTP_PORT}",
                *self.rig.controller_flags,
                *self.arguments(),
            ),
        )
        self.second.wait_for_log("osm-controller started", 20)
        return machine, state

    def start_two_controllers(self):
        """Client and server under load, each with a controller: (client, server, the second
        controller's machine and state directory, load)."""
        self.start_etcd()
        client, server = self.add_client_and_server()
        self.rig.start_controller(*self.arguments())
        machine, state = self.start_second_controller()
        server.controller = f"{machine.address}:{ADS_PORT}"
        for one in (client, server):
            one.start_proxy()
        self.serve(server)
        self.wait_for_status(client, 200, "server.server")
        load = meshcase.Load(client, interval=0.05)
        self.addCleanup(load.stop)
        return client, server, machine, state, load

    # -- tests ----------------------------------------------------------------------------------
    def test_racing_processes_end_with_one_ca(self):
        self.start_etcd()
        check_races(
            self,
            lambda n: self.rig.switch.namespace.command(
                self.rig.programs.bin / "ca_racer",
                "etcd",
                self.url,
                f"/race/{n}",
                self.pki.ca,
                self.client.certificate,
                self.client.key,
            ),
        )

    def test_a_start_waits_for_etcd_and_one_that_comes_back_has_the_ca(self):
        self.rig.start_controller(*self.arguments(), wait=False)
        self.wait_for_reason(self.url, "see that etcd runs there")
        self.start_etcd()
        self.rig.wait_until_ready()
        self.assertFalse((self.rig.state / "ca").exists(), "a CA on disk")
        kept = self.ask("kv/range", key="L29zbS9jYQ==")["kvs"][0]
        self.assertEqual("1", kept["version"])
        self.assertNotIn(kept["value"][60:120], self.rig.controller.text())

        # Without etcd it goes on, and the same CA is there when both come back.
        self.etcd.end()
        self.assertEqual(self.rig.controller_http("/health/alive")[0], 200)
        self.rig.stop_controller()
        self.start_etcd()
        self.rig.start_controller(*self.arguments())
        again = self.ask("kv/range", key="L29zbS9jYQ==")["kvs"][0]
        self.assertEqual((kept["value"], "1"), (again["value"], again["version"]))

    def test_an_etcd_that_cannot_be_trusted_or_does_not_trust_us_is_told_apart(self):
        self.start_etcd()
        stranger = Pki(self.rig.directory / "stranger")
        nobody = stranger.user("osm")
        self.start_waits(self.url, "certificate", ca_file=stranger.ca)
        self.start_waits(self.url, cert_file=nobody.certificate, key_file=nobody.key)
        self.assertIsNone(self.ask("kv/range", key="L29zbS9jYQ==").get("kvs"))

    def test_a_damaged_ca_in_etcd_stops_the_start_and_is_left_alone(self):
        self.start_etcd()
        self.ask("kv/put", key="L29zbS9jYQ==", value="bm8gUEVN")
        text = self.start_fails(*self.arguments())
        self.assertIn(f"key {KEY} of etcd", text)
        self.assertEqual("bm8gUEVN", self.ask("kv/range", key="L29zbS9jYQ==")["kvs"][0]["value"])

    def test_a_ca_of_the_operator_is_put_into_the_store_once(self):
        self.start_etcd()
        mine, other = Pki(self.rig.directory / "mine"), Pki(self.rig.directory / "other")

        def flags(pki):
            return [*self.arguments(), f"--ca-cert={pki.ca}", f"--ca-key={pki.ca_key}"]

        self.rig.start_controller(*flags(mine))
        self.rig.stop_controller()
        kept = self.ask("kv/range", key="L29zbS9jYQ==")["kvs"][0]
        self.assertIn(pathlib.Path(mine.ca).read_text().strip(), base64.b64decode(kept["value"]).decode())
        self.assertIn(f"key {KEY} of etcd", self.start_fails(*flags(other)))
        self.rig.start_controller(*self.arguments())  # the flags may go
        again = self.ask("kv/range", key="L29zbS9jYQ==")["kvs"][0]
        self.assertEqual((kept["value"], "1"), (again["value"], again["version"]))

    def test_with_users_of_its_own_etcd_asks_for_one(self):
        self.start_etcd()
        self.ask("auth/user/add", name="root", password="toor")
        self.ask("auth/role/add", name="root")
        self.ask("auth/user/grant", user="root", role="root")
        self.ask("auth/role/add", name="osm")
        self.ask("auth/role/grant", name="osm", perm=documented_permission())
        self.ask("auth/user/add", name="mesh", password="hsem")
        self.ask("auth/user/grant", user="mesh", role="osm")
        self.ask("auth/enable")
        password = self.rig.directory / "password"

        self.start_waits("without a common name")
        nameless = self.pki.nameless()
        as_nobody = {"cert_file": nameless.certificate, "key_file": nameless.key}
        self.start_waits("give a user of etcd", **as_nobody)
        password.write_text("wrong\n")
        as_user = {"user": "mesh", "password_file": password, **as_nobody}
        self.start_waits("invalid user ID or password", **as_user)
        password.write_text("hsem\n")
        self.start_waits("read and write key /osm/other", key="/osm/other", **as_user)
        self.rig.start_controller(*self.arguments(**as_user))

        with self.subTest("the documented role suffices for a root rotation"):
            self.rig.osm("certificate", "rotate", "--mesh-dir", self.rig.mesh.path, "--name", "next", "--wait", "60s")
            roots = self.rig.admin("GET", "/v1/roots")["roots"]
            self.assertEqual({root["name"]: root["state"] for root in roots}, {"(own)": "inactive", "next": "signing"})

    def test_a_rotation_waits_for_a_controller_that_is_cut_off_from_etcd(self):
        client, server, machine, state, load = self.start_two_controllers()
        name = re.search(r'"replica":"([^"]+)"', self.second.text()).group(1)

        # Without its new streams, a proxy key that is used at both would not be noticed. Without
        # the proxies that it met, nobody would know that one of them is away.
        def told():
            texts = json.loads(self.value(f"{KEY}/replicas/{name}"))
            return "new-streams" in texts and json.loads(texts["roots"])["proxies"]

        wait_for("what it says is in etcd", told, 30)

        firewall = ("OUTPUT", "-p", "tcp", "--dport", str(PORT), "-j", "DROP")
        machine.namespace.run("iptables", "-A", *firewall)
        self.rig.mesh.write("roots.yaml", objects.root("next"))
        with self.subTest("while its lease lives, it is named"):
            wait_for(
                "its name", lambda: f"waits for replica {name}" in self.roots().get("next", {}).get("waiting_for", "")
            )
        with self.subTest("then its proxies count as absent, though they are served"):
            wait_for(
                "the workload that is missing",
                lambda: "1 workloads whose proxy is not" in self.roots()["next"]["waiting_for"],
                30,
            )
            self.wait_for_states(next="validating", own="signing")
            self.assertEqual({"(own)"}, set(self.roots(state)) - {"next"})
            self.assertEqual(self.roots(state)["(own)"]["state"], "signing")
            self.assertEqual(machine.namespace.http(machine.address, HTTP_PORT, "GET", "/health/ready")[0], 200)
            self.assertIn("etcd has not answered lately", self.rig.osm("problems", state=state, check=False))
            self.assertIn("no root rotation goes on", self.second.text())
            load.check(self)

        machine.namespace.run("iptables", "-D", *firewall)
        for one in (client, server):
            keep_renewing(one)
        for known_by in (None, state):
            self.wait_for_states(state=known_by, next="signing", own="inactive", timeout=60)
        self.assertEqual(*[[(r["state"], r["fingerprint"]) for r in self.roots(of).values()] for of in (None, state)])
        load.check(self)
        load.stop()

    def test_a_rotation_goes_on_when_the_controller_that_leads_it_is_killed(self):
        client, server, _, state, load = self.start_two_controllers()
        self.rig.mesh.write("roots.yaml", objects.root("next"))
        self.wait_for_states(next="signing", own="draining")  # the machines renew nothing yet
        self.assertNotIn("another state", self.second.text())

        self.rig.stop_controller(signal.SIGKILL)
        steps = self.rig.controller.text().count("another state")
        with self.subTest("the other one leads when the lease has ended"):
            wait_for(
                "it waits for the proxies of both",
                lambda: re.search(
                    r"waits for 1 proxies with a certificate of another root, 1 workloads whose proxy "
                    r"is not connected \(.*client/client",
                    self.roots(state)["(own)"]["waiting_for"],
                ),
                40,
            )
        self.rig.start_controller(*self.arguments())
        for one in (client, server):
            keep_renewing(one)
        for known_by in (None, state):
            self.wait_for_states(state=known_by, next="signing", own="inactive", timeout=60)
        self.assertIn("another state", self.second.text())
        self.assertEqual(self.rig.controller.text().count("another state"), steps)
        load.stop()
        self.assertEqual(load.failures, [])

    def test_the_record_of_a_controller_that_was_alone_moves_into_etcd_once(self):
        self.start_etcd()
        self.rig.start_controller(*self.arguments())
        self.rig.stop_controller()
        record = self.value(f"{KEY}/rotation")
        self.ask("kv/deleterange", key=_base64(f"{KEY}/rotation"))

        # A controller that starts issues certificates, and records their latest end.
        def begun(text):
            return [(root["name"], root["bundle"], root["firstSeen"]) for root in json.loads(text)["roots"]]

        local, kept = self.rig.state / "rotation.json", self.rig.state / "rotation.json.old"
        local.write_text("damaged")
        self.assertIn(f"{local}: the rotation's record is not", self.start_fails(*self.arguments()))
        self.assertIsNone(self.value(f"{KEY}/rotation"))
        for text, moved in ((record, True), ("another", False)):
            local.write_text(text)
            self.rig.start_controller(*self.arguments())
            self.assertEqual(begun(record), begun(self.value(f"{KEY}/rotation")))
            self.assertEqual((False, text), (local.exists(), kept.read_text()))
            self.assertIn("has moved into etcd" if moved else "in etcd is in force", self.rig.controller.text())
            self.rig.stop_controller()


if __name__ == "__main__":
    meshcase.main()
