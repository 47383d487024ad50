"""What the page shows, read once: facts, findings, shares, lengths, a batch, a few samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from omniloader._types import IntArray, Sample
from omniloader.config import OmniConfig
from omniloader.config.build import forecasts
from omniloader.config.parts import make_strategy
from omniloader.errors import SampleError, SourceError
from omniloader.introspection import Forecast, Report, validate
from omniloader.introspection.describe import spread
from omniloader.introspection.forecast import SourceShare, source_shares
from omniloader.introspection.subject import Track, labels_of, no_progress
from omniloader.loader import OmniLoader

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """All that a page is drawn from.

    Args:
        omni: The mix without transforms.
        report: Facts a source and a key, and findings.
        shares: What each source gives to epoch 0.
        forecast: What epoch 0 will hold; None if bad data leave it open.
        counts: Draws of each source in each epoch, int64 ``(epochs, sources)``.
        lengths: Sequence key to native lengths of all samples, by global index.
        batch: The first training batch, collated, transforms included; None if bad data forbid it.
        samples: Source label to a few of its unified samples, without transforms; a text says
            why one cannot be read.
        gaps: (part of the page, why it is not there), of bad data.
    """

    omni: OmniLoader
    report: Report
    shares: tuple[SourceShare, ...]
    forecast: Forecast | None
    counts: IntArray
    lengths: dict[str, IntArray]
    batch: dict[str, Any] | None
    samples: dict[str, list[Sample | str]]
    gaps: list[tuple[str, str]]

    @property
    def labels(self) -> list[str]:
        """Labels of the sources, unique."""
        return self.report.names


def gather(
    config: OmniConfig, epochs: int, max_samples: int, shown: int, track: Track = no_progress
) -> Gathered:
    """Read what a page needs.

    A sample or file that cannot be used is a finding, and a gap where it would have been drawn.

    Args:
        config: Describes the mix.
        epochs: Number of epochs to show the mix over.
        max_samples: Samples to read of each source for facts.
        shown: Samples to draw of each source.
        track: Shows progress.
    """
    omni = config.replace(transforms=[], eval_transforms=None).build_loader()
    strategy = make_strategy(config, omni.dataset_sizes, None, omni.names)
    counts = np.array([strategy.target_counts(epoch) for epoch in range(epochs)], dtype=np.int64)
    gaps: list[tuple[str, str]] = []

    def tried(part: str, make: Callable[[], T]) -> T | None:
        try:
            return make()
        except (SampleError, SourceError) as error:
            gaps.append((part, str(error)))
            return None

    sequences = [spec.name for spec in omni.schema.specs if spec.is_sequence]
    lengths = {
        key: tried(f"lengths of {key}", partial(omni.sequence_lengths, key)) for key in sequences
    }
    return Gathered(
        omni=omni,
        report=validate(omni, max_samples, track=track),
        shares=source_shares(omni, counts[0].tolist()),
        forecast=tried("forecast of an epoch", lambda: forecasts(config, omni, [0])[0]),
        counts=counts,
        lengths={key: own for key, own in lengths.items() if own is not None},
        batch=tried("first training batch", lambda: _first_batch(config, omni)),
        samples=_samples(omni, shown),
        gaps=gaps,
    )


def _first_batch(config: OmniConfig, omni: OmniLoader) -> dict[str, Any]:
    loader = config.build_dataloader(omni.datasets, omni.schemas)
    first = next(iter(loader.index_batches()))
    return loader.collate_fn(loader.dataset.__getitems__(first))  # type: ignore[attr-defined, no-any-return]


def _samples(omni: OmniLoader, shown: int) -> dict[str, list[Sample | str]]:
    starts = np.cumsum([0, *omni.dataset_sizes])
    return {
        label: [_sample(omni, int(start + local)) for local in spread(size, shown)]
        for label, size, start in zip(
            labels_of(omni.names), omni.dataset_sizes, starts[:-1], strict=True
        )
    }


def _sample(omni: OmniLoader, index: int) -> Sample | str:
    try:
        return omni[index]
    except (SampleError, SourceError) as error:
        return str(error)
