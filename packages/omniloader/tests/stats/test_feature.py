from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from omniloader.errors import StatsError
from omniloader.stats.blocks import Column, make_column
from omniloader.stats.feature import FeatureAccumulator, FeatureOptions


def column(value: Any, mask: Any = None, *, is_sequence: bool | None = None) -> Column:
    return make_column(
        "x", value, mask, lambda row: f"sample {row} of 'a'", is_sequence=is_sequence
    )


def accumulate(*columns: Column, **options: Any) -> FeatureAccumulator:
    accumulator = FeatureAccumulator("x", FeatureOptions(**options))
    for each in columns:
        accumulator.add(each)
    return accumulator


def reference(rows: np.ndarray) -> dict[str, np.ndarray]:
    """Figures of rows ``(n, …)`` by NumPy in float64."""
    wide = rows.astype(np.float64)
    first, median, third = np.quantile(wide, [0.25, 0.5, 0.75], axis=0)
    figures = {"mean": wide.mean(0), "std": wide.std(0), "min": wide.min(0), "max": wide.max(0)}
    return figures | {"median": median, "iqr": third - first}


def assert_figures(figures: dict[str, Tensor], expected: dict[str, np.ndarray]) -> None:
    assert list(figures) == ["mean", "std", "min", "max", "median", "iqr"]
    for name, figure in figures.items():
        assert figure.dtype is torch.float64
        np.testing.assert_allclose(figure.numpy(), expected[name], rtol=1e-9, atol=1e-12)


DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.uint8,
    torch.bool,
]


