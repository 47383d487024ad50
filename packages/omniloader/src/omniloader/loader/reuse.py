"""Notice a dataset that hands out the same memory, or the same dict, for sample after sample.

Read one by one, each sample is copied before the next is asked for. Read for a batch, all of them
are held until the last has come: by then such a dataset has written over the first ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omniloader._types import Sample


def copied(sample: Mapping[str, Any], names: Iterable[str]) -> Sample:
    """Values of these names that no later sample can write over."""
    return {name: _own(sample[name]) for name in names if name in sample}


def changed(sample: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether a sample no longer holds what it did when it was copied."""
    return any(_differs(sample.get(name), value) for name, value in before.items())


def share_memory(one: Mapping[str, Any], other: Mapping[str, Any], names: Iterable[str]) -> bool:
    """Whether two samples hold a value in the same place; a constant of the source does, too."""
    if one is other:
        return bool(one)
    return any(_same_place(one.get(name), other.get(name)) for name in names)


def witness(locals_: list[int]) -> int | None:
    """Position of a row to watch: the first that asks for another sample than the last does."""
    return next((i for i, local in enumerate(locals_) if local != locals_[-1]), None)


def _same_place(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        strided = one.layout is other.layout is torch.strided
        return strided and one.numel() > 0 and one.data_ptr() == other.data_ptr()
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.size > 0 and one.ctypes.data == other.ctypes.data
    return isinstance(one, list) and one is other


def _own(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    return value.copy() if isinstance(value, np.ndarray | list) else value


def _differs(now: Any, before: Any) -> bool:
    if isinstance(now, Tensor) and isinstance(before, Tensor):
        if now.layout is not torch.strided or now.device != before.device:
            return False
        if now.shape != before.shape or torch.equal(now, before):
            return now.shape != before.shape
        return bool(((now != before) & ~((now != now) & (before != before))).any())
    if isinstance(now, np.ndarray) and isinstance(before, np.ndarray):
        return now.shape != before.shape or now.tobytes() != before.tobytes()
    plain = (bool, int, float, str, bytes, list)
    if isinstance(now, plain) and isinstance(before, plain):
        return now != before and (now == now or before == before)
    return type(now) is not type(before)
