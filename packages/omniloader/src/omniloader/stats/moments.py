"""Count, mean, squared deviations, minimum and maximum of columns, in float64 and mergeable."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from omniloader._types import FloatArray

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

    def bound(self, low: Tensor, high: Tensor) -> None:
        """Widen minimum and maximum to those of rows that :meth:`update` gets, each ``(F,)``."""
        self.low = np.minimum(self.low, low.to(torch.float64).numpy())
        self.high = np.maximum(self.high, high.to(torch.float64).numpy())

    def update(self, rows: Tensor) -> None:
        """Add finite float rows ``(n, F)``, n at least 1."""
        for block in torch.split(rows, max(1, _BLOCK // rows.shape[1])):
            self._join(*_of_block(block.to(torch.float64)))

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


def _of_block(block: Tensor) -> tuple[int, FloatArray, FloatArray]:
    """Count, mean and squared deviations; sums as products with ones, 5x faster than sum(0)."""
    count = block.shape[0]
    ones = torch.ones(1, count, dtype=torch.float64)
    mean = ones @ block / count
    centred = block - mean
    rest = ones @ centred / count  # what rounding of the mean left over
    squares = ones @ (centred * centred) - count * rest * rest
    return count, (mean + rest)[0].numpy(), squares.clamp_min_(0.0)[0].numpy()
