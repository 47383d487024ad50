from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from transform_cases import SCHEMA, batch_of, draw_for, sequence_batch

from omniloader.errors import ConfigError, SampleError
from omniloader.schema.batch import UnifiedBatch
from omniloader.schema.spec import DatasetSchema, TensorSpec, UnifiedSchema
from omniloader.transforms import (
    BatchTransform,
    FeatureDropout,
    FeatureMasking,
    GaussianNoise,
    SpanMasking,
)


def ones(size: int, steps: int, width: int, mask: Any = None) -> UnifiedBatch:
    """A batch of one feature ``x`` of ones."""
    schema = UnifiedSchema([DatasetSchema([TensorSpec("x", feature_dim=width, time_dim=steps)])])
    flags = np.ones((size, steps)) if mask is None else np.asarray(mask)
    return batch_of({"x": (np.ones((size, steps, width)), flags)}, schema)


def run(transform: BatchTransform, batch: UnifiedBatch, seed: int = 0) -> dict[str, torch.Tensor]:
    result = transform.bind(batch.schema).transform_batch(
        batch, draw_for(len(batch), seed), training=True
    )
    assert isinstance(result, UnifiedBatch)
    return result.values


# -- noise -------------------------------------------------------------------------------------


def test_noise_is_normal_of_the_deviation_asked_for() -> None:
    noise = run(GaussianNoise(std=0.5, p=1.0), ones(50, 20, 8))["x"] - 1
    assert scipy_stats.kstest(noise.flatten().numpy() / 0.5, "norm").pvalue > 1e-3
    rows = noise.reshape(50, -1).numpy()
    correlation = np.corrcoef(rows) - np.eye(50)
    assert np.abs(correlation).max() < 0.45


def test_probability_is_a_share_of_samples() -> None:
    changed = (run(GaussianNoise(p=0.3), ones(2000, 1, 1))["x"] != 1).flatten().double()
    assert float(changed.mean()) == pytest.approx(0.3, abs=0.04)
    assert not bool((run(GaussianNoise(p=0.0), ones(9, 2, 2))["x"] != 1).any())
    assert not bool((run(GaussianNoise(std=0.0, p=1.0), ones(9, 2, 2))["x"] != 1).any())


def test_noise_of_a_value_does_not_depend_on_the_others_in_the_mix() -> None:
    sample = {"a": torch.zeros(4, 2), "b": torch.zeros(4, 2)}
    masks = {f"{name}_mask": torch.ones(4, dtype=torch.bool) for name in sample}
    both = GaussianNoise(["a", "b"], p=1.0).transform_sample(
        {**{k: v.clone() for k, v in sample.items()}, **masks}, draw_for(1), training=True
    )
    alone = GaussianNoise(["b"], p=1.0).transform_sample(
        {**{k: v.clone() for k, v in sample.items()}, **masks}, draw_for(1), training=True
    )
    assert torch.equal(both["b"], alone["b"])
    assert not torch.equal(both["a"], both["b"])


# -- which values ------------------------------------------------------------------------------


def chosen(transform: BatchTransform) -> list[str]:
    bound = transform.bind(SCHEMA)
    return [form.name for form in bound._forms or ()]


def test_defaults_are_the_features_that_fit_and_never_targets() -> None:
    floats = ["audio", "profile", "eye", "wide", "half", "brain"]
    assert chosen(GaussianNoise()) == floats
    assert chosen(FeatureDropout()) == [*floats[:3], "tokens", *floats[3:]]
    assert chosen(SpanMasking()) == ["audio", "eye", "wide", "half", "brain"]
    assert chosen(FeatureMasking()) == ["audio", "profile", "wide", "half", "brain"]
    assert chosen(GaussianNoise(["valence"])) == ["valence"]


