"""Decode all samples into one column a key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from omniloader.data._names import CompactNames
from omniloader.data._values import Stored

PreloadedColumn: TypeAlias = torch.Tensor | Sequence[Any]
"""A tensor ``(N, ...)``, or N decoded values with ``None`` where a sample lacks the key."""


def preload_columns(samples: Iterable[dict[str, Stored]], size: int) -> dict[str, PreloadedColumn]:
    """Gather samples into columns; where shapes allow, each row goes straight into its place.

    Args:
        samples: The samples, decoded while they are iterated.
        size: Their number N.
    """
    columns: dict[str, _Column] = {}
    for at, sample in enumerate(samples):
        for key, value in sample.items():
            if key not in columns:
                columns[key] = _Column(size)
            columns[key].put(at, value)
    return {key: column.done() for key, column in columns.items()}


class _Column:
    """A table while every row agrees; a list from the first row on that does not."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._table: npt.NDArray[Any] | None = None
        self._filled = 0
        self._rows: list[Stored | None] | None = None

    def put(self, at: int, value: Stored) -> None:
        if self._rows is None:
            if self._extend_table(at, value):
                return
            self._rows = self._loose_rows()
        self._rows[at] = value

    def _extend_table(self, at: int, value: Stored) -> bool:
        if not isinstance(value, np.ndarray) or self._filled != at:
            return False
        if self._table is None:
            self._table = np.empty((self._size, *value.shape), value.dtype)
        if value.shape != self._table.shape[1:] or value.dtype != self._table.dtype:
            return False
        self._table[at] = value
        self._filled += 1
        return True

    def _loose_rows(self) -> list[Stored | None]:
        rows: list[Stored | None] = [None] * self._size
        table, self._table = self._table, None
        if table is not None:
            # Copies, so that the table's memory is free again; `...` keeps scalars arrays.
            rows[: self._filled] = [table[i, ...].copy() for i in range(self._filled)]
        return rows

    def done(self) -> PreloadedColumn:
        if self._table is not None and self._filled == self._size:
            return torch.from_numpy(self._table)
        rows = self._loose_rows() if self._rows is None else self._rows
        texts = [row for row in rows if isinstance(row, str)]
        return CompactNames(texts) if len(texts) == self._size else rows
