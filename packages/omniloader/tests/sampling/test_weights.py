from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omniloader.data.memory import DictTensorDataset
from omniloader.errors import StatsError
from omniloader.loader import OmniLoader
from omniloader.sampling.strategies import ProportionalStrategy
from omniloader.sampling.subsamplers import SubsampleConfig
from omniloader.sampling.weights import (
    class_histogram,
    class_weights_for_loss,
    class_weights_for_sampler,
    positive_weights_for_loss,
    weights_of_counts,
)
from omniloader.schema.spec import DatasetSchema, TensorSpec


def masked(ids: torch.Tensor, seed: int = 0, share: float = 0.7) -> DictTensorDataset:
    generator = torch.Generator().manual_seed(seed)
    return DictTensorDataset(
        {"y": ids, "y_mask": torch.rand(ids.shape, generator=generator) < share}
    )


@settings(max_examples=40, deadline=None)
@given(
    ids=st.lists(st.integers(0, 5), min_size=1, max_size=60),
    steps=st.sampled_from([None, 1, 4]),
    dtype=st.sampled_from([torch.int64, torch.uint8, torch.float32]),
    seed=st.integers(0, 9),
)
def test_figures_are_those_of_a_plain_loop(
    ids: list[int], steps: int | None, dtype: torch.dtype, seed: int
) -> None:
    table = torch.tensor(ids)
    if steps is not None:
        table = table.repeat_interleave(steps).reshape(-1, steps)
        table[:, 0] = torch.arange(len(table)) % 6
    source = masked(table.to(dtype), seed)
    mask = source.read_batch(np.arange(len(source)))["y_mask"].table  # type: ignore[union-attr]
    mask.reshape(-1)[0] = True

    positions: Counter[int] = Counter()
    classes: list[int | None] = []
    for row in range(len(source)):
        valid = np.atleast_1d(table[row])[np.atleast_1d(mask[row])].tolist()
        positions.update(valid)
        most = Counter(valid)
        classes.append(min(most, key=lambda c: (-most[c], c)) if valid else None)

    expected = [positions[c] for c in range(6)]
    for samples in (source, [source[i] for i in range(len(source))]):
        counts = class_histogram(samples, "y", num_classes=6)
        assert counts.dtype is torch.int64
        assert counts.tolist() == expected
        inferred = class_histogram(samples, "y")
        assert inferred.tolist() == expected[: max(positions) + 1]
        of_class = Counter(c for c in classes if c is not None)
        weights = [0.0 if c is None else 1 / of_class[c] for c in classes]
        assert class_weights_for_sampler(samples, "y") == weights


@pytest.mark.parametrize("workers", [0, 2])
def test_an_omniloader_counts_the_sources_that_have_the_target(workers: int) -> None:
    y = TensorSpec("y", dtype=torch.int64, time_dim=5)
    labelled = DictTensorDataset({"y": torch.tensor([[0, 2, 2]] * 30)})
    other = DictTensorDataset({"x": torch.zeros(20)})
    schemas = [DatasetSchema([], [y]), DatasetSchema([TensorSpec("x")])]
    omni = OmniLoader([labelled, other], schemas)
    assert class_histogram(omni, "y", workers=workers).tolist() == [30, 0, 60]
    weights = class_weights_for_sampler(omni, "y", workers=workers)
    assert weights == [1 / 30] * 30 + [0.0] * 20


def test_without_a_mask_an_axis_of_class_ids_is_time() -> None:
    samples = [{"y": torch.tensor([1, 1, 0])}, {"y": torch.tensor([2])}, {}]
    assert class_histogram(samples, "y").tolist() == [1, 2, 1]
    assert class_weights_for_sampler(samples, "y") == [1.0, 1.0, 0.0]
    assert class_histogram([{"y": True}, {"y": False}, {"y": True}], "y").tolist() == [1, 2]


def test_the_drawn_histogram_is_flat_to_within_one_draw_a_class() -> None:
    ids = torch.cat([torch.full((n,), c) for c, n in enumerate([700, 200, 80, 20])])
    weights = class_weights_for_sampler(DictTensorDataset({"y": ids}), "y")
    for seed in range(5):
        config = SubsampleConfig(sample_weights=weights)
        strategy = ProportionalStrategy([len(ids)], seed=seed, subsample=config)
        drawn = np.bincount(ids[strategy.epoch_indices(0)], minlength=4)
        assert drawn.sum() == 1000
        assert np.abs(drawn - 250).max() <= 1


@pytest.mark.parametrize(
    ("scheme", "beta", "per_class"),
    [
        ("inverse", 0.999, lambda n: 1 / n),
        ("effective", 0.9, lambda n: (1 - 0.9) / (1 - 0.9**n)),
        ("effective", 0.0, lambda n: 1.0),
    ],
)
def test_loss_weights_follow_the_scheme_and_average_one(
    scheme: str, beta: float, per_class: Callable[[int], float]
) -> None:
    counts = [5, 0, 45, 1]
    samples = [{"y": c} for c, n in enumerate(counts) for _ in range(n)]
    weights = class_weights_for_loss(samples, "y", 5, scheme, beta)
    assert weights.dtype is torch.float32
    raw = np.array([per_class(n) if n else 0.0 for n in [*counts, 0]])
    np.testing.assert_allclose(weights, raw / raw.mean(), rtol=1e-6)
    assert float(weights.mean()) == pytest.approx(1.0)
    assert len(class_weights_for_loss(samples, "y")) == 4


def test_effective_weights_near_beta_one_are_those_of_inverse_frequency() -> None:
    samples = DictTensorDataset({"y": torch.tensor([0] * 10 + [1] * 1000)})
    near = class_weights_for_loss(samples, "y", scheme="effective", beta=1 - 1e-15)
    torch.testing.assert_close(near, class_weights_for_loss(samples, "y"), rtol=1e-3, atol=0)


