#!/usr/bin/python3
"""A kubeconfig that cannot be used is left out alone and told by name, one of another party runs no program
and sends no file away, and a cluster that is away keeps no controller from starting.

usage: remote_clusters_test.py --bin DIRECTORY
"""

import base64
import contextlib
import http.server
import json
import re
import ssl
import subprocess
import threading

from lib.mesh.authority import Authority
from lib.mesh.daemon import DaemonTest, run
from lib.net.processes import wait_for

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "a",
    "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "a", "user": {"token": "secret-token"}}],
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
}


@contextlib.contextmanager
def another_cluster(authority):
    """An API server that knows nothing. Yields its address, and the credentials that it is shown."""
    shown = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            shown.append(self.headers["Authorization"])
            self.send_error(404)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.named("server", "IP:127.0.0.1", uses="serverAuth"))
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}", shown
    server.shutdown()
    server.server_close()
    thread.join()


class RemoteClusters(DaemonTest):
    def test_a_kubeconfig_of_another_party_runs_nothing_and_sends_nothing_away(self):
        clusters, secret, proof = self.folder / "clusters", self.folder / "secret", self.folder / "proof"
        clusters.mkdir()
        secret.write_text("the-controllers-own-token")
        authority = Authority(self.folder / "authority")
        ca = base64.b64encode((authority.directory / "ca.crt").read_bytes()).decode()
        plugin = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "/bin/sh",
            "args": ["-c", f"id > {proof}"],
            "interactiveMode": "Never",
        }
        (clusters / ".beside.token").write_text("a-token-beside-it")
        (clusters / ".link.token").symlink_to(secret)
        with another_cluster(authority) as (server, shown):
            for name, user in (
                ("beside", {"tokenFile": ".beside.token"}),
                ("runs", {"exec": plugin}),
                ("sends", {"tokenFile": str(secret)}),
                ("other", {"tokenFile": ".beside.token"}),
                ("link", {"tokenFile": ".link.token"}),
            ):
                cluster = {"server": server, "certificate-authority-data": ca}
                config = KUBECONFIG | {
                    "clusters": [{"name": "a", "cluster": cluster}],
                    "users": [{"name": "a", "user": user}],
                }
                (clusters / name).write_text(json.dumps(config))
            controller = self.start("--remote-clusters", clusters)
            controller.wait_until_ready()
            wait_for("its own token to arrive", lambda: "Bearer a-token-beside-it" in shown, 20)

            def told():
                text = " ".join(self.osm("problems")[1].split())
                return text if f"{clusters}/.link.token: cannot be read" in text else None

            problems = wait_for("the link to be told", told, 20)
            for name, field in (("runs", "exec"), ("sends", "tokenFile"), ("other", "tokenFile")):
                self.assertIn(f"{clusters}/{name}: users[a].user.{field}: a kubeconfig of another party may", problems)
            self.assertEqual(0, controller.stop())
        self.assertEqual({"Bearer a-token-beside-it"}, set(shown))
        self.assertFalse(proof.exists())

    def test_each_fault_is_told_with_its_file_and_the_rest_serves(self):
        clusters = self.folder / "clusters"
        (clusters / "..data").mkdir(parents=True)  # as in a Secret's volume
        (clusters / "north").write_text(json.dumps(KUBECONFIG))
        (clusters / "west").write_text("clusters: [")
        (clusters / "East_1").write_text(json.dumps(KUBECONFIG))
        (clusters / "south").write_text(json.dumps(KUBECONFIG))
        controller = self.start("--remote-clusters", clusters, "--cluster-name", "south")
        controller.wait_until_ready()

        def told():
            text = " ".join(self.osm("problems")[1].split())
            return text if "https://127.0.0.1:1" in text else None

        problems = wait_for("the cluster does not answer", told, 20)
        self.assertIn(f"{clusters}/west", problems)
        self.assertIn(f"{clusters}/East_1", problems)
        self.assertIn("must be a DNS label of at most 52 bytes", problems)
        self.assertIn(f"{clusters}/south", problems)
        self.assertIn("(--cluster-name)", problems)
        self.assertNotIn("secret-token", problems + json.dumps(controller.lines))
        self.assertNotIn("..data", problems)
        series = 'osm_endpoints_provider_synced{provider="kubernetes-north"}'
        self.assertEqual(0, controller.metric(series))
        page = controller.http("/metrics")[1]
        # Another cluster's informers are told from those of the controller's own.
        stale = re.findall(r"^osm_kubernetes_watch_staleness_seconds\{([^}]*)\}", page, re.M)
        self.assertTrue(stale, page)
        for labels in stale:
            self.assertIn('remote_cluster="north"', labels)
        self.assertNotIn("kubernetes-west", page)
        self.assertEqual(0, controller.stop())

    def test_a_directory_that_is_missing_is_told(self):
        controller = self.start("--remote-clusters", self.folder / "none")
        controller.wait_until_ready()
        problems = " ".join(self.osm("problems")[1].split())
        self.assertIn(f"{self.folder}/none", problems)
        self.assertIn("correct --remote-clusters", problems)

    def test_a_name_that_is_no_label_is_wrong_usage(self):
        for name in ("East", "a.b", "a" * 53):
            code, _, error = self.osm_controller("--cluster-name", name)
            self.assertEqual(2, code)
            self.assertIn("is not a DNS label of at most 52 bytes", error)

    def osm_controller(self, *flags):
        done = subprocess.run(
            [self.bin / "osm-controller", "--mesh-dir", self.mesh, *flags], capture_output=True, text=True, timeout=20
        )
        return done.returncode, done.stdout, done.stderr


if __name__ == "__main__":
    run()
