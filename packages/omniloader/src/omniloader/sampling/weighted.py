"""Strategies that split an epoch by weights of the sources, constant in it or moving."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from omniloader._types import FloatArray, IntArray
from omniloader.errors import PlanError
from omniloader.sampling.apportion import largest_remainder
from omniloader.sampling.checks import checked_whole
from omniloader.sampling.interleave import WINDOW, Chained, Interleave, Shuffled
from omniloader.sampling.mixing import MixingStrategy, Subsample
from omniloader.sampling.schedule import Schedule
from omniloader.utils.seeding import derive_seed

# Weights that move by step are held constant over this part of an epoch.
_SEGMENTS = 64


class SizedStrategy(MixingStrategy):
    """A strategy whose epochs have a given number of draws.

    Args:
        sizes: Number of samples of each source.
        seed: Names the order.
        subsample: How samples are drawn within a source.
        epoch_size: Number of draws in an epoch; default the sum of the sources' effective sizes.
        names: Names of the sources.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        seed: int = 0,
        subsample: Subsample | None = None,
        *,
        epoch_size: int | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(sizes, seed, subsample, names=names)
        total = sum(self.effective_sizes) if epoch_size is None else epoch_size
        self.epoch_size = checked_whole(total, "strategy: epoch_size", 1)

    def __len__(self) -> int:
        return self.epoch_size

    def settings(self) -> dict[str, Any]:
        """The strategy's own options as plain values."""
        return {"epoch_size": self.epoch_size}


class WeightedStrategy(SizedStrategy):
    """A strategy whose weights are the same in every epoch."""

    @abstractmethod
    def _weights(self) -> FloatArray:
        """Weight of each source; 0 for an empty one."""

    def _counts(self, epoch: int) -> IntArray:
        return largest_remainder(self._weights(), self.epoch_size)


class MovingStrategy(SizedStrategy):
    """A strategy whose weights follow a schedule, from epoch to epoch or from step to step.

    By step, an epoch is cut into segments of whole steps, at most 64 and the schedule's own
    points; each holds the weights of its middle.

    Args:
        sizes: Number of samples of each source.
        seed: Names the order.
        subsample: How samples are drawn within a source.
        epoch_size: Number of draws in an epoch; default the sum of the sources' effective sizes.
        names: Names of the sources.
    """

    schedule: Schedule
    step_size: int | None

    @abstractmethod
    def _weights_at(self, time: float) -> FloatArray:
        """Weight of each source at an epoch, or at a step; 0 for an empty one."""

    def _segments(self, epoch: int) -> list[IntArray]:
        """Draws of each source in each segment of an epoch."""
        if self.step_size is None:
            return [largest_remainder(self._weights_at(epoch), self.epoch_size)]
        bounds = self._bounds(epoch, self.step_size)
        target = np.zeros(len(self.sizes))
        done = np.zeros(len(self.sizes), dtype=np.int64)
        segments = []
        for start, stop in itertools.pairwise(bounds):
            middle = (epoch * self.epoch_size + (start + stop) / 2) / self.step_size
            weights = self._weights_at(middle)
            target += weights / weights.sum() * (stop - start)
            # What rounding has withheld so far comes with the next segment.
            owed = np.where(weights > 0, np.maximum(target - done, 1e-9), 0)
            segments.append(largest_remainder(owed, stop - start))
            done += segments[-1]
        return segments

    def _bounds(self, epoch: int, step_size: int) -> list[int]:
        """Positions at which segments meet, the ends of the epoch included."""
        first = epoch * self.epoch_size
        if first >= self.schedule.times[-1] * step_size:
            return [0, self.epoch_size]
        steps = -(-self.epoch_size // step_size)
        cuts = np.unique(np.linspace(0, steps, min(steps, _SEGMENTS) + 1).astype(int)) * step_size
        knots = [math.ceil(time) * step_size - first for time in self.schedule.times]
        inside = {cut for cut in (*cuts.tolist(), *knots) if 0 < cut < self.epoch_size}
        return [0, *sorted(inside), self.epoch_size]

    def _counts(self, epoch: int) -> IntArray:
        counts: IntArray = np.sum(self._segments(epoch), axis=0, dtype=np.int64)
        return counts

    def _settled(self) -> int:
        last = self.schedule.times[-1]
        if self.step_size is None:
            return math.ceil(last)
        return math.ceil(last * self.step_size / self.epoch_size)

    def _interleave(self, counts: IntArray, epoch: int, window: int | None) -> Interleave:
        segments = self._segments(epoch)
        if len(segments) == 1 or int(counts.sum()) != self.epoch_size:
            return super()._interleave(counts, epoch, window)
        seed = derive_seed(self.seed, "interleave", epoch)
        steady = window is not None
        parts = [
            Shuffled(part, derive_seed(seed, number), window or WINDOW, steady)
            for number, part in enumerate(segments)
        ]
        return Chained(parts, len(self.sizes))


def checked_step_size(step_size: int | None, by_step: bool) -> int | None:
    """The draws of a step, which a schedule by step needs and one by epoch must not have."""
    if by_step and step_size is None:
        raise PlanError(
            "strategy: a schedule by step needs step_size, the draws of a step over all ranks "
            "(batch_size * num_replicas)"
        )
    if not by_step and step_size is not None:
        raise PlanError("strategy: step_size has no meaning for a schedule by epoch; leave it out")
    return None if step_size is None else checked_whole(step_size, "strategy: step_size", 1)
