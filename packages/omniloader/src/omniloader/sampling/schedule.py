"""Values that move over time: linear, cosine, piecewise constant."""

from __future__ import annotations

import bisect
import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from omniloader._types import FloatArray
from omniloader.errors import PlanError

SHAPES = ("linear", "cosine", "piecewise")


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Values at some points in time, and how they move between two of them.

    Before the first point its values hold, after the last point its own.

    Args:
        times: When, rising.
        values: What then, one row a time.
        shape: ``"linear"``, ``"cosine"`` (slow at both ends; Loshchilov & Hutter 2017, "SGDR"),
            or ``"piecewise"``: the values of a point hold until the next.

    Raises:
        PlanError: If the times do not rise or the shape is not known.
    """

    times: Sequence[float]
    values: FloatArray
    shape: str = "linear"

    def __post_init__(self) -> None:
        """Check times and shape."""
        if self.shape not in SHAPES:
            raise PlanError(
                f"schedule: shape must be one of {', '.join(SHAPES)}, got {self.shape!r}"
            )
        if not self.times:
            raise PlanError("schedule: must have at least one point, got none")
        for time in self.times:
            real = isinstance(time, numbers.Real) and not isinstance(time, bool)
            if not real or not math.isfinite(time) or time < 0:
                raise PlanError(
                    f"schedule: a point's time must be a number of at least 0, got {time!r}"
                )
        if any(b <= a for a, b in zip(self.times, self.times[1:], strict=False)):
            raise PlanError(f"schedule: times must rise, got {list(self.times)}")

    def at(self, time: float) -> FloatArray:
        """The values at a time, one row."""
        after = bisect.bisect_right(self.times, time)
        if after == 0:
            return np.asarray(self.values[0])
        if after == len(self.times) or self.shape == "piecewise":
            return np.asarray(self.values[after - 1])
        start, end = self.times[after - 1], self.times[after]
        done = (time - start) / (end - start)
        if done == 0:  # exactly, so that an infinite value is not multiplied by 0
            return np.asarray(self.values[after - 1])
        if self.shape == "cosine":
            done = (1 - math.cos(math.pi * done)) / 2
        return np.asarray((1 - done) * self.values[after - 1] + done * self.values[after])
