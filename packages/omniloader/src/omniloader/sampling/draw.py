"""Indices that remember their epoch and visit: how both reach a worker by themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from omniloader._types import IntArray


class DrawIndex(int):
    """A global index, and an int everywhere, that knows which draw it is.

    Args:
        index: Global index of the sample.
        epoch: Epoch of the draw.
        visit: Number of the draw among those of this sample in the epoch, from 0.
    """

    epoch: int
    visit: int

    def __new__(cls, index: int, epoch: int = 0, visit: int = 0) -> DrawIndex:
        """Make the int, then remember the draw."""
        self = int.__new__(cls, index)
        self.epoch = epoch
        self.visit = visit
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return DrawIndex, (int(self), self.epoch, self.visit)


class DrawBatch(Sequence[DrawIndex]):
    """The draws of one batch as one object: cheap to make, to send and to read.

    A sequence of :class:`DrawIndex`, for code that does not know better. Equal to another batch
    of the same draws, and to a list of the same indices.

    Args:
        indices: Global indices, int64 ``(B,)``.
        visits: Visits, int64 ``(B,)``.
        epoch: Epoch of all draws.
    """

    __slots__ = ("epoch", "indices", "visits")

    def __init__(self, indices: IntArray, visits: IntArray, epoch: int) -> None:
        self.indices = indices
        self.visits = visits
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.indices)

    @overload
    def __getitem__(self, item: int, /) -> DrawIndex: ...
    @overload
    def __getitem__(self, item: slice, /) -> DrawBatch: ...
    def __getitem__(self, item: int | slice, /) -> DrawIndex | DrawBatch:
        """One draw, or a batch of those in a slice."""
        if isinstance(item, slice):
            return DrawBatch(self.indices[item], self.visits[item], self.epoch)
        return DrawIndex(int(self.indices[item]), self.epoch, int(self.visits[item]))

    def __iter__(self) -> Iterator[DrawIndex]:
        for index, visit in zip(self.indices.tolist(), self.visits.tolist(), strict=True):
            yield DrawIndex(index, self.epoch, visit)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DrawBatch):
            return (
                self.epoch == other.epoch
                and np.array_equal(self.indices, other.indices)
                and np.array_equal(self.visits, other.visits)
            )
        if isinstance(other, list | tuple):
            return bool(self.indices.tolist() == list(other))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"DrawBatch({self.indices.tolist()}, epoch={self.epoch})"

    def __reduce__(self) -> tuple[Any, ...]:
        return DrawBatch, (self.indices, self.visits, self.epoch)
