#!/usr/bin/python3
"""Real Envoys decide about random calls under random policy sets as a reference evaluator does.

The evaluator (lib/mesh/reference.py) reads the objects only. Each set replaces the one before in the
running mesh. OSM_TEST_LONG=1 draws 200 sets, else 20; each has 25 calls.

usage: oracle_test.py --bin DIRECTORY --envoy FILE
"""
import collections
import json
import os
import time

import yaml

from lib import run
from lib.mesh import meshcase, policy_sets
from lib.mesh.calling import App, Caller, identity_in
from lib.mesh.daemon import UnixConnection
from lib.mesh.reference import DENIED, OUTSIDE, Reference
from lib.mesh.rig import ADS_PORT
from lib.mesh.xds_client import WorkloadCertificate
from lib.net.netns import Switch, ip
from lib.net.processes import NotYet, wait_for

SETS = 200 if os.environ.get("OSM_TEST_LONG") else 20
CALLS = 25
MOST_REPORTED = 3  # sets with a disagreement, after which the run ends
SETTLING = r"(draining|listeners_warming)$"
# An Envoy without drain time resets connections when it replaces their chain, which it does once more
# for ports that leave a Service. So a refusal that should be an answer is asked again; an answer that
# should be a refusal never is.
MOST_ASKED_AGAIN = 0.01  # of all calls


class Oracle(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.rig.drain_seconds = 0
        self.number, self.asked_again = 0, 0
        self.seen, self.keys = collections.Counter(), set()
        self.fixed = policy_sets.fixed()
        self.rig.mesh.write("fixed.yaml", *self.fixed)
        for name, row in (policy_sets.CLIENTS | policy_sets.SERVERS).items():
            self.rig.add_vm(name, row[0], row[2])
        # Proxies that pass a call on past the mesh meet a closed port, not a time-out.
        ip("-n", self.rig.switch.namespace.name, "route", "add", "local", "10.96.0.0/16", "dev", "lo")

    def start_callers(self):
        self.start_mesh()
        self.apps = [App(self.rig.switch.namespace, OUTSIDE, policy_sets.OUTSIDE_ADDRESS,
                         policy_sets.OUTSIDE_PORT, "http")]
        for name in policy_sets.SERVERS:
            for kind, ports in (("http", policy_sets.HTTP_PORTS), ("tcp", policy_sets.TCP_PORTS)):
                self.apps += [App(self.rig.machines[name].namespace, name, "127.0.0.1", port, kind)
                              for port in ports]
        hosts = {row[0]: f"{name}.{ns}" for (ns, name), row in policy_sets.SERVICES.items()}
        self.callers = {}
        for name in policy_sets.CLIENTS:
            machine = self.rig.machines[name]
            identity = WorkloadCertificate(machine, Switch.ADDRESS, ADS_PORT, self.rig.directory)
            self.callers[name] = Caller(machine, identity, hosts)
        for made in (*self.apps, *self.callers.values()):
            self.addCleanup(made.close)

    # -- one set --------------------------------------------------------------------------------
    def apply(self, made):
        """Writes the set in place of the one before, and waits until every proxy has it."""
        self.rig.mesh.write("set.yaml", *made)
        now = {_key(thing) for thing in made}
        for key in sorted(self.keys | now):
            wait_for(f"{key} is applied", lambda: self.applied(key), 20)
        self.keys = now
        for machine in self.rig.machines.values():
            wait_for(f"Envoy of {machine.name} has settled",
                     lambda: not any(machine.stats(SETTLING).values()), 20)

    def applied(self, key):
        group, kind, ns, name = key
        connection = UnixConnection(self.rig.state / "admin.sock")
        connection.request("GET", f"/v1/status?group={group}&kind={kind}&namespace={ns}&name={name}")
        told = json.loads(connection.getresponse().read())
        connection.close()
        if told["phase"] in ("Refused", "Rejected"):
            raise AssertionError(told)
        # Fetching a client's certificate ends the stream of its Envoy, which then reconnects.
        if told["phase"] != "Applied" or told["not_connected"]:
            raise NotYet(told)
        return True

    def disagreements(self, drawn):
        """A sentence for each call that the Envoys decide otherwise than the reference."""
        reference, found, allowed = Reference(self.fixed + drawn.objects), [], set()
        first = self.number
        for call in drawn.calls:
            self.number += 1
            right = reference.outcomes(call)
            caller = self.callers[call.client]
            got, how = caller.answer(call, self.number)
            if got == DENIED and got not in right:
                self.asked_again += 1
                got, how = caller.answer(call, self.number)
            way = "past the proxy" if call.machine else "through the proxy"
            self.seen[call.kind, way, "denied" if got == DENIED else "allowed"] += 1
            if got != DENIED:
                allowed.add(self.number)
            if got not in right:
                envoys = f"Envoys denied ({how})" if got == DENIED else f"Envoys ALLOWED, by {got}"
                found.append(f"{call}: {envoys}; the reference says {sorted(right, key=str)}")
            elif call.kind == "http" and got != DENIED:
                self.check_what_the_application_saw(reference, call, got, how)
        arrived = {n for app in self.apps for n in app.heard if n > first}
        if arrived != allowed:
            found.append(f"calls {sorted(arrived ^ allowed)} arrived without an answer, or the reverse")
        return found

    def check_what_the_application_saw(self, reference, call, answer, headers):
        self.assertEqual(headers["x-target"], reference.seen_path(call, answer), call)
        if answer[0] != OUTSIDE:
            self.assertEqual(identity_in(headers["x-caller"]), policy_sets.CLIENTS[call.client][:2])

    # -- the run --------------------------------------------------------------------------------
    def test_real_envoys_decide_as_the_reference_does(self):
        self.start_callers()
        rng, reports, began = run.seeded(), [], time.monotonic()
        for number in range(SETS):
            drawn = policy_sets.draw(rng, CALLS)
            self.apply(drawn.objects)
            if found := self.disagreements(drawn):
                reports.append("\n".join((f"OSM_TEST_SEED={run.seed()}, set {number}:", *found,
                                          yaml.safe_dump_all(drawn.objects))))
                if len(reports) == MOST_REPORTED:
                    break
        print(f"{number + 1} sets, {self.number} calls in {time.monotonic() - began:.0f} s, "
              f"{self.asked_again} asked again: "
              + ", ".join(f"{' '.join(key)} {count}" for key, count in sorted(self.seen.items())))
        self.assertEqual(reports, [], "\n".join(reports))
        self.assertLessEqual(self.asked_again, MOST_ASKED_AGAIN * self.number)
        for kind in ("http", "tcp"):
            for way in ("past the proxy", "through the proxy"):
                for answer in ("allowed", "denied"):
                    self.assertGreater(self.seen[kind, way, answer], 0, (kind, way, answer))


def _key(made):
    group, _, _ = made["apiVersion"].rpartition("/")
    return group, made["kind"], made["metadata"].get("namespace", ""), made["metadata"]["name"]


if __name__ == "__main__":
    meshcase.main()