@settings(max_examples=80, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    trailing=st.sampled_from([(), (1,), (5,), (2, 3), (2, 2, 2)]),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 99),
)
def test_figures_are_those_of_the_valid_rows_in_any_split(
    sizes: list[int], trailing: tuple[int, ...], dtype: torch.dtype, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    shape = (sum(sizes), 3, *trailing)
    value = torch.randint(0, 200, shape, generator=generator)
    value = (value % 2).bool() if dtype is torch.bool else (value / 7).to(dtype)
    mask = torch.rand(shape[:2], generator=generator) < 0.6
    mask[0, 0] = True
    if dtype.is_floating_point:
        value[~mask] = float("nan")  # padding may hold anything
    expected = reference(value[mask].to(torch.float64).numpy())
    parts = list(zip(value.split(sizes), mask.split(sizes), strict=True))

    whole = accumulate(column(value, mask))
    pieces = accumulate(*(column(*part) for part in reversed(parts)))
    merged = FeatureAccumulator("x", FeatureOptions())
    for part in parts:
        merged.merge(pickle.loads(pickle.dumps(accumulate(column(*part)))))  # noqa: S301
    for accumulator in (whole, pieces, merged):
        assert_figures(accumulator.figures(1e-12), {**expected, "std": expected["std"] + 1e-300})
        assert accumulator.info() == {
            "count": int(mask.sum()),
            "skipped": 0,
            "quantiles": "exact",
            "rank_error": 0.0,
        }


def test_structured_values_are_taken_per_element_or_per_channel() -> None:
    value = torch.randn(20, 4, 3, 5, 6, generator=torch.Generator().manual_seed(0))
    mask = torch.arange(4).expand(20, 4) < 3
    real = value[mask].numpy()
    elements = accumulate(column(value, mask)).figures(1e-6)
    assert_figures(elements, reference(real))
    channels = accumulate(column(value, mask), channelwise=True).figures(1e-6)
    expected = reference(np.moveaxis(real, 1, -1).reshape(-1, 3))
    assert_figures(channels, {name: f.reshape(3, 1, 1) for name, f in expected.items()})
    flat = accumulate(column(torch.ones(4, 7)), channelwise=True).figures(1e-6)
    assert flat["mean"].shape == (7,)


def test_large_blocks_and_many_small_ones_agree() -> None:
    value = torch.randn(5_000, 200, generator=torch.Generator().manual_seed(1))
    large = accumulate(column(value)).figures(1e-6)
    small = accumulate(*(column(part) for part in value.split(3))).figures(1e-6)
    for name in large:
        np.testing.assert_allclose(large[name].numpy(), small[name].numpy(), rtol=1e-9, atol=1e-9)


def test_float16_does_not_overflow() -> None:
    value = torch.full((1000, 1), 60_000.0, dtype=torch.float16)
    figures = accumulate(column(value)).figures(1e-6)
    assert figures["mean"].item() == float(value[0, 0])
    assert figures["std"].item() == 1e-6


def test_one_valid_row_and_constant_features_are_finite() -> None:
    figures = accumulate(column(torch.tensor([[3.0, 5.0]]))).figures(1e-6)
    assert figures["mean"].tolist() == [3.0, 5.0]
    assert figures["std"].tolist() == [1e-6, 1e-6]
    assert figures["iqr"].tolist() == [0.0, 0.0]
    assert figures["median"].tolist() == figures["min"].tolist() == figures["max"].tolist()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_nonfinite_valid_value_is_refused_by_sample_or_skipped_and_counted(bad: float) -> None:
    value = torch.arange(24, dtype=torch.float32).reshape(4, 3, 2)
    value[2, 1, 0] = bad
    with pytest.raises(StatsError, match="sample 2 of 'a': 'x' must be finite where its mask is"):
        accumulate(column(value))
    mask = torch.ones(4, 3, dtype=torch.bool)
    mask[0] = False
    with pytest.raises(StatsError, match=r"sample 2 of 'a': .* nonfinite='skip'"):
        accumulate(column(value, mask))
    accumulator = accumulate(column(value, mask), nonfinite="skip")
    assert (accumulator.info()["count"], accumulator.info()["skipped"]) == (8, 1)
    keep = mask.clone()
    keep[2, 1] = False
    assert_figures(accumulator.figures(1e-6), reference(value[keep].numpy()))
    keep[2] = mask[2] = False
    assert accumulate(column(value, mask)).info()["count"] == 6


def test_skipping_everything_is_no_valid_value() -> None:
    accumulator = accumulate(column(torch.full((3,), float("nan"))), nonfinite="skip")
    assert accumulator.info()["skipped"] == 3
    with pytest.raises(StatsError, match="'x' has no valid value: every 'x_mask' is False"):
        accumulator.figures(1e-6)


def test_an_overflow_of_float64_is_an_error_and_no_infinity() -> None:
    value = torch.tensor([[1e300], [-1e300]], dtype=torch.float64)
    with pytest.raises(StatsError, match=r"'x': std overflows float64, the values reach 1e\+300"):
        accumulate(column(value)).figures(1e-6)


def test_the_shape_of_a_step_must_stay() -> None:
    with pytest.raises(
        StatsError, match=r"sample 0 of 'a': one step of 'x' must have shape \(3,\) .* got \(2,\)"
    ):
        accumulate(column(torch.zeros(1, 3)), column(torch.zeros(1, 2)))
    with pytest.raises(StatsError, match="'x' must have elements"):
        accumulate(column(torch.zeros(1, 0)))
    first = accumulate(column(torch.zeros(1, 3)))
    with pytest.raises(StatsError, match="another part of the data: one step of 'x'"):
        first.merge(accumulate(column(torch.zeros(1, 2))))
    first.merge(FeatureAccumulator("x", FeatureOptions()))
    assert first.info()["count"] == 1


def test_a_dtype_that_widens_after_sketching_is_named() -> None:
    narrow, wide = torch.zeros(40_000, 1), torch.zeros(40_000, 1, dtype=torch.float64)
    sketched = accumulate(column(narrow), memory_budget=1_000)
    with pytest.raises(StatsError, match="'x': values must keep one dtype"):
        sketched.add(column(wide))
    with pytest.raises(StatsError, match="'x': values must keep one dtype"):
        accumulate(column(wide), memory_budget=1_000).merge(sketched)


def test_without_quartiles_only_the_moments_are_taken() -> None:
    accumulator = accumulate(column(torch.ones(3, 2)), quartiles=False)
    assert list(accumulator.figures(1e-6)) == ["mean", "std", "min", "max"]
    assert accumulator.info()["quantiles"] is None


def test_many_keys_share_three_budgets() -> None:
    options = FeatureOptions(memory_budget=1000)
    assert [options.shared_by(n).memory_budget for n in (1, 3, 4, 30)] == [1000, 1000, 750, 100]
    assert options.shared_by(10**6).memory_budget == 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"nonfinite": "drop"}, "nonfinite must be one of raise, skip, got 'drop'"),
        ({"memory_budget": 0}, "memory_budget must be a positive number of bytes, got 0"),
    ],
)
def test_options_are_checked(options: dict[str, Any], text: str) -> None:
    with pytest.raises(StatsError, match=text):
        FeatureOptions(**options)
