"""Global indices: what they point to, as arrays, and which of them are read together."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence

import numpy as np

from omniloader._types import IntArray
from omniloader.sampling.draw import DrawBatch


class IndexSpace:
    """The global indices of sources laid end to end.

    Args:
        sizes: Number of samples of each source.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._starts = np.cumsum([0, *sizes], dtype=np.int64)
        self.size = int(self._starts[-1])

    def checked(self, index: int) -> int:
        """An index in ``[0, size)``; negative ones count from the end.

        Raises:
            IndexError: If there is no such sample.
        """
        flat = operator.index(index)
        if not -self.size <= flat < self.size:
            raise IndexError(f"OmniLoader holds {self.size} samples, asked for index {flat}")
        return flat + self.size if flat < 0 else int(flat)

    def all_checked(self, flat: IntArray) -> IntArray:
        """:meth:`checked` for many indices, int64 ``(n,)``."""
        wrong = (flat < -self.size) | (flat >= self.size)
        if wrong.any():
            self.checked(int(flat[wrong][0]))
        return np.where(flat < 0, flat + self.size, flat)

    def locate(self, flat: int) -> tuple[int, int]:
        """Number of the source and index in it."""
        number = int(np.searchsorted(self._starts, flat, side="right")) - 1
        return number, flat - int(self._starts[number])

    def split(self, flat: IntArray) -> tuple[IntArray, IntArray]:
        """:meth:`locate` for many indices, int64 ``(n,)`` each."""
        numbers = np.searchsorted(self._starts, flat, side="right") - 1
        return numbers, flat - self._starts[numbers]


def unpack(indices: Sequence[int] | IntArray, epoch: int) -> tuple[IntArray, IntArray, IntArray]:
    """Indices, epochs and visits as int64 arrays ``(B,)``, whatever kind of indices came.

    Args:
        indices: Ints (an array is fastest), draws that know their epoch and visit, or a whole
            batch of them.
        epoch: The epoch of plain ints; their visit is 0.
    """
    if isinstance(indices, DrawBatch):
        epochs = np.full(len(indices), indices.epoch, dtype=np.int64)
        return indices.indices.astype(np.int64), epochs, indices.visits.astype(np.int64)
    if isinstance(indices, np.ndarray):
        flat = indices.astype(np.int64, casting="safe")
        return flat, np.full(len(flat), epoch, dtype=np.int64), np.zeros(len(flat), dtype=np.int64)
    flat = np.array([operator.index(index) for index in indices], dtype=np.int64)
    epochs = np.array([getattr(index, "epoch", epoch) for index in indices], dtype=np.int64)
    visits = np.array([getattr(index, "visit", 0) for index in indices], dtype=np.int64)
    return flat, epochs, visits


def groups(numbers: IntArray, epochs: IntArray) -> Iterator[tuple[int, int, IntArray]]:
    """Rows of a batch by (number of the source, epoch); nearly always there is one epoch."""
    order = np.lexsort((epochs, numbers))
    changes = (np.diff(numbers[order]) != 0) | (np.diff(epochs[order]) != 0)
    for rows in np.split(order, np.flatnonzero(changes) + 1):
        if len(rows):
            yield int(numbers[rows[0]]), int(epochs[rows[0]]), rows