def test_without_a_schema_values_with_a_feature_axis_are_taken() -> None:
    flags = torch.ones(4, dtype=torch.bool)
    sample = {
        "x": torch.zeros(4, 2),
        "x_mask": flags,
        "label": torch.zeros(4),
        "label_mask": flags,
        "loose": torch.zeros(4, 2),
        "ids": torch.zeros(4, 2, dtype=torch.int64),
        "ids_mask": flags,
        "key": "k",
    }
    result = GaussianNoise(p=1.0)(sample)
    changed = [
        name
        for name, value in sample.items()
        if torch.is_tensor(value) and not torch.equal(value, result[name])
    ]
    assert changed == ["x"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: GaussianNoise(["nope"], schema=SCHEMA),
            "key 'nope' must be a value of the schema",
        ),
        (
            lambda: GaussianNoise(["tokens"], schema=SCHEMA),
            "key 'tokens' must have a floating dtype",
        ),
        (lambda: SpanMasking(["profile"], schema=SCHEMA), "key 'profile' must be a sequence, got"),
        (
            lambda: FeatureMasking(keys=["eye"], schema=SCHEMA),
            r"key 'eye' must have one feature axis \(F,\) a step, got shape \(2, 6, 5\)",
        ),
        (
            lambda: FeatureMasking(
                schema=DatasetSchema([TensorSpec("eye", shape=(3, 4, 4), time_dim=2)])
            ),
            "the schema must hold a value to act on, got none .'eye' must have one feature axis",
        ),
        (
            lambda: GaussianNoise(schema=DatasetSchema([], [TensorSpec("y")])),
            "it holds no features",
        ),
        (lambda: GaussianNoise("audio"), r"keys must be a list of names, got 'audio'; write \['au"),
        (lambda: GaussianNoise([3]), r"keys must be a list of names, got \[3\]"),  # type: ignore[list-item]
        (lambda: GaussianNoise(["a", "b", "a"]), "key 'a' is named twice"),
        (lambda: GaussianNoise(std=-1), "std must be a number at least 0, got -1"),
        (lambda: GaussianNoise(std=float("nan")), "std must be a number at least 0, got nan"),
        (lambda: GaussianNoise(p=1.5), "p must be a number at least 0 and at most 1, got 1.5"),
        (lambda: FeatureDropout(p=True), "p must be a number at least 0 and at most 1, got True"),
        (lambda: SpanMasking(num_spans=-1), "num_spans must be a whole number of at least 0"),
        (
            lambda: SpanMasking(span_len=2.5),
            "span_len must be a whole number of at least 0, got 2.5",
        ),  # type: ignore[arg-type]
        (lambda: FeatureMasking(max_width=0), "max_width must be a whole number of at least 1"),
    ],
)
def test_wrong_options_and_keys_are_refused_when_made(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_keys_are_checked_against_the_sample_without_a_schema() -> None:
    sample = {"x": torch.zeros(3), "x_mask": torch.ones(3, dtype=torch.bool)}
    with pytest.raises(SampleError, match="key 'z' must be a value of the sample, which holds: x"):
        GaussianNoise(["z"])(sample)
    with pytest.raises(SampleError, match="which holds: nothing"):
        GaussianNoise(["z"])({})
    bound = GaussianNoise(["audio"], schema=SCHEMA)
    with pytest.raises(
        SampleError, match="key 'audio' must be a value of the sample, which holds: x"
    ):
        bound(sample)
    with pytest.raises(SampleError, match=r"'x_mask' must be bool and match .* got torch.float32"):
        GaussianNoise()({"x": torch.zeros(3), "x_mask": torch.ones(3)})
    assert GaussianNoise()({"key": "k"}) == {"key": "k"}
    assert FeatureDropout()({}) == {}
    assert SpanMasking(p=1.0)({}) == {}
    assert FeatureMasking(p=1.0)({}) == {}


# -- dropout -----------------------------------------------------------------------------------


def streams(present: np.ndarray[Any, Any]) -> UnifiedBatch:
    """A batch of several feature streams, some missing in each sample."""
    names = [f"s{k}" for k in range(present.shape[1])]
    schema = UnifiedSchema([DatasetSchema([TensorSpec(n, placeholder=-3.0) for n in names])])
    values = {
        name: (np.where(present[:, k], 1.0, -3.0), present[:, k]) for k, name in enumerate(names)
    }
    return batch_of(values, schema)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**31), p=st.sampled_from([0.3, 0.9, 1.0]), keep=st.booleans())
def test_dropped_streams_are_missing_and_one_is_kept(seed: int, p: float, keep: bool) -> None:
    present = np.random.default_rng(seed).random((30, 4)) < 0.6
    values = run(FeatureDropout(p=p, keep_at_least_one=keep), streams(present), seed)
    left = np.stack([values[f"s{k}_mask"].numpy() for k in range(4)], 1)
    for k in range(4):
        assert (values[f"s{k}"].numpy() == np.where(left[:, k], 1.0, -3.0)).all()
    assert not (left & ~present).any()
    if keep:
        assert (left.any(1) == present.any(1)).all()
    elif p == 1.0:
        assert not left.any()


