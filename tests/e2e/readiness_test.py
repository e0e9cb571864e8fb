#!/usr/bin/python3
"""A machine that joins a Service gets no request before its proxy has acknowledged that it serves, and no
request fails when it joins, leaves or is drained: with client and server at one controller and at two. Once
announced it stays, over a restart of controllers and the replacement of a root.

A frozen Envoy of the server acknowledges nothing. OSM_TEST_LONG=1 joins and leaves 200 times on a
machine that is busy with other work.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

from lib.mesh import meshcase, objects
from lib.mesh.environments import TwoOverEtcd
from lib.mesh.renewal import keep_renewing
from lib.mesh.roots import RootCase
from lib.net.processes import FairClock, NotYet, command_with_parent_death, wait_for

LONG = bool(os.environ.get("OSM_TEST_LONG"))
LANES = range(4)
REPETITIONS = 50 if LONG else 2
DRAINS = 50 if LONG else 3
BURNERS = 4 if LONG else 0
BOUND = 5  # seconds, after which an endpoint is announced without an acknowledgement
MARGIN = 2  # fair seconds for all else between the write and the client's Envoy


class OneController(RootCase):
    """Machine v2 joins and leaves pools. Each is a Service that selects both machines by a label."""

    def setUp(self):
        super().setUp()
        self.rig.controller_flags += ("--rotation-max-wait", "8")
        self.client = self.add_machine("client", "10.200.0.11")
        self.lock, self.joined = threading.Lock(), set()
        for name, address in (("v1", "10.200.0.12"), ("v2", "10.200.0.13")):
            self.add_machine(name, address, "shop")
        self.v2 = self.rig.machines["v2"]
        self.place()
        self.rig.mesh.write("shop.yaml", objects.namespace("shop"))
        self.label("v1", LANES)
        self.label("v2", ())
        for lane in LANES:
            self.rig.mesh.write(
                f"pool-{lane}.yaml",
                objects.service(
                    "shop", f"pool{lane}", f"10.96.1.{lane}", meshcase.PORT, selector={f"pool{lane}": "yes"}
                ),
            )
        self.rig.mesh.write(
            "access.yaml",
            objects.routes("shop", "routes", books={"pathRegex": "/books-bought", "methods": ["GET"]}),
            *(
                objects.target("shop", name, name, [("client", "client")], ("HTTPRouteGroup", "routes", ["books"]))
                for name in ("v1", "v2")
            ),
        )
        self.start_mesh()
        for name in ("v1", "v2"):
            self.serve(self.rig.machines[name], version=name)
        self.wait_until_synced()
        for lane in LANES:
            self.wait_for_status(self.client, 200, f"pool{lane}.shop")

    def place(self):
        """One controller has all machines."""

    def label(self, name, lanes):
        machine = self.rig.machines[name]
        self.rig.mesh.write(
            f"machine-{name}.yaml",
            objects.account("shop", name),
            objects.machine(
                "shop", name, machine.address, name, {"app": name, **{f"pool{lane}": "yes" for lane in lanes}}
            ),
            wait=False,
        )

    def join(self, lane):
        with self.lock:
            self.joined.add(lane)
            self.label("v2", sorted(self.joined))

    def leave(self, lane):
        with self.lock:
            self.joined.discard(lane)
            self.label("v2", sorted(self.joined))

    def hosts_of(self, lane):
        """Addresses to which the client's Envoy sends for a pool."""
        return {
            line.split("::")[1].split(":")[0]
            for line in self.client.admin("/clusters")[1].splitlines()
            if line.startswith(f"shop/pool{lane}|") and "::cx_active::" in line
        }

    def sends_to_both(self, lane):
        return self.hosts_of(lane) == {"10.200.0.12", "10.200.0.13"}

    def serves(self, lane):
        """True if Envoy of v2 has a chain for the pool."""
        dump = json.loads(self.v2.admin("/config_dump?resource=dynamic_listeners")[1])
        return any(
            f"inbound_shop/pool{lane}_" in json.dumps(listener.get("active_state", {}))
            for listener in dump.get("configs", [])
        )

    def load(self, lane):
        return meshcase.Load(self.client, f"pool{lane}.shop", 0.002)

    def wait_for_answers_of_both(self, lane):
        seen = set()

        def both():
            status, body = self.client.get(f"pool{lane}.shop", meshcase.PORT, "/books-bought")
            self.assertEqual(200, status, body)
            seen.add(json.loads(body)["version"])
            if seen != {"v1", "v2"}:
                raise NotYet(seen)
            return True

        wait_for("both machines answer", both, 20)

    def test_no_request_goes_to_a_machine_whose_proxy_has_not_acknowledged(self):
        with self.load(0) as load, self.load(0) as more:
            self.v2.freeze_proxy()
            self.join(0)
            begin = time.monotonic()
            wait_for("the controller knows", lambda: "shop/pool0" in self.proxies()["v2"]["services"], 10)
            for one in (load, more):
                one.check(self, 20)
            if time.monotonic() - begin < BOUND:  # else the machine was too busy
                self.assertEqual({"10.200.0.12"}, self.hosts_of(0))
            self.v2.thaw_proxy()
            wait_for("the client sends to both machines", lambda: self.sends_to_both(0), 20)
            self.wait_for_answers_of_both(0)
            for one in (load, more):
                one.check(self, 20)

    def metric(self, name):
        """At the controller of the client."""
        text = self.rig.controller_http("/metrics")[1]
        return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")))

    def test_without_an_acknowledgement_it_is_announced_after_a_time_and_never_withdrawn(self):
        self.v2.freeze_proxy()
        begin, clock = time.monotonic(), FairClock()
        self.join(0)
        wait_for("the client sends to both machines", lambda: self.sends_to_both(0), 30)
        took, fair = time.monotonic() - begin, clock.seconds()
        self.assertGreaterEqual(took, BOUND)
        self.assertLess(fair, BOUND + MARGIN)
        self.assertEqual(1, self.metric("osm_endpoints_announced_late_total"))
        self.restart_controllers()
        wait_for("the client is connected again", lambda: "client" in self.proxies(), 40)
        # A later change of the same Service arrives with all that came before it.
        self.add_third()
        self.assertEqual({"10.200.0.12", "10.200.0.13", "10.200.0.14"}, self.hosts_of(0))
        self.v2.thaw_proxy()

    def test_what_was_announced_stays_while_a_root_is_replaced_without_its_proxy(self):
        """The frozen proxy acknowledges neither the new root nor a certificate of it. The client's connects anew."""
        self.v2.freeze_proxy()
        self.join(0)
        wait_for("the client sends to both machines", lambda: self.sends_to_both(0), 30)
        for machine in self.rig.machines.values():
            keep_renewing(machine)
        self.rig.mesh.write("roots.yaml", objects.root("next"), wait=False)

        def replaced():
            self.assertTrue(self.sends_to_both(0))
            roots = self.roots()
            if {name: one["state"] for name, one in roots.items()} != {"(own)": "inactive", "next": "signing"}:
                raise NotYet(roots)
            return roots["next"]

        self.assertIn("shop/v2", wait_for("the root is replaced", replaced, 90)["left_behind"])
        # A later change of the same Service arrives with all that came before it.
        self.add_third()
        self.assertEqual({"10.200.0.12", "10.200.0.13", "10.200.0.14"}, self.hosts_of(0))
        self.v2.thaw_proxy()

    def add_third(self):
        """A machine without a proxy, which is announced at once."""
        self.rig.mesh.write(
            "third.yaml", objects.machine("shop", "v3", "10.200.0.14", "v2", {"app": "v3", "pool0": "yes"}), wait=False
        )
        wait_for("the client sends to the third machine", lambda: "10.200.0.14" in self.hosts_of(0), 30)

    def restart_controllers(self):
        self.rig.stop_controller(signal.SIGKILL)
        self.rig.start_controller()

    def test_no_request_fails_while_machines_join_and_leave(self):
        burners = [
            subprocess.Popen(command_with_parent_death([sys.executable, "-c", "while True: pass"]))
            for _ in range(BURNERS)
        ]
        failed = []

        def run(lane):
            try:
                with self.load(lane) as load, self.load(lane) as more:
                    for _ in range(REPETITIONS):
                        self.join(lane)
                        wait_for("the client sends to both machines", lambda: self.sends_to_both(lane), 60)
                        self.assertTrue(self.serves(lane))
                        for one in (load, more):
                            one.check(self, 10)
                        self.leave(lane)
                        wait_for("the client has one machine", lambda: len(self.hosts_of(lane)) == 1, 60)
                        wait_for("the machine has left", lambda: not self.serves(lane), 60)
                        for one in (load, more):
                            one.check(self, 10)
            except BaseException as error:  # raised below
                failed.append(error)

        try:
            threads = [threading.Thread(target=run, args=(lane,)) for lane in LANES]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            for burner in burners:
                burner.kill()
                burner.wait()
        if failed:
            raise failed[0]

    def test_no_request_fails_while_a_machine_is_drained_and_taken_back(self):
        drain = ("vm", "drain", "v2", "-n", "shop")
        self.join(0)
        wait_for("the client sends to both machines", lambda: self.sends_to_both(0), 60)
        with self.load(0) as load, self.load(0) as more:
            for _ in range(DRAINS):
                self.rig.osm(*drain)
                wait_for("the client has one machine", lambda: len(self.hosts_of(0)) == 1, 60)
                for one in (load, more):
                    one.check(self, 10)
                self.rig.osm(*drain, "--undo")
                wait_for("the client sends to both machines", lambda: self.sends_to_both(0), 60)
                for one in (load, more):
                    one.check(self, 10)


