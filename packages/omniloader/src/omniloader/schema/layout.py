"""Where each value and mask of a batch lies in its block of memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from omniloader.schema.ring import Bytes
from omniloader.schema.spec import TensorSpec

# A cache line, so that every value starts aligned.
_ALIGN = 64
_SAME_SIZE = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


@lru_cache(maxsize=64)
def carrier(dtype: torch.dtype) -> np.dtype[Any]:
    """The NumPy dtype that carries a torch dtype: itself, or integers of its size (bfloat16)."""
    try:
        return torch.empty(0, dtype=dtype).numpy().dtype
    except TypeError:
        return np.dtype(_SAME_SIZE[dtype.itemsize])


@lru_cache(maxsize=64)
def _carrier_of_its_size(dtype: torch.dtype) -> torch.dtype | None:
    """The integer dtype under which NumPy sees a dtype it lacks; None when it needs none."""
    name = torch.from_numpy(np.empty(0, carrier(dtype))).dtype
    return None if name is dtype else name


def as_array(tensor: Tensor) -> npt.NDArray[Any]:
    """View a CPU tensor as NumPy array; row copies cost a fifth there."""
    other = _carrier_of_its_size(tensor.dtype)
    return (tensor if other is None else tensor.view(other)).numpy()


def as_torch(array: npt.NDArray[Any], dtype: torch.dtype) -> Tensor:
    """The inverse of :func:`as_array`."""
    tensor = torch.from_numpy(array)
    return tensor if tensor.dtype is dtype else tensor.view(dtype)


@lru_cache(maxsize=1024)
def fill_of(dtype: torch.dtype, placeholder: float) -> Any:
    """The placeholder as the number that its carrier stores."""
    return as_array(torch.full((1,), placeholder, dtype=dtype))[0]


@lru_cache(maxsize=256)
def filled_row(dtype: torch.dtype, placeholder: float, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """A read-only row of placeholders: copying it is faster than writing a number many times."""
    row = np.full(shape, fill_of(dtype, placeholder), dtype=carrier(dtype))
    row.flags.writeable = False
    return row


@dataclass(frozen=True)
class Slot:
    """One value and its mask: shapes and byte ranges in the block."""

    shape: tuple[int, ...]
    mask_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    start: int
    stop: int
    mask_start: int
    mask_stop: int


@dataclass(frozen=True)
class Layout:
    """All slots of a batch; the masks lie together at the end, so that one write clears them."""

    slots: tuple[Slot, ...]
    masks_start: int
    nbytes: int

    def views(self, block: Bytes) -> list[tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]]:
        """Value and mask of every slot as arrays over the block."""
        return [
            (
                block[slot.start : slot.stop].view(slot.dtype).reshape(slot.shape),
                block[slot.mask_start : slot.mask_stop].view(np.bool_).reshape(slot.mask_shape),
            )
            for slot in self.slots
        ]


@lru_cache(maxsize=256)
def layout_of(specs: tuple[TensorSpec, ...], size: int, steps: tuple[int, ...]) -> Layout:
    """Lay out a batch.

    Args:
        specs: The values, in order.
        size: Number of samples B.
        steps: Number of steps of each value in this batch; ignored for vectors.
    """
    dtypes = [carrier(spec.dtype) for spec in specs]
    mask_shapes = [
        (size, own) if spec.is_sequence else (size,) for spec, own in zip(specs, steps, strict=True)
    ]
    shapes = [(*mask, *spec.trailing_shape) for spec, mask in zip(specs, mask_shapes, strict=True)]
    sizes = [prod(shape) * dtype.itemsize for shape, dtype in zip(shapes, dtypes, strict=True)]
    starts, masks_start = _offsets(sizes, 0)
    mask_sizes = [prod(shape) for shape in mask_shapes]
    mask_starts, end = _offsets(mask_sizes, masks_start)
    slots = tuple(
        Slot(shape, mask, dtype, at, at + length, mask_at, mask_at + mask_length)
        for shape, mask, dtype, at, length, mask_at, mask_length in zip(
            shapes, mask_shapes, dtypes, starts, sizes, mask_starts, mask_sizes, strict=True
        )
    )
    return Layout(slots, masks_start, end)


def _offsets(sizes: Sequence[int], start: int) -> tuple[list[int], int]:
    """Aligned starts of consecutive pieces, and where the next would start."""
    starts = []
    for length in sizes:
        starts.append(start)
        start += -(-length // _ALIGN) * _ALIGN
    return starts, start
