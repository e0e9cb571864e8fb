#!/usr/bin/python3
"""A machine replaces its own certificate over the wire, and with `--grpc` its workload's. Commands print the
date after which its proxy is refused.

usage: renew_test.py --bin DIRECTORY
"""

import datetime
import fcntl
import hashlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading

from lib.mesh import objects
from lib.mesh.authority import Authority, openssl
from lib.mesh.daemon import ShopTest, run
from lib.mesh.impostor import Impostor
from lib.mesh.xds_proxy import XdsProxy
from lib.net import http2
from lib.net.processes import wait_for

WEB = objects.machine("shop", "web-1", "10.1.0.3", "web", {"app": "web"})
FILES = ("sds_key.pem", "sds_cert.pem", "cacert.pem")
CONTROLLER = "spiffe://cluster.local/osm/controller"


class RenewTest(ShopTest):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "web-1"
        self.assertEqual(self.bootstrap("web-1", self.out, controller=self.controller.addresses["ads_address"])[0], 0)

    def write_mesh(self):
        self.write("shop.yaml", *(each for each in objects.shop() if each != WEB))
        self.write("web.yaml", WEB)  # a file of its own, which tests remove

    def command(self, *flags):
        return [str(a) for a in (self.bin / "osm", "vm", "renew", "--dir", self.out, *flags)]

    def renew(self, *flags):
        """(exit code, stdout, stderr)"""
        ran = subprocess.run(self.command(*flags), capture_output=True, text=True, timeout=60)
        return ran.returncode, ran.stdout, ran.stderr

    def renewed(self, *flags):
        code, _, err = self.renew(*flags)
        self.assertEqual(code, 0, err)

    def contents(self):
        return {name: (self.out / name).read_text() for name in FILES}

    def serial(self):
        return (
            openssl("x509", "-noout", "-serial", "-in", self.out / "sds_cert.pem")
            .split("=")[1]
            .strip()
            .lower()
            .lstrip("0")
        )

    def assert_whole(self):
        """The key is the certificate's, and nothing was left beside them."""
        self.assertEqual(
            openssl("pkey", "-pubout", "-in", self.out / "sds_key.pem"),
            openssl("x509", "-noout", "-pubkey", "-in", self.out / "sds_cert.pem"),
        )
        self.assertEqual([p.name for p in self.out.iterdir() if p.name.startswith(".")], [])

    def assert_failed(self, *parts, flags=("--force",), code=1):
        """It fails with these words, and the machine has what it had."""
        before = self.contents()
        ended, out, err = self.renew(*flags)
        self.assertEqual((ended, out), (code, ""), err)
        for part in parts:
            self.assertIn(part, err)
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertEqual(self.contents(), before)
        self.assert_whole()

    def install(self, chain, key):
        for name, text in (("sds_cert.pem", chain), ("sds_key.pem", key)):
            (self.out / name).write_text(text)

    def issued(self, label, uri, begin, end):
        """(chain, key) under the mesh's CA; `begin` and `end` are hours from now."""
        now = datetime.datetime.now(datetime.timezone.utc)
        authority = Authority(self.folder / f"authority-{label}", self.state / "ca" / "ca.pem")
        return authority.issue("x", uri, now + datetime.timedelta(hours=begin), now + datetime.timedelta(hours=end))

    def uri(self):
        text = openssl("x509", "-noout", "-ext", "subjectAltName", "-in", self.out / "sds_cert.pem")
        return text.split("URI:")[1].strip()


