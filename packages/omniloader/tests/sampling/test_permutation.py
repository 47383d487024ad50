from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from omniloader.sampling.permutation import SMALL, permute, unpermute
from omniloader.utils.seeding import derive_keys


def _keys(number: int) -> np.ndarray:
    return derive_keys(11, np.arange(number))


@pytest.mark.parametrize("size", [*range(1, 40), SMALL - 1, SMALL, SMALL + 1, 255, 256, 257, 5000])
def test_every_item_comes_exactly_once(size: int) -> None:
    items = permute(np.arange(size), size, np.uint64(3))
    assert sorted(items.tolist()) == list(range(size))
    assert unpermute(items, size, np.uint64(3)).tolist() == list(range(size))


@settings(max_examples=100, deadline=None)
@given(size=st.integers(1, 1 << 62), key=st.integers(0, (1 << 64) - 1), data=st.data())
def test_any_position_is_mapped_back(size: int, key: int, data: st.DataObject) -> None:
    positions = np.array(data.draw(st.lists(st.integers(0, size - 1), max_size=20)), dtype=np.int64)
    items = permute(positions, size, np.uint64(key))
    assert ((items >= 0) & (items < size)).all()
    assert unpermute(items, size, np.uint64(key)).tolist() == positions.tolist()
    assert len(set(items.tolist())) == len(set(positions.tolist()))


@pytest.mark.parametrize("size", [7, SMALL + 30, 3000])
def test_one_call_serves_positions_of_many_shuffles(size: int) -> None:
    keys = _keys(50)
    positions = np.arange(50) % size
    together = permute(positions, size, keys)
    alone = [permute(positions[i : i + 1], size, keys[i])[0] for i in range(50)]
    assert together.tolist() == alone
    assert unpermute(together, size, keys).tolist() == positions.tolist()


def test_orders_are_those_of_this_plan_version() -> None:
    assert permute(np.arange(5), 5, np.uint64(7)).tolist() == [3, 1, 0, 2, 4]
    large = [196551, 962, 553575, 622296, 970917, 370499]
    assert permute(np.arange(6), 1_000_003, np.uint64(7)).tolist() == large


def test_no_positions_give_no_items() -> None:
    for size in (1, 5, 1000):
        assert permute(np.zeros(0, np.int64), size, np.uint64(1)).tolist() == []


def test_every_order_of_four_items_is_equally_likely() -> None:
    runs = 24_000
    keys = np.repeat(_keys(runs), 4)
    orders = permute(np.tile(np.arange(4), runs), 4, keys).reshape(runs, 4)
    codes = orders @ np.array([64, 16, 4, 1])
    seen = [int((codes == order @ np.array([64, 16, 4, 1])).sum()) for order in _orders(4)]
    assert sum(seen) == runs
    assert stats.chisquare(seen).pvalue > 1e-3


def _orders(size: int) -> list[np.ndarray]:
    return [np.array(order) for order in itertools.permutations(range(size))]


@pytest.mark.parametrize("size", [10, SMALL, SMALL + 1, 150, 257])
def test_every_item_is_equally_likely_at_every_position(size: int) -> None:
    runs = 100
    keys = np.repeat(_keys(runs * size), size)
    items = permute(np.tile(np.arange(size), runs * size), size, keys).reshape(-1, size)
    for position in (0, 1, size // 2, size - 1):
        seen = np.bincount(items[:, position], minlength=size)
        assert stats.chisquare(seen).pvalue > 1e-4


@pytest.mark.parametrize("size", [SMALL + 1, 150, 257])
def test_neighbours_are_independent(size: int) -> None:
    """The step from one item to the next takes every value but 0 equally often."""
    runs = 100 * size
    keys = np.repeat(_keys(runs), 2)
    items = permute(np.tile(np.array([3, 4]), runs), size, keys).reshape(-1, 2)
    steps = np.bincount((items[:, 1] - items[:, 0]) % size, minlength=size)
    assert steps[0] == 0
    assert stats.chisquare(steps[1:]).pvalue > 1e-4


def test_a_large_shuffle_leaves_no_trend() -> None:
    items = permute(np.arange(50_000), 1_300_000_000, np.uint64(5))
    assert stats.kstest(items / 1_300_000_000, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(items[:-1], items[1:])[0, 1]) < 0.02


def test_too_many_items_are_refused() -> None:
    with pytest.raises(ValueError, match=r"size must be at most 2\*\*62, got 46116"):
        permute(np.arange(2), (1 << 62) + 1, np.uint64(0))
