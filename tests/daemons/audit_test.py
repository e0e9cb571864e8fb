#!/usr/bin/python3
"""The audit log has each certificate with its requester and reason, and stops none.

usage: audit_test.py --bin DIRECTORY
"""

import contextlib
import json
import os
import stat
import subprocess

from lib.mesh import objects
from lib.mesh.attacked import MeshTest
from lib.mesh.authority import openssl
from lib.mesh.daemon import DaemonTest, run
from lib.mesh.xds_client import SECRET, AdsStream
from lib.net.processes import wait_for

FIELDS = {
    "time",
    "event",
    "reason",
    "usage",
    "common_name",
    "spiffe_id",
    "serial_number",
    "fingerprint",
    "not_before",
    "not_after",
    "issuer",
    "root",
    "requester_identity",
    "requester_address",
}


def fingerprint(certificate):
    text = openssl("x509", "-noout", "-sha256", "-fingerprint", "-in", certificate)
    return text.split("=")[1].strip().replace(":", "").lower()


class AuditLog(MeshTest):
    def start(self, *flags, **more):
        self.file = self.folder / "audit" / "certificates.json"
        self.file.parent.mkdir(exist_ok=True)
        return super().start("--audit-log", self.file, *flags, **more)

    def setUp(self):
        super().setUp()
        self.write("config.yaml", objects.mesh_config(observability={"osmLogLevel": "error"}))
        wait_for(
            "the MeshConfig is read", lambda: self.controller.metric('osm_spec_decoded_total{kind="MeshConfig"}') == 1
        )

    def lines(self, **wanted):
        """Lines of the file with these values. Each line is JSON with all fields."""
        found = []
        for text in self.file.read_text().splitlines():
            line = json.loads(text)
            self.assertEqual(set(line), FIELDS)
            self.assertEqual(line["event"], "certificate-issued")
            if all(line[name] == value for name, value in wanted.items()):
                found.append(line)
        return found

    def line_of(self, certificate):
        """The line of a certificate in a file: exactly one, with the certificate's own values."""
        [line] = self.lines(fingerprint=fingerprint(certificate))
        serial = openssl("x509", "-noout", "-serial", "-in", certificate).split("=")[1].strip().lower()
        self.assertEqual(line["serial_number"].lstrip("0"), serial.lstrip("0"))
        self.assertEqual(line["root"], fingerprint(self.state / "ca" / "ca.pem"))
        self.assertEqual(line["issuer"], "tresor:" + line["root"])
        end = openssl("x509", "-noout", "-enddate", "-dateopt", "iso_8601", "-in", certificate)
        self.assertEqual(line["not_after"], end.split("=")[1].strip().replace(" ", "T"))
        return line

    def test_a_bootstrap_a_connection_a_renewal_and_a_rotation_have_a_line_each(self):
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o600)
        [own] = self.lines(usage="controller")
        self.assertEqual((own["reason"], own["requester_identity"], own["requester_address"]), ("first", "", ""))

        chain, _ = self.web
        line = self.line_of(chain)
        self.assertEqual((line["reason"], line["usage"]), ("bootstrap", "proxy"))
        self.assertEqual(line["requester_identity"], f"uid {os.geteuid()}")
        proxy = line["spiffe_id"]
        self.assertIn("/osm/proxy/" + self.uuid("web-1"), proxy)

        self.assertEqual(self.lines(usage="workload"), [])
        with contextlib.closing(AdsStream(self.connect(self.web))) as stream:
            stream.ask(SECRET, ["service-cert"])
            secrets = {}
            while "service-cert" not in secrets:
                secrets |= stream.secrets()[0]
        [line] = self.lines(usage="workload")
        self.assertEqual(line["reason"], "first")
        self.assertEqual(line["spiffe_id"], "spiffe://cluster.local/ns/shop/sa/web")

        subprocess.run(
            [self.bin / "osm", "vm", "renew", "--dir", chain.parent, "--force"],
            check=True,
            capture_output=True,
            timeout=60,
        )
        line = self.line_of(chain)
        self.assertEqual((line["reason"], line["usage"]), ("renewal", "proxy"))
        self.assertEqual(line["requester_identity"], proxy)
        self.assertRegex(line["requester_address"], r"^127\.0\.0\.1:\d+$")

        name = own["common_name"]
        self.assertEqual(self.osm("certificate", "rotate", name)[0], 0)
        self.assertEqual([line["reason"] for line in self.lines(common_name=name)], ["first", "rotation"])
        self.assertNotIn("PRIVATE", self.file.read_text())
        self.assertNotIn("BEGIN", self.file.read_text())

    def test_a_file_that_was_moved_away_is_opened_again(self):
        old = self.file.rename(self.file.with_suffix(".1"))
        before = old.read_text()
        self.proxy("api-1")
        self.assertEqual(old.read_text(), before)
        self.assertEqual([line["reason"] for line in self.lines()], ["bootstrap"])
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o600)

    def test_a_log_that_cannot_be_written_is_a_problem_and_stops_no_certificate(self):
        away = self.folder / "away"
        self.file.parent.rename(away)
        chain, _ = self.proxy("api-1")
        [line] = wait_for("the log line", lambda: self.controller.log("the audit log cannot be written"))
        self.assertEqual(line["level"], "error")
        self.assertIn(f"--audit-log {self.file}", line["cause"])
        self.assertEqual(json.loads(line["record"])["fingerprint"], fingerprint(chain))
        self.assertIn("audit log", self.osm("problems")[1])
        away.rename(self.file.parent)
        self.proxy("api-1")
        self.assertNotIn("audit log", self.osm("problems")[1])


class AuditFlag(DaemonTest):
    def test_a_file_that_others_may_write_to_is_refused(self):
        file = self.folder / "audit.json"
        file.touch()
        file.chmod(0o622)
        message = self.refused("--audit-log", file)
        self.assertIn(f"--audit-log {file}: mode 0622", message)
        self.assertIn(f"chmod 600 '{file}'", message)
        file.chmod(0o640)  # readers of logs may be a group
        self.assertEqual(self.start("--audit-log", file).stop(), 0)
        self.assertIn("is not a regular file", self.refused("--audit-log", "/dev/null"))

    def test_a_hyphen_is_stdout(self):
        process = subprocess.Popen(
            [
                self.bin / "osm-controller",
                "--mesh-dir",
                self.mesh,
                "--state-dir",
                self.state,
                "--ads-address",
                "127.0.0.1:0",
                "--http-address",
                "127.0.0.1:0",
                "--audit-log",
                "-",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            line = json.loads(process.stdout.readline())
        finally:
            process.terminate()
            process.wait(20)
            process.stdout.close()
        self.assertEqual(set(line), FIELDS)
        self.assertEqual(line["common_name"], "osm-controller.osm-system")


if __name__ == "__main__":
    run()