class Renew(RenewTest):
    def test_the_names_that_the_controller_may_have_are_those_of_now(self):
        file = self.out / "validation_context_sds_secret.yaml"
        text = file.read_text()
        self.assertIn(f'{{san_type: URI, matcher: {{exact: "{CONTROLLER}"}}}}', text)
        before = self.contents()
        for other in (
            text.replace("cluster.local", "old.example"),
            text.split("    match_typed_subject_alt_names:")[0],
        ):  # of an older version
            file.write_text(other)
            code, out, err = self.renew()
            self.assertEqual(code, 0, err)
            self.assertIn("names replaced", out)
            self.assertEqual(file.read_text(), text)
        self.assertEqual(self.contents(), before)
        self.assertIn("current", self.renew()[1])

    def test_unchanged_files_stay_as_they_are(self):
        before = self.contents()
        code, out, err = self.renew()
        self.assertEqual((code, err), (0, ""))
        self.assertIn("current; Envoy is served with it until 20", out)
        self.assertEqual(self.contents(), before)
        self.assertFalse(self.controller.log("proxy certificate renewed"))

    def test_a_renewed_certificate_is_over_a_new_key_with_owners_and_modes_as_before(self):
        before = self.contents()
        stats = {name: (self.out / name).stat() for name in FILES}
        code, out, err = self.renew("--force", "-o", "json")
        self.assertEqual((code, err), (0, ""))
        answer = json.loads(out)
        self.assertEqual(answer["result"], "renewed")
        self.assertEqual(answer["serial_number"].lower().lstrip("0"), self.serial())
        served, end = (datetime.datetime.fromisoformat(answer[name][:-1]) for name in ("served_until", "not_after"))
        self.assertEqual(datetime.timedelta(days=90), end - served)
        after = self.contents()
        self.assertNotEqual(after["sds_key.pem"], before["sds_key.pem"])
        self.assertNotEqual(after["sds_cert.pem"], before["sds_cert.pem"])
        self.assert_whole()
        for name in FILES:
            now = (self.out / name).stat()
            self.assertEqual(
                (now.st_mode, now.st_uid, now.st_gid),
                (stats[name].st_mode, stats[name].st_uid, stats[name].st_gid),
                name,
            )
        [line] = self.controller.log("proxy certificate renewed")
        self.assertEqual(line["workload"], "shop/web-1")
        self.assertEqual(line["serial_number"].lower().lstrip("0"), self.serial())
        self.assertNotIn("PRIVATE", json.dumps(self.controller.lines))
        # It is the one that speaks from now on.
        self.renewed()

    def test_a_certificate_past_two_thirds_of_its_life_is_replaced_and_a_younger_one_is_not(self):
        uri = self.uri()
        self.install(*self.issued("young", uri, -1, 1))
        self.assertIn("current", self.renew()[1])
        self.install(*self.issued("old", uri, -3, 1))
        old = self.serial()
        self.assertIn("renewed", self.renew()[1])
        self.assertNotEqual(self.serial(), old)
        self.assert_whole()

    def test_a_trust_bundle_that_is_not_the_meshs_is_replaced_and_the_certificate_stays(self):
        before = self.contents()
        (self.out / "cacert.pem").write_text("# as it was\n" + before["cacert.pem"])
        code, out, _ = self.renew()
        self.assertEqual(code, 0)
        self.assertIn("trust bundle replaced", out)
        self.assertEqual(self.contents(), before)
        self.assertFalse(self.controller.log("proxy certificate renewed"))

    def test_the_key_is_of_the_kind_that_the_mesh_asks_for(self):
        for algorithm, expected in (("RSA", "Private-Key: (2048 bit"), ("Ed25519", "ED25519"), ("ECDSA", "prime256v1")):
            with self.subTest(algorithm):
                self.write("config.yaml", objects.mesh_config(certificate={"keyAlgorithm": algorithm}))
                wait_for(
                    "the setting",
                    lambda: (
                        self.controller.admin("/v1/vm/subject?name=web-1&namespace=shop")[1]["key_algorithm"]
                        == algorithm
                    ),
                )
                self.renewed("--force")
                self.assertIn(expected, openssl("pkey", "-noout", "-text", "-in", self.out / "sds_key.pem"))

    def test_a_machine_that_has_left_the_mesh_gets_nothing(self):
        (self.mesh / "web.yaml").unlink()
        wait_for("the machine to go", lambda: self.controller.metric("osm_mesh_workloads") == 1)
        self.assert_failed("unknown-proxy", "shop", code=3)
        self.assertFalse(self.controller.log("proxy certificate renewed"))

    def test_a_machine_of_another_account_gets_nothing_with_the_certificate_of_the_former(self):
        changed = json.loads(json.dumps(WEB))
        changed["spec"]["serviceAccount"] = "api"
        # The UUID is the machine's, and so the same.
        self.write("web.yaml", changed)
        wait_for(
            "the change",
            lambda: "/api" in self.controller.admin("/v1/vm/subject?name=web-1&namespace=shop")[1]["spiffe_id"],
        )
        self.assert_failed("identity-mismatch", "shop/api", code=3)

    def test_a_certificate_that_has_ended_asks_nobody_and_says_what_to_run(self):
        self.install(*self.issued("ended", self.uri(), -3, -1))
        self.assert_failed("sds_cert.pem ended at 20", "`osm vm bootstrap`", flags=())

    def test_more_certificates_than_anybody_needs_are_refused_for_a_minute(self):
        for _ in range(10):
            self.renewed("--force")
        self.assert_failed("within a minute", code=4)
        self.renewed()

    def test_wrong_directories_are_reported(self):
        for missing in ("bootstrap.yaml", "sds_cert.pem", "sds_key.pem", "cacert.pem"):
            with self.subTest(missing):
                (self.out / missing).rename(self.folder / missing)
                code, _, err = self.renew()
                self.assertEqual(code, 1)
                self.assertIn(f"{self.out}/{missing}", err)
                (self.folder / missing).rename(self.out / missing)
        (self.out / "bootstrap.yaml").write_text("node: {}\n")
        self.assertIn("names no controller", self.renew()[2])

    def test_one_changes_the_files_at_a_time_and_an_administrators_word_waits_for_its_turn(self):
        held = os.open(self.out, os.O_RDONLY)
        self.addCleanup(os.close, held)
        fcntl.flock(held, fcntl.LOCK_EX)
        self.assert_failed("another `osm vm renew`")
        before = self.contents()
        bootstrap = subprocess.Popen(
            [
                self.bin / "osm",
                "vm",
                "bootstrap",
                "web-1",
                "-n",
                "shop",
                "--controller",
                self.controller.addresses["ads_address"],
                "--out",
                self.out,
                "--state-dir",
                self.state,
            ],
            stdout=subprocess.DEVNULL,
        )
        self.addCleanup(lambda: bootstrap.poll() is None and bootstrap.kill())
        waits = re.compile(rf"-> FLOCK .* {bootstrap.pid} ")
        wait_for("it waits", lambda: waits.search(pathlib.Path("/proc/locks").read_text()))
        self.assertEqual(len(self.controller.log("proxy certificate issued for a machine")), 1)
        self.assertEqual(self.contents(), before)
        fcntl.flock(held, fcntl.LOCK_UN)
        self.assertEqual(bootstrap.wait(20), 0)
        self.assertNotEqual(self.contents(), before)
        self.assert_whole()

    def test_a_key_that_is_not_the_certificates_is_told(self):
        self.install((self.out / "sds_cert.pem").read_text(), openssl("genpkey", "-algorithm", "ed25519"))
        code, _, err = self.renew()
        self.assertEqual(code, 1)
        self.assertIn("sds_key.pem: is not the key of sds_cert.pem. Run `osm vm bootstrap`", err)

    def test_one_killed_between_two_files_is_completed_by_the_next_run(self):
        old = (self.out / "sds_cert.pem").read_text()
        self.renewed("--force")
        serial = self.serial()
        (self.out / "sds_cert.pem").rename(self.out / ".sds_cert.pem.new")
        (self.out / "sds_cert.pem").write_text(old)  # beside the key of the new one
        self.renewed()
        self.assertEqual(self.serial(), serial)
        self.assert_whole()

    def test_unfinished_files_of_a_killed_run_are_dropped(self):
        before = self.contents()
        for name in FILES:
            (self.out / f".{name}.new").write_text("half")
        self.renewed()
        self.assertEqual(self.contents(), before)
        self.assert_whole()

    def test_wrong_usage(self):
        self.assertEqual(self.renew("--every", "0s")[0], 2)
        self.assertEqual(self.renew("--every", "soon")[0], 2)
        self.assertEqual(self.renew("--every", "1m", "--force")[0], 2)


