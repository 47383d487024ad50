from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transform_cases import SCHEMA, STATS, batch_of, draw_for, figures

from omniloader.errors import ConfigError, SampleError, StatsError
from omniloader.schema.spec import DatasetSchema, TensorSpec, UnifiedSchema
from omniloader.transforms import (
    InstanceNormalize,
    MinMaxNormalize,
    Normalize,
    PerDatasetNormalize,
    RobustNormalize,
    compute_dataset_stats,
    compute_feature_stats,
    compute_stats,
)

FIGURES = {
    Normalize: ("mean", "std"),
    MinMaxNormalize: ("min", "max"),
    RobustNormalize: ("median", "iqr"),
}


def sample(value: Any, mask: Any = None, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
    tensor = torch.as_tensor(value, dtype=dtype)
    flags = torch.ones(len(tensor)) if mask is None else torch.as_tensor(mask)
    return {"x": tensor, "x_mask": flags.bool()}


def vector_schema(name: str = "x", **options: Any) -> UnifiedSchema:
    return UnifiedSchema([DatasetSchema([TensorSpec(name, **options)])])


# -- numbers -----------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    offset=st.sampled_from([0.0, 1.0, -300.0, 1e6]),
    spread=st.sampled_from([1e-2, 1.0, 1e3]),
    cls=st.sampled_from(list(FIGURES)),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_numbers_agree_with_numpy_in_float64(
    seed: int, offset: float, spread: float, cls: Any, dtype: torch.dtype
) -> None:
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(offset, spread, (6, 3))).to(dtype)
    mask = rng.random(6) < 0.7
    first, second = x[mask].double().numpy().min(0, initial=offset), np.array([spread, 0.0, 2e-7])
    shift, width = (first, second) if cls is not MinMaxNormalize else (first, first + second)
    transform = cls({"x": dict(zip(FIGURES[cls], (shift, width), strict=True))})
    result = transform(sample(x, mask, dtype))["x"]
    scale = np.where(np.abs(second) > 1e-6, second, 1.0)
    expected = np.where(mask[:, None], (x.double().numpy() - shift) / scale, x.double().numpy())
    assert result.dtype is dtype
    np.testing.assert_allclose(result.double().numpy(), expected, rtol=1e-5, atol=3e-6)


def test_a_far_mean_loses_no_digits() -> None:
    x = torch.tensor([[16777216.0], [16777218.0]])
    result = Normalize({"x": (16777217.0, 1.0)})(sample(x))["x"]
    assert result.flatten().tolist() == [-1.0, 1.0]


def test_constant_values_are_shifted_only_and_stay_finite() -> None:
    for cls, (first, second) in FIGURES.items():
        width = 5.0 if cls is MinMaxNormalize else 0.0
        result = cls({"x": {first: 5.0, second: width}})(sample([[5.0], [6.0]]))["x"]
        assert result.flatten().tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("mean", "expected"),
    [
        (1.0, torch.full((2, 2), 1.0)),
        ([1.0, 2.0, 3.0], torch.tensor([1.0, 2.0, 3.0])[:, None, None].expand(3, 2, 2)),
        (torch.arange(12.0).reshape(3, 2, 2), torch.arange(12.0).reshape(3, 2, 2)),
        (torch.tensor([[[1.0]], [[2.0]], [[3.0]]]), torch.tensor([1.0, 2, 3])[:, None, None]),
    ],
)
def test_structured_values_take_one_figure_one_a_channel_or_one_an_element(
    mean: Any, expected: Any
) -> None:
    x = torch.zeros(4, 3, 2, 2)
    std = torch.ones_like(torch.as_tensor(mean))
    result = Normalize({"x": {"mean": mean, "std": std}})(sample(x))["x"]
    assert torch.equal(result, -expected.expand(4, 3, 2, 2))


def test_nan_stays_where_it_is() -> None:
    result = Normalize({"x": (0.0, 2.0)})(sample([[2.0], [float("nan")], [4.0]]))["x"].flatten()
    assert torch.equal(result.nan_to_num(-1), torch.tensor([1.0, -1.0, 2.0]))


def test_float16_results_are_finite_or_an_error() -> None:
    stats = {"x": (0.0, 1e-3)}
    fine = Normalize(stats)(sample([[60.0]], dtype=torch.float16))["x"]
    assert fine.dtype is torch.float16
    assert float(fine) == pytest.approx(60000, rel=1e-2)
    with pytest.raises(
        SampleError, match=r"'x': transformed values must stay within float16.*128000"
    ):
        Normalize(stats)(sample([[128.0]], dtype=torch.float16))
    kept = Normalize(stats)(sample([[float("inf")]], dtype=torch.float16))["x"]
    assert bool(kept.isinf())


