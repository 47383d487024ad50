"""Figures of a corpus file: samples, labels, masks, lengths, confidence."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from blinklinmult.data.attributes import DAMAGE, read_attributes, splits_of
from blinklinmult.data.keys import parse_sample_id
from blinklinmult.data.names import (
    EYE_IMAGE,
    SCHEMA_VERSION,
    TARGETS,
)
from blinklinmult.errors import DataModuleError, SchemaError
from omniloader._types import PathLike
from omniloader.masks import is_mask_name, mask_name


@dataclass
class ValueFacts:
    """One value of a split.

    Args:
        samples: Samples that have it.
        shortest: Fewest frames.
        longest: Most frames.
        real: Share of frames under a True mask; None if it has no mask.
        mean: Mean of a label over its real frames; None for what is no label.
    """

    samples: int = 0
    shortest: int = 0
    longest: int = 0
    real: float | None = None
    mean: float | None = None


@dataclass
class SplitFacts:
    """One split.

    Args:
        samples: Samples.
        frames: Frames.
        positive_fraction: Share of samples with any frame labelled positive.
        confidence: Mean of ``confidence``, where samples have it.
        values: Facts by name of value.
    """

    samples: int = 0
    frames: int = 0
    positive_fraction: float = 0.0
    confidence: float | None = None
    values: dict[str, ValueFacts] = field(default_factory=dict)


@dataclass
class CorpusSummary:
    """One file.

    Args:
        path: The file.
        attributes: Its root attributes.
        splits: Facts by split.
        findings: What is wrong with it.
    """

    path: Path
    attributes: dict[str, Any]
    splits: dict[str, SplitFacts] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {**asdict(self), "path": str(self.path)}


def summarise(path: PathLike) -> CorpusSummary:
    """Go through a corpus file; images are counted by shape and not decoded.

    Args:
        path: The file.

    Raises:
        DataModuleError: If it is missing, damaged or not HDF5.
    """
    file_path = Path(path)
    if not file_path.is_file():
        raise DataModuleError(f"'{file_path}': there is no such file")
    try:
        with h5py.File(file_path, "r") as file:
            summary = CorpusSummary(file_path, read_attributes(file))
            _check_version(summary)
            for subset, group in splits_of(file).items():
                if isinstance(group, h5py.Group):
                    summary.splits[subset] = _split_facts(group, subset, summary.findings)
    except DAMAGE as error:
        raise DataModuleError(
            f"'{file_path}': is damaged or not HDF5 ({error}); build it again"
        ) from error
    return summary


def _check_version(summary: CorpusSummary) -> None:
    version = summary.attributes.get("schema_version")
    if version != SCHEMA_VERSION:
        summary.findings.append(f"schema_version must be {SCHEMA_VERSION}, got {version}")


def _split_facts(group: h5py.Group, subset: str, findings: list[str]) -> SplitFacts:
    facts, positive = SplitFacts(samples=len(group)), 0
    sums: dict[str, list[float]] = {}
    confidences: list[float] = []
    for key, sample in group.items():
        try:
            parse_sample_id(key)
        except SchemaError as error:
            findings.append(f"{subset}: {error}")
        if not isinstance(sample, h5py.Group):
            findings.append(f"{subset} sample '{key}' must be a group of arrays")
            continue
        for name, node in sample.items():
            if node.ndim and not is_mask_name(name):
                _count(facts.values, name, node.shape[0])
        facts.frames += sample[EYE_IMAGE].shape[0] if EYE_IMAGE in sample else 0
        positive += _labels(sample, f"{subset} sample '{key}'", sums, findings)
        if "confidence" in sample:
            confidences.append(float(np.mean(sample["confidence"][()])))
    facts.positive_fraction = positive / len(group) if len(group) else 0.0
    facts.confidence = float(np.mean(confidences)) if confidences else None
    for name, (total, real, labels) in sums.items():
        value = facts.values.setdefault(name, ValueFacts())
        value.real = real / total if total else 0.0
        value.mean = labels / real if name in TARGETS and real else None
    return facts


def _count(values: dict[str, ValueFacts], name: str, steps: int) -> None:
    facts = values.setdefault(name, ValueFacts(shortest=steps, longest=steps))
    facts.samples += 1
    facts.shortest, facts.longest = min(facts.shortest, steps), max(facts.longest, steps)


def _labels(
    sample: h5py.Group, where: str, sums: dict[str, list[float]], findings: list[str]
) -> bool:
    """Add up masks and labels of a sample; whether it has any positive frame."""
    positive = False
    for name in list(sample):
        if mask_name(name) not in sample:
            continue
        mask = sample[mask_name(name)][()].astype(np.bool_)
        if sample[name].shape[:1] != mask.shape:
            findings.append(f"{where}: '{mask_name(name)}' must have an entry for each frame")
            continue
        labels = sample[name][()][mask] if name in TARGETS else np.zeros(0)
        if name in TARGETS and not ((labels >= 0) & (labels <= 1)).all():
            findings.append(f"{where}: '{name}' has real labels outside [0, 1]")
        positive = positive or bool((labels > 0.5).any())
        total = sums.setdefault(name, [0.0, 0.0, 0.0])
        for i, amount in enumerate((mask.size, mask.sum(), labels.sum())):
            total[i] += float(amount)
    return positive
