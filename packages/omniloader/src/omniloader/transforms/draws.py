"""Decisions for a whole batch at once, counter-based: no draw needs the one before it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from omniloader._types import FloatArray, IntArray
from omniloader.transforms.batched import Keys
from omniloader.utils.seeding import derive_keys, derive_seed, uniform


def chosen(keys: Keys, p: float) -> npt.NDArray[np.bool_]:
    """Which samples a transform with probability ``p`` changes, bool ``(B,)``."""
    return uniform(keys, 0) < p


def named_keys(keys: Keys, names: Sequence[str]) -> Keys:
    """A key for each sample and value, uint64 ``(B, K)``.

    It depends on the value's name, not on its position: what a mix holds besides does not
    matter.
    """
    return derive_keys(0, keys.view(np.int64)[:, None], _words(tuple(names))[None, :])


def below(uniforms: FloatArray, count: IntArray | int) -> IntArray:
    """Whole numbers in ``[0, count)`` from uniform ones; 0 where count is 0."""
    most = np.maximum(np.asarray(count, dtype=np.int64) - 1, 0)
    return np.minimum((uniforms * count).astype(np.int64), most)


def as_rows(flags: npt.NDArray[np.bool_]) -> Tensor:
    """Flags a sample, as a tensor."""
    return torch.from_numpy(flags)


@lru_cache(maxsize=1024)
def _words(names: tuple[str, ...]) -> IntArray:
    return np.array([derive_seed(0, "value", name) for name in names], dtype=np.int64)
