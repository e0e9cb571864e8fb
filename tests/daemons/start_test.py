#!/usr/bin/python3
"""A start that fails names the cause and the remedy, and signals end the controller with status 0.

usage: start_test.py --bin DIRECTORY
"""

import os
import re
import shutil
import signal
import socket
import subprocess

from lib.mesh import objects
from lib.mesh.daemon import DaemonTest, run
from lib.net import http2
from lib.net.processes import NotYet, wait_for


class Start(DaemonTest):
    def test_a_second_controller_is_refused_and_the_first_goes_on(self):
        first = self.start()
        message = self.refused()
        self.assertIn(f"another osm-controller (process {first.process.pid})", message)
        self.assertIn("--state-dir", message)
        first.wait_until_ready()
        self.assertEqual(first.admin("/v1/version")[0], 200)
        self.assertEqual(first.stop(), 0)

    def test_a_killed_controller_leaves_nothing_in_the_way_of_the_next(self):
        first = self.start()
        fingerprint = first.admin("/v1/certificates")[1]["certificates"][0]["fingerprint"]
        self.assertEqual(first.stop(signal.SIGKILL), -signal.SIGKILL)
        self.assertTrue((self.state / "admin.sock").exists())
        second = self.start()
        second.wait_until_ready()
        self.assertNotEqual(second.admin("/v1/certificates")[1]["certificates"][0]["fingerprint"], fingerprint)
        self.assertEqual(second.stop(), 0)
        self.assertFalse((self.state / "admin.sock").exists())

    def test_both_signals_end_it_with_0_and_a_log_line(self):
        for how in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(how):
                controller = self.start()
                controller.wait_until_ready()
                self.assertEqual(controller.stop(how), 0)
                self.assertEqual(len(controller.log("osm-controller stopped")), 1)
                self.assertFalse([line for line in controller.lines if line["level"] == "not JSON"])

    def test_mesh_config_says_what_is_logged_from_then_on(self):
        controller = self.start()
        controller.wait_until_ready()
        self.write("config.yaml", objects.mesh_config(observability={"osmLogLevel": "error"}))
        wait_for("the MeshConfig is read", lambda: controller.metric('osm_spec_decoded_total{kind="MeshConfig"}') == 1)
        self.assertEqual(controller.stop(), 0)
        self.assertEqual(len(controller.log("osm-controller started")), 1)
        self.assertEqual(controller.log("osm-controller stopped"), [])

    def test_a_client_that_sends_nothing_does_not_hold_up_the_end(self):
        controller = self.start()
        host, port = controller.addresses["http_address"].split(":")
        with socket.create_connection((host, int(port))) as silent:
            silent.sendall(b"GET /health/alive HT")
            self.assertEqual(controller.stop(), 0)

    def test_a_second_signal_ends_it_at_once(self):
        # An orderly end is too short to send a second signal into it. Both wait while the process is
        # stopped: it takes one and ends, in any order, since each thread may take one.
        controller = self.start()
        for each in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT):
            controller.process.send_signal(each)
        self.assertIn(controller.stop(signal.SIGCONT), (-signal.SIGINT, -signal.SIGTERM))
        self.assertEqual(controller.log("osm-controller stopped"), [])

    def test_a_stray_handshake_is_a_line_of_the_log_like_any_other(self):
        controller = self.start()
        host, port = controller.addresses["ads_address"].rsplit(":", 1)
        stranger = http2.client_context()
        with socket.create_connection((host, int(port)), timeout=20) as plain:
            try:
                with stranger.wrap_socket(plain) as tls:
                    self.assertEqual(tls.recv(1), b"")
            except OSError:
                pass  # refused during the handshake or after it: TLS 1.3 allows both
        [line] = wait_for("gRPC's line", lambda: controller.log("gRPC"))
        self.assertEqual(line["level"], "warning")
        self.assertIn("did not return a certificate", line["detail"])
        self.assertEqual([line for line in controller.lines if line["level"] == "not JSON"], [])

    def test_a_missing_mesh_directory_is_named_with_its_remedy(self):
        message = self.refused(mesh=self.folder / "nowhere")
        self.assertIn(f"the mesh directory {self.folder}/nowhere does not exist", message)
        self.assertIn("--mesh-dir", message)
        (self.folder / "file").write_text("")
        self.assertIn("is not a directory", self.refused(mesh=self.folder / "file"))

    def test_a_wrong_file_of_providers_stops_the_start(self):
        self.mesh.mkdir(exist_ok=True)
        file = self.folder / "providers.yaml"
        for text, part in (
            ("- {name: a, address: 'unix:/a'}", f"{file}:1: [0]: provider 'a': allow: is empty"),
            (
                "- {name: vm, address: 'unix:/a', allow: [{namespace: shop}]}",
                "name: is taken by the controller's own provider",
            ),
            ("- {name: a, address: '10.0.0.1:9', allow: [{namespace: shop}]}", "caFile: is required"),
        ):
            with self.subTest(text):
                file.write_text(text + "\n")
                self.assertIn(part, self.refused("--providers", file))

    def test_a_taken_port_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            for server, why in (
                ("http", "another process listens there"),
                ("ads", "stop the other process or choose another port"),
            ):
                with self.subTest(server):
                    message = self.refused(**{server: address})
                    self.assertIn(address, message)
                    self.assertIn(why, message)
            message = self.refused("--join-address", address)
            self.assertIn(f"--join-address: cannot listen on {address}", message)

    def test_a_ca_that_cannot_be_read_or_is_damaged_stops_the_start(self):
        self.assertEqual(self.start().stop(), 0)
        ca = self.state / "ca" / "ca.pem"
        good = ca.read_text()
        ca.write_text(good.replace("BEGIN CERTIFICATE", "BEGIN CERTIFIKATE"))
        message = self.refused()
        self.assertIn(f"certificate authority {ca}", message)
        self.assertIn("a certificate cannot be read", message)
        self.assertNotIn(good.splitlines()[1], message, "key material in an error")
        ca.write_text(good)
        ca.chmod(0o644)
        message = self.refused()
        self.assertIn(f"certificate authority {ca}: mode 0644 lets its group or others use it", message)
        self.assertIn(f"chmod 600 '{ca}'", message)
        self.assertEqual(ca.read_text(), good, "nothing is changed on disk")

    def test_a_state_directory_of_another_user_stops_the_start(self):
        self.assertEqual(os.geteuid(), 0, "only root can become another user: run this as root")
        self.folder.chmod(0o755)
        self.assertEqual(self.start().stop(), 0)
        # The programs may lie where other users cannot reach them.
        program = self.folder / "osm-controller"
        shutil.copy(self.bin / "osm-controller", program)
        done = subprocess.run(
            [
                "setpriv",
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                program,
                "--mesh-dir",
                self.mesh,
                "--state-dir",
                self.state,
            ],
            capture_output=True,
            text=True,
            timeout=30,
        )
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"--state-dir {self.state}: cannot be opened: Permission denied", done.stderr)

    def test_a_full_disk_stops_the_start(self):
        self.assertEqual(os.geteuid(), 0, "mounting needs root: run this as root")
        # A file system of one page, in a mount namespace of its own.
        script = (
            'mount -t tmpfs -o size=4k,mode=0700 none "$1" && head -c 4096 /dev/zero > "$1/full"; '
            'exec "$2" --mesh-dir "$3" --state-dir "$1" --ads-address 127.0.0.1:0 '
            "--http-address 127.0.0.1:0"
        )
        self.state.mkdir()
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", self.state, self.bin / "osm-controller", self.mesh],
            capture_output=True,
            text=True,
            timeout=30,
        )
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("No space left on device", done.stderr)
        self.assertIn(str(self.state), done.stderr)

    def test_wrong_usage_ends_with_2_and_says_what_is_right(self):
        for flags, words in (
            (["--http-address", "::1:80"], "an IPv6 address needs brackets"),
            (["--ads-address", "localhost"], "the port is missing"),
            (["--osm-namespace", "A_B"], "is not a namespace name"),
            (["--trust-domain", "spiffe://x"], "is not a trust domain"),
            (["--cluster-domain", "Example"], "is not a DNS name"),
            (["--log-level", "loud"], "not in {debug,info,warning,error}"),
            (["--rotation-max-wait", "0"], "--rotation-max-wait"),
            (["--reconcile-only"], "--reconcile-only excludes --mesh-dir"),
            (["--secrets-by-namespace"], "--secrets-by-namespace excludes --mesh-dir"),
            (["--service-cidr", "10.0.0.0/25"], "it has fewer than 256 addresses"),
            (["--nonsense"], "--nonsense"),
        ):
            with self.subTest(flags):
                done = subprocess.run(
                    [self.bin / "osm-controller", "--mesh-dir", self.mesh, *flags],
                    capture_output=True,
                    text=True,
                    timeout=30,
                )
                self.assertEqual(done.returncode, 2)
                self.assertIn(words, done.stderr)

    def test_a_network_of_Services_is_refused_for_Kubernetes(self):
        done = subprocess.run(
            [self.bin / "osm-controller", "--kubeconfig", "/nowhere", "--service-cidr", "240.240.0.0/12"],
            capture_output=True,
            text=True,
            timeout=30,
        )
        self.assertEqual(done.returncode, 2)
        self.assertIn("Kubernetes allocates the addresses of its Services", done.stderr)

    def test_readiness_names_what_is_missing_and_which_file_is_in_the_way(self):
        self.write("namespace.yaml", objects.namespace("shop"))
        self.write_text("broken.yaml", "kind: [unclosed\n")
        controller = self.start()
        status, body = controller.http("/health/ready")
        self.assertEqual(status, 503)
        self.assertIn("mesh specification", body)
        self.assertEqual(controller.http("/health/alive")[0], 200)

        def named():
            status, body = controller.http("/health/ready")
            self.assertEqual(status, 503, body)
            return "broken.yaml" in body

        wait_for("the file is named", named)  # its first look at the directory may be yet to come
        self.write_text("broken.yaml", "")
        controller.wait_until_ready()
        self.assertEqual(controller.stop(), 0)

    def test_check_names_the_provider_that_a_start_waits_for(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind(("127.0.0.1", 0))
            self.write(
                "shop.yaml",
                objects.namespace("shop"),
                objects.account("shop", "web"),
                {
                    "apiVersion": "workload.openservicemesh.io/v1alpha1",
                    "kind": "DNSResource",
                    "metadata": {"name": "web", "namespace": "shop"},
                    "spec": {"name": "web.test", "serviceAccount": "web"},
                },
            )
            self.start("--dns-server", f"127.0.0.1:{silent.getsockname()[1]}")

            def told():
                code, out, err = self.osm("check")
                found = re.search(r"fault +Provider dns +it is not synced, and the controller is not ready", out)
                if not found:
                    raise NotYet(out + err)
                return code

            self.assertEqual(wait_for("the finding", told, 20), 1)


if __name__ == "__main__":
    run()
