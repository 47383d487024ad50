from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transform_cases import SCHEMA, batch_of, draw_for, sequence_batch

from omniloader.errors import ConfigError
from omniloader.schema.batch import UnifiedBatch
from omniloader.schema.spec import DatasetSchema, TensorSpec, UnifiedSchema
from omniloader.transforms import BatchTransform, CenterCrop, RandomCrop, TimeWarp


def run(transform: BatchTransform, batch: UnifiedBatch, seed: int = 0) -> UnifiedBatch:
    result = transform.bind(batch.schema).transform_batch(
        batch, draw_for(len(batch), seed), training=True
    )
    assert isinstance(result, UnifiedBatch)
    return result


# -- crops -------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), length=st.integers(1, 12))
def test_features_and_targets_are_cut_at_the_same_step(seed: int, length: int) -> None:
    lengths = np.random.default_rng(seed).integers(0, 9, 10)
    values = run(RandomCrop(length), sequence_batch(10, 8, lengths=lengths), seed).values
    x, y = values["x"][..., 0].numpy(), values["y"].numpy()
    assert x.shape == y.shape == (10, length)
    for row in range(10):
        real = values["x_mask"][row].numpy()
        assert (real == values["y_mask"][row].numpy()).all()
        assert (x[row, real] == y[row, real]).all()
        assert (np.diff(x[row, real]) == 1).all()
        assert real.sum() == min(length, lengths[row])
        assert (x[row, ~real] == -9).all()
        assert (y[row, ~real] == -1).all()


def test_every_window_is_drawn_and_the_middle_is_the_middle() -> None:
    values = run(RandomCrop(3), sequence_batch(600, 8, lengths=[6])).values
    starts = values["y"][:, 0].numpy() % 100
    assert (np.bincount(starts)[1:] > 100).all()
    assert starts.max() == 4
    middle = run(CenterCrop(3), sequence_batch(2, 8, lengths=[6, 2])).values["y"]
    assert middle.tolist() == [[2, 3, 4], [101, 102, -1]]


def test_native_lengths_become_the_length() -> None:
    batch = sequence_batch(3, 6, lengths=[6, 0, 2])
    lengths = np.array([6, 0, 2])
    native = batch.with_values(batch.values, {"x": lengths, "y": lengths})
    result = run(CenterCrop(4), native)
    assert result.lengths is not None
    assert {name: own.tolist() for name, own in result.lengths.items()} == {
        "x": [4, 4, 4],
        "y": [4, 4, 4],
    }
    assert native.lengths is not None
    assert native.lengths["x"].tolist() == [6, 0, 2]
    some = run(CenterCrop(4, keys=["y"]), native)
    assert some.lengths is not None
    assert some.lengths["x"].tolist() == [6, 0, 2]


def test_the_longest_sequence_decides_where_a_window_may_lie() -> None:
    schema = UnifiedSchema(
        [DatasetSchema([TensorSpec("a", time_dim=8), TensorSpec("b", time_dim=3)])]
    )
    value = np.arange(1.0, 9.0)
    batch = batch_of(
        {"a": ([value] * 100, np.ones((100, 8))), "b": ([value[:3]] * 100, np.ones((100, 3)))},
        schema,
    )
    values = run(RandomCrop(2), batch).values
    first, mask = values["a"][:, 0], values["b_mask"]
    assert set(first.tolist()) == {1.0, 2, 3, 4, 5, 6, 7}
    assert torch.equal(mask[:, 0], first <= 3)
    assert torch.equal(values["b"][mask[:, 0], 0], first[mask[:, 0]])


def test_empty_sequences_are_padded() -> None:
    sample = {"x": torch.empty(0, 2), "x_mask": torch.empty(0, dtype=torch.bool)}
    result = CenterCrop(3)(sample)
    assert torch.equal(result["x"], torch.zeros(3, 2))
    assert result["x_mask"].tolist() == [False] * 3
    assert TimeWarp(p=1.0)(sample)["x"].shape == (0, 2)
    assert CenterCrop(3)({"key": "k"}) == {"key": "k"}


def test_cropping_needs_a_length_and_a_sequence() -> None:
    with pytest.raises(
        ConfigError, match="RandomCrop: length must be a whole number of at least 1"
    ):
        RandomCrop(0)
    with pytest.raises(ConfigError, match="key 'label' must be a sequence"):
        CenterCrop(3, keys=["label"], schema=SCHEMA)


def test_random_crop_is_for_training_and_center_crop_for_both() -> None:
    batch = sequence_batch(2, 6)
    draw = draw_for(2)
    assert RandomCrop(3).transform_batch(batch, draw, training=False) is batch
    sample = batch[0]
    assert RandomCrop(3)(sample, training=False)["x"].shape == (6, 1)
    result = CenterCrop(3).transform_batch(batch, draw, training=False)
    assert isinstance(result, UnifiedBatch)
    assert result.values["x"].shape == (2, 3, 1)


