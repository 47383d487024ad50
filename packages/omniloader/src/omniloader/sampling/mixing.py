"""What all mixing strategies share: sources, counts, and the plan made of them."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from omniloader._types import IntArray
from omniloader.errors import PlanError
from omniloader.sampling.checks import checked_epoch, checked_names, checked_whole, per_source
from omniloader.sampling.interleave import Interleave, Shuffled
from omniloader.sampling.plan import EpochPlan
from omniloader.sampling.streams import Stream
from omniloader.sampling.subsamplers import IndexPool, SubsampleConfig
from omniloader.utils.seeding import derive_seed

Subsample = (
    SubsampleConfig | Sequence[SubsampleConfig | None] | Mapping[str, SubsampleConfig | None]
)


class MixingStrategy(ABC):
    """Decides how sources are mixed in an epoch.

    A source without samples is skipped with a warning and never gets a share.

    Args:
        sizes: Number of samples of each source.
        seed: Names the order.
        subsample: How samples are drawn within a source: one config for all sources, a list
            with one a source, or a dict from names of sources.
        names: Names of the sources; default ``dataset_<i>``. They do not change the order.

    Raises:
        PlanError: If sizes, names or subsampling cannot be used, naming the source.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        seed: int = 0,
        subsample: Subsample | None = None,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        self.names = checked_names(sizes, names)
        self.sizes = [
            checked_whole(size, f"source '{name}': size", 0)
            for name, size in zip(self.names, sizes, strict=True)
        ]
        self.seed = int(seed)
        self.subsample = _configs(subsample, self.names)
        self._pools = [
            IndexPool(
                size,
                config.replacement,
                config.policy,
                derive_seed(self.seed, "source", number),
                config.sample_weights,
                name=name,
            )
            for number, (size, name, config) in enumerate(
                zip(self.sizes, self.names, self.subsample, strict=True)
            )
        ]
        self._starts = np.cumsum([0, *self.sizes[:-1]], dtype=np.int64)
        self._skip_empty()

    def _skip_empty(self) -> None:
        if not any(self.sizes):
            raise PlanError(
                f"strategy: at least one source must have samples, all of {self.names} are empty"
            )
        for name, size in zip(self.names, self.sizes, strict=True):
            if size == 0:
                warnings.warn(
                    f"source '{name}' has no samples and is skipped: it gets no share of the mix",
                    UserWarning,
                    stacklevel=4,
                )

    @property
    def effective_sizes(self) -> list[int]:
        """What each source counts as: its ``effective_size``, else its size; 0 if it is empty."""
        return [
            config.effective_size if size and config.effective_size is not None else size
            for size, config in zip(self.sizes, self.subsample, strict=True)
        ]

    @abstractmethod
    def __len__(self) -> int:
        """Number of draws in an epoch, the same in every epoch."""

    @abstractmethod
    def _counts(self, epoch: int) -> IntArray:
        """Draws of each source in an epoch; they sum to ``len(self)``."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The strategy's own options as plain values: what a saved state depends on."""

    def _settled(self) -> int:
        """From which epoch on all epochs have the same counts."""
        return 0

    def _interleave(self, counts: IntArray, epoch: int, window: int | None) -> Interleave:
        seed = derive_seed(self.seed, "interleave", epoch)
        if window is None:
            return Shuffled(counts, seed)
        return Shuffled(counts, seed, window, steady=True)

    def target_counts(self, epoch: int = 0) -> list[int]:
        """Number of draws of each source in an epoch; they sum to ``len(self)`` exactly.

        Args:
            epoch: From 0.
        """
        return list(self._counts(checked_epoch(epoch)).tolist())

    def plan(self, epoch: int = 0, *, window: int | None = None) -> EpochPlan:
        """The order of an epoch, as a pure function of the position.

        Args:
            epoch: From 0.
            window: Every ``window`` positions, counted from 0, are to hold each source's exact
                share, rounded so that running totals stay closest to the shares. Default:
                windows of 64, rounded at random.
        """
        epoch = checked_epoch(epoch)
        counts = self._counts(epoch)
        streams = self._streams(counts, epoch)
        return EpochPlan(self._interleave(counts, epoch, window), streams, self._starts, epoch)

    def _streams(self, counts: IntArray, epoch: int) -> dict[int, Stream]:
        """The draws within each source that takes part."""
        before = self._drawn_before(epoch)
        return {
            number: self._pools[number].stream(int(counts[number]), epoch, int(before[number]))
            for number in np.flatnonzero(counts).tolist()
        }

    def _drawn_before(self, epoch: int) -> IntArray:
        """Draws of each source in all epochs before; only streams that go on ask for it."""
        if not any(pool.is_stream for pool in self._pools):
            return np.zeros(len(self.sizes), dtype=np.int64)
        varying = min(epoch, self._settled())
        before = (epoch - varying) * self._counts(varying)
        for earlier in range(varying):
            before = before + self._counts(earlier)
        return before

    def epoch_indices(self, epoch: int = 0) -> list[int]:
        """The whole plan of an epoch as a list of global indices."""
        return list(self.plan(epoch)[:][0].tolist())

    def __repr__(self) -> str:
        mix = ", ".join(
            f"{name}: {size}" for name, size in zip(self.names, self.sizes, strict=True)
        )
        options = "".join(f", {key}={value}" for key, value in self.settings().items())
        return f"{type(self).__name__}({{{mix}}}{options}, seed={self.seed})"


def _configs(given: Subsample | None, names: Sequence[str]) -> list[SubsampleConfig]:
    if given is None or isinstance(given, SubsampleConfig):
        return [given or SubsampleConfig()] * len(names)
    configs = per_source(given, names, "subsample")
    for name, config in zip(names, configs, strict=True):
        if config is not None and not isinstance(config, SubsampleConfig):
            raise PlanError(
                f"source '{name}': subsample must be a SubsampleConfig or None, got {config!r}"
            )
    return [config or SubsampleConfig() for config in configs]
