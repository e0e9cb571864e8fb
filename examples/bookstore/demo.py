#!/usr/bin/python3
"""The bookstore mesh, live: real Envoys, iptables and mutual TLS on this one machine.

usage: demo.py [--bin DIR] [--envoy FILE] [--keep] [--etcd]    (needs root; tools/demo calls it)
       demo.py --stop DIRECTORY                        (ends what --keep left running)

Starts the mesh, shows who calls whom, then changes the mesh under its feet and checks the effect of
each step. The exit code is 0 only if every step held.
"""

import argparse
import http.client
import os
import shutil
import signal
import sys
import threading
import time

from bookstore import HERE, Bookstore, Load

from lib.mesh.etcd_rig import EtcdRig
from lib.mesh.rig import XDS, Programs, Rig, stop_kept
from lib.net.processes import wait_for

ROOT = HERE.parent.parent
BUYER = "spiffe://cluster.local/ns/bookbuyer/sa/bookbuyer"
NO_LISTENER = "connect: Connection refused"  # a client that no policy lets call anybody


class Screen:
    """Steps above, the live table below; redrawn on a terminal, printed once per step elsewhere."""

    def __init__(self, shop):
        self.shop, self.steps = shop, []
        self.live = sys.stdout.isatty()
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        if self.live:
            self.thread = threading.Thread(target=self._redraw, daemon=True)
            self.thread.start()

    def step(self, title):
        with self.lock:
            self.steps.append([title, None, "", time.monotonic()])
        if not self.live:
            print(f"\n== {title}", flush=True)

    def done(self, passed, detail):
        with self.lock:
            step = self.steps[-1]
            step[1:3] = [passed, detail]
            step[3] = time.monotonic() - step[3]
        if not self.live:
            print("\n".join(self._table()))
            print(self._line(step), flush=True)

    def close(self):
        if self.live:
            self.stopping.set()
            self.thread.join()
            self._draw()

    def _redraw(self):
        while not self.stopping.wait(0.5):
            self._draw()

    def _draw(self):
        with self.lock:
            lines = [self._line(step) for step in self.steps]
            text = "\n".join([*lines, "", *self._table()])
        sys.stdout.write(f"\x1b[H\x1b[2J{text}\n")
        sys.stdout.flush()

    def _line(self, step):
        title, passed, detail, seconds = step
        if passed is None:
            return f"  ...  {title}"
        return f"  {'PASS' if passed else 'FAIL'} {title}: {detail} ({seconds:.1f} s)"

    def _table(self):
        rows = [("CLIENT", "SERVER", "VERSION", "RESULT", "IDENTITY THE SERVER SAW", "TOTAL", "/s")]
        rows += [tuple(str(cell) or "-" for cell in row) for row in self.shop.table()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        wide = shutil.get_terminal_size((200, 40)).columns
        return ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip()[:wide] for row in rows]


