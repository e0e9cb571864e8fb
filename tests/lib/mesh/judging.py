"""The judge of a load under changes: no call fails that is allowed before and after a change, and none is
answered that has been denied for a second.

Objects change one after another, and each change makes an *era*. Until a bound has passed since the
change, proxies may still be in the era before. So a call may end as any era says that its proxies may
be in. The bound is in *counted* seconds: fair ones, in which the machines that decide about the call
were connected to a controller.
"""

import bisect
import collections
import itertools
import math

from lib.mesh.reference import DENIED

# From `begun`, when the change was sent, proxies may be in the era, and from `ended`, when it was
# written, the bound runs for the era before. `outcomes`: of each call a set of DENIED and (machine,
# port), or None if the objects do not decide. `offered`, `refused`: of each call the pairs to which the
# client's proxy sends, and those whose own proxies refuse it by policy. `denied`: machines whose proxies
# the controllers refuse. `kind`: of the change. `passing`: of each call True if the client's proxy lets it out
# as TCP to a machine of the mesh.
Era = collections.namedtuple("Era", "kind begun ended outcomes offered refused denied passing")


class Timeline:
    """Counted seconds of a run. `wall`: its begin, of time.monotonic()."""

    def __init__(self, wall):
        self._walls, self._ticks = [wall], []

    def add(self, wall, fair, absent):
        """Until `wall` so many fair seconds passed, in which the machines `absent` were at no controller."""
        self._walls.append(wall)
        self._ticks.append((fair, frozenset(absent)))

    def after(self, wall, seconds, machines=frozenset()):
        """The wall time at which so many seconds have passed since `wall` that count for these
        machines; infinite if they have not passed yet."""
        at = max(0, bisect.bisect_right(self._walls, wall) - 1)
        left = seconds
        for index in range(at, len(self._ticks)):
            fair, absent = self._ticks[index]
            begun, ended = self._walls[index], self._walls[index + 1]
            share = (ended - max(wall, begun)) / (ended - begun)
            counted = 0.0 if machines & absent else fair * share
            if counted >= left and counted > 0:
                return max(wall, begun) + (ended - max(wall, begun)) * left / counted
            left -= counted
        return math.inf


