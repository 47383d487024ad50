from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniloader.errors import StatsError
from omniloader.stats.quantiles import Quartiles
from omniloader.stats.sketch import QuartileSketch

QUARTILES = [0.25, 0.5, 0.75]


def ranks_off(rows: np.ndarray, figures: np.ndarray) -> float:
    """The largest distance of a figure from the ranks it stands for, as a share of the rows."""
    worst = 0.0
    for share, figure in zip(QUARTILES, figures, strict=True):
        below, upto = (rows < figure).mean(0), (rows <= figure).mean(0)
        worst = max(worst, float(np.maximum(below - share, share - upto).max()))
    return worst


@settings(max_examples=80, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=5),
    width=st.sampled_from([1, 2, 17, 40]),
    ties=st.booleans(),
    seed=st.integers(0, 99),
)
def test_exact_quartiles_are_those_of_numpy_in_any_split(
    sizes: list[int], width: int, ties: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((sum(sizes), width)).astype(np.float32)
    rows = np.round(rows) if ties else rows
    quartiles = Quartiles(width, 1 << 20)
    for part in np.split(rows, np.cumsum(sizes)[:-1])[::-1]:
        one = Quartiles(width, 1 << 20)
        one.update(part)
        quartiles.merge(pickle.loads(pickle.dumps(one)))  # noqa: S301
    expected = np.quantile(rows.astype(np.float64), QUARTILES, axis=0)
    np.testing.assert_allclose(quartiles.figures(), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(quartiles.figures(), quartiles.figures())
    assert (quartiles.method, quartiles.rank_error()) == ("exact", 0.0)


def test_values_are_copied() -> None:
    rows = np.ones((3, 1))
    quartiles = Quartiles(1, 1 << 20)
    quartiles.update(rows)
    rows[:] = 9.0
    assert quartiles.figures()[:, 0].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["random", "sorted", "reversed"])
def test_a_sketch_keeps_to_the_error_it_states(dtype: type, order: str) -> None:
    rows = np.random.default_rng(3).standard_normal((60_000, 3)).astype(dtype)
    if order != "random":
        rows = np.sort(rows, axis=0)[:: -1 if order == "reversed" else 1]
    quartiles = Quartiles(3, 200_000)
    for part in np.array_split(rows, 23):
        quartiles.update(part)
    assert quartiles.method == "kll"
    assert 0.0 < quartiles.rank_error() < 0.01
    # Stated for 99 of 100 cases; 3 columns times 3 figures are allowed twice as much.
    assert ranks_off(rows, quartiles.figures()) < 2 * quartiles.rank_error()


def test_merged_sketches_keep_to_the_error_they_state() -> None:
    rows = np.random.default_rng(4).exponential(size=(50_000, 2)).astype(np.float32)
    exact, sketched, whole = (Quartiles(2, 100_000) for _ in range(3))
    exact.update(rows[:10_000])
    sketched.update(rows[10_000:])
    assert (exact.method, sketched.method) == ("exact", "kll")
    for part in (exact, pickle.loads(pickle.dumps(sketched))):  # noqa: S301
        whole.merge(part)
    sketched.merge(exact)
    for merged in (whole, sketched):
        assert merged.method == "kll"
        assert ranks_off(rows, merged.figures()) < 2 * merged.rank_error()
        assert ranks_off(rows, merged.figures()) < 2 * merged.rank_error()  # asked twice


def test_two_exact_parts_beyond_the_budget_together_are_sketched() -> None:
    rows = np.random.default_rng(5).standard_normal((2_000, 1))
    first, second = Quartiles(1, 12_000), Quartiles(1, 12_000)
    first.update(rows[:1_000])
    second.update(rows[1_000:])
    first.merge(second)
    assert (first.method, second.method) == ("kll", "exact")
    assert ranks_off(rows, first.figures()) < 2 * first.rank_error()


def test_rows_left_over_from_a_block_count_by_their_share() -> None:
    for extra in (1, 40, 3_000):
        sketch = QuartileSketch(1, np.float32, 1 << 20)
        rows = np.arange(sketch.block + extra, dtype=np.float32)[:, None]
        for part in np.array_split(rows, 7):
            sketch.update(part)
        assert ranks_off(rows, sketch.quartiles()) < 2 * sketch.rank_error()


def test_a_very_wide_value_is_sketched_within_its_budget() -> None:
    rows = np.random.default_rng(6).standard_normal((400, 2_000)).astype(np.float32)
    quartiles = Quartiles(2_000, 400_000)
    for part in np.array_split(rows, 4):
        quartiles.update(part)
    # 50 rows a column fit: the error is stated as large as it is.
    assert quartiles.rank_error() > 0.05
    assert ranks_off(rows, quartiles.figures()) < 2 * quartiles.rank_error()


def test_a_dtype_may_widen_while_exact_and_not_once_sketched() -> None:
    quartiles = Quartiles(1, 1_000)
    quartiles.update(np.ones((10, 1), dtype=np.float32))
    quartiles.update(np.full((10, 1), 1 + 1e-12))
    assert quartiles.figures()[2, 0] == 1 + 1e-12
    narrow = Quartiles(1, 100)
    narrow.update(np.ones((100, 1), dtype=np.float32))
    with pytest.raises(StatsError, match="must keep one dtype, got float64 after float32"):
        narrow.update(np.ones((1, 1)))
    wide = Quartiles(1, 100)
    wide.update(np.ones((100, 1)))
    with pytest.raises(StatsError, match="must keep one dtype, got float32 and float64"):
        wide.merge(narrow)
    wide.update(np.ones((1, 1), dtype=np.float32))
    assert wide.figures()[1, 0] == 1.0
