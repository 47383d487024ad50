"""Types shared by every layer: what a sample is, and what a source has to offer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch

Sample: TypeAlias = dict[str, Any]
"""One sample: names to values; whatever is not declared is metadata or is dropped."""

PathLike: TypeAlias = str | os.PathLike[str]

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]


@runtime_checkable
class MapDataset(Protocol):
    """The loose contract of a source: a length, and a dict of named values for an index."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Gather:
    """Rows ``index`` of ``table``, not copied yet.

    A source that holds a whole column in memory returns this from ``read_batch``, so that the
    rows are copied once, straight into the batch.

    Args:
        table: The column, shape ``(N, ...)``.
        index: Row numbers, shape ``(n,)``.
    """

    table: torch.Tensor
    index: IntArray


Column: TypeAlias = torch.Tensor | Gather | Sequence[Any]
"""One key of n samples: stacked ``(n, ...)``, a :class:`Gather`, or a list of n values where
``None`` means missing."""


@runtime_checkable
class BatchReader(Protocol):
    """A source that reads many samples at once, faster than one by one."""

    def read_batch(self, indices: IntArray, /) -> Mapping[str, Column]: ...