class Judge:
    """`calls`: of lib.mesh.reference. `machines`: of each call those whose proxies decide about it, the
    client's included. `bound`: counted seconds; `lag`: as many more where a machine of `lagging`
    decides. `cutting`: kinds of changes that may end connections of which the client's proxy decides
    alone, those past the mesh. `unordered`: kinds that may add a server before it takes calls, while a
    controller starts; `starts`: (begin, end) of these times."""

    def __init__(self, calls, machines, timeline, bound, lagging=frozenset(), lag=0.0):
        self._calls, self._machines, self._timeline = calls, machines, timeline
        self._bound, self._lagging, self._lag = bound, lagging, lag
        self._ends = {}
        self.unordered, self.cutting, self.starts = frozenset(), frozenset(), ()
        self.draining = 0.0  # seconds more for the same calls: open connections end after their drain time
        self.excused = collections.Counter()  # failures behind changes of these kinds

    # Former endpoints serve until those that replace them do, and those of a machine that was denied wait for it.
    REPLACING, REPLACED = frozenset({"target_port", "selector", "version", "machine", "service_port"}), 8.0
    WAITING = 5.0  # seconds that a new Service's endpoints wait for their proxies at most

    def faults(self, eras, records):
        """A sentence for each record that is wrong, in the order of time."""
        found = []
        for record in sorted(records, key=lambda record: record.begun):
            machines = self._machines[record.call]
            if record.outcome != DENIED:  # it or the client decided; nobody else's absence counts
                machines = machines & {record.outcome[0], self._calls[record.call].client}
            possible = self._possible(eras, record, machines)
            if fault := self._fault(eras, record, possible):
                found.append((record, f"{self._shown(eras, record, possible)}: {fault}"))
        return found

    def _possible(self, eras, record, machines, replaced=0.0, denied_too=False):
        """Numbers of the eras in which one of these proxies may be. A denied one is in no era, unless `denied_too`:
        it may keep what it knew until it has connected again."""
        return [
            number
            for number, era in enumerate(eras)
            if era.begun <= record.ended
            and record.begun <= self._end(eras, number, record, machines, replaced, denied_too)
        ]

    def _end(self, eras, number, record, machines, replaced, denied_too):
        """The time until which a proxy may be in an era; `replaced` seconds longer if its servers are replaced."""
        if number + 1 == len(eras):
            return math.inf
        after = eras[number + 1]
        more = self.draining if self._is_past_the_mesh(record) else 0.0
        more += replaced if after.kind in self.REPLACING else 0.0
        counted = machines if denied_too else machines - after.denied
        key = after.ended, counted, bool(machines & self._lagging), more
        if key not in self._ends:
            seconds = self._bound + more + (self._lag if machines & self._lagging else 0)
            self._ends[key] = self._timeline.after(after.ended, seconds, counted)
        return self._ends[key]

    def _lacks_endpoints(self, eras, record, possible):
        """True if the servers may be missing: all of a Service that a change added, whose endpoints wait for their
        proxies, or one that a change let back into the mesh, whose endpoint waits until its proxy has connected."""
        if "no healthy upstream" not in record.how and self._calls[record.call].kind == "http":
            return False
        machines, wait = self._machines[record.call], self._bound + self.REPLACED
        added = self._bound + self.WAITING + (self._lag if machines & self._lagging else 0)
        returning = set()
        for before, after in itertools.pairwise(eras):
            if not before.offered[record.call] and after.offered[record.call]:
                if record.begun <= self._timeline.after(after.ended, added, machines - after.denied):
                    return True
            back = before.denied - after.denied
            if back and record.begun <= self._timeline.after(after.ended, wait, machines - after.denied):
                returning |= back
        return any(returning & {machine for machine, _ in eras[number].offered[record.call]} for number in possible)

    def _was_let_out(self, eras, record):
        """True if the connection was let out as TCP when it was opened, to a server that refuses calls past the mesh.
        The client's proxy does not look into it again."""
        if record.opened is None:
            return False
        opening = record._replace(begun=record.opened, ended=record.opened)
        possible = self._possible(eras, opening, self._machines[record.call])
        return any(eras[number].passing[record.call] for number in possible)

    def _is_past_the_mesh(self, record):
        return self._machines[record.call] == {self._calls[record.call].client}

    def _fault(self, eras, record, possible):
        call, some = record.call, [eras[number] for number in possible]
        outcomes = [era.outcomes[call] for era in some]
        if None in outcomes or any(record.outcome in allowed for allowed in outcomes):
            return None
        if record.outcome != DENIED:
            # The client and the server may be in two eras.
            client, server = {self._calls[call].client}, {record.outcome[0]}
            sending = self._possible(eras, record, self._machines[call] & client, self.REPLACED)
            serving = self._possible(eras, record, self._machines[call] & server, denied_too=True)
            sent = any(record.outcome in eras[number].offered[call] for number in sending)
            allowed = any(record.outcome not in eras[number].refused[call] for number in serving)
            return None if sent and allowed else "answered, though it is denied or belongs to others"
        starting = any(begun <= record.ended and record.begun <= ended for begun, ended in self.starts)
        without_cluster = record.how == "503"  # Envoy has a text for every other cause
        unordered = self.unordered if starting and not without_cluster else ()
        for at, era in enumerate(some):
            for earlier in some[:at]:
                # The client did not know yet, and a revocation waits for nobody.
                if earlier.outcomes[call] & era.refused[call]:
                    return None
                if era.kind in unordered and era.outcomes[call] - earlier.outcomes[call]:
                    self.excused[era.kind] += 1
                    return None
                if era.kind in self.cutting and self._is_past_the_mesh(record) and not without_cluster:
                    self.excused[era.kind] += 1
                    return None
        if self._lacks_endpoints(eras, record, possible) or self._was_let_out(eras, record):
            return None
        return "failed, though it is allowed before and after"

    def _shown(self, eras, record, possible):
        call = self._calls[record.call]
        kinds = ", ".join(f"{number} {eras[number].kind}" for number in possible)
        since = record.begun - eras[possible[-1]].ended if possible else 0.0
        asked = " ".join(filter(None, (call.method if call.kind == "http" else "TCP", call.path, call.host)))
        asked += "".join(f" {name}: {value}" for name, value in call.headers.items())
        ended = f"DENIED ({record.how})" if record.outcome == DENIED else f"answered by {record.outcome}"
        right = sorted({str(o) for number in possible for o in eras[number].outcomes[record.call] or ()})
        return (
            f"{call.client} {asked} at {call.address}:{call.port} ({record.lane}): {ended} after "
            f"{record.ended - record.begun:.3f} s; begun {since:+.3f} s after change [{kinds}]; "
            f"right: {', '.join(right)}"
        )