def test_positive_weights_are_negatives_over_positives() -> None:
    labels = torch.tensor([[1, 0, 1, 0], [0, 0, 1, 0], [0, 0, 1, 1], [0, 0, 1, 1]])
    source = DictTensorDataset({"y": labels, "y_mask": torch.tensor([1, 1, 1, 0])})
    for samples in (source, [source[i] for i in range(4)]):
        weights = positive_weights_for_loss(samples, "y")
        assert weights.dtype is torch.float32
        # Never positive, or always: nothing to balance.
        assert weights.tolist() == [2.0, 1.0, 1.0, 2.0]
    framewise = [{"y": labels.float(), "y_mask": torch.tensor([True, True, True, False])}]
    assert positive_weights_for_loss(framewise, "y").tolist() == [2.0, 1.0, 1.0, 2.0]
    assert positive_weights_for_loss([{"y": 1}, {"y": 0}, {"y": 0}], "y").item() == 2.0
    large = DictTensorDataset({"y": labels.repeat(100, 1)})
    torch.testing.assert_close(
        positive_weights_for_loss(large, "y", workers=2), positive_weights_for_loss(large, "y")
    )


def of(*ids: Any, mask: Any = None) -> list[dict[str, Any]]:
    flags = [True] * len(ids) if mask is None else mask
    return [{"y": i, "y_mask": m, "dataset": "a"} for i, m in zip(ids, flags, strict=True)]


HISTOGRAM = (class_histogram, class_weights_for_loss, class_weights_for_sampler)


@pytest.mark.parametrize("function", HISTOGRAM)
@pytest.mark.parametrize(
    ("samples", "text"),
    [
        (of(0, 1, -1), "sample 2 of 'a': 'y' must hold class ids from 0 where .*, got -1"),
        (of(0, 1.5), "sample 1 of 'a': 'y' must hold whole class ids, got 1.5"),
        (of(0.0, float("nan")), "sample 1 of 'a': 'y' must hold whole class ids, got nan"),
        (of(0, 2**40), r"below num_classes=16777216; give num_classes= if it is right, got 1099"),
        (
            of(torch.zeros(3, dtype=torch.int64)),
            r"one class id a step, got shape \(3,\); for multi",
        ),
        ([{"x": 1}], "'y' is in none of the 1 samples; they hold: x"),
        ([], "'y' needs at least one sample"),
        (of(0, 1, mask=[False, False]), "'y' has no valid position in any sample: all are masked"),
    ],
)
def test_impossible_targets_are_refused_by_key_and_sample(
    function: Any, samples: Any, text: str
) -> None:
    with pytest.raises(StatsError, match=text):
        function(samples, "y")


def test_an_id_is_checked_only_where_it_is_valid() -> None:
    samples = of(0, -100, 1, mask=[True, False, True])
    assert class_histogram(samples, "y").tolist() == [1, 1]
    assert class_weights_for_sampler(samples, "y") == [1.0, 0.0, 1.0]


def test_ids_must_be_below_the_number_of_classes() -> None:
    steps = [{"y": torch.tensor([0, 1]), "y_mask": torch.tensor([True, True])}, *of(3)]
    with pytest.raises(StatsError, match=r"sample 1 of 'a': .* below num_classes=3, got 3"):
        class_histogram(steps, "y", num_classes=3)
    with pytest.raises(ValueError, match="num_classes must be at least 1, got 0"):
        class_histogram(of(0), "y", num_classes=0)
    nothing = of(0, mask=[False])
    assert class_histogram(nothing, "y", num_classes=3).tolist() == [0, 0, 0]
    with pytest.raises(StatsError, match="no valid position"):
        class_weights_for_loss(nothing, "y", num_classes=3)


def test_counts_that_are_there_are_weighed_alike() -> None:
    samples = of(0, 0, 0, 2)
    counts = class_histogram(samples, "y")
    assert torch.equal(weights_of_counts(counts), class_weights_for_loss(samples, "y"))
    with pytest.raises(StatsError, match="counts must not all be 0 to be weighed, got 2 zeros"):
        weights_of_counts(torch.zeros(2, dtype=torch.int64))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"scheme": "square"}, "scheme must be one of inverse, effective, got 'square'"),
        ({"beta": 1.0}, "beta must be at least 0 and below 1, got 1.0"),
        ({"beta": float("nan")}, "beta must be at least 0 and below 1, got nan"),
    ],
)
def test_options_of_loss_weights_are_checked(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        class_weights_for_loss(of(0), "y", **options)


@pytest.mark.parametrize(
    ("samples", "text"),
    [
        (of(torch.tensor([0, 1]), torch.tensor([0, 2])), "'y' must hold labels 0 and 1, got 2"),
        (of(torch.zeros(2), torch.ones(3)), r"must have labels \(2,\) as before, got \(3,\)"),
        (of(torch.zeros(2), mask=[False]), "no valid position"),
        ([{"x": 1}], "'y' is in none of the 1 samples"),
    ],
)
def test_impossible_labels_are_refused(samples: Any, text: str) -> None:
    with pytest.raises(StatsError, match=text):
        positive_weights_for_loss(samples, "y")


@pytest.mark.parametrize("num_classes", [1.5, "3", True])
def test_num_classes_is_a_whole_number(num_classes: object) -> None:
    samples = [{"y": torch.tensor(0), "y_mask": torch.tensor(True)}]
    with pytest.raises(
        StatsError, match=f"num_classes must be a whole number, got {num_classes!r}"
    ):
        class_histogram(samples, "y", num_classes)  # type: ignore[arg-type]
    assert class_histogram(samples, "y", np.int64(2)).tolist() == [1, 0]  # type: ignore[arg-type]
