from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from omniloader.errors import PlanError
from omniloader.sampling.subsamplers import ExhaustionPolicy, IndexPool, SubsampleConfig

EXHAUST = ExhaustionPolicy.EXHAUST


def visits_of(pool: IndexPool, count: int, epoch: int, start: int = 0) -> list[tuple[int, int]]:
    local, visit = pool.stream(count, epoch, start).take(np.arange(count))
    return list(zip(local.tolist(), visit.tolist(), strict=True))


def running_visits(indices: Sequence[int]) -> list[tuple[int, int]]:
    seen: Counter[int] = Counter()
    out = []
    for index in indices:
        out.append((index, seen[index]))
        seen[index] += 1
    return out


# -- without replacement -------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 300), passes=st.floats(0, 4), epoch=st.integers(0, 9))
def test_fresh_draws_whole_passes(size: int, passes: float, epoch: int) -> None:
    count = int(size * passes)
    pool = IndexPool(size, seed=4)
    drawn = pool.draw(count, epoch)
    assert drawn == pool.draw(count, epoch)
    for start in range(0, count, size):
        part = drawn[start : start + size]
        assert len(set(part)) == len(part)
    assert visits_of(pool, count, epoch) == running_visits(drawn)


def test_fresh_epochs_have_orders_of_their_own() -> None:
    pool = IndexPool(50, seed=1)
    orders = [tuple(pool.draw(50, epoch)) for epoch in range(5)]
    assert len(set(orders)) == 5
    assert pool.draw(10, 3) == pool.draw(50, 3)[:10]
    # seed + epoch would make these two alike
    assert IndexPool(50, seed=0).draw(50, 1) != IndexPool(50, seed=1).draw(50, 0)


@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 200), counts=st.lists(st.integers(0, 300), max_size=5))
def test_exhaust_epochs_are_windows_of_one_stream(size: int, counts: list[int]) -> None:
    pool = IndexPool(size, policy=EXHAUST, seed=2)
    epochs = [pool.draw(count, epoch) for epoch, count in enumerate(counts)]
    assert [pool.draw(count, epoch) for epoch, count in enumerate(counts)] == epochs
    whole = IndexPool(size, policy=EXHAUST, seed=2).draw(sum(counts), 0)
    assert functools.reduce(operator.iadd, epochs, []) == whole
    start = 0
    for epoch, count in enumerate(counts):
        assert visits_of(pool, count, epoch, start) == running_visits(epochs[epoch])
        start += count


def test_exhaust_uses_everything_before_it_repeats() -> None:
    pool = IndexPool(5, policy=EXHAUST)
    assert (pool.draw(3, 0), pool.draw(3, 1)) == ([3, 2, 4], [1, 0, 4])


def test_exhaust_starts_where_the_last_known_epoch_ended() -> None:
    whole = IndexPool(20, policy=EXHAUST).draw(15, 0)
    pool = IndexPool(20, policy=EXHAUST)
    assert pool.draw(5, 2) == whole[:5]
    assert pool.draw(5, 7) == whole[5:10]
    assert pool.draw(5, 9) == whole[10:]
    assert pool.draw(5, 7) == whole[5:10]


# -- with replacement ----------------------------------------------------------------------


def test_replacement_draws_every_sample_equally_often() -> None:
    pool = IndexPool(20, replacement=True, seed=3)
    drawn = pool.draw(20_000, 0)
    assert stats.chisquare(np.bincount(drawn, minlength=20)).pvalue > 1e-3
    assert drawn == pool.draw(20_000, 0)
    assert drawn[:100] == pool.draw(100, 0)
    assert drawn != pool.draw(20_000, 1)
    numbers = [visit for _, visit in visits_of(pool, 10, 0)]
    assert numbers == list(range(10))


def test_replacement_by_weight() -> None:
    weights = [1.0, 0.0, 2.0, 5.0, 0.0]
    drawn = IndexPool(5, replacement=True, weights=weights).draw(8_000, 2)
    seen = np.bincount(drawn, minlength=5)
    assert seen[[1, 4]].tolist() == [0, 0]
    assert stats.chisquare(seen[[0, 2, 3]], [1000, 2000, 5000]).pvalue > 1e-3


# -- by weight, without replacement --------------------------------------------------------

weight_lists = st.lists(
    st.one_of(st.just(0.0), st.sampled_from([0.5, 1.0, 3.0]), st.floats(1e-3, 1e3)),
    min_size=1,
    max_size=60,
).filter(any)


@settings(max_examples=100, deadline=None)
@given(weights=weight_lists, count=st.integers(0, 300), epoch=st.integers(0, 5))
def test_systematic_draws_floor_or_ceil(weights: list[float], count: int, epoch: int) -> None:
    pool = IndexPool(len(weights), weights=weights, seed=5)
    drawn = pool.draw(count, epoch)
    assert len(drawn) == count
    expected = count * np.array(weights) / np.sum(weights)
    seen = np.bincount(drawn, minlength=len(weights))
    assert (seen >= np.floor(expected - 1e-6)).all()
    assert (seen <= np.ceil(expected + 1e-6)).all()
    assert (seen[np.array(weights) == 0] == 0).all()
    assert drawn == IndexPool(len(weights), weights=weights, seed=5).draw(count, epoch)
    if count:
        assert visits_of(pool, count, epoch) == running_visits(drawn)