class TwoControllers(OneController):
    """The client is at the first controller, both servers at the second."""

    make_rig = TwoOverEtcd

    def setUp(self):
        super().setUp()
        self.v2.freeze_proxy()
        wait_for("the client's controller knows that v2 is connected", self.v2_is_known, 30)
        self.v2.thaw_proxy()

    def v2_is_known(self):
        """An endpoint of a frozen proxy waits where the proxy is known, and is announced at once elsewhere."""
        self.join(3)
        waits = wait_for(
            "the endpoint is known", lambda: [self.metric("osm_endpoints_waiting")] if self.decided() else None, 20
        )[0]
        self.leave(3)
        wait_for("the machine has left", lambda: len(self.hosts_of(3)) == 1 and not self.decided(), 20)
        if waits == 0:
            raise NotYet("announced at once")
        return True

    def decided(self):
        return self.metric("osm_endpoints_waiting") > 0 or self.sends_to_both(3)

    def place(self):
        for machine in self.rig.machines.values():
            self.rig.place(machine, "controller-1" if machine is self.client else "controller-2")

    def metric(self, name):
        return self.rig.count_of("controller-1", name)

    def restart_controllers(self):
        for name in self.rig.CONTROLLERS:
            self.rig.stop_one(name, signal.SIGKILL)
            self.rig.start_one(name)
        self.rig.wait_until_answering(*self.rig.CONTROLLERS)
        self.rig.wait_until_ready()


if __name__ == "__main__":
    meshcase.main()
