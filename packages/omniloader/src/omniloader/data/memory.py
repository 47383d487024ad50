"""Samples that lie in memory as one stacked tensor a key."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset

from omniloader._types import Column, Gather, IntArray, Sample
from omniloader.data._values import checked_index, checked_indices, storable, wanted
from omniloader.errors import SampleError


class DictTensorDataset(Dataset[Sample]):
    """Samples from stacked tensors, one a key; for tests, small data and features made in memory.

    ::

        >>> data = DictTensorDataset({"x": torch.zeros(10, 4)}, {"speaker": ["a"] * 10})
        >>> data[0]["x"].shape, data[0]["speaker"]
        (torch.Size([4]), 'a')

    Args:
        tensors: Key to tensor or NumPy array, each ``(N, ...)`` with the sample axis first. They
            are kept, not copied.
        metadata: Name to a sequence of N values of any type.
        name: Name of the source, the fallback of the metadata ``dataset``.
        subset: Fallback of the metadata ``subset``.

    Raises:
        SampleError: If there is no key, one has no sample axis, a name stands in both mappings,
            or the numbers of samples differ. A ``ValueError``.
    """

    def __init__(
        self,
        tensors: Mapping[str, Tensor | npt.NDArray[Any]],
        metadata: Mapping[str, Sequence[Any]] | None = None,
        name: str | None = None,
        subset: str | None = None,
    ) -> None:
        self.name = name
        self.subset = subset
        self._label = f"DictTensorDataset{'' if name is None else f' {name!r}'}"
        self._tensors = {key: self._table(key, value) for key, value in tensors.items()}
        self._metadata = {key: self._listed(key, value) for key, value in (metadata or {}).items()}
        self._size = self._common_size()

    def _table(self, key: str, value: Tensor | npt.NDArray[Any]) -> Tensor:
        if isinstance(value, np.ndarray):
            value = torch.from_numpy(storable(value, f"{self._label}: '{key}'"))
        if not isinstance(value, Tensor) or value.ndim == 0:
            got = "a scalar" if isinstance(value, Tensor) else type(value).__name__
            raise SampleError(
                f"{self._label}: '{key}' must be a tensor or array (N, ...) whose first axis "
                f"counts samples, got {got}"
            )
        return value.detach()

    def _listed(self, key: str, value: Sequence[Any]) -> Sequence[Any]:
        if key in self._tensors:
            raise SampleError(
                f"{self._label}: '{key}' stands in tensors and in metadata; rename one of them"
            )
        if isinstance(value, str) or not hasattr(value, "__len__"):
            raise SampleError(
                f"{self._label}: metadata '{key}' must be a sequence with one value a sample, "
                f"got {value!r}"
            )
        return value

    def _common_size(self) -> int:
        sizes = {key: table.shape[0] for key, table in self._tensors.items()}
        sizes.update((key, len(values)) for key, values in self._metadata.items())
        if not sizes:
            raise SampleError(f"{self._label}: needs at least one key, got none")
        if len(set(sizes.values())) > 1:
            shown = ", ".join(f"'{key}' has {size}" for key, size in sizes.items())
            raise SampleError(
                f"{self._label}: all keys must have the same number of samples, got {shown}"
            )
        return next(iter(sizes.values()))

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Sample:
        """The sample at a position; its tensors are copies.

        Raises:
            IndexError: If there is no such sample.
        """
        at = checked_index(index, self._size, self._label)
        sample: Sample = {key: table[at].clone() for key, table in self._tensors.items()}
        sample.update((key, values[at]) for key, values in self._metadata.items())
        return sample

    def read_batch(
        self, indices: IntArray | Sequence[int], keys: Collection[str] | None = None
    ) -> dict[str, Column]:
        """Columns of many samples, their rows not copied yet.

        Args:
            indices: Positions, shape ``(n,)``.
            keys: What to read; None is everything, a name that is not there is left out.
        """
        rows = checked_indices(indices, self._size, self._label)
        batch: dict[str, Column] = {
            key: Gather(table, rows) for key, table in wanted(self._tensors, keys)
        }
        batch.update(
            (key, [values[i] for i in rows]) for key, values in wanted(self._metadata, keys)
        )
        return batch

    def sequence_lengths(self, key: str) -> IntArray:
        """Number of steps of every sample, int64 ``(N,)``; 0 when the key is not there.

        Raises:
            SampleError: If the values have no time axis.
        """
        table = self._tensors.get(key)
        if table is None:
            return np.zeros(self._size, dtype=np.int64)
        if table.ndim < 2:
            raise SampleError(
                f"{self._label}: '{key}' has no time axis, a sample of it is one number; "
                "ask for the lengths of a sequence"
            )
        return np.full(self._size, table.shape[1], dtype=np.int64)
