"""Draws within one source: from the number of a draw to a local index and a visit."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from omniloader._types import FloatArray, IntArray
from omniloader.sampling.permutation import Keys, permute, unpermute
from omniloader.utils.seeding import derive_keys, derive_seed, uniform

_Table = npt.NDArray[np.signedinteger]


class Stream(Protocol):
    """The draws of one source in one epoch."""

    def take(self, draws: IntArray, /) -> tuple[IntArray, IntArray]:
        """Local indices and visits of the draws with these numbers."""
        ...


class InOrder:
    """Every sample once, as they stand."""

    def take(self, draws: IntArray) -> tuple[IntArray, IntArray]:
        """Local indices and visits of the draws with these numbers."""
        return draws, np.zeros_like(draws)


class Passes:
    """Without replacement: one keyed permutation after another.

    Args:
        size: Number of samples.
        seed: Names the sequence of permutations.
        start: Where in that sequence the epoch begins.
    """

    def __init__(self, size: int, seed: int, start: int = 0) -> None:
        self._size, self._seed = size, seed
        self._first, self._skipped = divmod(start, size)
        self._start = start

    def take(self, draws: IntArray) -> tuple[IntArray, IntArray]:
        """Local indices and visits of the draws with these numbers."""
        passes, offsets = np.divmod(draws + self._start, self._size)
        local = permute(offsets, self._size, self._keys(passes))
        visits = passes - self._first
        if self._skipped:
            # The epoch began within a pass: what it skipped of that pass was not visited in it.
            later = np.flatnonzero(visits)
            first = derive_keys(self._seed, self._first)[()]
            visits[later] -= unpermute(local[later], self._size, first) < self._skipped
        return local, visits

    def _keys(self, passes: IntArray) -> Keys | np.uint64:
        if len(passes) == 0 or passes.min() == passes.max():
            return np.uint64(derive_keys(self._seed, int(passes[0]) if len(passes) else 0)[()])
        return derive_keys(self._seed, passes)


class Independent:
    """With replacement: each draw is a function of its number alone.

    A draw is numbered among all draws of the source, not of the sample: the count of one sample
    would need a memory of all draws before.

    Args:
        size: Number of samples.
        seed: Names the draws.
        cumulative: Running sums of the weights, float64 ``(size,)``; None for equal weights.
    """

    def __init__(self, size: int, seed: int, cumulative: FloatArray | None = None) -> None:
        self._size, self._seed, self._cumulative = size, seed, cumulative

    def take(self, draws: IntArray) -> tuple[IntArray, IntArray]:
        """Local indices and visits of the draws with these numbers."""
        points = uniform(derive_keys(self._seed, draws), 0)
        if self._cumulative is None:
            local = np.minimum((points * self._size).astype(np.int64), self._size - 1)
        else:
            local = search(self._cumulative, points * self._cumulative[-1])
        return local, draws.copy()


class Systematic:
    """Without replacement by weight: row i comes floor or ceil of ``count · w_i / Σw`` times.

    Systematic sampling (Madow 1949, "On the theory of systematic sampling, II"): the rows lie on
    a line, each as long as its expected number of draws, and points at distance 1 from a random
    start pick them. Rows of equal weight lie side by side, in random order, so that together
    they are drawn the expected number of times to within one: class-balancing weights give a
    flat histogram. Repeats of a row are its visits 1, 2, ….

    The table of draws is made when it is first needed and costs 16 bytes a draw at most.

    Args:
        weights: Weights of the rows, float64 ``(n,)``, not all zero.
        groups: Number of each row's weight among the different weights, int64 ``(n,)``.
        seed: Names the start and the order.
        count: Number of draws.
    """

    def __init__(self, weights: FloatArray, groups: IntArray, seed: int, count: int) -> None:
        self._weights, self._groups = weights, groups
        self._seed, self._count = seed, count
        self._table: tuple[_Table, _Table] | None = None

    def take(self, draws: IntArray) -> tuple[IntArray, IntArray]:
        """Local indices and visits of the draws with these numbers."""
        if self._table is None:
            self._table = self._draw_all()
        rows, visits = self._table
        return rows[draws].astype(np.int64), visits[draws].astype(np.int64)

    def _draw_all(self) -> tuple[_Table, _Table]:
        size, count = len(self._weights), self._count
        order = self._line()
        cumulative = np.cumsum(self._weights[order])
        cumulative *= count / cumulative[-1]
        start = float(uniform(derive_keys(self._seed, 0), 0))
        small = np.dtype(np.int32 if max(size, count) < 2**31 else np.int64)
        picked = order[search(cumulative, np.arange(count) + start)].astype(small)
        # The points pick rows along the line; their order in time is another shuffle.
        key = np.uint64(derive_seed(self._seed, "time"))
        rows = picked[permute(np.arange(count), count, key)]
        return rows, _running_visits(rows).astype(small)

    def _line(self) -> IntArray:
        """Rows in keyed random order, those of equal weight side by side."""
        size = len(self._weights)
        order = permute(np.arange(size), size, np.uint64(derive_seed(self._seed, "rows")))
        kinds = int(self._groups.max()) + 1
        place = permute(np.arange(kinds), kinds, np.uint64(derive_seed(self._seed, "groups")))
        return order[np.argsort(place[self._groups[order]], kind="stable")]


def search(cumulative: npt.NDArray[np.floating], points: npt.NDArray[np.floating]) -> IntArray:
    """The row whose stretch of the line holds each point; never a row of no length."""
    last = int(np.searchsorted(cumulative, cumulative[-1], side="left"))
    found = np.searchsorted(cumulative, points, side="right")
    return np.minimum(found, last).astype(np.int64)


def _running_visits(rows: _Table) -> IntArray:
    """How often each entry's value stands before it: ``[7, 7, 3, 7]`` gives ``[0, 1, 0, 2]``."""
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    fresh = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)])
    lengths = np.diff(np.r_[fresh, len(ordered)])
    visits = np.empty(len(rows), dtype=np.int64)
    visits[order] = np.arange(len(rows)) - np.repeat(fresh, lengths)
    return visits
