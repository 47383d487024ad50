from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniloader.sampling.apportion import largest_remainder, tempered

weights = st.lists(st.floats(0, 1e6), min_size=1, max_size=8).filter(lambda w: sum(w) > 1e-3)


@settings(max_examples=100, deadline=None)
@given(weights=weights, total=st.integers(0, 10**9))
def test_counts_are_exact_and_within_one_of_the_quota(weights: list[float], total: int) -> None:
    counts = largest_remainder(weights, total)
    quotas = np.array(weights) * (total / sum(weights))
    assert counts.sum() == total
    assert (counts >= 0).all()
    assert (np.abs(counts - quotas) < 1 + 1e-6 * (1 + quotas)).all()
    assert (counts[np.array(weights) == 0] == 0).all()


@settings(max_examples=50, deadline=None)
@given(sizes=st.lists(st.integers(0, 10**9), min_size=1, max_size=8).filter(any))
def test_sizes_split_by_themselves_come_back(sizes: list[int]) -> None:
    assert largest_remainder(sizes, sum(sizes)).tolist() == sizes


def test_what_is_left_goes_to_the_largest_remainders() -> None:
    assert largest_remainder([5, 3, 1], 10).tolist() == [6, 3, 1]
    assert largest_remainder([1, 1, 1], 5).tolist() == [2, 2, 1]


@pytest.mark.parametrize("weights", [[1e308, 1e308, 1e308], [5e-324, 1.0], [1e-300, 1e-300]])
def test_extreme_weights_neither_overflow_nor_vanish(weights: list[float]) -> None:
    assert largest_remainder(weights, 9).sum() == 9


def test_a_total_beyond_float_precision_is_still_met() -> None:
    assert largest_remainder([1, 2, 4], (1 << 60) + 1).sum() == (1 << 60) + 1
    assert largest_remainder([1], (1 << 60) - 1).tolist() == [(1 << 60) - 1]


def test_tempered_sizes() -> None:
    assert tempered([100, 25, 0], 2.0).tolist() == pytest.approx([1, 0.5, 0])
    assert tempered([100, 25], 1.0).tolist() == pytest.approx([1, 0.25])
    assert tempered([10**9, 1, 0], float("inf")).tolist() == [1, 1, 0]
    assert tempered([10**9, 1], 1e-3).tolist() == [1, 0]
