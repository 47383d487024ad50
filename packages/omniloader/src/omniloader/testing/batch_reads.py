"""Check that ``read_batch`` gives what items give."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from omniloader._types import Gather, IntArray, MapDataset, Sample
from omniloader.testing.raw import first_difference, plain


def check_read_batch(
    name: str, dataset: MapDataset, samples: Mapping[int, Sample], size: int
) -> None:
    """Read batches of a dataset that can, and compare them to its items.

    Args:
        name: What messages call the dataset.
        dataset: The dataset.
        samples: Some of its samples by index, as plain values.
        size: Its length.

    Raises:
        AssertionError: If something differs, naming the value and the sample.
    """
    read: Any = getattr(dataset, "read_batch", None)
    if not callable(read):
        return
    indices = np.array(sorted(samples), dtype=np.int64)
    wanted: dict[str, IntArray] = {
        "in order": indices,
        "in another order": indices[::-1].copy(),
        "one alone": indices[-1:],
        "with repeats": np.concatenate([indices[:1], indices, indices[:1]]),
        "of no samples": indices[:0],
    }
    for how, rows in wanted.items():
        _compare(name, read(rows), rows, [samples[i] for i in rows.tolist()], how)
    if "keys" in inspect.signature(read).parameters:
        names = list(dict.fromkeys(key for sample in samples.values() for key in sample))
        for keys in ([], names[:1], [*names[1:], "no such key"]):
            kept = [
                {key: sample[key] for key in keys if key in sample} for sample in samples.values()
            ]
            _compare(name, read(indices, keys=keys), indices, kept, f"with keys={keys}")


def _compare(name: str, batch: object, rows: IntArray, expected: list[Sample], how: str) -> None:
    if not isinstance(batch, Mapping):
        raise AssertionError(f"{name}: read_batch must give a dict, got {type(batch).__name__}")
    columns = {key: _rows(name, key, column, len(rows)) for key, column in batch.items()}
    for at, index in enumerate(rows.tolist()):
        found = {
            key: plain(f"{name}, read_batch: '{key}'", column[at])
            for key, column in columns.items()
        }
        difference = first_difference(found, expected[at])
        if difference:
            raise AssertionError(
                f"{name}, sample {index}: read_batch {how} must give what the item gives, "
                f"{difference}"
            )


def _rows(name: str, key: str, column: object, count: int) -> Any:
    """A column as something with one value a row."""
    if isinstance(column, Gather):
        column = column.table[column.index]
    if isinstance(column, str) or not isinstance(column, Tensor | list | tuple | np.ndarray):
        raise AssertionError(
            f"{name}: read_batch must give a tensor, a Gather or a list for '{key}', got "
            f"{type(column).__name__}"
        )
    if len(column) != count:
        raise AssertionError(
            f"{name}: read_batch must give {count} rows for '{key}', got {len(column)}"
        )
    return column
