"""The mixing strategies: how many draws each source gets in an epoch, and in which order.

| strategy | a source's share of an epoch |
|---|---|
| :class:`ProportionalStrategy` | its size |
| :class:`TemperatureStrategy` | ``size ** (1 / temperature)`` |
| :class:`AnnealedTemperatureStrategy` | the same, the temperature moving with the epochs |
| :class:`FixedWeightStrategy` | a weight of its own |
| :class:`RoundRobinStrategy` | the same for all, strictly in turn |
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from omniloader._types import FloatArray, IntArray
from omniloader.sampling.apportion import largest_remainder, tempered
from omniloader.sampling.checks import (
    checked_epoch,
    checked_source_weights,
    checked_temperature,
    checked_whole,
)
from omniloader.sampling.interleave import Cyclic, Interleave
from omniloader.sampling.mixing import MixingStrategy, Subsample

__all__ = [
    "STRATEGIES",
    "AnnealedTemperatureStrategy",
    "FixedWeightStrategy",
    "MixingStrategy",
    "ProportionalStrategy",
    "RoundRobinStrategy",
    "TemperatureStrategy",
    "WeightedStrategy",
]


class WeightedStrategy(MixingStrategy):
    """A strategy that splits an epoch by weights of the sources.

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

    def _counts(self, epoch: int) -> IntArray:
        return largest_remainder(self._weights(epoch), self.epoch_size)

    @abstractmethod
    def _weights(self, epoch: int) -> FloatArray:
        """Weight of each source; 0 for an empty one."""

    def settings(self) -> dict[str, Any]:
        """The strategy's own options as plain values."""
        return {"epoch_size": self.epoch_size}


class ProportionalStrategy(WeightedStrategy):
    """Each source by its size: every sample once an epoch."""

    def _weights(self, epoch: int) -> FloatArray:
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
        names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(sizes, seed, subsample, epoch_size=epoch_size, names=names)
        self.temperature = checked_temperature(temperature, "temperature")

    def _weights(self, epoch: int) -> FloatArray:
        return tempered(self.effective_sizes, self.temperature)

    def settings(self) -> dict[str, Any]:
        """The strategy's own options as plain values."""
        return {**super().settings(), "temperature": self.temperature}


class AnnealedTemperatureStrategy(WeightedStrategy):
    """A temperature that moves evenly from epoch 0 to epoch ``num_epochs - 1``, then stays.

    Args:
        sizes: Number of samples of each source.
        start_temperature: In epoch 0.
        end_temperature: In epoch ``num_epochs - 1`` and after it.
        num_epochs: Number of epochs of the change.
        seed: Names the order.
        subsample: How samples are drawn within a source.
        epoch_size: Number of draws in an epoch; default the sum of the sources' effective sizes.
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
        names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(sizes, seed, subsample, epoch_size=epoch_size, names=names)
        self.start_temperature = checked_temperature(start_temperature, "start_temperature")
        self.end_temperature = checked_temperature(end_temperature, "end_temperature")
        self.num_epochs = checked_whole(num_epochs, "strategy: num_epochs", 1)

    def temperature_at(self, epoch: int) -> float:
        """The temperature of an epoch."""
        done = min(checked_epoch(epoch) / max(self.num_epochs - 1, 1), 1.0)
        return (1 - done) * self.start_temperature + done * self.end_temperature

    def _weights(self, epoch: int) -> FloatArray:
        return tempered(self.effective_sizes, self.temperature_at(epoch))

    def _settled(self) -> int:
        return self.num_epochs

    def settings(self) -> dict[str, Any]:
        """The strategy's own options as plain values."""
        return {
            **super().settings(),
            "start_temperature": self.start_temperature,
            "end_temperature": self.end_temperature,
            "num_epochs": self.num_epochs,
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
        names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(sizes, seed, subsample, epoch_size=epoch_size, names=names)
        self.weights = checked_source_weights(weights, self.names, self.sizes)

    def _weights(self, epoch: int) -> FloatArray:
        return np.asarray(self.weights) * (np.asarray(self.sizes) > 0)

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
}
"""Strategies by their config names."""
