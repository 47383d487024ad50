"""A check that cannot fail is none: every clause of the contract is broken once."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from transform_cases import SCHEMA

from omniloader._types import Sample
from omniloader.schema.spec import DatasetSchema, TensorSpec
from omniloader.testing import check_transform
from omniloader.transforms import BatchTransform, Stack, Transform
from omniloader.transforms.batched import Keys

PLAIN = DatasetSchema([TensorSpec("x", feature_dim=3, time_dim=6, placeholder=-1.0)])


class User(Transform):
    """Runs a function of (value, mask, generator) on ``x``."""

    train_only = True

    def __init__(self, function: Any) -> None:
        self.function = function

    def apply(self, sample: Sample, generator: torch.Generator) -> Sample:
        changed = self.function(sample["x"], sample["x_mask"], generator)
        return sample if changed is None else {**sample, **changed}


def gain(x: torch.Tensor, mask: torch.Tensor, generator: torch.Generator) -> None:
    x[mask] *= 1 + torch.rand((), generator=generator)


def unmask(x: torch.Tensor, mask: torch.Tensor, generator: torch.Generator) -> None:
    mask[:] = True


def drop(x: torch.Tensor, mask: torch.Tensor, generator: torch.Generator) -> None:
    mask[:] = False


def overflow(x: torch.Tensor, mask: torch.Tensor, generator: torch.Generator) -> None:
    x[mask] = float("inf")


def pad_too(x: torch.Tensor, mask: torch.Tensor, generator: torch.Generator) -> None:
    x += 1


def sees_padding(x: torch.Tensor, mask: torch.Tensor, generator: torch.Generator) -> None:
    x[mask] += len(x)


def python_rng(x: torch.Tensor, mask: torch.Tensor, generator: torch.Generator) -> None:
    random.random()


def numpy_rng(x: torch.Tensor, mask: torch.Tensor, generator: torch.Generator) -> None:
    np.random.rand()


def torch_rng(x: torch.Tensor, mask: torch.Tensor, generator: torch.Generator) -> None:
    torch.rand(())


def shorter(x: torch.Tensor, mask: torch.Tensor, generator: torch.Generator) -> Any:
    return {"x": x[:2], "x_mask": mask[:2]}


def doubled(x: torch.Tensor, mask: torch.Tensor, generator: torch.Generator) -> Any:
    return {"x": x.double()}


def narrow(x: torch.Tensor, mask: torch.Tensor, generator: torch.Generator) -> Any:
    return {"x": x[:, :1]}


def test_a_transform_of_ones_own_passes() -> None:
    check_transform(User(gain), PLAIN)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (unmask, "'x' must not become real where it was masked"),
        (drop, "'x' must be the placeholder where it becomes masked"),
        (overflow, "'x' must stay finite"),
        (pad_too, "'x' must stay bit for bit where it is masked"),
        (sees_padding, "'x' must be the same with more padding"),
        (python_rng, "User draws from a global generator"),
        (numpy_rng, "User draws from a global generator"),
        (torch_rng, "User draws from a global generator"),
        (shorter, r"'x' must keep its number of steps \(or pass moves_time=True\)"),
        (doubled, "'x' must keep its dtype torch.float32"),
        (narrow, "'x' must keep its step shape"),
    ],
)
def test_what_breaks_the_contract_is_named(function: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_transform(User(function), PLAIN)


def test_moving_time_is_allowed_when_said() -> None:
    check_transform(User(shorter), PLAIN, moves_time=True)
    with pytest.raises(AssertionError, match="must hold placeholders or masked steps where masked"):
        check_transform(User(drop), PLAIN, moves_time=True)
    with pytest.raises(AssertionError, match="'x' must leave padding alone"):
        check_transform(User(LatePadding()), PLAIN, moves_time=True)


class LatePadding:
    """Makes the very last step real, whatever is padding."""

    def __call__(self, x: torch.Tensor, mask: torch.Tensor, generator: torch.Generator) -> None:
        if len(x) > 6:
            mask[-1] = True


class Stateful(Transform):
    def __init__(self) -> None:
        self.calls = 0

    def apply(self, sample: Sample, generator: torch.Generator) -> Sample:
        self.calls += 1
        return {**sample, f"seen{self.calls}": 1}


class Counting(Transform):
    def __init__(self) -> None:
        self.calls = 0

    def apply(self, sample: Sample, generator: torch.Generator) -> Sample:
        self.calls += 1
        sample["x"][sample["x_mask"]] += self.calls
        return sample


class KeepsGenerator(Counting):
    def __init__(self, stored: Any) -> None:
        super().__init__()
        self.stored = stored


def test_results_must_not_depend_on_what_ran_before() -> None:
    with pytest.raises(AssertionError, match="sample 0: 'x' must be the same after pickling"):
        check_transform(Counting(), PLAIN)
    with pytest.raises(AssertionError, match="other names after pickling: seen1, seen9"):
        check_transform(Stateful(), PLAIN)


@pytest.mark.parametrize(
    "stored",
    [torch.Generator(), {"rng": [np.random.default_rng(0)]}, User(random.Random(0))],
)
def test_stored_generators_are_found_wherever_they_are(stored: Any) -> None:
    with pytest.raises(AssertionError, match=r"KeepsGenerator stores a (Generator|Random), which"):
        check_transform(KeepsGenerator(stored), PLAIN)


def test_a_cycle_of_references_is_no_trouble() -> None:
    transform = User(gain)
    transform.itself = transform  # type: ignore[attr-defined]
    check_transform(transform, PLAIN)


class NotPerSample(BatchTransform):
    """Subtracts the mean of the batch."""

    def apply_batch(self, stack: Stack, keys: Keys) -> None:
        value, mask = stack.pair("x")
        value[mask] -= value[mask].mean() if mask.any() else 0


class IgnoresTheGate(User):
    train_only = True

    def transform_sample(self, sample: Sample, draw: Any, **options: Any) -> Sample:
        return super().transform_sample(sample, draw, training=True)


def test_paths_that_differ_and_a_gate_that_leaks_are_found() -> None:
    with pytest.raises(AssertionError, match="NotPerSample, sample 0: 'x' must be the same in a b"):
        check_transform(NotPerSample(), PLAIN)
    with pytest.raises(AssertionError, match="'x' must be the same when not training"):
        check_transform(IgnoresTheGate(gain), PLAIN)


class Nothing(Transform):
    def apply(self, sample: Sample, generator: torch.Generator) -> Sample:
        return sample


def test_a_schema_of_every_kind_of_value_is_taken() -> None:
    check_transform(Nothing(), SCHEMA, datasets=["only"], size=2)


def test_what_does_not_pickle_is_said() -> None:
    with pytest.raises(AssertionError, match="User must pickle, for workers that are spawned, got"):
        check_transform(User(lambda x, mask, generator: None), PLAIN)