# -- figures -----------------------------------------------------------------------------------


def test_figures_of_compute_stats_are_taken_as_they_are() -> None:
    samples = [
        {"x": torch.randn(5, 3), "x_mask": torch.arange(5) < 3, "dataset": "ab"[i % 2]}
        for i in range(8)
    ]
    for stats in (compute_stats(samples, ["x"]), compute_feature_stats(samples, ["x"])):
        results = [Normalize(stats)(one)["x"][:3] for one in samples]
        rows = torch.cat(results).double()
        torch.testing.assert_close(rows.mean(0), torch.zeros(3).double(), atol=1e-5, rtol=0)
        torch.testing.assert_close(
            rows.std(0, unbiased=False), torch.ones(3).double(), atol=1e-4, rtol=0
        )
    per_dataset = compute_dataset_stats(samples, ["x"])
    results = [PerDatasetNormalize(per_dataset)(one)["x"][:3] for one in samples[::2]]
    assert float(torch.cat(results).mean()) == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize(
    ("stats", "message"),
    [
        ({}, "stats must be a mapping from keys to figures"),
        ({"x": {"mean": 0}}, "stats of 'x' must hold mean, std, got mean; compute them"),
        ({"x": {}}, "got nothing"),
        ({"x": 3}, "stats of 'x' must be a mapping with mean, std, got int"),
        ({"x": {"mean": 0, "std": "wide"}}, "std of 'x' must be numbers, got 'wide'"),
        ({"x": {"mean": float("nan"), "std": 1}}, "mean of 'x' must be finite, got nan"),
        ({"x": {"mean": 0, "std": [1, float("inf")]}}, "std of 'x' must be finite"),
        ({"x": {"mean": 0, "std": -1}}, "spread of 'x' must not be negative, got -1"),
        ({"x": {"mean": [0, 0], "std": [1, 1, 1]}}, r"must have one shape, got mean \(2,\), std"),
        ({"a": {"x": {"mean": 0, "std": 1}}}, "these look like stats per dataset"),
    ],
)
def test_unusable_figures_are_refused_by_name(stats: Any, message: str) -> None:
    with pytest.raises(StatsError, match=message):
        Normalize(stats)


def test_a_range_upside_down_is_refused() -> None:
    with pytest.raises(StatsError, match="MinMaxNormalize: the spread of 'x' must not be negative"):
        MinMaxNormalize({"x": {"min": 1.0, "max": 0.0}})


def test_pairs_are_only_taken_for_mean_and_std() -> None:
    with pytest.raises(StatsError, match="must be a mapping with median, iqr, got tuple"):
        RobustNormalize({"x": (0.0, 1.0)})


def test_figures_of_another_width_are_refused() -> None:
    with pytest.raises(StatsError, match=r"figures of 'x' must have the shape of a step, \(2,\)"):
        Normalize({"x": ([0.0] * 3, [1.0] * 3)})(sample(torch.ones(4, 2)))
    with pytest.raises(StatsError, match=r"\(2,\) by channel, or be one number, got \(3,\)"):
        Normalize({"x": ([0.0] * 3, [1.0] * 3)})(sample(torch.ones(4, 2, 2)))


def test_keys_choose_among_the_figures() -> None:
    two = {"x": (1.0, 1.0), "z": (1.0, 1.0)}
    assert float(Normalize(two, keys=["x"])(sample([[1.0]]))["x"]) == 0
    with pytest.raises(StatsError, match="must hold the key 'w', which holds: x, z"):
        Normalize(two, keys=["w"])
    with pytest.raises(StatsError, match="key 'z' must be a value of the sample, which holds: x"):
        Normalize(two)(sample([[1.0]]))
    with pytest.raises(StatsError, match="key 'z' must be a value of the schema, which holds: x"):
        Normalize(two, schema=vector_schema())


def test_integers_are_refused_since_they_would_be_cut() -> None:
    with pytest.raises(StatsError, match=r"key 'x' must have a floating dtype, got torch.int64"):
        Normalize({"x": (0.0, 1.0)}, schema=vector_schema(dtype=torch.int64))
    with pytest.raises(StatsError, match=r"must have a floating dtype, got torch.uint8"):
        Normalize({"x": (0.0, 1.0)})(sample([1, 2], dtype=torch.uint8))