def test_the_kept_stream_is_a_random_one() -> None:
    values = run(FeatureDropout(p=1.0), streams(np.ones((900, 3), dtype=bool)))
    kept = np.stack([values[f"s{k}_mask"].numpy() for k in range(3)], 1)
    assert (kept.sum(1) == 1).all()
    assert kept.mean(0) == pytest.approx([1 / 3] * 3, abs=0.06)


def test_streams_are_dropped_each_by_itself() -> None:
    values = run(FeatureDropout(p=0.2), streams(np.ones((2000, 3), dtype=bool)))
    dropped = ~np.stack([values[f"s{k}_mask"].numpy() for k in range(3)], 1)
    assert dropped.mean(0) == pytest.approx([0.2] * 3, abs=0.04)
    assert np.abs(np.corrcoef(dropped.T) - np.eye(3)).max() < 0.1


# -- spans -------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**31), span_len=st.integers(0, 9), num_spans=st.integers(0, 3))
def test_spans_are_consecutive_real_steps(seed: int, span_len: int, num_spans: int) -> None:
    mask = np.random.default_rng(seed).random((12, 8)) < 0.6
    batch = ones(12, 8, 2, mask)
    values = run(SpanMasking(num_spans=num_spans, span_len=span_len, p=1.0), batch, seed)
    assert (values["x_mask"].numpy() == mask).all()
    zero = (values["x"] == 0).numpy()
    assert (zero.all(-1) == zero.any(-1)).all()
    for row in range(12):
        real = zero[row, mask[row], 0]
        widest = min(span_len, len(real))
        assert real.sum() <= num_spans * widest
        if num_spans == 1:
            assert real.sum() == widest
            assert np.diff(np.flatnonzero(real)).max(initial=1) == 1
    assert not zero[~mask].any()


def test_spans_reach_every_place_alike() -> None:
    values = run(SpanMasking(span_len=2, p=1.0), ones(4000, 5, 1))
    starts = (values["x"][..., 0] == 0).double().argmax(1)
    counts = np.bincount(starts.numpy(), minlength=4)
    assert scipy_stats.chisquare(counts).pvalue > 1e-3


# -- bands -------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**31), width=st.integers(1, 6), max_width=st.integers(1, 8))
def test_bands_are_neighbouring_features_of_all_real_steps(
    seed: int, width: int, max_width: int
) -> None:
    mask = np.random.default_rng(seed).random((12, 5)) < 0.7
    values = run(FeatureMasking(1, max_width, p=1.0), ones(12, 5, width, mask), seed)
    zero = (values["x"] == 0).numpy()
    assert not zero[~mask].any()
    for row in range(12):
        steps = zero[row, mask[row]]
        assert (steps == steps[:1]).all()
        if len(steps):
            band = np.flatnonzero(steps[0])
            assert 1 <= len(band) <= min(max_width, width)
            assert np.diff(band).max(initial=1) == 1


def test_band_widths_are_uniform_up_to_the_widest() -> None:
    values = run(FeatureMasking(1, 3, p=1.0), ones(3000, 1, 8))
    widths = (values["x"] == 0).sum((1, 2)).numpy()
    assert scipy_stats.chisquare(np.bincount(widths)[1:]).pvalue > 1e-3
    assert widths.max() == 3


def test_two_bands_and_an_inactive_batch() -> None:
    assert int((run(FeatureMasking(2, 1, p=1.0), ones(50, 1, 9))["x"] == 0).sum((1, 2)).max()) == 2
    for transform in (FeatureMasking(p=0.0), SpanMasking(p=0.0)):
        assert bool((run(transform, ones(5, 4, 3))["x"] == 1).all())


def test_a_view_that_is_not_contiguous_is_written_all_the_same() -> None:
    batch = sequence_batch(3, 4, width=2)
    turned = batch.values["x"].transpose(0, 2).contiguous().transpose(0, 2)
    assert not turned.is_contiguous()
    batch.values["x"] = turned
    values = run(SpanMasking(span_len=4, p=1.0), batch)
    assert bool((values["x"] == 0).all())


def test_apply_is_open_to_pipelines_of_ones_own() -> None:
    sample = {"x": torch.zeros(3, 2), "x_mask": torch.ones(3, dtype=torch.bool)}
    results = [
        GaussianNoise(["x"], p=1.0).apply(
            {name: value.clone() for name, value in sample.items()},
            torch.Generator().manual_seed(seed),
        )["x"]
        for seed in (1, 1, 2)
    ]
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
