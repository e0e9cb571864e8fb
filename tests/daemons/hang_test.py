#!/usr/bin/python3
"""A part of osm-controller, of osm-injector or of the reconciler that hangs is named by /health/alive until it
goes on, and calls of a server that is away are no hang.

usage: hang_test.py --bin DIRECTORY
"""

import os
import signal
import socket
import threading

from lib.kube import small_api
from lib.kube.pki import Pki
from lib.mesh import objects
from lib.mesh.daemon import Daemon, DaemonTest, run
from lib.net.processes import NotYet, wait_for

HANGS = 120  # seconds: WatchedExecutor::kHangs


class Held:
    """A file that holds whoever reads it, as one does on a network that is gone. hold() begins."""

    def __init__(self, path):
        self.path, self.content = path, None

    def hold(self):
        """False: it is held already."""
        if self.path.is_fifo():
            return False
        self.content = self.path.read_bytes()
        fifo = self.path.with_name("fifo")
        os.mkfifo(fifo)
        fifo.rename(self.path)
        return True

    def release(self):
        """Gives the content to whoever waits for it, and puts it back."""
        with open(os.open(self.path, os.O_WRONLY | os.O_NONBLOCK), "wb") as waiting:
            waiting.write(self.content)
            whole = self.path.with_name("whole")
            whole.write_bytes(self.content)
            whole.rename(self.path)


class Hang(DaemonTest):
    def start_daemon(self, program, *flags):
        daemon = Daemon(self.bin / program, *flags, first=f"{program} started")
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.stop(signal.SIGKILL))
        return daemon

    def start_reconciler(self, kubeconfig):
        return self.start_daemon("osm-controller", "--reconcile-only", "--kubeconfig", kubeconfig)

    def kubeconfig(self, name, port):
        """The kubeconfig, and the file of its token."""
        token = self.folder / f"{name}-token"
        token.write_text("token")
        return small_api.kubeconfig(self.folder / name, self.pki, port, tokenFile=str(token)), Held(token)

    def test_a_part_that_hangs_is_named_and_a_server_that_is_away_is_no_hang(self):
        self.pki, other_token = Pki(self.folder / "pki"), threading.Event()
        api = small_api.small_api(lambda path: "/leases/" in path and other_token.is_set())
        port = self.enterContext(small_api.serving(self.pki, api))
        # It takes connections and answers nothing: each call ends after 5 s, and many follow each other.
        silent = self.enterContext(socket.create_server(("127.0.0.1", 0), backlog=1024))
        waiting = self.start_reconciler(self.kubeconfig("silent", silent.getsockname()[1])[0])

        self.write("mesh.yaml", objects.namespace("shop"))
        controller = self.start()
        controller.wait_until_ready()
        record, roots = Held(self.state / "rotation.json"), []

        def hold_record():
            """Each root has the record read. It may be written just before, and then is a new file."""
            if record.hold():
                roots.append(objects.root(f"root-{len(roots)}", "passive"))
                self.write("roots.yaml", *roots, wait=False)

        config, token_of_reconciler = self.kubeconfig("reconciler", port)
        token_of_reconciler.hold()
        reconciler = self.start_reconciler(config)

        config, token_of_injector = self.kubeconfig("injector", port)
        injector = self.start_daemon(
            "osm-injector", "--kubeconfig", config, "--listen", "127.0.0.1:0", "--native-sidecars", "off"
        )
        token_of_injector.hold()
        other_token.set()  # it reads its token again

        hanging = {
            "root rotation": controller,
            "upkeep of kinds and webhooks": reconciler,
            "webhook configuration, Lease and roots": injector,
        }
        for daemon in (*hanging.values(), waiting):
            self.assertEqual(daemon.http("/health/alive")[0], 200)
        for part, daemon in hanging.items():

            def named(part=part, daemon=daemon):
                hold_record()
                status, body = daemon.http("/health/alive")
                if status != 503 or f"- {part}: nothing has happened for " not in body:
                    raise NotYet(f"{status}: {body}")
                return True

            wait_for(part, named, HANGS + 60, 0.5)
        calls = 'osm_kubernetes_requests_total{code="deadline-exceeded",verb="get"}'
        self.assertGreater(waiting.metric(calls) or 0, 10, waiting.http("/metrics")[1])
        self.assertEqual(waiting.http("/health/alive")[0], 200)

        other_token.clear()
        for file in (record, token_of_reconciler, token_of_injector):
            file.release()
        for part, daemon in hanging.items():
            wait_for(f"{part} goes on", lambda daemon=daemon: daemon.http("/health/alive")[0] == 200, 30)


if __name__ == "__main__":
    run()