def test_a_wrong_eps_is_refused() -> None:
    with pytest.raises(ConfigError, match="eps must be a number at least 0, got -1"):
        Normalize({"x": (0.0, 1.0)}, eps=-1)


# -- inverse -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", list(FIGURES))
def test_inverse_brings_samples_and_batches_back(cls: Any) -> None:
    stats = {"audio": STATS["audio"] | {"max": [2.0, 1, 1, 0, 4]}, "valence": STATS["valence"]}
    transform = cls(stats, schema=SCHEMA)
    audio, mask = torch.randn(2, 7, 5), torch.rand(2, 7) < 0.6
    batch = {"audio": audio, "audio_mask": mask, "dataset": ["a", "b"]}
    singles = {"audio": audio[0], "audio_mask": mask[0], "valence": torch.randn(7)}
    normalized = cls(stats, keys=["audio"])(dict(singles))
    back = transform.inverse({**normalized, "other": 3})
    torch.testing.assert_close(back["audio"], audio[0], atol=1e-5, rtol=1e-5)
    assert back["other"] == 3
    units = transform.inverse(batch)["audio"]
    assert torch.equal(units[~mask], audio[~mask])
    assert not torch.equal(units[mask], audio[mask])


def test_inverse_takes_predictions_of_any_leading_axes_and_keeps_gradients() -> None:
    transform = Normalize({"y": (10.0, 2.0), "x": ([0.0, 1.0], [1.0, 2.0])})
    y = torch.ones(2, 3, 4, requires_grad=True)
    result = transform.inverse({"y": y, "x": torch.ones(6, 2), "key": "k"})
    assert torch.equal(result["y"], torch.full((2, 3, 4), 12.0))
    assert torch.equal(result["x"], torch.tensor([[1.0, 3.0]]).expand(6, 2))
    result["y"].sum().backward()
    assert torch.equal(y.grad, torch.full((2, 3, 4), 2.0))


# -- by itself ---------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    trailing=st.sampled_from([(), (3,), (2, 3, 4)]),
    offset=st.sampled_from([0.0, 1e4]),
)
def test_instance_numbers_agree_with_numpy(
    seed: int, trailing: tuple[int, ...], offset: float
) -> None:
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(np.asarray(rng.normal(offset, 2, (9, *trailing)), dtype=np.float32))
    mask = rng.random(9) < 0.6
    mask[:2] = True
    result = InstanceNormalize(["x"])(sample(x, mask))["x"].numpy()
    real = x.double().numpy()[mask]
    over = (0, *range(2, real.ndim))
    mean, std = real.mean(over, keepdims=True), real.std(over, keepdims=True)
    np.testing.assert_allclose(result[mask], (real - mean) / std, atol=1e-5)
    assert (result[~mask] == x.numpy()[~mask]).all()


def test_a_single_or_constant_step_becomes_zero() -> None:
    one = InstanceNormalize(["x"])(sample([[5.0], [7.0]], [1, 0]))["x"]
    assert one.flatten().tolist() == [0.0, 7.0]
    same = InstanceNormalize(["x"])(sample([[0.1]] * 3))["x"]
    assert same.flatten().tolist() == [0.0] * 3
    assert InstanceNormalize(["x"])(sample(torch.ones(0, 2)))["x"].shape == (0, 2)


def test_nan_would_spread_and_is_an_error_that_names_the_sample() -> None:
    bad = {**sample([[1.0], [float("inf")]]), "dataset": "faces", "key": "s7"}
    with pytest.raises(SampleError, match="'x' of dataset 'faces', key 's7' must be finite"):
        InstanceNormalize(["x"])(bad)
    with pytest.raises(SampleError, match="'x' of this sample must be finite"):
        InstanceNormalize(["x"])(sample([[float("nan")]]))
    masked = InstanceNormalize(["x"])(sample([[1.0], [float("nan")], [3.0]], [1, 0, 1]))["x"]
    assert masked[::2].flatten().tolist() == [-1.0, 1.0]


def test_a_vector_cannot_be_normalised_by_itself() -> None:
    with pytest.raises(
        ConfigError, match=r"key 'x' must be a sequence, got a vector of shape \(3,\)"
    ):
        InstanceNormalize(["x"], schema=vector_schema(feature_dim=3))


# -- by source ---------------------------------------------------------------------------------


