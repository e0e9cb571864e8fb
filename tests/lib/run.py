"""The seed of the run (`OSM_TEST_SEED`), generators that start at it, and longer models."""

import functools
import os
import random


@functools.cache
def seed():
    """OSM_TEST_SEED, or drawn once; printed, so that the output of a test that fails has it."""
    drawn = int(os.environ.get("OSM_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"OSM_TEST_SEED={drawn}", flush=True)
    return drawn


def seeded(part=None):
    """A generator that starts at the seed, so that a test repeats itself whichever ran before it. Each
    `part` of a test has one of its own, so that it can be repeated alone."""
    return random.Random(seed() if part is None else f"{seed()}:{part}")
