"""Which source each position of an epoch draws from, and which of its draws that is.

An interleave is a pure function from positions to (source, number of the draw within the
source). Within a source the draws always come in order: 0, 1, 2, ….
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from omniloader._types import IntArray
from omniloader.sampling.running import Counts, RunningCounts, SteadyCounts
from omniloader.utils.seeding import derive_keys, derive_seed, mix64, uniform

WINDOW = 64
"""Positions that are shuffled together."""

# Windows are computed whole; more slots than this at once would leave the cache.
_DENSE = 3 << 12


class Interleave(Protocol):
    """What a plan asks of an interleave."""

    def __len__(self) -> int: ...

    def locate(self, positions: IntArray, /) -> tuple[IntArray, IntArray]:
        """Source and number of the draw within it, at each position."""
        ...

    def drawn(self, position: int, /) -> IntArray:
        """Draws of each source before a position, int64 ``(S,)``."""
        ...


class Cyclic:
    """The sources in turn: ``A B C A B C``; one that is used up is left out: ``A B A B B``.

    Args:
        counts: Draws of each source, int64 ``(S,)``.
    """

    def __init__(self, counts: IntArray) -> None:
        self._counts = np.asarray(counts, dtype=np.int64)
        # Stages between one source's last round and the next one's, with the same sources each.
        ends = np.unique(self._counts[self._counts > 0])
        self._rounds = np.concatenate([np.zeros(1, dtype=np.int64), ends])
        self._active = [np.flatnonzero(self._counts >= end) for end in ends]
        widths = np.array([len(active) for active in self._active], dtype=np.int64)
        self._starts = np.cumsum(np.concatenate([[0], np.diff(self._rounds) * widths]))

    def __len__(self) -> int:
        return int(self._counts.sum())

    def locate(self, positions: IntArray) -> tuple[IntArray, IntArray]:
        """Source and number of the draw within it, at each position."""
        stage = np.searchsorted(self._starts, positions, side="right") - 1
        source, draw = np.empty_like(positions), np.empty_like(positions)
        for number, active in enumerate(self._active):
            rows = np.flatnonzero(stage == number)
            done, turn = np.divmod(positions[rows] - self._starts[number], len(active))
            source[rows], draw[rows] = active[turn], done + self._rounds[number]
        return source, draw

    def drawn(self, position: int) -> IntArray:
        """Draws of each source before a position, int64 ``(S,)``."""
        stage = int(np.searchsorted(self._starts, position, side="left")) - 1
        if stage < 0:
            return np.zeros_like(self._counts)
        active = self._active[stage]
        done, turn = divmod(position - int(self._starts[stage]), len(active))
        out: IntArray = np.minimum(self._counts, self._rounds[stage] + done)
        out[active[:turn]] += 1
        return out


class Sequential:
    """The sources one after another: ``A A B B B``.

    Args:
        counts: Draws of each source, int64 ``(S,)``.
    """

    def __init__(self, counts: IntArray) -> None:
        self._counts = np.asarray(counts, dtype=np.int64)
        self._ends = np.cumsum(self._counts)

    def __len__(self) -> int:
        return int(self._counts.sum())

    def locate(self, positions: IntArray) -> tuple[IntArray, IntArray]:
        """Source and number of the draw within it, at each position."""
        source = np.searchsorted(self._ends, positions, side="right").astype(np.int64)
        return source, positions - (self._ends - self._counts)[source]

    def drawn(self, position: int) -> IntArray:
        """Draws of each source before a position, int64 ``(S,)``."""
        before = np.maximum(position - (self._ends - self._counts), 0)
        return np.asarray(np.minimum(before, self._counts), dtype=np.int64)


class Shuffled:
    """The sources in random order, every window holding its share of each.

    Window w of ``window`` positions holds the difference of two running counts
    (:class:`~omniloader.sampling.running.RunningCounts`) of each source, shuffled. So a source
    that is drawn several times over comes round evenly, and any position costs one window.

    Args:
        counts: Draws of each source in the epoch, int64 ``(S,)``.
        seed: From :func:`~omniloader.utils.seeding.derive_seed`.
        window: Positions shuffled together.
        steady: Keep running counts within one draw of the shares
            (:class:`~omniloader.sampling.running.SteadyCounts`). False rounds at random places,
            so that a rare source may come anywhere.
    """

    def __init__(
        self, counts: IntArray, seed: int, window: int = WINDOW, steady: bool = False
    ) -> None:
        self._counts = np.asarray(counts, dtype=np.int64)
        self._total = int(self._counts.sum())
        self._window = window
        self._seed = derive_seed(seed, "order")
        self._active = np.flatnonzero(self._counts)
        active = self._counts[self._active]
        phases = uniform(derive_keys(derive_seed(seed, "phase"), np.arange(len(active))), 0)
        self._running: Counts = (
            SteadyCounts(active, window)
            if steady and len(active)
            else RunningCounts(active, phases)
        )

    def __len__(self) -> int:
        return self._total

    def locate(self, positions: IntArray) -> tuple[IntArray, IntArray]:
        """Source and number of the draw within it, at each position."""
        if len(self._active) == 1 or len(positions) == 0:
            return np.full(len(positions), self._active[0]), positions
        windows, offsets = np.divmod(positions, self._window)
        rows, row = _rows_of(windows)
        if len(rows) > max(1, _DENSE // self._window):
            half = len(positions) // 2
            parts = zip(self.locate(positions[:half]), self.locate(positions[half:]), strict=True)
            source, draw = (np.concatenate(part) for part in parts)
            return source, draw
        starts = np.minimum(rows * self._window, self._total)
        ends = np.minimum(starts + self._window, self._total)
        before = self._running.at(starts)
        within = self._running.at(ends) - before
        within[:, -1] += self._window - (ends - starts)  # slots past the end of the epoch
        # Slots are numbered source by source within their window, windows one after another.
        number = np.repeat(np.tile(np.arange(len(self._active)), len(rows)), within.ravel())
        shift = before - np.cumsum(within, axis=1) + within
        table = _place(number.reshape(len(rows), -1), rows, ends - starts, self._seed)
        slot = table[row * self._window + offsets]
        chosen = number[row * self._window + slot]
        return self._active[chosen], slot + shift[row, chosen]

    def drawn(self, position: int) -> IntArray:
        """Draws of each source before a position, int64 ``(S,)``."""
        start = position - position % self._window
        out = np.zeros(len(self._counts), dtype=np.int64)
        out[self._active] = self._running.at(np.array([start]))[0]
        here, _ = self.locate(np.arange(start, position))
        return out + np.bincount(here, minlength=len(out))


class Chained:
    """Interleaves one after another, the draws of each source going on.

    Args:
        parts: The interleaves, in order.
        sources: Number of sources.
    """

    def __init__(self, parts: Sequence[Interleave], sources: int) -> None:
        self._parts = parts
        self._starts = np.cumsum([0, *(len(part) for part in parts)])
        counts = [np.zeros(sources, dtype=np.int64), *(part.drawn(len(part)) for part in parts)]
        self._before = np.cumsum(counts, axis=0)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def locate(self, positions: IntArray) -> tuple[IntArray, IntArray]:
        """Source and number of the draw within it, at each position."""
        which = np.searchsorted(self._starts, positions, side="right") - 1
        source, draw = np.empty_like(positions), np.empty_like(positions)
        for number in np.unique(which).tolist():
            rows = np.flatnonzero(which == number)
            own, local = self._parts[number].locate(positions[rows] - self._starts[number])
            source[rows], draw[rows] = own, local + self._before[number][own]
        return source, draw

    def drawn(self, position: int) -> IntArray:
        """Draws of each source before a position, int64 ``(S,)``."""
        which = int(np.searchsorted(self._starts, position, side="right")) - 1
        if which == len(self._parts):
            return np.asarray(self._before[-1])
        here = self._parts[which].drawn(position - int(self._starts[which]))
        return np.asarray(self._before[which] + here)


def _rows_of(windows: IntArray) -> tuple[IntArray, IntArray]:
    """The windows to compute, ascending, and which of them each position is in."""
    first, last = int(windows.min()), int(windows.max())
    if last - first < len(windows):
        return np.arange(first, last + 1), windows - first
    distinct, row = np.unique(windows, return_inverse=True)
    return distinct, row


def _place(source: IntArray, rows: IntArray, lengths: IntArray, seed: int) -> IntArray:
    """Shuffle each window: the slot that stands at each offset, windows one after another.

    Sorting random words hands offsets to slots; sorting again by (source, offset) puts the
    slots of each source in order. Word and offset share one integer, so that plain sorts do.
    """
    window = source.shape[1]
    bits = max(1, (window - 1).bit_length())
    offsets = np.arange(window, dtype=np.uint64)
    words = mix64(derive_keys(seed, rows)[:, None] ^ mix64(offsets)[None, :])
    words >>= np.uint64(bits + 1)
    words <<= np.uint64(bits)
    words |= offsets
    # In a shorter last window the offsets past its end go to the slots past its end.
    words[-1, int(lengths[-1]) :] |= np.uint64(1 << 63)
    words.sort(axis=1)
    ordered = words.view(np.int64)
    ordered &= (1 << bits) - 1
    ordered |= source << bits
    ordered.sort(axis=1)
    ordered &= (1 << bits) - 1
    ordered += np.arange(len(rows))[:, None] * window
    table = np.empty(source.size, dtype=np.int64)
    table[ordered.ravel()] = np.tile(np.arange(window), len(rows))
    return table
