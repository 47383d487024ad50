from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniloader.stats.columnwise import centre, reduce_columns
from omniloader.stats.moments import Moments


def fed(parts: list[np.ndarray]) -> Moments:
    moments = Moments(parts[0].shape[1])
    for rows in parts:
        moments.update(rows, rows.min(0), rows.max(0))
    return moments


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 700), width=st.sampled_from([1, 2, 5, 64, 600]), seed=st.integers(0, 99))
def test_columns_are_reduced_as_numpy_does(n: int, width: int, seed: int) -> None:
    rows = np.random.default_rng(seed).standard_normal((n, width))
    np.testing.assert_allclose(reduce_columns(np.add, rows), rows.sum(0), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(reduce_columns(np.minimum, rows), rows.min(0))
    np.testing.assert_array_equal(reduce_columns(np.maximum, rows), rows.max(0))
    mean = rows.mean(0)
    expected = rows - mean
    centre(rows, mean)
    np.testing.assert_array_equal(rows, expected)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=6),
    width=st.sampled_from([1, 3, 130]),
    offset=st.sampled_from([0.0, 1e6, -3e8]),
    seed=st.integers(0, 99),
)
def test_moments_do_not_depend_on_the_split(
    sizes: list[int], width: int, offset: float, seed: int
) -> None:
    rows = np.random.default_rng(seed).standard_normal((sum(sizes), width)) + offset
    parts = np.split(rows, np.cumsum(sizes)[:-1])
    whole, pieces = fed([rows]), fed(parts[::-1])
    merged = Moments(width)
    for part in parts:
        merged.merge(pickle.loads(pickle.dumps(fed([part]))))  # noqa: S301
    for moments in (whole, pieces, merged):
        assert moments.count == len(rows)
        np.testing.assert_allclose(moments.mean, rows.mean(0), rtol=1e-12, atol=1e-12)
        # float64 itself cannot tell deviations apart below eps times the offset.
        np.testing.assert_allclose(
            moments.std(), rows.std(0), rtol=1e-9, atol=1e-15 * abs(offset) + 1e-12
        )
        np.testing.assert_array_equal(moments.low, rows.min(0))
        np.testing.assert_array_equal(moments.high, rows.max(0))


def test_a_merge_with_nothing_changes_nothing() -> None:
    moments = fed([np.array([[1.0], [3.0]])])
    moments.merge(Moments(1))
    assert (moments.count, moments.mean[0], moments.std()[0]) == (2, 2.0, 1.0)


def test_a_large_mean_beside_a_small_spread_does_not_cancel() -> None:
    rows = 1e9 + np.tile([[0.0], [1.0]], (200_000, 1))
    moments = fed([rows])
    assert moments.mean[0] == pytest.approx(1e9 + 0.5, rel=1e-15)
    assert moments.std()[0] == pytest.approx(0.5, rel=1e-9)
