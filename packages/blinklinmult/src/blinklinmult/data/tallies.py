"""Counts of what a split holds, added up while it is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy.typing as npt

from blinklinmult.data.names import TARGETS
from omniloader.masks import mask_name


@dataclass
class SplitTally:
    """Counts of one split.

    Args:
        samples: Samples.
        positive_samples: Samples with any frame labelled positive (over 0.5).
        frames: Labelled frames by target.
        positive_frames: Frames labelled positive by target.
    """

    samples: int = 0
    positive_samples: int = 0
    frames: dict[str, int] = field(default_factory=dict)
    positive_frames: dict[str, int] = field(default_factory=dict)

    @property
    def positive_fraction(self) -> float:
        """Share of samples with a positive frame; 0 if there are none."""
        return self.positive_samples / self.samples if self.samples else 0.0

    def frame_fraction(self, target: str) -> float:
        """Share of the frames labelled for a target that are positive; 0 if there are none."""
        frames = self.frames.get(target, 0)
        return self.positive_frames.get(target, 0) / frames if frames else 0.0

    def count(self, values: Mapping[str, npt.NDArray[Any]]) -> None:
        """Add one sample, as it is stored."""
        found = 0
        for target in TARGETS:
            if target in values:
                real = values[mask_name(target)]
                positive = int((values[target][real] > 0.5).sum())
                found += positive
                _add(self.frames, target, int(real.sum()))
                _add(self.positive_frames, target, positive)
        self.samples += 1
        self.positive_samples += found > 0

    def merge(self, other: SplitTally) -> None:
        """Add the counts of another part of the split."""
        self.samples += other.samples
        self.positive_samples += other.positive_samples
        for mine, theirs in (
            (self.frames, other.frames),
            (self.positive_frames, other.positive_frames),
        ):
            for target, count in theirs.items():
                _add(mine, target, count)

    def to_dict(self) -> dict[str, Any]:
        """The counts and the positive fraction as plain values."""
        return {**asdict(self), "positive_fraction": self.positive_fraction}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`."""
        return cls(**{name: data[name] for name in cls.__dataclass_fields__})


Tallies = dict[str, SplitTally]


def tallies_to_json(tallies: Tallies) -> str:
    """Tallies by subset as JSON text."""
    return json.dumps({subset: tally.to_dict() for subset, tally in tallies.items()})


def tallies_from_json(text: str) -> Tallies:
    """The inverse of :func:`tallies_to_json`."""
    return {subset: SplitTally.from_dict(data) for subset, data in json.loads(text).items()}


def _add(counts: dict[str, int], name: str, count: int) -> None:
    counts[name] = counts.get(name, 0) + count
