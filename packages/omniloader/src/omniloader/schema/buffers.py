"""Where the tensors of a batch get their memory from: the only module that knows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def allocate(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """An uninitialised tensor; its caller fills every element."""
    return torch.empty(tuple(shape), dtype=dtype)


def nbytes(shape: Sequence[int], dtype: torch.dtype) -> int:
    """Bytes a tensor of this shape and dtype takes."""
    return math.prod(shape) * dtype.itemsize
