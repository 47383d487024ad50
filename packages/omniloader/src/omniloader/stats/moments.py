"""Count, mean, squared deviations, minimum and maximum of columns, in float64 and mergeable."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omniloader._types import FloatArray
from omniloader.stats.columnwise import centre, reduce_columns

# A block of 2**17 float64 numbers is 1 MiB: converted, centred and squared within the cache.
_BLOCK = 1 << 17


class Moments:
    """Running moments of ``width`` columns.

    Blocks are centred by their own mean before they are squared and then joined by the pairwise
    update of Chan, Golub & LeVeque 1979, so the result does not depend on how rows were grouped
    (to rounding) and does not cancel where the mean is large beside the spread.

    Args:
        width: Number of columns F.
    """

    def __init__(self, width: int) -> None:
        self.count = 0
        self.mean: FloatArray = np.zeros(width)
        self.squares: FloatArray = np.zeros(width)
        self.low: FloatArray = np.full(width, np.inf)
        self.high: FloatArray = np.full(width, -np.inf)

    def update(self, rows: npt.NDArray[Any], low: npt.NDArray[Any], high: npt.NDArray[Any]) -> None:
        """Add rows.

        Args:
            rows: Finite float32 or float64 ``(n, F)``, C-contiguous, n at least 1.
            low: Minimum of each column, ``(F,)``.
            high: Maximum of each column.
        """
        self.low = np.minimum(self.low, low)
        self.high = np.maximum(self.high, high)
        step = max(1, _BLOCK // rows.shape[1])
        for start in range(0, len(rows), step):
            self._join(*_of_block(rows[start : start + step].astype(np.float64)))

    def merge(self, other: Moments) -> None:
        """Add what another accumulator has seen."""
        if other.count:
            self.low = np.minimum(self.low, other.low)
            self.high = np.maximum(self.high, other.high)
            self._join(other.count, other.mean, other.squares)

    def _join(self, count: int, mean: FloatArray, squares: FloatArray) -> None:
        total = self.count + count
        delta = mean - self.mean
        # An overflow here (values near 1e300) is reported by whoever asks for the figures.
        with np.errstate(over="ignore", invalid="ignore"):
            self.squares = self.squares + squares + delta * delta * (self.count * (count / total))
            self.mean = self.mean + delta * (count / total)
        self.count = total

    def std(self) -> FloatArray:
        """The population's standard deviation (ddof 0), ``(F,)``."""
        return np.asarray(np.sqrt(self.squares / self.count))


def _of_block(block: FloatArray) -> tuple[int, FloatArray, FloatArray]:
    """Count, mean and squared deviations of rows, which are overwritten."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = reduce_columns(np.add, block) / len(block)
        centre(block, mean)
        np.multiply(block, block, out=block)
        return len(block), mean, reduce_columns(np.add, block)