class Dates(RenewTest):
    """Each command that prints the date of a proxy certificate prints the one after which its proxy is refused."""

    FLAGS = ("--join-address", "127.0.0.1:0")
    DATED_BACK = datetime.timedelta(minutes=10)  # by the CA, since clocks differ
    GRACE = datetime.timedelta(days=90)  # for a renewal

    def dates(self, directory, days=30):
        """(the date after which the proxy of the files is refused, the end of their certificate), as texts."""
        shown = openssl("x509", "-noout", "-dates", "-dateopt", "iso_8601", "-in", directory / "sds_cert.pem")
        begin, end = (datetime.datetime.fromisoformat(line.split("=")[1][:-1]) for line in shown.splitlines())
        served = begin + self.DATED_BACK + datetime.timedelta(days=days)
        self.assertEqual(end - served, self.GRACE)
        return [f"{date:%Y-%m-%dT%H:%M:%S}.000Z" for date in (served, end)]

    def assert_said(self, text, directory, days=30):
        served, end = self.dates(directory, days)
        self.assertIn(f"Envoy is served with it until {served}, and it can be renewed until {end}", text)

    def connect(self):
        address, roots = self.controller.addresses["ads_address"], self.out / "cacert.pem"
        identity = self.out / "sds_cert.pem", self.out / "sds_key.pem"
        proxy = XdsProxy(http2.PatientConnection.tls(address, roots, identity))
        self.addCleanup(proxy.close)
        proxy.wait_until_configured()

    def test_files_for_a_machine(self):
        ads = self.controller.addresses["ads_address"]
        for days in (30, 5):
            if days != 30:
                validity = {"proxyCertValidityDuration": f"{24 * days}h"}
                self.write("config.yaml", objects.mesh_config(certificate=validity))
            out = self.folder / f"api-{days}"
            code, said, err = self.bootstrap("api-1", out, controller=ads)
            self.assertEqual((code, err), (0, ""))
            self.assert_said(said, out, days)
            token = self.folder / f"token-{days}"
            token.write_text(self.osm("vm", "token", "api-1", "-n", "shop", "--controller", ads)[1])
            joined = self.folder / f"joined-{days}"
            code, said, err = self.osm("vm", "join", "--token-file", token, "--out", joined, state=False)
            self.assertEqual((code, err), (0, ""))
            self.assert_said(said, joined, days)
            code, said, err = self.renew("--force")
            self.assertEqual((code, err), (0, ""))
            self.assert_said(said, self.out, days)
        bootstrap = "vm", "bootstrap", "api-1", "-n", "shop", "--controller", ads, "--out", out, "-o", "json"
        answer = json.loads(self.osm(*bootstrap)[1])
        self.assertEqual([answer["served_until"], answer["not_after"]], self.dates(out, 5))

    def test_connected_proxies(self):
        self.connect()
        served, end = self.dates(self.out)
        lines = self.osm("proxy", "list")[1].splitlines()
        at = lines[0].index("SERVED UNTIL")
        self.assertEqual(lines[1][at:].strip(), served)
        [proxy] = json.loads(self.osm("proxy", "list", "-o", "json")[1])["proxies"]
        self.assertEqual([proxy["certificate_served_until"], proxy["certificate_not_after"]], [served, end])
        verified = self.osm("verify", "connectivity", "--from-pod", "shop/web-1", "--to-pod", "shop/api-1")[1]
        self.assertRegex(verified, rf"ok +Proxy shop/web-1 .*, served with its certificate until {served}")
        self.assertNotIn(end, verified)


