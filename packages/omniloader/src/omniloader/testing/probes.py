"""What every conformance check looks at: bits, generators, pickling."""

from __future__ import annotations

import contextlib
import pickle
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

Value = TypeVar("Value")

_RNG = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)


def bits_of(value: Tensor) -> bytes:
    """The bytes of a tensor: NaN equals itself, and 0 is not -0."""
    flat = value.clone(memory_format=torch.contiguous_format).reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()


def same(left: object, right: object) -> bool:
    """Tensors of equal shape, dtype and bits; anything else equal and of one type."""
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        alike = left.shape == right.shape and left.dtype is right.dtype
        return alike and bits_of(left) == bits_of(right)
    return type(left) is type(right) and bool(left == right)


def pickled(name: str, value: Value) -> Value:
    """A copy that went through pickle, as to a worker that is spawned."""
    try:
        copy: Value = pickle.loads(pickle.dumps(value))  # noqa: S301 - our own bytes
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise AssertionError(
            f"{name} must pickle, for workers that are spawned, got: {error}; define it at the top "
            "of a module, and keep lambdas and open files out of it"
        ) from error
    return copy


@contextlib.contextmanager
def own_generators(name: str, instead: str) -> Iterator[None]:
    """Refuse draws from torch's, NumPy's and Python's global generators."""
    before = _global_state()
    yield
    if _global_state() != before:
        raise AssertionError(f"{name} draws from a global generator; {instead}")


def _global_state() -> tuple[Any, ...]:
    legacy = np.random.get_state(legacy=False)
    return bits_of(torch.get_rng_state()), repr(legacy), random.getstate()


def refuse_rng(name: str, value: object, instead: str) -> None:
    """Refuse a generator anywhere in what an object stores."""
    _refuse_rng(name, value, instead, set())


def _refuse_rng(name: str, value: object, instead: str, seen: set[int]) -> None:
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, _RNG):
        raise AssertionError(
            f"{name} stores a {type(value).__name__}, which every worker would clone; {instead}"
        )
    if isinstance(value, Mapping):
        inner: Sequence[object] = list(value.values())
    elif isinstance(value, list | tuple | set):
        inner = list(value)
    else:
        inner = list(getattr(value, "__dict__", {}).values())
    for part in inner:
        _refuse_rng(name, part, instead, seen)