def test_class_balancing_weights_give_a_flat_histogram() -> None:
    labels = np.repeat([0, 1, 2], [900, 90, 10])
    labels = np.random.default_rng(0).permutation(labels)
    weights = 1 / np.bincount(labels)[labels]
    for count in (30, 100, 1000, 2501):
        drawn = IndexPool(1000, weights=weights.tolist()).draw(count, 1)
        flat = np.bincount(labels[drawn], minlength=3)
        assert np.abs(flat - count / 3).max() <= 1


def test_systematic_epochs_differ_and_cover_all_rows() -> None:
    pool = IndexPool(100, weights=[1.0] * 100)
    epochs = [set(pool.draw(50, epoch)) for epoch in range(12)]
    assert len({frozenset(epoch) for epoch in epochs}) == 12
    assert set().union(*epochs) == set(range(100))


def test_systematic_order_is_shuffled_in_time() -> None:
    drawn = np.array(IndexPool(1000, weights=[1.0] * 500 + [3.0] * 500).draw(1000, 0))
    late = drawn >= 500
    assert abs(late[:500].mean() - late[500:].mean()) < 0.1


def test_huge_weights_do_not_overflow() -> None:
    drawn = IndexPool(3, weights=[1e308, 1e308, 0.0]).draw(10, 0)
    assert Counter(drawn) == {0: 5, 1: 5}


def test_more_rows_than_float32_can_count() -> None:
    size = (1 << 24) + 3
    weights = np.zeros(size)
    weights[-3:] = 1.0
    pool = IndexPool(size, replacement=True, weights=weights)
    assert set(pool.draw(64, 0)) == {size - 3, size - 2, size - 1}


def test_weights_come_as_lists_arrays_or_tensors() -> None:
    weights = [1.0, 2.0, 3.0]
    drawn = IndexPool(3, weights=weights).draw(12, 0)
    assert IndexPool(3, weights=np.array(weights)).draw(12, 0) == drawn
    assert IndexPool(3, weights=torch.tensor(weights)).draw(12, 0) == drawn


# -- refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        (
            [1.0, float("nan"), 1.0],
            r"source 'speech': sample_weights must be finite .* got nan for sample 1",
        ),
        ([1.0, 1.0, float("inf")], r"source 'speech': .* got inf for sample 2"),
        ([1.0, -0.5, 1.0], r"source 'speech': .* got -0.5 for sample 1 \(1 such weights\)"),
        ([0.0, 0.0, 0.0], "source 'speech': sample_weights must not all be 0"),
        ([1.0, 1.0], r"source 'speech': .* each of its 3 samples, got shape \(2,\)"),
        ([[1.0], [1.0], [1.0]], r"source 'speech': .* got shape \(3, 1\)"),
    ],
)
def test_bad_weights_are_refused(weights: list[float], text: str) -> None:
    with pytest.raises(PlanError, match=text):
        IndexPool(3, weights=weights, name="speech")


def test_bad_sizes_and_counts_are_refused() -> None:
    with pytest.raises(PlanError, match=r"source 'pool': size must be a whole .* got -1"):
        IndexPool(-1)
    with pytest.raises(PlanError, match=r"source 'a': size must be a whole number .* got 2.5"):
        IndexPool(2.5, name="a")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="count must be a whole number of at least 0, got -3"):
        IndexPool(4).draw(-3, 0)
    with pytest.raises(PlanError, match="epoch must be a whole number of at least 0, got -1"):
        IndexPool(4).draw(3, -1)
    with pytest.raises(PlanError, match="source 'pool': has no samples, asked for 1"):
        IndexPool(0).draw(1, 0)
    assert IndexPool(0).draw(0, 0) == []


def test_config_options_are_checked() -> None:
    assert SubsampleConfig(policy="exhaust").policy is EXHAUST  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="policy must be one of fresh, exhaust, got 'stale'"):
        SubsampleConfig(policy="stale")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="replacement must be True or False, got 1"):
        SubsampleConfig(replacement=1)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=r"effective_size must be a whole .* least 1, got 0"):
        SubsampleConfig(effective_size=0)


def test_configs_compare_by_value() -> None:
    assert SubsampleConfig(sample_weights=[1, 2]) == SubsampleConfig(
        sample_weights=np.array([1.0, 2.0])
    )
    assert SubsampleConfig(sample_weights=[1, 2]) != SubsampleConfig(sample_weights=[2, 1])
    assert SubsampleConfig() != SubsampleConfig(effective_size=5)