class Demo:
    def __init__(self, shop, screen):
        self.shop, self.screen, self.rig = shop, screen, shop.rig
        self.load_events = []  # (what, when)

    def run(self):
        """True if every step passed."""
        passed = True
        for step in (
            self.mesh_is_up,
            self.thief_is_denied,
            self.certificate_does_not_help,
            self.split_is_shifted,
            self.certificate_is_rotated_under_load,
            self.controller_is_restarted_under_load,
            self.load_saw_nothing,
            self.proxies_never_complained,
        ):
            self.screen.step(step.__doc__)
            try:
                held, detail = step()
            except Exception as failed:  # a step that breaks has failed; the others still show
                held, detail = False, f"{type(failed).__name__}: {failed}"
            self.screen.done(held, detail)
            passed = passed and held
            if step == self.mesh_is_up and not held:
                break
        return passed

    def mesh_is_up(self):
        """The mesh starts: everybody who may call is answered"""
        self.shop.start()
        self.shop.wait_until_synced()
        clients = self.shop.clients
        wait_for(
            "both versions answer the buyer",
            lambda: {"v1", "v2"} <= {c.version for c in clients["buyer"].since(0) if c.result == "200"},
        )
        wait_for("the thief is answered", lambda: self.shop.results("thief", 0)["200"])
        wait_for("the ledger is written", lambda: self.shop.results("writer", 0)["200"])
        wait_for("the warehouse hears of it", self.warehouse_restocked, 5)
        since = time.time()
        self.watch(6)
        count, share = self.shop.share_of("v2", "buyer", since)
        seen = {c.caller for c in clients["buyer"].since(since)}
        good = (
            abs(share - 0.5) < 0.15
            and count > 100
            and seen == {BUYER}
            and set(self.shop.results("buyer", since)) == {"200"}
        )
        return good, f"{count} requests, v2 answered {share:.0%}; the server saw {seen}"

    def warehouse_restocked(self):
        body = self.shop.machines["bookwarehouse"].namespace.http("127.0.0.1", 14001, "GET", "/books-bought")[1]
        return '"restocked":0' not in body

    def thief_is_denied(self):
        """The thief's permission is deleted"""
        deleted = time.time()
        self.rig.mesh.remove("thief.yaml", wait=False)
        wait_for("the thief is refused", lambda: self.shop.clients["thief"].since(0)[-1].result != "200", 5)
        effect = time.time() - deleted
        self.watch(3)
        after = self.shop.results("thief", deleted + effect)
        buyer = self.shop.results("buyer", deleted)
        # Its own Envoy has no listener left. Without an Envoy it would look the same.
        self.shop.machines["bookthief"].assert_live(after)
        good = (
            effect < 1
            and after["200"] == 0
            and after[NO_LISTENER] > 5
            and set(self.shop.results("thief", time.time() - 1)) == {NO_LISTENER}
            and set(buyer) == {"200"}
        )
        return good, f"in effect after {effect * 1000:.0f} ms; since then {dict(after)}"

    def certificate_does_not_help(self):
        """The thief dials a server directly, with its own valid certificate"""
        thief, buyer = (self.shop.certificate_of(n) for n in ("bookthief", "bookbuyer"))
        told = []
        for who, certificate in (("bookthief", thief), ("bookbuyer", buyer)):
            told.append(self.dial_shop(who, certificate))
            told.append(self.dial_ledger(who, certificate))
        return (
            told == [403, "closed", 200, "answered"],
            f"thief: bookstore {told[0]}, ledger {told[1]}; buyer in the same way: {told[2]}, {told[3]}",
        )

    def dial_shop(self, who, certificate):
        server = self.shop.machines["bookstore-v1"]
        with certificate.dial(
            self.shop.machines[who], server.address, 14001, "bookstore-v1.bookstore.svc.cluster.local"
        ) as tls:
            connection = http.client.HTTPConnection("bookstore-v1.bookstore:14001")
            connection.sock = tls
            connection.request("GET", "/buy-a-book/new")
            return connection.getresponse().status

    def dial_ledger(self, who, certificate):
        server = self.shop.machines["ledger"]
        with certificate.dial(self.shop.machines[who], server.address, 7000, "ledger.ledger.svc.cluster.local") as tls:
            try:
                tls.sendall(b"stolen\n")
                return "answered" if tls.recv(100) == b"1 stolen\n" else "closed"
            except ConnectionError:
                return "closed"

    def split_is_shifted(self):
        """The traffic split goes from 50/50 to 10/90"""
        shifted = time.time()
        self.rig.mesh.write_text("split.yaml", (HERE / "steps" / "split.yaml").read_text())
        self.watch(1)
        since = time.time()
        wait_for("400 requests", lambda: self.shop.share_of("v2", "buyer", since)[0] >= 400, 20)
        count, share = self.shop.share_of("v2", "buyer", since)
        good = abs(share - 0.9) < 0.075 and set(self.shop.results("buyer", shifted)) == {"200"}
        return good, f"v2 now answers {share:.1%} of {count} requests"

    def certificate_is_rotated_under_load(self):
        """Certificates are rotated under load"""
        self.load = self.shop.start_load()
        wait_for(
            "the load is up",
            lambda: self.load.read()["tcp_connections"] == Load.STREAMS,
            10,
            retry=(FileNotFoundError,),
        )  # its report
        self.watch(Load.BEFORE + 1)
        self.load_events.append(("rotation", time.time()))
        rotated = {}
        for name, ns in (("bookstore-v1", "bookstore"), ("bookbuyer", "bookbuyer"), ("ledger", "ledger")):
            rotated[name] = self.shop.rotate(f"{name}.{ns}.cluster.local")["serial_number"]
        for name, serial in rotated.items():
            self.shop.wait_for_certificate(name, serial)
        taken = time.time() - self.load_events[-1][1]
        return taken < 5, f"{len(rotated)} proxies serve new certificates after {taken:.2f} s"

    def controller_is_restarted_under_load(self):
        """The controller is killed and started again under load"""
        self.watch(3)
        machines = self.shop.machines.values()
        before = {m.name: m.updates() for m in machines}
        self.load_events.append(("restart", time.time()))
        self.rig.stop_controller(signal.SIGKILL)
        told, meanwhile = self.controller_is_away()
        began = time.time()
        self.rig.start_controller()
        self.shop.wait_until_synced()
        taken = time.time() - began
        changed = [
            f"{m.name} {kind}"
            for m in machines
            for kind, count in m.updates().items()
            if kind != "SDS" and count != before[m.name][kind] and (m.name, kind) not in told
        ]
        return not changed, (
            f"{meanwhile}all proxies are back {taken:.1f} s after its start; new "
            f"configuration: {', '.join(changed) or 'none'}"
        )

    def controller_is_away(self):
        """(machines and types that may be configured anew, what happened meanwhile)"""
        self.watch(1)
        # In delta, a proxy without resources looks like a new one, and gets an empty answer.
        return ({("bookthief", "CDS"), ("bookthief", "LDS")} if XDS == "delta" else set()), ""

    def load_saw_nothing(self):
        """The load saw none of it"""
        if len(self.load_events) != 2:
            return False, "there was no load over both events"
        self.watch(self.load_events[-1][1] + self.load.AFTER + 1 - time.time())
        self.load.process.end()
        judged = {what: self.load.judge(when) for what, when in self.load_events}
        faults = [f"{what}: {fault}" for what, (found, _) in judged.items() for fault in found]
        totals = judged["restart"][1]
        latency = self.load.read()["latency_ms"]
        return not faults, (
            "; ".join(faults[:5])
            or f"{totals['requests']} requests and {totals['lines']} TCP lines around each event, "
            f"0 failures, p99 {latency['p99']:.1f} ms, slowest {latency['max']:.0f} ms"
        )

    def proxies_never_complained(self):
        """No proxy refused or waited for configuration"""
        self.rig.watcher.check()
        return True, f"{self.rig.watcher.samples} samples of {len(self.shop.machines)} Envoys"

    def watch(self, seconds):
        """Time for people to look, and for traffic to tell."""
        deadline = time.monotonic() + max(0.0, seconds)
        while (left := deadline - time.monotonic()) > 0:
            ended = [
                p.name
                for p in self.rig.processes
                if not p.running() and p is not self.rig.controller and p.popen.returncode != -signal.SIGKILL
            ]
            if ended:
                raise AssertionError(f"ended unexpectedly: {', '.join(ended)}")
            time.sleep(min(0.2, left))