class Staying(RenewTest):
    def stay(self):
        process = subprocess.Popen(
            self.command("--every", "1s"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(lambda: process.poll() is None and process.kill())
        out, err = [], []
        for stream, lines in ((process.stdout, out), (process.stderr, err)):
            reader = threading.Thread(target=lambda s=stream, to=lines: to.extend(iter(s.readline, "")))
            reader.start()
            self.addCleanup(stream.close)
            self.addCleanup(reader.join)
        return process, out, err

    def test_it_looks_again_and_again_says_what_changed_and_ends_when_told(self):
        process, out, err = self.stay()
        wait_for("the first look", lambda: out)
        self.assertIn("current", out[0])
        before = self.serial()
        self.install(*self.issued("old", self.uri(), -3, 1))
        wait_for("it to be renewed", lambda: len(out) > 1)
        self.assertIn("renewed", out[1])
        self.assertNotEqual(self.serial(), before)

        (self.mesh / "web.yaml").unlink()
        wait_for("the failure", lambda: err)
        self.assertIn("unknown-proxy", err[0])
        self.write("web.yaml", WEB)
        wait_for("it to go on", lambda: len(out) > 2)
        self.assertIn("current", out[2])
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(20), 0)
        self.assertEqual((len(out), len(err)), (3, 1), out + err)

    def test_a_controller_that_is_away_is_waited_for(self):
        process, out, err = self.stay()
        wait_for("the first look", lambda: out)
        self.controller.stop()
        wait_for("the failure", lambda: err)
        self.assertIn(f"the controller at {self.controller.addresses['ads_address']}: failed to connect", err[0])
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(20), 0)


