"""How many of the first p draws belong to each source: counts that never step back."""

from __future__ import annotations

import heapq
from typing import Protocol

import numpy as np

from omniloader._types import FloatArray, IntArray


class Counts(Protocol):
    """Running counts of the sources."""

    def at(self, positions: IntArray, /) -> IntArray:
        """Draws of each source before each position, ``(n, S)``; rows sum to the positions."""
        ...


class RunningCounts:
    """How many of the first p draws belong to each source, for any p.

    Each split of a binary tree over the sources rounds the running count of its lighter side; the
    heavier side takes the rest. So at every p the counts sum to p, no count ever steps back, and
    each stays close to its share of p. Built like a Huffman code: heavy sources are split
    off first, where the error is least.

    Args:
        counts: Number of draws of each source at the end, int64 ``(S,)``.
        phases: Where within its period each split rounds up, ``(S,)`` in [0, 1); 0.5 rounds
            to the nearest.
    """

    def __init__(self, counts: IntArray, phases: FloatArray | None = None) -> None:
        self.counts = np.asarray(counts, dtype=np.int64)
        self.total = int(self.counts.sum())
        self._splits = _splits(self.counts, phases)

    def at(self, positions: IntArray) -> IntArray:
        """Draws of each source before each position.

        Args:
            positions: int64 ``(n,)``, each in ``[0, total]``.

        Returns:
            int64 ``(n, S)`` whose rows sum to the positions.
        """
        nodes: dict[int, IntArray] = {-1: np.asarray(positions, dtype=np.int64)}
        out = np.zeros((len(positions), len(self.counts)), dtype=np.int64)
        for parent, light, heavy, ratio, phase in self._splits:
            whole = nodes.pop(parent)
            part = np.floor(whole * ratio + phase).astype(np.int64)
            nodes[light], nodes[heavy] = part, whole - part
        # What is left are leaves; a single source has no split at all.
        for node, values in nodes.items():
            out[:, self._only if node == -1 else node] = values
        return out

    @property
    def _only(self) -> int:
        return int(np.argmax(self.counts))


class SteadyCounts:
    """Running counts at the borders of windows, each within one draw of its source's share.

    The sources lie on a line and the count of one is the difference of two rounded ends, which
    cannot be off by a whole draw. Where a source has less than a draw a window that difference
    could step back; such rare sources form a group at either end of the line, where it cannot,
    and each group is split by :class:`RunningCounts` (with five rare sources or more, one of
    them may be off by a little more than a draw).

    Args:
        counts: Number of draws of each source at the end, int64 ``(S,)``.
        window: Distance of the positions that will be asked for.
    """

    def __init__(self, counts: IntArray, window: int) -> None:
        self._counts = np.asarray(counts, dtype=np.int64)
        total = int(self._counts.sum())
        rising = np.argsort(self._counts, kind="stable")
        # A little above one draw a window, so that rounding of floats cannot matter.
        rare = self._counts[rising] * window < 1.001 * total
        ends = (rising[rare][::2], rising[rare][1::2])
        self._groups = [(end, RunningCounts(self._counts[end])) for end in ends]
        self._steady = rising[~rare]
        sizes = [self._counts[ends[0]].sum(), *self._counts[self._steady]]
        self._shares = np.cumsum(sizes) / total

    def at(self, positions: IntArray) -> IntArray:
        """Draws of each source before each position.

        Args:
            positions: int64 ``(n,)``, multiples of the window, or the end.

        Returns:
            int64 ``(n, S)`` whose rows sum to the positions.
        """
        whole = np.asarray(positions, dtype=np.int64)
        ends = np.floor(whole[:, None] * self._shares + 0.5).astype(np.int64)
        out = np.zeros((len(whole), len(self._counts)), dtype=np.int64)
        out[:, self._steady] = np.diff(ends, axis=1)
        for (group, running), part in zip(
            self._groups, (ends[:, 0], whole - ends[:, -1]), strict=True
        ):
            if len(group):
                out[:, group] = running.at(part)
        return out


def _splits(
    counts: IntArray, phases: FloatArray | None
) -> list[tuple[int, int, int, float, float]]:
    """From the root down: (node, lighter child, heavier child, share of the lighter, phase).

    Nodes are numbers of sources, then inner nodes; the root is -1.
    """
    heap = [(int(count), number) for number, count in enumerate(counts) if count > 0]
    heapq.heapify(heap)
    merged: list[tuple[int, int, int, float, float]] = []
    inner = len(counts)
    while len(heap) > 1:
        light, heavy = heapq.heappop(heap), heapq.heappop(heap)
        together = light[0] + heavy[0]
        phase = 0.5 if phases is None else float(phases[len(merged)])
        # Away from 0 and 1, so that the last position gives exactly the whole count.
        phase = min(max(phase, 1e-3), 1 - 1e-3)
        node = inner if heap else -1
        merged.append((node, light[1], heavy[1], light[0] / together, phase))
        heapq.heappush(heap, (together, node))
        inner += 1
    return merged[::-1]
