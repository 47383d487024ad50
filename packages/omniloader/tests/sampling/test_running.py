from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniloader.sampling.running import RunningCounts, SteadyCounts

counts_lists = st.lists(st.integers(1, 500), min_size=1, max_size=7)


@settings(max_examples=100, deadline=None)
@given(counts=counts_lists, seed=st.none() | st.integers(0, 99))
def test_running_counts_sum_never_step_back_and_end_exactly(
    counts: list[int], seed: int | None
) -> None:
    phases = None if seed is None else np.random.default_rng(seed).random(len(counts))
    running = RunningCounts(np.array(counts), phases)
    table = running.at(np.arange(sum(counts) + 1))
    assert (table.sum(axis=1) == np.arange(sum(counts) + 1)).all()
    assert (np.diff(table, axis=0) >= 0).all()
    assert table[0].tolist() == [0] * len(counts)
    assert table[-1].tolist() == counts


def test_two_sources_round_to_the_nearest() -> None:
    assert RunningCounts(np.array([2, 4])).at(np.arange(7))[:, 0].tolist() == [0, 0, 1, 1, 1, 2, 2]


@settings(max_examples=100, deadline=None)
@given(counts=counts_lists, window=st.integers(1, 64))
def test_steady_counts_stay_with_their_shares(counts: list[int], window: int) -> None:
    total = sum(counts)
    borders = np.r_[np.arange(0, total, window), total]
    table = SteadyCounts(np.array(counts), window).at(borders)
    assert (table.sum(axis=1) == borders).all()
    assert (np.diff(table, axis=0) >= 0).all()
    assert table[-1].tolist() == counts
    rare = sum(count * window < 1.001 * total for count in counts)
    off = np.abs(table - borders[:, None] * np.array(counts) / total).max()
    assert off <= 1 if rare <= 4 else off < 1.5


@pytest.mark.parametrize("counts", [[1_300_000_000, 7], [1 << 40, 1 << 40, 3]])
def test_huge_counts_end_exactly(counts: list[int]) -> None:
    end = np.array([sum(counts)])
    assert RunningCounts(np.array(counts), np.array([0.0, 1.0])).at(end)[0].tolist() == counts
    assert SteadyCounts(np.array(counts), 64).at(end)[0].tolist() == counts
