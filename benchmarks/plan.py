"""The order of an epoch: time to the first index, and the cost of every further one."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np
from harness import Row, compare, seconds
from reference import mixed_order

from omniloader import OmniSampler, TemperatureStrategy

SIZES = [6_000_000, 2_500_000, 1_000_000, 400_000, 100_000]
HUGE = [1_000_000_000, 250_000_000, 50_000_000]


def first_index(sizes: list[int]) -> None:
    """Make everything anew and take one index."""
    next(iter(OmniSampler(TemperatureStrategy(sizes, temperature=2.0))))


def rows() -> Iterator[Row]:
    """All rows of this workload."""
    total = sum(SIZES)
    weights = [size**0.5 for size in SIZES]

    def listed() -> int:
        return mixed_order(SIZES, weights, total, 0)[0]

    def first() -> None:
        first_index(SIZES)

    yield compare("plan of 10 M, first index", listed, first, target=1000.0, repeats=3)

    took = min(seconds(lambda: first_index(HUGE)) for _ in range(5))
    tracemalloc.start()
    first_index(HUGE)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    note = f"{took * 1e3:.2f} ms (under 2), {peak / 1e6:.2f} MB (under 1)"
    yield Row("plan of 1.3 billion, first index", 2e-3, took, 1.0, note=note)

    plan = TemperatureStrategy(SIZES, temperature=2.0).plan(0)
    positions = np.arange(1 << 20)

    def permutation() -> None:
        np.random.default_rng(0).permutation(len(positions))

    def bulk() -> None:
        plan[positions]

    cost = min(seconds(bulk) for _ in range(5)) / len(positions)
    note = f"{cost * 1e9:.0f} ns an index (at most 100)"
    yield Row("plan, bulk, ns an index", 100e-9, cost, 1.0, note=note)
    yield compare("plan, 1 M indices against np permutation", permutation, bulk, target=None)

    def objects() -> None:
        for count, _ in enumerate(OmniSampler(TemperatureStrategy(SIZES))):
            if count == 200_000:
                break

    each = min(seconds(objects) for _ in range(3)) / 200_000
    note = f"{each * 1e9:.0f} ns an index (at most 500)"
    yield Row("plan, one object an index", 500e-9, each, 1.0, note=note)
