"""Samples in a columnar store: one plain array a key, mapped into memory."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from omniloader._types import Column, Gather, IntArray, PathLike, Sample
from omniloader.data._column_files import ColumnEntry, read_index
from omniloader.data._names import CompactNames
from omniloader.data._npy_file import read_value
from omniloader.data._options import checked_keys, checked_subset
from omniloader.data._values import checked_index, checked_indices, wanted
from omniloader.errors import MissingFileError, MissingGroupError, SampleError, SourceError


class ColumnarDataset(Dataset[Sample]):
    """Samples of a store that :func:`~omniloader.data.convert.to_columnar` made.

    Arrays are mapped, so a process holds only the pages in use, and all processes of a machine
    share them. Writing into a value never reaches the files.

    Args:
        root: Folder of the store.
        subset: Folder below it, if the store was made so.
        keys: Keys to serve; None serves all of them.
        name: Name of the source, the fallback of the metadata ``dataset``.

    Raises:
        SourceError: If there is no store, or it is damaged. An ``OSError``.
        MissingGroupError: If it lacks one of ``keys``. A ``KeyError``.
        ConfigError: If an option is not what it must be. A ``ValueError``.
    """

    def __init__(
        self,
        root: PathLike,
        subset: str | None = None,
        keys: Sequence[str] | None = None,
        name: str | None = None,
    ) -> None:
        self.root = Path(root).absolute()
        self.keys = checked_keys(keys)
        self.name = name
        below = None if subset is None else checked_subset(subset, "folder")
        self._folder = self.root if below is None else self.root / below
        about, entries = read_index(self._folder)
        self.subset: str | None = about.get("subset") if below is None else below
        self._size: int = about["samples"]
        ids = about.get("sample_ids")
        self.sample_ids: Sequence[str] = CompactNames(
            map(str, range(self._size)) if ids is None else ids
        )
        self._entries = self._served(entries)
        self._columns = self._opened()

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Sample:
        """The sample at a position; its tensors are copies.

        Raises:
            IndexError: If there is no such sample.
        """
        at = checked_index(index, self._size, f"'{self._folder}'")
        values = ((name, column.value(at)) for name, column in self._columns.items())
        return {name: value for name, value in values if value is not None}

    def read_batch(
        self, indices: IntArray | Sequence[int], keys: Collection[str] | None = None
    ) -> dict[str, Column]:
        """Columns of many samples; rows of one shape are not copied yet.

        Args:
            indices: Positions, shape ``(n,)``.
            keys: What to read; None is everything, a name that is not there is left out.
        """
        at = checked_indices(indices, self._size, f"'{self._folder}'")
        return {name: column.take(at) for name, column in wanted(self._columns, keys)}

    def sequence_lengths(self, key: str) -> IntArray:
        """Number of steps of every sample, int64 ``(N,)``; 0 where the key is missing.

        Raises:
            SampleError: If the values have no time axis.
        """
        if key not in self._columns:
            return np.zeros(self._size, dtype=np.int64)
        lengths = self._columns[key].lengths(self._size)
        if lengths is None:
            raise SampleError(
                f"'{self._folder}': '{key}' has no time axis, a value of it is one number or "
                "text; ask for the lengths of a sequence"
            )
        return lengths

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the arrays, which the other process maps itself."""
        return {**self.__dict__, "_columns": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._columns = self._opened()

    def __repr__(self) -> str:
        return f"ColumnarDataset('{self._folder}', samples={self._size})"

    def _served(self, entries: Sequence[ColumnEntry]) -> list[ColumnEntry]:
        if self.keys is None:
            return list(entries)
        known = {entry.name: entry for entry in entries}
        missing = [key for key in self.keys if key not in known]
        if missing:
            raise MissingGroupError(
                f"'{self._folder}': no column {', '.join(map(repr, missing))}; known keys: "
                f"{', '.join(known) or 'none'}"
            )
        return [known[key] for key in self.keys]

    def _opened(self) -> dict[str, _Column]:
        return {entry.name: self._open(entry) for entry in self._entries}

    def _open(self, entry: ColumnEntry) -> _Column:
        table = self._array(f"{entry.file}.npy")
        starts = None if entry.kind == "rows" else self._array(f"{entry.file}.starts.npy").numpy()
        rows = None if entry.complete else self._array(f"{entry.file}.rows.npy").numpy()
        held = len(table) if starts is None else len(starts) - 1
        expected = self._size if rows is None else int((rows >= 0).sum())
        if held != expected or (rows is not None and len(rows) != self._size):
            raise SourceError(
                f"'{self._folder}': '{entry.name}' must hold {expected} values, got {held}; "
                "make the store again with to_columnar"
            )
        return _Column(entry.kind, table, starts, rows)

    def _array(self, name: str) -> Tensor:
        try:
            value = read_value(str(self._folder / name), mmap=True)
        except FileNotFoundError as error:
            raise MissingFileError(
                f"'{self._folder / name}' does not exist; make the store again with to_columnar"
            ) from error
        return torch.from_numpy(np.asarray(value))


@dataclass(frozen=True)
class _Column:
    """One key: its values one after another, and which of them is whose.

    Args:
        kind: See :class:`~omniloader.data._column_files.ColumnEntry`.
        table: ``(values, …)`` where all have one shape, else ``(steps, …)``.
        starts: First step of each value, and the end; None where all have one shape.
        rows: Value of each sample, -1 for none; None where sample i has value i.
    """

    kind: str
    table: Tensor
    starts: IntArray | None
    rows: IntArray | None

    def take(self, at: IntArray) -> Column:
        """Values of some samples."""
        rows = at if self.rows is None else self.rows[at]
        if self.starts is None and not (rows < 0).any():
            return Gather(self.table, rows)
        return [None if row < 0 else self._held(row) for row in rows.tolist()]

    def value(self, at: int) -> Any:
        """Value of one sample, or None."""
        row = at if self.rows is None else int(self.rows[at])
        return None if row < 0 else self._held(row)

    def _held(self, row: int) -> Any:
        if self.starts is None:
            return self.table[row].clone()
        steps = self.table[int(self.starts[row]) : int(self.starts[row + 1])]
        if self.kind == "ragged":
            return steps.clone()
        raw = steps.numpy().tobytes()
        return json.loads(raw) if self.kind == "json" else raw.decode("utf-8", "surrogatepass")

    def lengths(self, size: int) -> IntArray | None:
        """Steps of all samples, or None where values have no steps."""
        if self.kind in ("text", "json") or (self.starts is None and self.table.ndim < 2):
            return None
        own = (
            np.full(len(self.table), self.table.shape[1], dtype=np.int64)
            if self.starts is None
            else np.diff(self.starts)
        )
        if self.rows is None:
            return own
        return np.where(self.rows < 0, 0, np.append(own, 0)[self.rows])
