"""What a plan will give, computed from indices and shapes alone: no sample is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np

from omniloader._types import IntArray
from omniloader.introspection.subject import Mix, labels_of

# Seen less or more often than this in an epoch, a source is probably not mixed as meant.
FEW_PASSES, MANY_PASSES = 0.1, 20.0
# A target without a label in more than half of the batches hardly trains.
STARVED = 0.5


class SizedMix(Mix, Protocol):
    """A mix that knows sizes and native lengths: an ``OmniLoader`` is one."""

    dataset_sizes: list[int]

    def sequence_lengths(self, key: str, /) -> IntArray:
        """Native steps a sample, 0 where the key is missing."""


@dataclass(frozen=True, kw_only=True)
class SourceShare:
    """What one source gives to one epoch.

    Args:
        name: Label of the source.
        size: Number of its samples.
        count: Number of draws from it.
        share: ``count`` over all draws.
        passes: ``count`` over ``size``: how often each sample is seen on average.
    """

    name: str
    size: int
    count: int
    share: float
    passes: float


@dataclass(frozen=True, kw_only=True)
class TargetShare:
    """What one epoch gives to one target, at most: a source that declares it may still lack it.

    Args:
        key: Name of the target.
        labels: Samples from sources that declare it.
        per_batch: The same, a batch.
        empty_batches: Share of batches without any such sample.
    """

    key: str
    labels: int
    per_batch: float
    empty_batches: float


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """One epoch of a plan.

    Args:
        epoch: Its number.
        samples: Draws of this process.
        batches: Number of batches of this process.
        examined: Number of batches that targets and padding were counted over.
        sources: Shares a source, over all processes.
        targets: Shares a target.
        padding: Sequence key to the share of steps that will be padding, of samples that have it.
        warnings: What looks wrong.
    """

    epoch: int
    samples: int
    batches: int
    examined: int
    sources: tuple[SourceShare, ...]
    targets: tuple[TargetShare, ...]
    padding: dict[str, float]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return dataclasses.asdict(self)


def forecast(
    loader: SizedMix,
    counts: Sequence[int],
    batches: Iterable[Sequence[int]],
    *,
    epoch: int = 0,
    dynamic_keys: Iterable[str] = (),
    draws: int | None = None,
    max_batches: int = 20_000,
) -> Forecast:
    """Say what an epoch will hold.

    Args:
        loader: The mix.
        counts: Draws a source in this epoch, of all processes together.
        batches: The epoch's batches of global indices, such as a ``batch_sampler``.
        epoch: Its number.
        dynamic_keys: Sequences padded to the longest of their batch, not to ``time_dim``.
        draws: Draws of this process, where batches have a length and need not all be looked at.
        max_batches: How many batches to examine for targets and padding; in a shuffled order
            these stand for all.

    Returns:
        The forecast.
    """
    sources = source_shares(loader, counts)
    starts = np.cumsum([0, *loader.dataset_sizes])
    declares = {
        key: np.array([key in schema.keys for schema in loader.schemas], dtype=bool)
        for key in loader.schema.target_keys
    }
    tally = _BatchTally(loader, declares, starts, frozenset(dynamic_keys))
    samples = number = 0
    shortcut = draws is not None and isinstance(batches, Sized)
    for batch in islice(batches, max_batches if shortcut else None):
        indices = np.asarray(getattr(batch, "indices", batch), dtype=np.int64)
        samples += len(indices)
        number += 1
        if number <= max_batches:
            tally.add(indices)
    examined = min(number, max_batches)
    if draws is not None and isinstance(batches, Sized) and number < len(batches):
        samples, number = draws, len(batches)
    targets = tuple(
        TargetShare(
            key=key,
            labels=round(tally.labels[key] * (number / examined)) if examined else 0,
            per_batch=tally.labels[key] / examined if examined else 0.0,
            empty_batches=tally.empty[key] / examined if examined else 0.0,
        )
        for key in declares
    )
    return Forecast(
        epoch=epoch,
        samples=samples,
        batches=number,
        examined=examined,
        sources=sources,
        targets=targets,
        padding=tally.padding(),
        warnings=tuple(_warnings(sources, targets, examined)),
    )


def source_shares(loader: SizedMix, counts: Sequence[int]) -> tuple[SourceShare, ...]:
    """What each source gives to an epoch.

    Args:
        loader: The mix; only its names and sizes are asked for.
        counts: Draws a source in the epoch.
    """
    total = sum(counts)
    return tuple(
        SourceShare(
            name=name,
            size=size,
            count=int(count),
            share=count / total if total else 0.0,
            passes=count / size if size else 0.0,
        )
        for name, size, count in zip(
            labels_of(loader.names), loader.dataset_sizes, counts, strict=True
        )
    )


class _BatchTally:
    """Adds up labels and padded steps over batches."""

    def __init__(
        self,
        loader: SizedMix,
        declares: Mapping[str, np.ndarray[Any, np.dtype[np.bool_]]],
        starts: IntArray,
        dynamic: frozenset[str],
    ) -> None:
        self.labels = dict.fromkeys(declares, 0)
        self.empty = dict.fromkeys(declares, 0)
        self._declares, self._starts, self._dynamic = declares, starts, dynamic
        self._lengths: dict[str, tuple[IntArray, int]] = {
            spec.name: (loader.sequence_lengths(spec.name), spec.time_dim)
            for spec in loader.schema.specs
            if spec.time_dim is not None
        }
        self._real = dict.fromkeys(self._lengths, 0)
        self._all = dict.fromkeys(self._lengths, 0)

    def add(self, indices: IntArray) -> None:
        source = np.searchsorted(self._starts, indices, side="right") - 1
        for key, declares in self._declares.items():
            found = int(declares[source].sum())
            self.labels[key] += found
            self.empty[key] += found == 0
        for key, (lengths, time_dim) in self._lengths.items():
            own = lengths[indices]
            own = own[own > 0]
            if not len(own):
                continue
            dynamic = key in self._dynamic
            steps = int(own.max()) if dynamic else time_dim
            self._real[key] += int(own.sum() if dynamic else np.minimum(own, time_dim).sum())
            self._all[key] += steps * len(own)

    def padding(self) -> dict[str, float]:
        """Share of padded steps a sequence."""
        return {key: 1 - self._real[key] / total for key, total in self._all.items() if total}


def _warnings(
    sources: Sequence[SourceShare], targets: Sequence[TargetShare], examined: int
) -> Iterable[str]:
    for source in sources:
        if source.size and source.passes < FEW_PASSES:
            yield (
                f"source '{source.name}' is seen {source.passes:.2g} times an epoch: most of it "
                "is not used; raise its weight, or train for more epochs"
            )
        if source.passes > MANY_PASSES:
            yield (
                f"source '{source.name}' is seen {source.passes:.3g} times an epoch: it will be "
                "learnt by heart; lower its weight or the temperature"
            )
    for target in targets:
        if examined and target.empty_batches > STARVED:
            yield (
                f"target '{target.key}' has no label in {target.empty_batches:.0%} of the batches; "
                "raise the weight of a source that declares it, or the batch size"
            )