class EtcdDemo(Demo):
    def controller_is_restarted_under_load(self):
        """One of three controllers and one of three etcds are killed under load"""
        self.load.AFTER = 20  # the lease of a killed controller lives 15 s
        return super().controller_is_restarted_under_load()

    def controller_is_away(self):
        """Another controller gives the thief its permission back, and takes it away again."""
        given = time.time()
        text = (HERE / "mesh" / "thief.yaml").read_text()
        self.rig.mesh.write_text("thief.yaml", text, wait=False)  # the killed one counts until its lease ends
        wait_for("the thief is answered", lambda: self.shop.results("thief", given)["200"], 20)
        taken = time.time()
        self.rig.mesh.remove("thief.yaml", wait=False)
        wait_for(
            "the thief is refused", lambda: set(self.shop.results("thief", time.time() - 0.5)) == {NO_LISTENER}, 20
        )
        # The proxies whose configuration the permission changes, at the controllers that run.
        told = {("bookthief", kind) for kind in ("CDS", "LDS", "RDS", "EDS")}
        return told | {("bookstore-v1", "LDS"), ("bookstore-v1", "RDS")}, (
            f"a permission that was applied meanwhile had effect after {taken - given:.1f} s; "
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", default=ROOT / "build/release/bin", help="where the programs are")
    parser.add_argument("--envoy", default=ROOT / "build/tools/envoy/envoy/_bin/envoy")
    parser.add_argument("--keep", action="store_true", help="leave the mesh running")
    parser.add_argument("--etcd", action="store_true", help="the mesh in three etcds, with three controllers")
    parser.add_argument("--stop", metavar="DIRECTORY", help="end what --keep left running")
    options = parser.parse_args()
    if options.stop:
        return stop_kept(options.stop)
    began = time.monotonic()
    shop = Bookstore(Programs(options.bin, options.envoy), options.keep, EtcdRig if options.etcd else Rig)
    demo = EtcdDemo if options.etcd else Demo
    try:
        with shop.rig:
            screen = Screen(shop)
            try:
                passed = demo(shop, screen).run()
                shop.rig.failed = not passed
            finally:
                screen.close()
            print_summary(shop, screen, passed, time.monotonic() - began)
    finally:  # also after Ctrl-C: what goes on can be ended
        if options.keep:
            print(f"The mesh goes on. End it with:\n  {os.path.relpath(__file__)} --stop {shop.rig.directory}")
    return 0 if passed else 1


def print_summary(shop, screen, passed, seconds):
    held = sum(1 for step in screen.steps if step[1])
    print(
        f"\n{held} of {len(screen.steps)} steps held, {len(shop.machines)} machines, "
        f"{seconds:.0f} s: {'PASS' if passed else 'FAIL'}"
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
