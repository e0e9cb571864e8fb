#!/usr/bin/python3
"""No request fails while a backend's Service is deleted; a machine that leaves a Service serves until its
clients know, and obeys revocations meanwhile.

Requests alternate between two machines. Each lane has Services of its own: a split, and a pool that
selects both machines by a label. OSM_TEST_LONG=1 repeats each removal 200 times, over four lanes.
"""

import json
import os
import threading
import unittest

from lib.mesh import meshcase, objects
from lib.mesh.rig import ADS_PORT
from lib.net.processes import NotYet, wait_for

LONG = bool(os.environ.get("OSM_TEST_LONG"))
LANES = range(4 if LONG else 1)
REPETITIONS = 50 if LONG else 3


class Removal(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client = self.add_machine("client", "10.200.0.11")
        self.lock = threading.Lock()
        self.left = set()  # lanes whose pool v2 has left
        for name, address in (("v1", "10.200.0.12"), ("v2", "10.200.0.13")):
            self.add_machine(name, address, "shop")
        self.rig.mesh.write("shop.yaml", objects.namespace("shop"))
        self.label("v1")
        self.label("v2")
        for lane in LANES:
            self.rig.mesh.write(
                f"lane-{lane}.yaml",
                self.service(lane, "store", 1, {"app": "v1"}),
                self.service(lane, "one", 2, {"app": "v1"}),
                self.service(lane, "pool", 4, {f"pool{lane}": "yes"}),
                objects.split("shop", f"split{lane}", f"store{lane}", **{f"one{lane}": 50, f"two{lane}": 50}),
            )
            self.add_backend(lane)
        self.rig.mesh.write(
            "routes.yaml", objects.routes("shop", "routes", books={"pathRegex": "/books-bought", "methods": ["GET"]})
        )
        self.allow("client", "client")
        self.start_mesh()
        for name in ("v1", "v2"):
            self.serve(self.rig.machines[name], version=name)
        self.wait_until_synced()

    def service(self, lane, name, number, selector):
        return objects.service("shop", f"{name}{lane}", f"10.96.{lane}.{number}", meshcase.PORT, selector=selector)

    def allow(self, *source, wait=True):
        self.rig.mesh.write(
            "access.yaml",
            *[
                objects.target("shop", name, name, [source], ("HTTPRouteGroup", "routes", ["books"]))
                for name in ("v1", "v2")
            ],
            wait=wait,
        )

    def add_backend(self, lane):
        self.rig.mesh.write(f"two-{lane}.yaml", self.service(lane, "two", 3, {"app": "v2"}), wait=False)

    def label(self, name):
        machine = self.rig.machines[name]
        pools = {f"pool{lane}": "yes" for lane in LANES if name == "v1" or lane not in self.left}
        self.rig.mesh.write(
            f"machine-{name}.yaml",
            objects.account("shop", name),
            objects.machine("shop", name, machine.address, name, {"app": name, **pools}),
            wait=False,
        )

    def leave(self, lane, gone=True):
        with self.lock:
            (self.left.add if gone else self.left.discard)(lane)
            self.label("v2")

    def hosts_of(self, service):
        """Addresses to which the client's Envoy sends for a Service."""
        return {
            line.split("::")[1]
            for line in self.client.admin("/clusters")[1].splitlines()
            if line.startswith(f"shop/{service}|") and "::cx_active::" in line
        }

    def serves(self, service):
        """True if Envoy of v2 has a chain for the Service."""
        dump = json.loads(self.rig.machines["v2"].admin("/config_dump?resource=dynamic_listeners")[1])
        return any(
            f"inbound_shop/{service}_" in json.dumps(listener.get("active_state", {}))
            for listener in dump.get("configs", [])
        )

    def wait_for_both(self, host, wanted):
        """Until ten requests in a row, which go to both machines, are answered with `wanted`."""

        def seen():
            for _ in range(10):
                got = self.client.get(f"{host}.shop", meshcase.PORT, "/books-bought")
                if got[0] != wanted:
                    raise NotYet(got)
            return True

        wait_for(f"both machines answer {wanted} for {host}", seen, 20)

    def load(self, host):
        return meshcase.Load(self.client, f"{host}.shop", 0.002)

    def repeat(self, lane_of):
        """Runs lane_of(lane, step) for each lane side by side, REPETITIONS times each."""
        failed = []

        def run(lane):
            try:
                for step in range(REPETITIONS):
                    lane_of(lane, step)
            except BaseException as error:  # raised below
                failed.append(error)

        threads = [threading.Thread(target=run, args=(lane,)) for lane in LANES]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]

    def check_under_load(self, host, change, done, what):
        """No request to `host` fails from before `change` until after `done` holds."""
        with self.load(host) as load, self.load(host) as more:
            for one in (load, more):
                one.check(self, 10)
            change()
            wait_for(what, done, 20)
            for one in (load, more):
                one.check(self, 10)

    def test_no_request_fails_while_a_backends_service_is_deleted(self):
        def delete(lane, _):
            wait_for(
                "the client has the backend", lambda: self.hosts_of(f"two{lane}") and self.serves(f"two{lane}"), 20
            )
            self.wait_for_both(f"store{lane}", 200)
            self.check_under_load(
                f"store{lane}",
                lambda: self.rig.mesh.remove(f"two-{lane}.yaml", wait=False),
                lambda: not self.hosts_of(f"two{lane}"),
                "the client has dropped the backend",
            )
            self.add_backend(lane)

        self.repeat(delete)

    @unittest.skipUnless(LONG, "waits for the end of a hundred removals")
    def test_no_request_fails_while_a_machine_leaves(self):
        def leave(lane, _):
            wait_for(
                "the client has both machines",
                lambda: len(self.hosts_of(f"pool{lane}")) == 2 and self.serves(f"pool{lane}"),
                20,
            )
            self.wait_for_both(f"pool{lane}", 200)
            self.check_under_load(
                f"pool{lane}", lambda: self.leave(lane), lambda: not self.serves(f"pool{lane}"), "the machine has left"
            )
            self.leave(lane, gone=False)

        self.repeat(leave)

    def hold_back(self, machine):
        """The machine's Envoy hears nothing of the controller, until the result is called."""
        rule = ("INPUT", "-p", "tcp", "--sport", ADS_PORT, "-j", "DROP")
        machine.namespace.run("iptables", "-I", *rule)
        return lambda: machine.namespace.run("iptables", "-D", *rule)

    def test_a_machine_serves_until_its_clients_know_and_obeys_revocations_at_once(self):
        self.wait_for_both("pool0", 200)
        release = self.hold_back(self.client)
        with self.load("pool0") as load:
            load.check(self, 10)
            self.leave(0)
            wait_for("the controller knows", lambda: "shop/pool0" not in self.proxies()["v2"]["services"])
            load.check(self, 20)

        self.allow("elsewhere", "another", wait=False)
        self.wait_for_both("pool0", 403)
        self.assertTrue(self.serves("pool0"))  # so the refusals did not wait for its end

        release()
        self.allow("client", "client")
        wait_for("the client has one machine", lambda: len(self.hosts_of("pool0")) == 1, 20)
        wait_for("the machine has left", lambda: not self.serves("pool0"), 20)
        self.wait_for_both("pool0", 200)


if __name__ == "__main__":
    meshcase.main()
