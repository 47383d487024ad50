"""The mixing strategies: how many draws each source gets in an epoch, and in which order.

| strategy | a source's share of an epoch |
|---|---|
| :class:`ProportionalStrategy` | its size |
| :class:`TemperatureStrategy` | ``size ** (1 / temperature)`` |
| :class:`AnnealedTemperatureStrategy` | the same, the temperature moving with the epochs |
| :class:`FixedWeightStrategy` | a weight of its own |
| :class:`ScheduledWeightStrategy` | weights that move by epoch or by step |
| :class:`RoundRobinStrategy` | the same for all, strictly in turn |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from omniloader._types import FloatArray, IntArray
from omniloader.errors import PlanError
from omniloader.sampling.apportion import tempered
from omniloader.sampling.checks import (
    checked_cap,
    checked_source_weights,
    checked_temperature,
    checked_whole,
)
from omniloader.sampling.groups import group_weights
from omniloader.sampling.interleave import Cyclic, Interleave
from omniloader.sampling.mixing import MixingStrategy, Subsample
from omniloader.sampling.schedule import Schedule
from omniloader.sampling.scheduled import ScheduledWeightStrategy
from omniloader.sampling.weighted import MovingStrategy, WeightedStrategy, checked_step_size

__all__ = [
    "STRATEGIES",
    "AnnealedTemperatureStrategy",
    "FixedWeightStrategy",
    "MixingStrategy",
    "ProportionalStrategy",
    "RoundRobinStrategy",
    "ScheduledWeightStrategy",
    "TemperatureStrategy",
]


class ProportionalStrategy(WeightedStrategy):
    """Each source by its size: every sample once an epoch."""

    def _weights(self) -> FloatArray:
        return np.asarray(self.effective_sizes, dtype=np.float64)


class TemperatureStrategy(WeightedStrategy):
    """Each source by ``size ** (1 / temperature)``.

    1 is proportional to size, 2 to its square root, and the higher, the more alike all sources
    (Arivazhagan et al. 2019, "Massively multilingual neural machine translation in the wild").

    Args:
        sizes: Number of samples of each source.
        temperature: Above 0.
        seed: Names the order.
        subsample: How samples are drawn within a source.
        epoch_size: Number of draws in an epoch; default the sum of the sources' effective sizes.
        size_cap: A source counts as at most so many samples in its weight, so that one huge
            source does not leave nothing to the others (Raffel et al. 2020, "Exploring the
            limits of transfer learning", section 3.5.2).
        names: Names of the sources.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        temperature: float = 2.0,
        seed: int = 0,
        subsample: Subsample | None = None,
        *,
        epoch_size: int | None = None,
        size_cap: int | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(sizes, seed, subsample, epoch_size=epoch_size, names=names)
        self.temperature = checked_temperature(temperature, "temperature")
        self.size_cap = checked_cap(size_cap)

    def _weights(self) -> FloatArray:
        return tempered(self.effective_sizes, self.temperature, self.size_cap)

    def settings(self) -> dict[str, Any]:
        """The strategy's own options as plain values."""
        own = {"temperature": self.temperature, "size_cap": self.size_cap}
        return {**super().settings(), **own}


class AnnealedTemperatureStrategy(MovingStrategy):
    """A temperature that moves from ``start_temperature`` to ``end_temperature``, then stays.

    Args:
        sizes: Number of samples of each source.
        start_temperature: In epoch 0.
        end_temperature: In epoch ``num_epochs - 1`` and after it.
        num_epochs: Number of epochs of the change.
        seed: Names the order.
        subsample: How samples are drawn within a source.
        epoch_size: Number of draws in an epoch; default the sum of the sources' effective sizes.
        size_cap: A source counts as at most so many samples in its weight.
        shape: ``"linear"`` or ``"cosine"``.
        num_steps: Move from step to step and arrive after so many, in place of ``num_epochs``.
        step_size: With ``num_steps``: draws of a step over all ranks.
        names: Names of the sources.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        start_temperature: float = 5.0,
        end_temperature: float = 1.0,
        num_epochs: int = 10,
        seed: int = 0,
        subsample: Subsample | None = None,
        *,
        epoch_size: int | None = None,
        size_cap: int | None = None,
        shape: str = "linear",
        num_steps: int | None = None,
        step_size: int | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(sizes, seed, subsample, epoch_size=epoch_size, names=names)
        self.start_temperature = checked_temperature(start_temperature, "start_temperature")
        self.end_temperature = checked_temperature(end_temperature, "end_temperature")
        self.num_epochs = checked_whole(num_epochs, "strategy: num_epochs", 1)
        self.size_cap = checked_cap(size_cap)
        self.step_size = checked_step_size(step_size, num_steps is not None)
        last = max(self.num_epochs - 1, 1)
        if num_steps is not None:
            last = checked_whole(num_steps, "strategy: num_steps", 1)
        values = np.array([[self.start_temperature], [self.end_temperature]])
        self.schedule = Schedule(times=(0, last), values=values, shape=shape)

    def temperature_at(self, epoch: float) -> float:
        """The temperature of an epoch; of a step if it moves from step to step."""
        if epoch < 0:
            raise PlanError(f"epoch must be at least 0, got {epoch!r}")
        return float(self.schedule.at(epoch)[0])

    def _weights_at(self, time: float) -> FloatArray:
        return tempered(self.effective_sizes, self.temperature_at(time), self.size_cap)

    def settings(self) -> dict[str, Any]:
        """The strategy's own options as plain values."""
        return {
            **super().settings(),
            "start_temperature": self.start_temperature,
            "end_temperature": self.end_temperature,
            "until": self.schedule.times[-1],
            "shape": self.schedule.shape,
            "size_cap": self.size_cap,
            "step_size": self.step_size,
        }


class FixedWeightStrategy(WeightedStrategy):
    """Each source by a weight of its own.

    Args:
        sizes: Number of samples of each source.
        weights: One a source, or a dict from names; need not sum to 1. Default: all alike. A
            weight of 0 means never.
        epoch_size: Number of draws in an epoch; default the sum of the sources' effective sizes.
        seed: Names the order.
        subsample: How samples are drawn within a source.
        groups: In place of ``weights``: nested groups whose weights multiply; see
            :func:`~omniloader.sampling.groups.group_weights`.
        names: Names of the sources.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        weights: Sequence[float] | Mapping[str, float] | None = None,
        epoch_size: int | None = None,
        seed: int = 0,
        subsample: Subsample | None = None,
        *,
        groups: Mapping[str, Any] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(sizes, seed, subsample, epoch_size=epoch_size, names=names)
        if groups is not None:
            if weights is not None:
                raise PlanError("strategy: give weights or groups, not both")
            weights = group_weights(groups, self.names, self.sizes)
        self.weights = checked_source_weights(weights, self.names, self.sizes)

    def _weights(self) -> FloatArray:
        return np.asarray(self.weights) * self._alive()

    def settings(self) -> dict[str, Any]:
        """The strategy's own options as plain values."""
        return {**super().settings(), "weights": self.weights}


class RoundRobinStrategy(MixingStrategy):
    """The sources in turn, the same number of draws each: ``A B C A B C``.

    The order is strict, so a step of as many ranks as sources would give each rank one source
    only; use ``fixed`` weights if ranks are to see them all.

    Args:
        sizes: Number of samples of each source.
        samples_per_dataset: Draws of each source in an epoch; default the largest effective
            size, so that no sample stays unseen. Smaller sources begin anew when they are
            used up.
        seed: Names the order within the sources.
        subsample: How samples are drawn within a source.
        names: Names of the sources.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        samples_per_dataset: int | None = None,
        seed: int = 0,
        subsample: Subsample | None = None,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(sizes, seed, subsample, names=names)
        each = max(self.effective_sizes) if samples_per_dataset is None else samples_per_dataset
        self.samples_per_dataset = checked_whole(each, "strategy: samples_per_dataset", 1)

    def __len__(self) -> int:
        return self.samples_per_dataset * sum(size > 0 for size in self.sizes)

    def _counts(self, epoch: int) -> IntArray:
        return np.where(np.asarray(self.sizes) > 0, self.samples_per_dataset, 0)

    def _interleave(self, counts: IntArray, epoch: int, window: int | None) -> Interleave:
        return Cyclic(counts)

    def settings(self) -> dict[str, Any]:
        """The strategy's own options as plain values."""
        return {"samples_per_dataset": self.samples_per_dataset}


STRATEGIES: dict[str, type[MixingStrategy]] = {
    "proportional": ProportionalStrategy,
    "temperature": TemperatureStrategy,
    "annealed_temperature": AnnealedTemperatureStrategy,
    "fixed": FixedWeightStrategy,
    "round_robin": RoundRobinStrategy,
    "scheduled": ScheduledWeightStrategy,
}
"""Strategies by their config names."""
