#!/usr/bin/python3
"""Real Envoys decide about random calls under random policy sets as a reference evaluator does.

The evaluator (lib/mesh/reference.py) reads the objects only. Each set replaces the one before in the
running mesh. OSM_TEST_LONG=1 draws 200 sets, else 20; each has 25 calls. `osm policy explain` is asked
about each call, and must say what the Envoys did.

usage: oracle_test.py --bin DIRECTORY --envoy FILE
"""

import collections
import os
import time

import yaml

from lib import run
from lib.mesh import meshcase, policy_sets
from lib.mesh.calling import App, Caller, Gateway, identity_in
from lib.mesh.explaining import DENIED_EXIT, Explainer
from lib.mesh.reference import DENIED, Reference, gateway, gateway_address, outside
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


def status_of(how):
    """The status of a denial; 0: the connection was closed."""
    return how if isinstance(how, int) else 0


class Oracle(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.rig.drain_seconds = 0
        self.number, self.asked_again = 0, 0
        self.explainer = Explainer(
            lambda path: self.rig.admin("GET", path),
            (self.rig.programs.osm, "policy", "explain", "--state-dir", self.rig.state),
            policy_sets.CLIENTS,
            policy_sets.SERVERS,
        )
        self.seen, self.keys, self.absent = collections.Counter(), set(), set()
        self.fixed = policy_sets.fixed()
        self.rig.mesh.write("fixed.yaml", *self.fixed)
        for name, row in (policy_sets.CLIENTS | policy_sets.SERVERS).items():
            self.rig.add_vm(name, row[0], row[2])
        # Proxies that pass a call on past the mesh meet a closed port, not a time-out.
        ip("-n", self.rig.switch.namespace.name, "route", "add", "local", "10.96.0.0/16", "dev", "lo")

    def start_callers(self):
        self.start_mesh()
        outer = self.rig.switch.namespace
        ip("-n", outer.name, "address", "add", policy_sets.OUTSIDE_ADDRESSES[1] + "/32", "dev", "lo")
        self.apps = [
            App(outer, outside(address), address, port, kind)
            for address in policy_sets.OUTSIDE_ADDRESSES
            for port, kind in policy_sets.OUTSIDE_PORTS.items()
        ]
        for name in policy_sets.SERVERS:
            for kind, ports in (("http", policy_sets.HTTP_PORTS), ("tcp", policy_sets.TCP_PORTS)):
                self.apps += [App(self.rig.machines[name].namespace, name, "127.0.0.1", port, kind) for port in ports]
        hosts = {row[0]: f"{name}.{ns}" for (ns, name), row in policy_sets.SERVICES.items() if row[0] is not None}
        self.callers = {}
        for name in policy_sets.CLIENTS:
            machine = self.rig.machines[name]
            identity = WorkloadCertificate(machine, Switch.ADDRESS, ADS_PORT, self.rig.directory)
            self.callers[name] = Caller(machine, identity, hosts)
        for address in policy_sets.OUTSIDE_ADDRESSES:
            self.callers[gateway(address)] = Gateway(outer, address)
        for made in (*self.apps, *self.callers.values()):
            self.addCleanup(made.close)

    # -- one set --------------------------------------------------------------------------------
    def apply(self, made):
        """Writes the set in place of the one before, and waits until every proxy has it."""
        now, absent = {_key(thing) for thing in made}, self.denied_machines(made)
        # The end of its stream leaves clusters and listeners of a denied proxy half made.
        for machine in self.machines_named(absent):
            self.rig.watcher.forget(machine)
        self.rig.mesh.write("set.yaml", *made)
        for key in sorted(self.keys | now):
            wait_for(f"{key} is applied", lambda: self.applied(key, absent), 20)
        for machine in self.machines_named(self.absent - absent):
            self.rig.watcher.watch(machine, machine.proxy.running)
        self.keys, self.absent = now, absent
        for machine in self.machines_named(self.all_machines() - absent):
            wait_for(f"Envoy of {machine.name} has settled", lambda: not any(machine.stats(SETTLING).values()), 20)

    def all_machines(self):
        return {f"{machine.ns}/{machine.name}" for machine in self.rig.machines.values()}

    def machines_named(self, names):
        return [machine for machine in self.rig.machines.values() if f"{machine.ns}/{machine.name}" in names]

    @staticmethod
    def denied_machines(made):
        """Names of the machines whose proxies the controller refuses."""
        denied = {
            (account["namespace"], account["name"])
            for thing in made
            if thing["kind"] == "Denylist"
            for account in thing["spec"]["serviceAccounts"]
        }
        return {
            f"{row[0]}/{name}" for name, row in (policy_sets.CLIENTS | policy_sets.SERVERS).items() if row[:2] in denied
        }

    def applied(self, key, absent):
        group, kind, ns, name = key
        told = self.rig.admin("GET", f"/v1/status?group={group}&kind={kind}&namespace={ns}&name={name}")
        if told["phase"] == "Refused" or (told["phase"] == "Rejected" and told["removed"]):
            raise AssertionError(told)
        if told["phase"] == "Rejected":  # it has no effect, which its problem says
            return True
        # Fetching a client's certificate ends the stream of its Envoy, which then reconnects.
        if told["phase"] != "Applied" or set(told["not_connected"]) - absent:
            raise NotYet(told)
        return True

    def disagreements(self, drawn):
        """A sentence for each call that the Envoys decide otherwise than the reference or than the
        explanation."""
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
            way = (
                "from a gateway"
                if gateway_address(call.client)
                else "past the proxy"
                if call.machine
                else "past the mesh"
                if call.address in policy_sets.OUTSIDE_ADDRESSES
                else "through the proxy"
            )
            self.seen[call.kind, way, "denied" if got == DENIED else "allowed"] += 1
            if got != DENIED:
                allowed.add(self.number)
            if got not in right:
                envoys = f"Envoys denied ({how})" if got == DENIED else f"Envoys ALLOWED, by {got}"
                found.append(f"{call}: {envoys}; the reference says {sorted(right, key=str)}")
            elif call.kind == "http" and got != DENIED:
                self.check_what_the_application_saw(reference, call, got, how)
            if wrong := self.wrong_explanation(reference, call, right, got, how):
                found.append(f"{call}: {wrong}")
        arrived = {n for app in self.apps for n in app.heard if n > first}
        if arrived != allowed:
            found.append(f"calls {sorted(arrived ^ allowed)} arrived without an answer, or the reverse")
        return found

    def wrong_explanation(self, reference, call, right, got, how):
        """A sentence if the explanation differs from what the Envoys did, or from the reference."""
        if call.machine and call.service and not reference.is_served(call):
            return None  # a question cannot say which TLS name is sent
        if isinstance(how, str) and how.startswith("HTTP/"):
            return None  # the port takes requests only, and the explanation is of a request
        asked = self.explainer.question(call, self.callers[call.client].host(call))
        told = self.explainer.explain(asked)
        if self.number % CALLS == 1:
            code, by_command = self.explainer.explain_by_command(asked)
            self.assertEqual(by_command, told, asked)
            self.assertEqual(code, 0 if told["verdict"] == "allowed" else DENIED_EXIT, told)
        outcomes = self.explainer.outcomes(call, told)
        if got not in outcomes or not outcomes <= right:
            return (
                f"Envoys did {got} ({how}), the reference says {sorted(right, key=str)}, and the "
                f"explanation {sorted(outcomes, key=str)}: {told}"
            )
        # A denied client's proxy keeps an older configuration, which chooses the status.
        if got == DENIED and call.kind == "http" and not reference.is_denied(call.client):
            possible = self.explainer.statuses(told)
            if 0 in possible and (reference.has("IngressBackend") or reference.has("Denylist")):
                # Where egress is on, a call in plain text can reach such a port, or one that a denied
                # machine still has.
                possible.add(403)
            if status_of(how) not in possible:
                # The connection was closed, or is an open one of a set before that let it out of
                # the mesh in plain text.
                self.asked_again += 1
                self.callers[call.client].hang_up(call)
                how = self.callers[call.client].answer(call, self.number)[1]
            if status_of(how) not in possible:
                return f"Envoys answered {how}, and the explanation says {told}"
        return self.explainer.unclear(told) or self.explainer.misnamed(call, told, reference)

    def check_what_the_application_saw(self, reference, call, answer, headers):
        self.assertEqual(headers["x-target"], reference.seen_path(call, answer), call)
        if answer[0].startswith(outside("")) or gateway_address(call.client):
            self.assertEqual(headers["x-caller"], "", call)  # no identity leaves the mesh
        else:
            self.assertEqual(identity_in(headers["x-caller"]), policy_sets.CLIENTS[call.client][:2])

    # -- the run --------------------------------------------------------------------------------
    def test_real_envoys_decide_as_the_reference_does(self):
        self.start_callers()
        rng, reports, began = run.seeded(), [], time.monotonic()
        for number in range(SETS):
            drawn = policy_sets.draw(rng, CALLS)
            self.apply(drawn.objects)
            if found := self.disagreements(drawn):
                # The sentences last, since logs are cut at their begin.
                objects = yaml.safe_dump_all(drawn.objects)
                reports.append("\n".join((objects, f"OSM_TEST_SEED={run.seed()}, set {number}:", *found)))
                if len(reports) == MOST_REPORTED:
                    break
        print(
            f"{number + 1} sets, {self.number} calls in {time.monotonic() - began:.0f} s, "
            f"{self.asked_again} asked again: "
            + ", ".join(f"{' '.join(key)} {count}" for key, count in sorted(self.seen.items()))
        )
        if reports:
            self.fail("\n".join(reports))
        self.assertLessEqual(self.asked_again, MOST_ASKED_AGAIN * self.number)
        for kind in ("http", "tcp"):
            for way in ("past the proxy", "through the proxy"):
                for answer in ("allowed", "denied"):
                    self.assertGreater(self.seen[kind, way, answer], 0, (kind, way, answer))
        # Few sets can lack what an Egress or an IngressBackend allows.
        for way in ("past the mesh", "from a gateway") if SETS >= 200 else ():
            for answer in ("allowed", "denied"):
                self.assertGreater(self.seen["http", way, answer], 0, (way, answer))


def _key(made):
    group, _, _ = made["apiVersion"].rpartition("/")
    return group, made["kind"], made["metadata"].get("namespace", ""), made["metadata"]["name"]


if __name__ == "__main__":
    meshcase.main()
