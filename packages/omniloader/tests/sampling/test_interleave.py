from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniloader.sampling.interleave import Cyclic, Interleave, Sequential, Shuffled

counts_lists = st.lists(st.integers(0, 400), min_size=1, max_size=6).filter(any)


def letters(interleave: Interleave) -> str:
    source, _ = interleave.locate(np.arange(len(interleave)))
    return "".join("ABCDEF"[number] for number in source.tolist())


def check(interleave: Interleave, counts: list[int]) -> None:
    """Exact counts, draws in order, the same answers in any order, running counts."""
    assert len(interleave) == sum(counts)
    positions = np.arange(len(interleave))
    source, draw = interleave.locate(positions)
    for number, count in enumerate(counts):
        assert draw[source == number].tolist() == list(range(count))
    mixed = np.random.default_rng(0).permutation(positions)
    again_source, again_draw = interleave.locate(mixed)
    assert again_source.tolist() == source[mixed].tolist()
    assert again_draw.tolist() == draw[mixed].tolist()
    for position in {0, 1, len(positions) // 2, len(positions)}:
        seen = np.bincount(source[:position], minlength=len(counts))
        assert interleave.drawn(position).tolist() == seen.tolist()


@settings(max_examples=60, deadline=None)
@given(
    counts=counts_lists,
    seed=st.integers(0, 50),
    window=st.sampled_from([1, 2, 5, 64, 100, 1000]),
    steady=st.booleans(),
)
def test_shuffled_is_a_pure_exact_function(
    counts: list[int], seed: int, window: int, steady: bool
) -> None:
    check(Shuffled(np.array(counts), seed, window, steady), counts)


@settings(max_examples=30, deadline=None)
@given(counts=counts_lists)
def test_sequential_is_a_pure_exact_function(counts: list[int]) -> None:
    check(Sequential(np.array(counts)), counts)


@pytest.mark.parametrize("counts", [[3], [2, 2], [4, 0, 4], [0, 1, 0, 1, 1]])
def test_cyclic_is_a_pure_exact_function(counts: list[int]) -> None:
    check(Cyclic(np.array(counts)), counts)


def test_tiny_orders() -> None:
    assert letters(Cyclic(np.array([2, 2, 2]))) == "ABCABC"
    assert letters(Cyclic(np.array([2, 0, 2]))) == "ACAC"
    assert letters(Sequential(np.array([2, 0, 3]))) == "AACCC"
    assert letters(Shuffled(np.array([3, 4]), 5)) == "AABBABB"
    assert letters(Shuffled(np.array([1, 2, 3]), 5)) == "BBCCAC"


def test_every_window_holds_its_shares() -> None:
    source, _ = Shuffled(np.array([600, 300, 100]), 1).locate(np.arange(1000))
    for start in range(0, 960, 64):
        seen = np.bincount(source[start : start + 64], minlength=3)
        assert np.abs(seen - 64 * np.array([0.6, 0.3, 0.1])).max() < 3


def test_a_rare_source_may_come_anywhere() -> None:
    places = [
        int(np.flatnonzero(Shuffled(np.array([999, 1]), seed).locate(np.arange(1000))[0])[0])
        for seed in range(400)
    ]
    seen = np.histogram(places, bins=8, range=(0, 1000))[0]
    assert seen.min() > 25


def test_every_source_is_as_likely_at_every_place_of_a_window() -> None:
    first = np.array([Shuffled(np.array([40, 24]), s).locate(np.arange(64))[0] for s in range(600)])
    share = (first == 0).mean(axis=0)
    assert np.abs(share - 40 / 64).max() < 4.5 * np.sqrt(0.625 * 0.375 / 600)


def test_windows_far_apart_cost_no_memory_between_them() -> None:
    shuffled = Shuffled(np.array([10**12, 10**11]), 3)
    far = np.array([0, 10**12, 5 * 10**11, 1, 1_100_000_000_000 - 1])
    source, draw = shuffled.locate(far)
    assert [shuffled.locate(far[i : i + 1]) for i in range(5)] == [
        (source[i : i + 1], draw[i : i + 1]) for i in range(5)
    ]
