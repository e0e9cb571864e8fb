"""Many processes (tests/tools/ca_racer.cpp) that want one CA at the same instant."""

import signal
import subprocess
import time

from lib import run
from lib.net.processes import command_with_parent_death

RACERS = 20


def race(command, rng, kill_one=False, count=RACERS):
    """The CAs that the racers ended up with, all started before any of them begins; one of them is
    killed somewhere in between where that is asked for."""
    racers = [
        subprocess.Popen(
            command_with_parent_death(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    try:
        for racer in racers:
            if racer.stdout.readline() != "ready\n":
                raise AssertionError(racer.stderr.read())
        for racer in racers:
            racer.stdin.close()
        if kill_one:
            time.sleep(rng.uniform(0, 0.1))  # what is tested is that the moment does not matter
            victim = rng.choice(racers)
            victim.send_signal(signal.SIGKILL)
        found = []
        for racer in racers:
            out, err = racer.stdout.read(), racer.stderr.read()
            status = racer.wait(60)
            if status == 0:
                found.append(out.strip())
            elif not (kill_one and racer is victim and status == -signal.SIGKILL):
                raise AssertionError(f"a racer ended with {status}: {err}")
        return found
    finally:
        for racer in racers:
            if racer.poll() is None:
                racer.kill()
                racer.wait()
            for pipe in (racer.stdin, racer.stdout, racer.stderr):
                pipe.close()


def check_races(case, command_of, rounds=5):
    """`command_of(n)` races for a store of its own. Every round has exactly one CA."""
    rng = run.seeded()
    cas = set()
    for number in range(rounds):
        with case.subTest(OSM_TEST_SEED=run.seed(), round=number):
            killed = number > 0
            found = race(command_of(number), rng, kill_one=killed)
            case.assertEqual(1, len(set(found)), found)
            case.assertGreaterEqual(len(found), RACERS - killed)
            # A later process finds the same CA.
            case.assertEqual(set(found), set(race(command_of(number), rng, count=1)))
            cas.add(found[0])
    case.assertEqual(rounds, len(cas), "stores that should have nothing to do with each other")
