"""Sums and extremes of columns at the speed of memory, on one thread.

NumPy reduces ``(n, F)`` along the rows well only where F is wide. A narrow array is viewed as
``(n / k, k · F)`` first: k rows side by side. One thread, because a pass feeds blocks that fit
the cache: PyTorch's threads gain nothing there, and where another process holds a core they wait
for each other at every block (ten times slower, measured).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omniloader._types import FloatArray

_WIDE = 512


def reduce_columns(function: np.ufunc, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Reduce rows to one, column by column.

    Args:
        function: ``numpy.add``, ``numpy.minimum`` or ``numpy.maximum``.
        rows: C-contiguous ``(n, F)``, n at least 1.

    Returns:
        ``(F,)`` of the same dtype.
    """
    side_by_side, whole = _layout(rows)
    wide = function.reduce(rows[:whole].reshape(-1, side_by_side * rows.shape[1]), axis=0)
    few = np.concatenate([wide.reshape(side_by_side, -1), rows[whole:]])
    return np.asarray(function.reduce(few, axis=0))


def centre(rows: FloatArray, mean: FloatArray) -> None:
    """Subtract ``mean (F,)`` from C-contiguous rows ``(n, F)``, in place."""
    side_by_side, whole = _layout(rows)
    wide = rows[:whole].reshape(-1, side_by_side * rows.shape[1])
    wide -= np.tile(mean, side_by_side)
    rows[whole:] -= mean


def _layout(rows: npt.NDArray[Any]) -> tuple[int, int]:
    """How many rows to put side by side, and how many rows that takes in."""
    side_by_side = max(1, min(len(rows), _WIDE // rows.shape[1]))
    return side_by_side, len(rows) // side_by_side * side_by_side
