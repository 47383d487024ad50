"""Weights of the sources that move over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from omniloader._types import FloatArray
from omniloader.errors import PlanError
from omniloader.sampling.checks import checked_source_weights
from omniloader.sampling.mixing import Subsample
from omniloader.sampling.schedule import Schedule
from omniloader.sampling.weighted import MovingStrategy, checked_step_size


class ScheduledWeightStrategy(MovingStrategy):
    """Weights that move from point to point, by epoch or by step.

    ::

        ScheduledWeightStrategy(sizes, points=[
            {"at": 0, "weights": {"speech": 1, "video": 0}},
            {"at": 10, "weights": {"speech": 1, "video": 1}},
        ], names=["speech", "video"])

    Args:
        sizes: Number of samples of each source.
        points: When (``at``, in epochs or steps) and what ``weights`` then, one a source or a
            dict from names. Weights are taken as shares of their point. Default: one point,
            all sources alike.
        shape: ``"linear"``, ``"cosine"`` or ``"piecewise"``.
        unit: ``"epoch"`` or ``"step"``.
        step_size: With ``unit="step"``: draws of a step over all ranks.
        epoch_size: Number of draws in an epoch; default the sum of the sources' effective sizes.
        seed: Names the order.
        subsample: How samples are drawn within a source.
        names: Names of the sources.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        points: Sequence[Mapping[str, Any]] | None = None,
        shape: str = "linear",
        unit: str = "epoch",
        step_size: int | None = None,
        epoch_size: int | None = None,
        seed: int = 0,
        subsample: Subsample | None = None,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(sizes, seed, subsample, epoch_size=epoch_size, names=names)
        if unit not in ("epoch", "step"):
            raise PlanError(f"strategy: unit must be one of epoch, step, got {unit!r}")
        self.step_size = checked_step_size(step_size, unit == "step")
        points = [{"at": 0, "weights": None}] if points is None else points
        for point in points:
            if not isinstance(point, Mapping) or set(point) != {"at", "weights"}:
                raise PlanError(
                    f"strategy: a point must be {{at: number, weights: ...}}, got {point!r}"
                )
        rows = [checked_source_weights(p["weights"], self.names, self.sizes) for p in points]
        alive = np.array(rows, dtype=np.float64).reshape(len(rows), len(self.sizes)) * self._alive()
        shares = alive / alive.sum(axis=1, keepdims=True)
        self.schedule = Schedule(times=[p["at"] for p in points], values=shares, shape=shape)

    def _weights_at(self, time: float) -> FloatArray:
        return self.schedule.at(time)

    def settings(self) -> dict[str, Any]:
        """The strategy's own options as plain values."""
        return {
            **super().settings(),
            "times": list(self.schedule.times),
            "shares": self.schedule.values.tolist(),
            "shape": self.schedule.shape,
            "step_size": self.step_size,
        }
