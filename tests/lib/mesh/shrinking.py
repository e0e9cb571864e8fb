"""The steps of a random sequence that suffice for it to fail, and the report of a sequence that failed.

Faults are (record, sentence) pairs, without a record of what did not come in time. `faults_of` runs a
sequence, and returns its faults.
"""

import json
import time

from lib import run
from lib.mesh import changes


def shrunk(sequence, steps, timed_out, faults_of, seconds):
    """(numbers of the steps that are left, the faults) of a sequence that failed. The steps are
    tried without some of them, until the time is over. `timed_out`: what did not come in time counts."""
    until, faults = time.monotonic() + seconds, []

    def fails(tried):
        some = sequence._replace(steps=[sequence.steps[number] for number in tried])
        for _ in range(2):  # each run has another timing
            if time.monotonic() > until:
                return False
            found = [(record, sentence) for record, sentence in faults_of(some) if record or timed_out]
            if found:
                faults[:] = found
                return True
        return False

    left, size = list(steps), max(1, len(steps) // 2)
    while time.monotonic() < until:
        for at in range(0, len(left), size):
            fewer = left[:at] + left[at + size :]
            if fails(fewer):
                left = fewer
                break
        else:
            if size == 1:
                break
            size //= 2
    return left, faults


def report(number, sequence, steps, found, faults_of, seconds, shown):
    """Text about the sequence `number`, of which these `steps` failed with the faults `found`. It is shrunk for
    so many seconds. `shown`: faults of each run at most."""
    left, again = shrunk(sequence, steps, any(record is None for record, _ in found), faults_of, seconds)
    lines = [f"sequence {number} of OSM_TEST_SEED={run.seed()}: {len(found)} requests"]
    lines.append(
        f"fails with {len(left)} of its {len(sequence.steps)} steps:" if again else "did not fail again, by steps:"
    )
    for step_number in left:
        step = sequence.steps[step_number]
        what = step.act or ("put" if step.put else "delete", *changes.key_of(step.put or step.delete))
        lines.append(f"  {step_number} {step.kind}: {' '.join(map(str, what))}")
        if step.put:
            lines.append(f"    {json.dumps(step.put['spec'] if 'spec' in step.put else step.put)}")
    lines.append(f"lagging: {sequence.lagging}; places: {sequence.places}")
    lines.append(
        f"repeat: OSM_TEST_SEED={run.seed()} OSM_TEST_SEQUENCE={number}:{','.join(map(str, left))} "
        "PYTHONPATH=tests tests/e2e/property_test.py --bin build/release/bin"
    )
    # Last, since logs are cut at their begin.
    lines += ["with these steps:"] * bool(again) + [f"  {sentence}" for _, sentence in again[:shown]]
    lines += ["at first:", *(f"  {sentence}" for _, sentence in found[:shown])]
    return "\n".join(lines)