class InTheControllersPlace(RenewTest):
    def impostor(self, uris, pem=None):
        """Whoever has a certificate with these URIs, for servers, of the mesh's CA or another."""
        folder = self.folder / hashlib.sha256(repr((uris, pem)).encode()).hexdigest()[:8]
        authority = Authority(folder, pem or self.state / "ca" / "ca.pem")
        made = Impostor(
            socket.create_server(("127.0.0.1", 0)), authority.for_days("impostor", uris, uses="serverAuth, clientAuth")
        )
        self.addCleanup(made.close)
        return made, "127.0.0.1:%d" % made.listener.getsockname()[1]

    def test_a_certificate_of_the_mesh_that_is_not_the_controllers_is_told_nothing(self):
        for uris in (
            ["spiffe://cluster.local/ns/shop/sa/web"],
            [self.uri()],
            ["spiffe://cluster.local/osm/admin"],
            [CONTROLLER + "/x"],
            ["spiffe://evil.local/osm/controller"],
            ["spiffe://cluster.local/osm/Controller"],
            [CONTROLLER, "spiffe://cluster.local/ns/shop/sa/web"],
        ):
            with self.subTest(uris):
                impostor, address = self.impostor(uris)
                self.assert_failed(
                    f"shows a certificate of {uris[0]}", f"not of {CONTROLLER}", flags=("--controller", address)
                )
                self.assertEqual(impostor.heard, [])
                self.assertGreater(impostor.shaken, 0)  # its chain was good

    def test_the_controllers_name_under_another_ca_is_told_nothing(self):
        ca = Authority(self.folder / "other").pem
        impostor, address = self.impostor([CONTROLLER], ca)
        self.assert_failed(
            f"{address}: Tls handshake failed", "certificate verify failed", flags=("--controller", address), code=4
        )
        self.assertEqual(impostor.heard, [])

    def test_with_both_the_name_and_the_ca_the_controller_is_accepted(self):
        impostor, address = self.impostor([CONTROLLER])
        self.renew("--controller", address, "--timeout", "2s")
        self.assertTrue(impostor.heard[0].startswith(http2.PREFACE))