def per_source(fallback: Any = "instance", **options: Any) -> PerDatasetNormalize:
    stats = {"a": {"x": (1.0, 2.0)}, "b": {"x": (100.0, 10.0), "z": (0.0, 1.0)}}
    return PerDatasetNormalize(stats, fallback, keys=["x"], **options)


def test_each_sample_gets_the_figures_of_its_source() -> None:
    schema = vector_schema(feature_dim=1, time_dim=2)
    values = {"x": (torch.full((4, 2, 1), 5.0), torch.ones(4, 2))}
    batch = batch_of(values, schema, dataset=["b", "a", "b", "a"])
    result = per_source(schema=schema).transform_batch(batch, draw_for(4), training=False)
    assert [float(one["x"][0]) for one in result] == [-9.5, 2.0, -9.5, 2.0]


@pytest.mark.parametrize("source", ["c", None])
@pytest.mark.parametrize(
    ("fallback", "expected"),
    [("instance", [-1.0, 1.0]), ("identity", [4.0, 8.0]), ("union", [1.0, 3.0])],
)
def test_an_unseen_source_takes_the_fallback(
    source: str | None, fallback: str, expected: list[float]
) -> None:
    transform = per_source(fallback, union_stats={"x": (2.0, 2.0)})
    result = transform({**sample([[4.0], [8.0]]), "dataset": source})["x"]
    assert result.flatten().tolist() == expected


def test_a_seen_source_without_figures_for_a_key_takes_the_fallback_too() -> None:
    stats = {"a": {"x": (0.0, 1.0)}, "b": {"z": (100.0, 1.0)}}
    both = {**sample([[4.0], [8.0]]), "z": torch.ones(1), "z_mask": torch.tensor([False])}
    result = PerDatasetNormalize(stats, "identity")({**both, "dataset": "b"})
    assert result["x"].flatten().tolist() == [4.0, 8.0]
    assert PerDatasetNormalize(stats, "identity")(both)["x"].flatten().tolist() == [4.0, 8.0]


def test_instance_fallback_refuses_a_vector() -> None:
    vector = {"x": torch.ones(1), "x_mask": torch.tensor(True), "dataset": "c"}
    with pytest.raises(
        StatsError, match="must hold 'x' for source 'c', got sources a, b; a vector"
    ):
        per_source()(vector)
    masked = {**vector, "x_mask": torch.tensor(False)}
    assert torch.equal(per_source()(masked)["x"], torch.ones(1))


def test_another_metadata_key_may_name_the_source() -> None:
    transform = PerDatasetNormalize({"s": {"x": (1.0, 1.0)}}, dataset_key="speaker")
    assert float(transform({**sample([[3.0]]), "speaker": "s"})["x"]) == 2.0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"stats": {"a": 3}}, StatsError, "stats of source 'a' must map keys to figures, got int"),
        ({"stats": {"a": {"x": {"mean": 0}}}}, StatsError, "stats of 'a/x' must hold mean, std"),
        ({"stats": {"a": {"x": (0, 1)}}, "fallback": "mean"}, ConfigError, "must be one of inst"),
        (
            {"stats": {"a": {"x": (0, 1)}}, "fallback": "union"},
            StatsError,
            "union_stats must be given",
        ),
        (
            {"stats": {"a": {"x": (0, 1)}}, "fallback": "union", "union_stats": {"z": (0, 1)}},
            StatsError,
            "stats must hold the key 'x', which holds: z",
        ),
        (
            {"stats": {"a": {"x": (0, 1)}}, "keys": ["q"]},
            StatsError,
            "hold the key 'q' for some so",
        ),
        ({"stats": {}}, StatsError, "PerDatasetNormalize: stats must be a mapping"),
        (
            {"stats": {"x": {"mean": 0.0, "std": 1.0}}},
            StatsError,
            "got figures for 'x' itself, as of compute_stats; make them by source",
        ),
    ],
)
def test_unusable_stats_of_sources_are_refused(options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        PerDatasetNormalize(**options)


def test_figures_of_another_width_name_the_source() -> None:
    with pytest.raises(StatsError, match=r"PerDatasetNormalize \(a\): figures of 'x'"):
        PerDatasetNormalize({"a": {"x": ([0.0] * 3, [1.0] * 3)}})(
            {**sample([[1.0, 2]]), "dataset": "a"}
        )


def test_stats_of_all_figures_serve_every_normaliser() -> None:
    stats = {"x": figures(0.0, 1.0)}
    for cls in FIGURES:
        assert float(cls(stats)(sample([[3.0]]))["x"]) == 3.0
