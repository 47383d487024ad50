"""Put samples that were transformed one by one back into the batch they are views of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from omniloader._types import Sample
from omniloader.schema.batch import UnifiedBatch


def merge_rows(
    batch: UnifiedBatch, views: Sequence[Sample], rows: Sequence[Sample]
) -> UnifiedBatch | list[Sample]:
    """The batch with its rows replaced, or the rows themselves where they no longer stack.

    What was written in place is in the batch already. Other tensors of the same shape and dtype
    are copied into it. A new name, a missing one, another shape or dtype gives the list.

    Args:
        batch: The batch.
        views: Its samples, as they were handed out.
        rows: One result a sample.

    Returns:
        A batch, or the rows as a list.
    """
    pairs = list(zip(views, rows, strict=True))
    if not all(_stacks(batch, before, after) for before, after in pairs):
        return list(rows)
    storages = {tensor.untyped_storage().data_ptr() for tensor in batch.values.values()}
    moves: list[tuple[Tensor, Tensor]] = []
    for before, after in pairs:
        for name in batch.values:
            if not _same_memory(before[name], after[name]):
                # Memory of the batch may be overwritten by a move before this one (a swap).
                shared = after[name].untyped_storage().data_ptr() in storages
                moves.append((before[name], after[name].clone() if shared else after[name]))
    for target, source in moves:
        target.copy_(source)
    return replace(batch, metadata={name: [row[name] for row in rows] for name in batch.metadata})


def _stacks(batch: UnifiedBatch, before: Sample, after: Sample) -> bool:
    """Whether a result fits into its row: the same names, form and origin; metadata is free."""
    return (
        before.keys() == after.keys()
        and all(_alike(before[name], after[name]) for name in batch.values)
        and all(before[name] == after[name] for name in batch.origin)
    )


def _alike(before: Tensor, after: Any) -> bool:
    return (
        isinstance(after, Tensor)
        and after.shape == before.shape
        and after.dtype is before.dtype
        and after.device == before.device
    )


def _same_memory(before: Tensor, after: Tensor) -> bool:
    return before is after or (
        before.data_ptr() == after.data_ptr() and before.stride() == after.stride()
    )
