"""What all mixing strategies share: sources, counts, and the plan made of them."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from omniloader._types import FloatArray, IntArray
from omniloader.errors import PlanError
from omniloader.sampling.carry import Carry
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
        self._pools = self._make_pools(range(len(self.sizes)))
        self._starts = np.cumsum([0, *self.sizes[:-1]], dtype=np.int64)
        self._skip_empty()

    def _make_pools(self, keys: Sequence[int]) -> list[IndexPool]:
        return [
            IndexPool(
                size,
                config.replacement,
                config.policy,
                derive_seed(self.seed, "source", key),
                config.sample_weights,
                name=name,
            )
            for key, size, name, config in zip(
                keys, self.sizes, self.names, self.subsample, strict=True
            )
        ]

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

    def _alive(self) -> FloatArray:
        """1 for each source that has samples, else 0."""
        return (np.asarray(self.sizes) > 0).astype(np.float64)

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

    def plan(
        self, epoch: int = 0, *, window: int | None = None, carry: Carry | None = None
    ) -> EpochPlan:
        """The order of an epoch, as a pure function of the position.

        Args:
            epoch: From 0.
            window: Every ``window`` positions, counted from 0, are to hold each source's exact
                share, rounded so that running totals stay closest to the shares. Default:
                windows of 64, rounded at random.
            carry: What a run that goes on with this mix brings from another one.
        """
        epoch = checked_epoch(epoch)
        counts = self.rest(epoch, carry)
        streams = self._streams(epoch, carry)
        return EpochPlan(self._interleave(counts, epoch, window), streams, self._starts, epoch)

    def rest(self, epoch: int, carry: Carry | None) -> IntArray:
        """Draws of each source in an epoch that are left after what is carried over."""
        counts = self._counts(epoch)
        return counts if carry is None else carry.rest(counts, epoch)

    def _streams(self, epoch: int, carry: Carry | None) -> dict[int, Stream]:
        """The draws within each source that takes part."""
        counts, before = self._counts(epoch), self.drawn_before(epoch, carry)
        pools = self._pools if carry is None else self._make_pools(carry.keys)
        streams = {
            number: pools[number].stream(int(counts[number]), epoch, int(before[number]))
            for number in np.flatnonzero(counts).tolist()
        }
        if carry is None:
            return streams
        return {n: carry.shifted(stream, n, epoch) for n, stream in streams.items()}

    def drawn_before(self, epoch: int, carry: Carry | None = None) -> IntArray:
        """Draws of each source in all epochs before; zeros if none goes on where it stopped."""
        if not any(pool.is_stream for pool in self._pools):
            return np.zeros(len(self.sizes), dtype=np.int64)
        if carry is None:
            return self._between(0, epoch)
        before = np.asarray(carry.before, dtype=np.int64)
        if epoch == carry.epoch:
            return before
        before = before + carry.total(self._counts(carry.epoch), carry.epoch)
        return before + self._between(carry.epoch + 1, epoch)

    def _between(self, first: int, stop: int) -> IntArray:
        """Draws of each source in epochs ``first`` to ``stop``."""
        varying = range(first, min(stop, max(first, self._settled())))
        counts = (stop - first - len(varying)) * self._counts(stop)
        for epoch in varying:
            counts = counts + self._counts(epoch)
        return counts

    def epoch_indices(self, epoch: int = 0) -> list[int]:
        """The whole plan of an epoch as a list of global indices."""
        return list(self.plan(epoch)[:][0].tolist())

    def __repr__(self) -> str:
        mix = ", ".join(
            f"{name}: {size}" for name, size in zip(self.names, self.sizes, strict=True)
        )
        given = {key: value for key, value in self.settings().items() if value is not None}
        options = "".join(f", {key}={value}" for key, value in given.items())
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
