"""Read columns of samples through wrappers, copying nothing that need not be copied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from omniloader._types import Column, Gather, IntArray
from omniloader.errors import SampleError

# Samples read at once in a pass over all of them.
_BLOCK = 1024


def read_columns(dataset: Any, indices: IntArray) -> dict[str, Column]:
    """Columns of many samples: by the dataset's ``read_batch`` if it has one, else one by one.

    Args:
        dataset: A source.
        indices: Positions, ``(n,)``.
    """
    read_batch = getattr(dataset, "read_batch", None)
    if callable(read_batch):
        return dict(read_batch(indices))
    samples: list[Mapping[str, Any]] = [dataset[int(i)] for i in indices]
    keys = dict.fromkeys(key for sample in samples for key in sample)
    return {key: [sample.get(key) for sample in samples] for key in keys}


def take(column: Column, rows: IntArray) -> Column:
    """The rows of a column that stand at ``rows``."""
    if isinstance(column, Gather):
        return Gather(column.table, column.index[rows])
    if isinstance(column, torch.Tensor):
        return Gather(column, rows)
    return [column[int(row)] for row in rows]


def frames_of(name: str, column: Column, rows: IntArray, offsets: IntArray) -> Column:
    """One frame of each of some rows, as sequences of length 1.

    Args:
        name: Name of the value, for messages.
        column: Sequences of n samples.
        rows: Which samples, ``(m,)``.
        offsets: Which frame of each, ``(m,)``.

    Returns:
        A column of m sequences of one step.

    Raises:
        SampleError: If a sequence has not so many frames.
    """
    if isinstance(column, Gather | torch.Tensor):
        table, index = (
            (column.table, column.index[rows]) if isinstance(column, Gather) else (column, rows)
        )
        steps = table.shape[1]
        # Past its end a row of the table would go on in the next sample.
        check_frame(name, steps, int(offsets.max(initial=-1)))
        return Gather(table.reshape(-1, 1, *table.shape[2:]), index * steps + offsets)
    cut = zip(rows.tolist(), offsets.tolist(), strict=True)
    return [frame_of(name, column[row], at) for row, at in cut]


def frame_of(name: str, value: Any, offset: int) -> Any:
    """One frame of one sequence, as a sequence of length 1; None of None.

    Raises:
        SampleError: If the sequence has not so many frames.
    """
    if value is None:
        return None
    check_frame(name, len(value), offset)
    return value[offset : offset + 1]


def check_frame(name: str, steps: int, offset: int) -> None:
    """Refuse a frame that a sequence does not have."""
    if offset >= steps:
        raise SampleError(
            f"'{name}' must have as many frames as the window has labels or masks, got {steps} "
            f"where frame {offset} is wanted; build the file or cache again"
        )


def lengths_of(dataset: Any, key: str) -> IntArray:
    """Native number of steps of a value in every sample, int64 ``(N,)``; 0 where it is missing.

    From shapes where the dataset offers ``sequence_lengths``, else by reading every sample.
    """
    own = getattr(dataset, "sequence_lengths", None)
    if callable(own):
        return np.asarray(own(key), dtype=np.int64)
    values = (dataset[i].get(key) for i in range(len(dataset)))
    steps = (0 if value is None else len(value) for value in values)
    return np.fromiter(steps, dtype=np.int64, count=len(dataset))


def label_columns(dataset: Any, names: list[str]) -> dict[str, list[Any]]:
    """Some small values of all samples, without reading anything else where that is possible.

    A dataset that offers ``with_keys(names)`` reads only those.

    Args:
        dataset: A source.
        names: Names of values.

    Returns:
        Name to one NumPy array a sample, None where the sample lacks the value.
    """
    narrow = getattr(dataset, "with_keys", None)
    reader = narrow(names) if callable(narrow) else dataset
    values: dict[str, list[Any]] = {name: [] for name in names}
    for start in range(0, len(reader), _BLOCK):
        count = min(_BLOCK, len(reader) - start)
        columns = read_columns(reader, np.arange(start, start + count))
        for name in names:
            column = columns.get(name)
            values[name] += [None] * count if column is None else _rows_of(column)
    if reader is not dataset and callable(getattr(reader, "close", None)):
        reader.close()
    return values


def _rows_of(column: Column) -> list[Any]:
    """A NumPy array a sample; copies, so that no row holds a whole block in memory."""
    if isinstance(column, Gather):
        column = column.table[torch.from_numpy(column.index)]
    return [None if row is None else np.asarray(row).copy() for row in column]
