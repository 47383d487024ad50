"""Quartiles of columns: exact while the values fit a budget, then sketched."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from omniloader._types import FloatArray
from omniloader.errors import StatsError
from omniloader.stats.sketch import QuartileSketch

# Columns gathered at once for the exact figures: one cache line of float32.
_GROUP = 16


class Quartiles:
    """Running quartiles of ``width`` columns, mergeable.

    Args:
        width: Number of columns F.
        budget: Bytes of values kept before the sketch takes over.
    """

    def __init__(self, width: int, budget: int) -> None:
        self.width = width
        self.budget = budget
        self._kept: list[npt.NDArray[Any]] = []
        self._bytes = 0
        self._sketch: QuartileSketch | None = None

    @property
    def method(self) -> Literal["exact", "kll"]:
        """How the figures are found at present."""
        return "exact" if self._sketch is None else "kll"

    def rank_error(self) -> float:
        """0 while exact; else how far a rank may be off, as a share of the rows (99 %)."""
        return 0.0 if self._sketch is None else self._sketch.rank_error()

    def update(self, rows: npt.NDArray[Any]) -> None:
        """Add finite rows.

        Args:
            rows: float32 or float64 ``(n, F)``; kept by copy.

        Raises:
            StatsError: If the dtype changes once values are sketched.
        """
        if self._sketch is None and self._bytes + rows.nbytes <= self.budget:
            self._kept.append(rows.copy())
            self._bytes += rows.nbytes
            return
        self._to_sketch(rows.dtype).update(rows)

    def _to_sketch(self, dtype: np.dtype[Any]) -> QuartileSketch:
        if self._sketch is None:
            wide = np.result_type(dtype, *(rows.dtype for rows in self._kept))
            self._sketch = QuartileSketch(self.width, wide, self.budget)
            # Popped as they go: the copies and the sketch never stand side by side in full.
            self._kept.reverse()
            while self._kept:
                self._sketch.update(self._kept.pop())
            self._bytes = 0
        if np.result_type(dtype, self._sketch.dtype) != self._sketch.dtype:
            raise StatsError(
                f"values must keep one dtype, got {dtype} after {self._sketch.dtype}; "
                "cast them alike in the source"
            )
        return self._sketch

    def merge(self, other: Quartiles) -> None:
        """Add what another accumulator of the same width and budget has seen."""
        for rows in other._kept:
            self.update(rows)
        if other._sketch is not None:
            mine = self._to_sketch(other._sketch.dtype)
            if mine.dtype != other._sketch.dtype:
                raise StatsError(
                    f"values must keep one dtype, got {other._sketch.dtype} and {mine.dtype}; "
                    "cast them alike in the source"
                )
            mine.merge(other._sketch)

    def figures(self) -> FloatArray:
        """First quartile, median and third quartile, ``(3, F)``.

        Exact ones interpolate linearly between the two nearest ranks, as ``numpy.quantile``.
        """
        if self._sketch is not None:
            return self._sketch.quartiles()
        out = np.empty((3, self.width))
        for start in range(0, self.width, _GROUP):
            group = slice(start, start + _GROUP)
            columns = np.concatenate([rows[:, group].T for rows in self._kept], axis=1)
            out[:, group] = _exact(columns)
        return out


def _exact(columns: npt.NDArray[Any]) -> FloatArray:
    """Quartiles of contiguous columns ``(F, n)``, which are reordered."""
    middle = (columns.shape[1] - 1) // 2
    median = _at(columns, 0.5, 0, columns.shape[1])
    # Now everything left of the middle is smaller: each quartile needs only its half.
    first = _at(columns, 0.25, 0, middle + 1)
    third = _at(columns, 0.75, middle, columns.shape[1])
    return np.stack([first, median, third])


def _at(columns: npt.NDArray[Any], share: float, start: int, stop: int) -> FloatArray:
    """One quantile, known to lie in positions ``[start, stop)``, or between them and the next."""
    # One kth at a time: numpy.partition with several is an order of magnitude slower.
    position = (columns.shape[1] - 1) * share
    below = int(position)
    columns[:, start:stop].partition(below - start, axis=1)
    low = columns[:, below].astype(np.float64)
    fraction = position - below
    if not fraction:
        return np.asarray(low)
    high = columns[:, below + 1 :].min(axis=1).astype(np.float64)
    return np.asarray(low + fraction * (high - low))
