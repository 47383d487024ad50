from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from transform_cases import SCHEMA, draw_for, sequence_batch

from omniloader._types import Sample
from omniloader.errors import ConfigError, SampleError
from omniloader.schema.batch import UnifiedBatch
from omniloader.transforms import Compose, Draw, GaussianNoise, Transform


class Scaled(Transform):
    """Multiplies in place by a random number."""

    def apply(self, sample: Sample, generator: torch.Generator) -> Sample:
        sample["x"][sample["x_mask"]] *= 1 + torch.rand((), generator=generator)
        return sample


class Function(Transform):
    """Whatever a test needs."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def apply(self, sample: Sample, generator: torch.Generator) -> Sample:
        return self.function(sample)  # type: ignore[no-any-return]


class TrainOnly(Scaled):
    train_only = True


def assert_paths_agree(transform: Transform, batch: UnifiedBatch) -> UnifiedBatch | list[Sample]:
    draw = draw_for(len(batch))
    singles = [
        transform.transform_sample(
            {k: v.clone() if torch.is_tensor(v) else v for k, v in row.items()},
            draw.row(i),
            training=True,
        )
        for i, row in enumerate(batch)
    ]
    result = transform.transform_batch(batch, draw, training=True)
    for one, other in zip(singles, result, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            if torch.is_tensor(value):
                assert torch.equal(value, other[name]), name
            else:
                assert value == other[name], name
    return result


# -- draws -------------------------------------------------------------------------------------


def test_keys_depend_on_seed_epoch_index_visit_place_and_purpose() -> None:
    def key(seed: int = 0, epoch: int = 1, index: int = 2, visit: int = 3) -> Draw:
        return Draw(seed, np.array([epoch]), np.array([index]), np.array([visit]))

    base = key().keys((0,))
    others = [
        key(seed=1).keys((0,)),
        key(epoch=0).keys((0,)),
        key(index=1).keys((0,)),
        key(visit=0).keys((0,)),
        key(epoch=2, index=1).keys((0,)),
        key().keys((1,)),
        key().keys((0, 0)),
        key().keys(()),
        key().keys((0,), "other"),
    ]
    assert base.dtype == np.uint64
    assert len({int(keys[0]) for keys in [base, *others]}) == 1 + len(others)
    assert base == key().keys((0,))


def test_a_row_of_a_draw_has_the_keys_of_that_row() -> None:
    draw = draw_for(5)
    assert [int(draw.row(i).keys((1,))[0]) for i in range(5)] == draw.keys((1,)).tolist()


# -- a transform of one's own ------------------------------------------------------------------


def test_in_place_writes_reach_the_batch_without_copies() -> None:
    batch = sequence_batch(4, 6, lengths=[6, 0, 1, 3])
    before = batch.values["x"]
    result = assert_paths_agree(Scaled(), batch)
    assert isinstance(result, UnifiedBatch)
    assert result.values["x"] is before


def test_new_tensors_of_the_same_form_are_copied_back() -> None:
    def doubled(sample: Sample) -> Sample:
        return {**sample, "x": sample["x"] * 2, "key": sample["key"] + "!"}

    result = assert_paths_agree(Function(doubled), sequence_batch(3, 4))
    assert isinstance(result, UnifiedBatch)
    assert result.metadata["key"] == ["k!"] * 3


def test_swapped_views_do_not_overwrite_each_other() -> None:
    def reversed_time(sample: Sample) -> Sample:
        sample["x"], sample["x_mask"] = sample["x"].flip(0), sample["x_mask"].flip(0)
        sample["y"] = sample["y"][torch.arange(len(sample["y"])).flip(0)]
        return sample

    assert isinstance(
        assert_paths_agree(Function(reversed_time), sequence_batch(3, 4)), UnifiedBatch
    )

    def first_swapped(sample: Sample) -> Sample:
        sample["y"], sample["y2"] = sample["y2"], sample["y"]
        return sample

    batch = sequence_batch(3, 4)
    batch.values["y2"], batch.values["y2_mask"] = batch.values["y"] * 7, batch.values["y_mask"]
    old, old2 = batch.values["y"].clone(), batch.values["y2"].clone()
    result = Function(first_swapped).transform_batch(batch, draw_for(3), training=True)
    assert isinstance(result, UnifiedBatch)
    assert torch.equal(result.values["y"], old2)
    assert torch.equal(result.values["y2"], old)


@pytest.mark.parametrize(
    "change",
    [
        lambda sample: {**sample, "x": sample["x"][:2], "x_mask": sample["x_mask"][:2]},
        lambda sample: {**sample, "x": sample["x"].double()},
        lambda sample: {**sample, "extra": torch.ones(2)},
        lambda sample: {**sample, "index": sample["index"] + 1},
        lambda sample: {name: value for name, value in sample.items() if name != "y"},
        lambda sample: {**sample, "y": "text"},
    ],
)
def test_what_no_longer_stacks_becomes_a_list_of_samples(change: Any) -> None:
    pipeline = Compose([Scaled(), Function(change), Scaled(), GaussianNoise(["x"], p=1.0)])
    result = assert_paths_agree(pipeline, sequence_batch(3, 4))
    assert isinstance(result, list)


def test_native_lengths_reach_the_users_transform() -> None:
    batch = sequence_batch(3, 5, lengths=[5, 0, 2])
    lengths = np.array([5, 0, 2])
    native = batch.with_values(batch.values, {"x": lengths, "y": lengths})
    seen: list[int] = []

    def note(sample: Sample) -> Sample:
        seen.append(len(sample["x"]))
        return sample

    result = Function(note).transform_batch(native, draw_for(3), training=True)
    assert seen == [5, 0, 2]
    assert isinstance(result, UnifiedBatch)
    assert result.lengths is native.lengths


def test_forgetting_to_return_the_sample_is_an_error() -> None:
    transform = Function(lambda sample: None)
    with pytest.raises(SampleError, match="apply must return the sample as a dict, got N"):
        transform({"x": torch.ones(1)})


# -- the gate ----------------------------------------------------------------------------------


@pytest.mark.parametrize("training", [True, False])
def test_train_only_has_one_gate_for_every_way_in(training: bool) -> None:
    transform = Compose([TrainOnly(), Compose([TrainOnly()])])
    batch = sequence_batch(3, 4)
    before = batch.values["x"].clone()
    sample = {"x": torch.ones(4, 1), "x_mask": torch.ones(4, dtype=torch.bool)}
    called = transform(sample, training=training)
    single = transform.transform_sample(batch[0], draw_for(3).row(0), training=False)
    assert torch.equal(single["x"], before[0])
    batched = transform.transform_batch(batch, draw_for(3), training=training)
    assert torch.equal(called["x"], sample["x"]) is not training
    assert torch.equal(batched.values["x"], before) is not training  # type: ignore[union-attr]


def test_compose_applies_all_children_as_in_training() -> None:
    sample = {"x": torch.ones(4, 1), "x_mask": torch.ones(4, dtype=torch.bool)}
    result = Compose([TrainOnly()]).apply(sample, torch.Generator().manual_seed(1))
    assert bool((result["x"] > 1).all())


# -- a direct call -----------------------------------------------------------------------------


def test_a_direct_call_copies_and_repeats_with_its_generator() -> None:
    sample = {"x": torch.ones(4, 1), "x_mask": torch.ones(4, dtype=torch.bool), "key": "k"}
    state = torch.get_rng_state()
    first, second = (Scaled()(sample, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first["x"], second["x"])
    assert torch.equal(sample["x"], torch.ones(4, 1))
    assert torch.equal(torch.get_rng_state(), state)


def test_without_a_generator_calls_differ_and_manual_seed_repeats_them() -> None:
    sample = {"x": torch.ones(4, 1), "x_mask": torch.ones(4, dtype=torch.bool)}
    noise = GaussianNoise(["x"], p=1.0)
    torch.manual_seed(5)
    first, second = noise(sample), noise(sample)
    torch.manual_seed(5)
    again = noise(sample)
    assert not torch.equal(first["x"], second["x"])
    assert torch.equal(first["x"], again["x"])


# -- pipelines ---------------------------------------------------------------------------------


def test_the_same_transform_twice_draws_different_numbers() -> None:
    noise = GaussianNoise(["x"], p=1.0)
    zero = {"x": torch.zeros(4, 1), "x_mask": torch.ones(4, dtype=torch.bool)}
    draw = draw_for(1)
    once = noise.transform_sample(dict(zero, x=zero["x"].clone()), draw, training=True, place=(0,))
    twice = Compose([noise, noise]).transform_sample(
        dict(zero, x=zero["x"].clone()), draw, training=True
    )
    assert not torch.allclose(twice["x"], 2 * once["x"])


def test_nesting_changes_places_and_pipelines_pickle() -> None:
    pipeline = Compose([Scaled(), Compose([Scaled()])])
    assert len(pipeline) == 2
    copy = pickle.loads(pickle.dumps(pipeline))  # noqa: S301
    draw = draw_for(1)
    results = [
        part.transform_sample(sequence_batch(1, 3)[0], draw, training=True)["x"]
        for part in (pipeline, copy, Compose([Scaled(), Scaled()]))
    ]
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_compose_takes_only_transforms_and_binds_them() -> None:
    with pytest.raises(ConfigError, match=r"transforms\[1\] must be a Transform, got function"):
        Compose([Scaled(), lambda sample: sample])  # type: ignore[list-item]
    noise = GaussianNoise()
    pipeline = Compose([noise])
    bound = pipeline.bind(SCHEMA)
    assert noise.schema is None
    assert bound.transforms[0].schema is SCHEMA  # type: ignore[attr-defined]
    assert repr(pipeline) == "Compose([GaussianNoise(std=0.1, p=0.5, keys=None)])"
