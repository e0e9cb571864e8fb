#!/usr/bin/python3
"""The random calls of security.oracle meet faults that once were in the product: with such a fault in
the reference evaluator, it answers otherwise. So Envoys with the fault would fail the oracle."""

import unittest

from lib import run
from lib.mesh import policy_sets
from lib.mesh.reference import DENIED, Reference

SETS, CALLS = 200, 25  # as in the nightly tier; 20 sets meet the first fault 22 times on average


class PortsIgnored(Reference):
    """HTTP grants hold on every port, whatever TCPRoutes the TrafficTarget names beside them."""

    def _rules(self, target):
        rules = super()._rules(target)
        http = [rule for rule in rules if rule[0] == "http"]
        return http or rules


class SourcesIgnored(Reference):
    """IngressBackends admit every address."""

    def _admits(self, source, address):
        return True


class MatchesIgnored(Reference):
    """A TrafficTarget grants all matches of its HTTPRouteGroups."""

    def _rules(self, target):
        everything = {
            "rules": [
                rule | {"matches": [match["name"] for match in self._matches(target, rule)]}
                for rule in target["spec"]["rules"]
            ]
        }
        return super()._rules(target | {"spec": target["spec"] | everything})

    def _matches(self, target, rule):
        made = self._objects[rule["kind"]].get((target["metadata"]["namespace"], rule["name"]))
        return made["spec"]["matches"] if made and rule["kind"] == "HTTPRouteGroup" else []


class LastLineCounts(Reference):
    """Of a header that is sent twice the last value decides."""

    def outcomes(self, call):
        last = {name: value if isinstance(value, str) else value[-1] for name, value in call.headers.items()}
        return super().outcomes(call._replace(headers=last))


class UpgradesPass(Reference):
    """A request may ask for any other protocol."""

    def outcomes(self, call):
        return super().outcomes(call._replace(headers={**call.headers, "connection": "close"}))


class HostsAsWritten(Reference):
    """A host in upper case, or with a dot at its end, is another name."""

    def outcomes(self, call):
        as_written = call.host is None or call.host.lower().rstrip(".") == call.host
        return super().outcomes(call) if as_written else {DENIED}


class Faults(unittest.TestCase):
    def test_each_is_met_by_a_call(self):
        rng = run.seeded()
        fixed = policy_sets.fixed()
        drawn = [policy_sets.draw(rng, CALLS) for _ in range(SETS)]
        faults = (PortsIgnored, SourcesIgnored, MatchesIgnored, LastLineCounts, UpgradesPass, HostsAsWritten)
        for fault in faults:
            with self.subTest(fault.__name__):
                met = 0
                for one in drawn:
                    wrong, right = fault(fixed + one.objects), Reference(fixed + one.objects)
                    met += sum(wrong.outcomes(call) != right.outcomes(call) for call in one.calls)
                self.assertGreater(met, 0)


if __name__ == "__main__":
    unittest.main()
