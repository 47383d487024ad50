"""What the page shows, read once: facts, findings, shares, lengths, a batch, a few samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from omniloader._types import IntArray, Sample
from omniloader.config import OmniConfig
from omniloader.introspection import Forecast, Report, describe, validate
from omniloader.introspection.describe import spread
from omniloader.introspection.subject import Track, labels_of, no_progress
from omniloader.loader import OmniLoader


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """All that a page is drawn from.

    Args:
        omni: The mix without transforms.
        described: Facts a source and a key.
        checked: Findings of ``validate``; its facts are not used.
        forecast: What epoch 0 will hold.
        counts: Draws of each source in each epoch, int64 ``(epochs, sources)``.
        lengths: Sequence key to native lengths of all samples, by global index.
        batch: The first training batch, collated, transforms included.
        samples: Source label to a few of its unified samples, without transforms.
    """

    omni: OmniLoader
    described: Report
    checked: Report
    forecast: Forecast
    counts: IntArray
    lengths: dict[str, IntArray]
    batch: dict[str, Any]
    samples: dict[str, list[Sample]]

    @property
    def labels(self) -> list[str]:
        """Labels of the sources, unique."""
        return labels_of(self.omni.names)


def gather(
    config: OmniConfig, epochs: int, max_samples: int, shown: int, track: Track = no_progress
) -> Gathered:
    """Read what a page needs.

    Args:
        config: Describes the mix.
        epochs: Number of epochs to show the mix over.
        max_samples: Samples to read of each source for facts.
        shown: Samples to draw of each source.
        track: Shows progress.
    """
    omni = config.replace(transforms=[], eval_transforms=None).build_loader()
    loader = config.build_dataloader(omni.datasets, omni.schemas)
    first = next(iter(loader.index_batches()))
    strategy = config.build_strategy(omni.dataset_sizes)
    return Gathered(
        omni=omni,
        described=describe(omni, max_samples, track=track),
        checked=validate(omni, min(max_samples, 8), track=track),
        forecast=config.forecast([0])[0],
        counts=np.array([strategy.target_counts(epoch) for epoch in range(epochs)]),
        lengths={
            spec.name: omni.sequence_lengths(spec.name)
            for spec in omni.schema.specs
            if spec.is_sequence
        },
        batch=loader.collate_fn(loader.dataset.__getitems__(first)),  # type: ignore[attr-defined]
        samples=_samples(omni, shown),
    )


def _samples(omni: OmniLoader, shown: int) -> dict[str, list[Sample]]:
    starts = np.cumsum([0, *omni.dataset_sizes])
    return {
        label: [omni[int(start + local)] for local in spread(size, shown)]
        for label, size, start in zip(
            labels_of(omni.names), omni.dataset_sizes, starts[:-1], strict=True
        )
    }