class GrpcFiles(RenewTest):
    """`--grpc`: the workload's own certificate, for a gRPC library."""

    WORKLOAD = ("workload_key.pem", "workload_cert.pem", "workload_roots.pem")

    def setUp(self):
        super().setUp()
        code, self.said, err = self.bootstrap(
            "web-1", self.out, "--grpc", controller=self.controller.addresses["ads_address"]
        )
        self.assertEqual((code, err), (0, ""))

    def contents(self):
        return {path.name: path.read_text() for path in self.out.iterdir() if path.name in (*FILES, *self.WORKLOAD)}

    def names(self, file):
        text = openssl("x509", "-noout", "-ext", "subjectAltName", "-in", file)
        return {name.strip() for name in text.splitlines()[1].split(",")}

    def test_the_bootstrap_names_the_files_and_the_controller_as_its_certificate_does(self):
        self.assertIn("osm vm renew --dir", self.said)
        made = json.loads((self.out / "grpc_bootstrap.json").read_text())
        [server] = made["xds_servers"]
        port = self.controller.addresses["ads_address"].rsplit(":", 1)[1]
        self.assertEqual(server["server_uri"], f"dns:///osm-controller.osm-system.svc:{port}")
        self.assertEqual(server["channel_creds"][0]["type"], "tls")
        for config in (server["channel_creds"][0]["config"], made["certificate_providers"]["osm"]["config"]):
            for name in ("certificate_file", "private_key_file", "ca_certificate_file"):
                self.assertEqual(os.path.dirname(config[name]), str(self.out))
        self.assertIn("127.0.0.1 osm-controller.osm-system.svc\n", (self.out / "hosts").read_text())
        self.assertFalse((self.out / "workload_key.pem").exists())

    def test_a_missing_certificate_is_made_and_a_current_one_stays(self):
        code, out, err = self.renew()
        self.assertEqual((code, err), (0, ""))
        self.assertIn("workload certificate replaced", out)
        first = self.contents()
        self.assertEqual(set(first), {*FILES, *self.WORKLOAD})
        self.assertEqual(
            self.names(self.out / "workload_cert.pem"),
            {"DNS:web.shop.cluster.local", "URI:spiffe://cluster.local/ns/shop/sa/web"},
        )
        self.assertEqual(
            openssl("pkey", "-pubout", "-in", self.out / "workload_key.pem"),
            openssl("x509", "-noout", "-pubkey", "-in", self.out / "workload_cert.pem"),
        )
        self.assertEqual(first["workload_roots.pem"], first["cacert.pem"])
        for name in self.WORKLOAD:
            self.assertEqual((self.out / name).stat().st_mode & 0o777, 0o600)
        self.assertIn("current", self.renew()[1])
        self.assertEqual(self.contents(), first)
        [line] = self.controller.log("service certificate issued for a machine's files")
        self.assertEqual(line["workload"], "shop/web-1")
        self.assertNotIn("PRIVATE", json.dumps(self.controller.lines))

        with self.subTest("with the proxy's certificate it is replaced too"):
            self.renewed("--force")
            second = self.contents()
            for name in ("workload_key.pem", "workload_cert.pem", "sds_cert.pem"):
                self.assertNotEqual(second[name], first[name], name)

        with self.subTest("a damaged file is replaced"):
            for name in self.WORKLOAD:
                (self.out / name).write_text("damaged")
                self.renewed()
                self.assertIn("BEGIN", (self.out / name).read_text(), name)

    def test_a_machine_that_was_deleted_gets_none(self):
        bootstrap = self.out / "grpc_bootstrap.json"
        text = bootstrap.read_text()
        bootstrap.unlink()
        (self.mesh / "web.yaml").unlink()
        wait_for("the machine is gone", lambda: self.renew()[0] != 0)
        bootstrap.write_text(text)
        self.assertNotEqual(self.renew()[0], 0)
        self.assertEqual(set(self.contents()), set(FILES))


if __name__ == "__main__":
    run()
