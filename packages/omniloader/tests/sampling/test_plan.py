from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import stats

from omniloader.sampling.sampler import OmniSampler
from omniloader.sampling.strategies import (
    STRATEGIES,
    MixingStrategy,
    ProportionalStrategy,
    TemperatureStrategy,
)
from omniloader.sampling.subsamplers import SubsampleConfig


def test_positions_come_in_any_form() -> None:
    plan = ProportionalStrategy([7, 5]).plan(2)
    index, visit = plan[:]
    assert len(plan) == len(index) == 12
    assert plan[3] == plan[np.int64(3)] == (int(index[3]), int(visit[3]))
    assert plan[2:9:3][0].tolist() == index[[2, 5, 8]].tolist()
    assert plan[np.array([5, 1], dtype=np.int32)][0].tolist() == index[[5, 1]].tolist()
    assert plan[np.array([], dtype=np.int64)][0].tolist() == []
    assert list(plan) == list(zip(index.tolist(), visit.tolist(), strict=True))
    assert plan.epoch == 2


def test_positions_outside_the_epoch_are_refused() -> None:
    plan = ProportionalStrategy([7, 5]).plan()
    for wrong in (12, -1, np.array([3, 12])):
        with pytest.raises(IndexError, match="plan holds 12 positions, asked for position"):
            plan[wrong]  # type: ignore[index]
    with pytest.raises(IndexError, match="plan positions must be integers, got dtype float64"):
        plan[np.array([0.5])]  # type: ignore[index]


def test_source_and_draw_lead_to_the_same_index() -> None:
    plan = TemperatureStrategy([40, 9, 3]).plan(1)
    source, draw = plan.locate(np.arange(52))
    index, visit = plan.take(source, draw)
    assert index.tolist() == plan[:][0].tolist()
    assert visit.tolist() == plan[:][1].tolist()


@pytest.mark.parametrize("kind", STRATEGIES.values())
def test_a_billion_samples_cost_no_memory(kind: type[MixingStrategy]) -> None:
    tracemalloc.start()
    try:
        strategy = kind([1_000_000_000, 300_000_000, 5_000])
        next(iter(OmniSampler(strategy)))
        positions = np.linspace(0, len(strategy) - 1, 500).astype(np.int64)
        index, _ = strategy.plan(3)[positions]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    assert ((index >= 0) & (index < 1_300_005_000)).all()


@pytest.mark.parametrize("sizes", [[50_000], [40_000, 10_000], [30_000, 17_000, 3_000]])
def test_far_and_near_positions_agree(sizes: list[int]) -> None:
    plan = ProportionalStrategy(sizes).plan(5)
    index, visit = plan[:]
    assert sorted(index.tolist()) == list(range(50_000))
    for step in (1, 7, 64, 1000):
        part = np.arange(0, 50_000, step)
        assert np.array_equal(plan[part][0], index[part])
    order = np.random.default_rng(1).permutation(50_000)
    assert np.array_equal(plan[order][0], index[order])
    assert not visit.any()


def test_an_order_has_no_trend() -> None:
    index, _ = ProportionalStrategy([30_000, 20_000]).plan(0)[:]
    assert stats.kstest(index[:5_000] / 50_000, "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(np.arange(50_000), index)[0, 1]) < 0.02
    assert abs(np.corrcoef(index[:-1], index[1:])[0, 1]) < 0.02


def test_every_sample_is_as_likely_to_come_first() -> None:
    first = [ProportionalStrategy([6, 4], seed=seed).plan(0)[0][0] for seed in range(3_000)]
    assert stats.chisquare(np.bincount(first, minlength=10)).pvalue > 1e-3


def test_weights_serve_many_blocks() -> None:
    weights = SubsampleConfig(sample_weights=[1.0, 2.0, 2.0])
    index, visit = ProportionalStrategy([3], subsample=weights, epoch_size=50_000).plan(0)[:]
    assert np.bincount(index).tolist() == [10_000, 20_000, 20_000]
    for sample in range(3):
        assert visit[index == sample].tolist() == list(range((index == sample).sum()))


def test_weights_do_not_leave_their_source() -> None:
    weights = SubsampleConfig(sample_weights=[0.0, 1.0, 3.0])
    strategy = ProportionalStrategy([3, 4], subsample=[weights, None], epoch_size=70)
    seen = np.bincount(strategy.epoch_indices(0), minlength=7)
    assert seen[0] == 0
    assert seen[1] in (7, 8)
    assert seen[:3].sum() == 30
    assert seen[3:].tolist() == [10, 10, 10, 10]
