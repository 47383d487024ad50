"""Whole numbers from shares: exact counts, and running counts that never step back."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from omniloader._types import FloatArray, IntArray


def largest_remainder(weights: FloatArray | Sequence[float], total: int) -> IntArray:
    """Split ``total`` in proportion to ``weights``, exactly (Hamilton's method).

    Everyone gets the whole part of their share; what is left goes to the largest remainders, the
    earlier of equal ones first::

        >>> largest_remainder([5, 3, 1], 10).tolist()
        [6, 3, 1]

    Args:
        weights: Non-negative ``(n,)``, not all zero.
        total: What to split, at least 0.

    Returns:
        int64 ``(n,)`` that sums to ``total``; a weight of 0 gets 0.
    """
    shares = np.asarray(weights, dtype=np.float64)
    # Scaled first: a sum of huge weights must not overflow.
    shares = shares / shares.max()
    quotas = shares * (total / shares.sum())
    # Rounding must not cost a whole quota its last unit (2.9999999 for 3).
    nearest = np.rint(quotas)
    near = np.abs(quotas - nearest) <= 1e-12 * np.maximum(nearest, 1.0)
    quotas = np.where(near, nearest, quotas)
    counts = np.floor(quotas).astype(np.int64)
    missing = total - int(counts.sum())
    order = np.argsort(-(quotas - counts), kind="stable")
    order = order[shares[order] > 0]
    if missing >= 0:
        counts += missing // len(order) * (shares > 0)
        counts[order[: missing % len(order)]] += 1
    else:  # only where floats cannot tell the quotas of a huge total apart
        counts[int(np.argmax(counts))] += missing
    return np.asarray(counts, dtype=np.int64)


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
        nodes: dict[int, npt.NDArray[np.int64]] = {-1: np.asarray(positions, dtype=np.int64)}
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


def tempered(sizes: Sequence[int], temperature: float) -> FloatArray:
    """``size ** (1 / temperature)``, scaled so that the largest is 1; 0 stays 0.

    In log space, so that a small temperature does not overflow.
    """
    values = np.asarray(sizes, dtype=np.float64)
    with np.errstate(divide="ignore"):
        logs = np.log(values) - np.log(values.max())
    return np.where(values > 0, np.exp(np.where(values > 0, logs, 0.0) / temperature), 0.0)