# -- warp --------------------------------------------------------------------------------------


def warped(
    value: list[float], mask: list[int], rate: float, dtype: torch.dtype
) -> tuple[list[float], list[bool]]:
    spec = TensorSpec("x", time_dim=len(value), dtype=dtype, placeholder=-9)
    batch = batch_of({"x": ([value], [mask])}, UnifiedSchema([DatasetSchema([], [spec])]))
    values = run(TimeWarp(rate, rate, p=1.0), batch).values
    return values["x"][0].tolist(), values["x_mask"][0].tolist()


@pytest.mark.parametrize(
    ("mask", "rate", "dtype", "expected", "real"),
    [
        # twice as fast: the end is missing
        ([1, 1, 1, 1, 1, 0], 2.0, torch.float32, [0, 20, 40, -9, -9, 50], [1, 1, 1, 0, 0, 0]),
        # half as fast: cut off where it ended
        ([1, 1, 1, 1, 0, 0], 0.5, torch.float32, [0, 5, 10, 15, 40, 50], [1, 1, 1, 1, 0, 0]),
        # integers take the nearest step
        ([1, 1, 1, 1, 0, 0], 0.5, torch.int64, [0, 10, 10, 20, 40, 50], [1, 1, 1, 1, 0, 0]),
        # a hole moves with the steps around it, and nothing is interpolated across it
        ([1, 0, 1, 1, 1, 1], 0.75, torch.float32, [0, 10, 20, 22.5, 30, 37.5], [1, 0, 1, 1, 1, 1]),
        ([1, 1, 1, 0, 1, 1], 0.7, torch.float32, [0, 7, 14, 20, 30, 40], [1, 1, 1, 1, 0, 1]),
        # as it is
        ([1, 1, 0, 1, 1, 0], 1.0, torch.float32, [0, 10, 20, 30, 40, 50], [1, 1, 0, 1, 1, 0]),
        ([1, 0, 0, 0, 0, 0], 2.0, torch.float32, [0, 10, 20, 30, 40, 50], [1, 0, 0, 0, 0, 0]),
        ([0, 0, 0, 0, 0, 0], 2.0, torch.float32, [0, 10, 20, 30, 40, 50], [0, 0, 0, 0, 0, 0]),
    ],
)
def test_steps_of_the_result_are_the_source_at_rate_times_step(
    mask: list[int], rate: float, dtype: torch.dtype, expected: list[float], real: list[int]
) -> None:
    value, flags = warped([0, 10, 20, 30, 40, 50], mask, rate, dtype)
    assert value == pytest.approx(expected)
    assert flags == [bool(flag) for flag in real]


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_interpolation_agrees_with_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rate, steps = rng.uniform(0.3, 3), int(rng.integers(2, 20))
    value = rng.normal(size=steps)
    result, flags = warped(value.tolist(), [1] * steps, rate, torch.float64)
    time = np.arange(steps) * rate
    inside = time <= steps - 1
    assert flags == inside.tolist()
    np.testing.assert_allclose(
        np.array(result)[inside], np.interp(time[inside], np.arange(steps), value), atol=1e-12
    )


def test_one_rate_moves_all_sequences_of_a_sample() -> None:
    batch = sequence_batch(40, 12)
    before = batch.values["x"].clone()
    values = run(TimeWarp(p=0.5), batch).values
    real = values["x_mask"]
    assert torch.equal(real, values["y_mask"])
    apart = (values["x"][..., 0] - values["y"])[real].abs()
    assert float(apart.max()) <= 0.5
    changed = (values["x"] != before).flatten(1).any(1)
    assert 8 < int(changed.sum()) < 32
    rates = (values["x"][changed, 1, 0] - values["x"][changed, 0, 0]).numpy()
    assert rates.min() >= 0.8 - 1e-4
    assert rates.max() <= 1.25 + 1e-4
    assert len(np.unique(rates.round(3))) > 5


def test_infinities_do_not_leak_into_steps_beside_them() -> None:
    value, _ = warped([1.0, float("inf"), 3.0], [1, 1, 1], 1.0, torch.float32)
    assert value == [1.0, float("inf"), 3.0]


def test_impossible_rates_are_refused() -> None:
    with pytest.raises(ConfigError, match="min_rate must be a number over 0, got 0"):
        TimeWarp(min_rate=0)
    with pytest.raises(ConfigError, match=r"max_rate must be at least min_rate, got 0\.5 under"):
        TimeWarp(max_rate=0.5)
