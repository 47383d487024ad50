"""The order of one epoch, as a function of the position."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import overload

import numpy as np

from omniloader._types import IntArray
from omniloader.sampling.interleave import Interleave
from omniloader.sampling.streams import Stream

PLAN_VERSION = 1
"""Changes whenever any plan gives another order; saved states are of one version."""

# Big enough that NumPy's overhead vanishes, small enough that the temporaries stay in cache.
_BLOCK = (3 << 12) - 64


class EpochPlan:
    """The draws of one epoch at any positions, in any order, without the list of them.

    ::

        >>> plan = FixedWeightStrategy([3, 2]).plan(epoch=0)  # 3 and 2 samples, drawn alike
        >>> index, visit = plan[np.arange(5)]
        >>> index.tolist(), visit.tolist()
        ([0, 2, 3, 4, 1], [0, 0, 0, 0, 0])
        >>> plan[4]
        (1, 0)

    Args:
        interleave: Which source each position draws from.
        streams: Number of a source to its draws.
        starts: First global index of each source, int64 ``(S,)``.
        epoch: Number of the epoch.
    """

    def __init__(
        self, interleave: Interleave, streams: Mapping[int, Stream], starts: IntArray, epoch: int
    ) -> None:
        self._interleave = interleave
        self._streams = streams
        self._starts = starts
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._interleave)

    @overload
    def __getitem__(self, positions: int, /) -> tuple[int, int]: ...
    @overload
    def __getitem__(self, positions: IntArray | slice, /) -> tuple[IntArray, IntArray]: ...
    def __getitem__(
        self, positions: int | IntArray | slice, /
    ) -> tuple[int, int] | tuple[IntArray, IntArray]:
        """Global index and visit at each position.

        Args:
            positions: Integers in ``[0, len(self))``, ``(n,)``; a slice, or one int.

        Returns:
            (global indices, visits), int64 ``(n,)`` each; two ints for an int.

        Raises:
            IndexError: If a position is outside the epoch.
        """
        if isinstance(positions, slice):
            return self._at(np.arange(*positions.indices(len(self))))
        if np.ndim(positions) == 0:
            index, visit = self._at(self._checked(np.array([operator.index(positions)])))
            return int(index[0]), int(visit[0])
        return self._at(self._checked(np.asarray(positions)))

    def _checked(self, positions: IntArray) -> IntArray:
        if len(positions) and positions.dtype.kind not in "iu":
            raise IndexError(f"plan positions must be integers, got dtype {positions.dtype}")
        wrong = positions[(positions < 0) | (positions >= len(self))]
        if len(wrong):
            raise IndexError(f"plan holds {len(self)} positions, asked for position {wrong[0]}")
        return positions.astype(np.int64, copy=False)

    def _at(self, positions: IntArray) -> tuple[IntArray, IntArray]:
        if len(positions) <= _BLOCK:
            return self._block(positions)
        index, visit = np.empty_like(positions), np.empty_like(positions)
        for start in range(0, len(positions), _BLOCK):
            rows = slice(start, start + _BLOCK)
            index[rows], visit[rows] = self._block(positions[rows])
        return index, visit

    def _block(self, positions: IntArray) -> tuple[IntArray, IntArray]:
        return self.take(*self._interleave.locate(positions))

    def locate(self, positions: IntArray) -> tuple[IntArray, IntArray]:
        """Source, and number of the draw within it, at each position: int64 ``(n,)`` each."""
        return self._interleave.locate(positions)

    def drawn(self, position: int) -> IntArray:
        """Draws of each source before a position, int64 ``(S,)``."""
        return self._interleave.drawn(position)

    def take(self, sources: IntArray, draws: IntArray) -> tuple[IntArray, IntArray]:
        """Global index and visit of draws given by source and number within the source.

        Args:
            sources: Numbers of sources, int64 ``(n,)``.
            draws: Numbers of their draws, int64 ``(n,)``.
        """
        if len(self._streams) == 1:
            ((number, stream),) = self._streams.items()
            local, visit = stream.take(draws)
            return local + self._starts[number], visit
        index, visit = np.empty_like(draws), np.empty_like(draws)
        for number, stream in self._streams.items():
            rows = np.flatnonzero(sources == number)
            if len(rows):
                local, visit[rows] = stream.take(draws[rows])
                index[rows] = local + self._starts[number]
        return index, visit
