"""Samples that come one by one, copied into stacked columns while they look alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_ROWS = 1024
_BYTES = 1 << 20  # of a whole block; a sample beyond a sixteenth of it is left as it is

_Form = tuple[Any, ...]


class Packer:
    """Collects samples of one form; values are copied, so a source may reuse its buffers.

    Args:
        names: Values and masks to collect.
        metadata: Metadata to collect.
    """

    def __init__(self, names: Sequence[str], metadata: Sequence[str]) -> None:
        self._value_names = tuple(names)
        self._metadata_names = tuple(metadata)
        self._form: list[_Form | None] = []
        self._columns: dict[str, npt.NDArray[Any]] = {}
        self._metadata: dict[str, list[Any]] = {}
        self._capacity = 0
        self.names: tuple[str, ...] = ()
        self.size = 0

    def push(self, sample: Mapping[str, Any]) -> bool:
        """Add a sample; False where it does not fit with those before, or is too large to copy."""
        form = [_form(sample.get(name)) for name in self._value_names]
        if self.size and (form != self._form or self.size == self._capacity):
            return False
        if not self.size and not self._start(sample, form):
            return False
        for name, column in self._columns.items():
            column[self.size] = sample[name]
        for name, listed in self._metadata.items():
            listed.append(sample.get(name))
        self.size += 1
        return True

    def _start(self, sample: Mapping[str, Any], form: list[_Form | None]) -> bool:
        """Lay out columns for samples of this form."""
        if () in form:
            return False
        present = [name for name, own in zip(self._value_names, form, strict=True) if own]
        arrays = {name: np.asarray(sample[name]) for name in present}
        size = sum(array.nbytes for array in arrays.values())
        self._capacity = min(_ROWS, _BYTES // max(size, 1))
        if self._capacity < 16:
            return False
        self._form, self.names = form, tuple(sample)
        self._columns = {
            name: np.empty((self._capacity, *array.shape), dtype=array.dtype)
            for name, array in arrays.items()
        }
        self._metadata = {name: [] for name in self._metadata_names if name in sample}
        return True

    def take(self) -> dict[str, Any]:
        """What was collected, as columns; the packer is empty again."""
        held: dict[str, Any] = {
            name: torch.from_numpy(column[: self.size]) for name, column in self._columns.items()
        }
        held.update(self._metadata)
        self.size = 0
        return held


def _form(value: Any) -> _Form | None:
    """What values must share to be stacked; ``()`` for what is not stacked, None for missing."""
    if value is None:
        return None
    if isinstance(value, Tensor):
        plain = value.device.type == "cpu" and not value.requires_grad
        plain &= value.layout is torch.strided and value.dtype is not torch.bfloat16
        return (Tensor, value.dtype, value.shape) if plain else ()
    if isinstance(value, bool | int | float):
        # An int beyond int64 has a form of its own, and is refused where it is read.
        return (type(value),) if not isinstance(value, int) or abs(value) < 1 << 63 else ()
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        native = value.dtype.isnative and value.dtype.name not in ("uint16", "uint32", "uint64")
        return (np.ndarray, value.dtype, value.shape) if native and value.itemsize <= 8 else ()
    return ()
