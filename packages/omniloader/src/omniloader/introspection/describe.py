"""``describe`` and ``validate``: read some samples of every source and report on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omniloader._types import IntArray
from omniloader.errors import ConfigError, SampleError
from omniloader.introspection.facts import build_report
from omniloader.introspection.findings import data_findings, metadata_findings, structure_findings
from omniloader.introspection.passes import tally_source
from omniloader.introspection.report import Finding, Report
from omniloader.introspection.subject import Mix, Track, labels_of, no_progress
from omniloader.utils.parts import Workers


def describe(
    loader: Mix,
    max_samples: int | None = 64,
    *,
    num_workers: Workers = 0,
    track: Track = no_progress,
) -> Report:
    """Say what a mix holds: coverage, valid shares, lengths, ranges, class distributions.

    Reads the sources as they are, without transforms.

    Args:
        loader: An ``OmniLoader``.
        max_samples: How many samples to read of each source, spread evenly over it; None reads
            all.
        num_workers: Processes that read, or an engine.
        track: Shows progress.

    Returns:
        The report; its findings are those that show in the samples read.

    Raises:
        ConfigError: If a number is out of range.
    """
    return _report(loader, max_samples, "max_samples", num_workers, track, structure=False)


def validate(
    loader: Mix,
    num_samples: int | None = 4,
    strict: bool = False,
    *,
    num_workers: Workers = 0,
    track: Track = no_progress,
) -> Report:
    """Check the data against its declarations, without training.

    Checks rank, trailing shape, casts, masks and text of each declared value, declared keys that
    no sample has, keys in the data that nothing declares (they never reach a batch), duplicate
    sample ids, samples that cannot be read, and what a source says of its own storage.

    Args:
        loader: An ``OmniLoader``.
        num_samples: How many samples to read of each source, spread evenly over it; None reads
            all.
        strict: Raise if there is any error.
        num_workers: Processes that read, or an engine.
        track: Shows progress.

    Returns:
        The report; ``report.ok`` says whether there is no error, ``report.findings`` lists all.

    Raises:
        SampleError: With ``strict``, naming every error found.
        ConfigError: If a number is out of range.
    """
    report = _report(loader, num_samples, "num_samples", num_workers, track, structure=True)
    if strict and not report.ok:
        lines = "\n".join(str(finding) for finding in report.errors)
        raise SampleError(
            f"the data does not fit its schemas, {len(report.errors)} errors:\n{lines}"
        )
    return report


def _report(
    loader: Mix,
    limit: int | None,
    option: str,
    num_workers: Workers,
    track: Track,
    *,
    structure: bool,
) -> Report:
    if limit is not None and (isinstance(limit, bool) or limit < 1):
        raise ConfigError(f"{option} must be at least 1, or None for all samples, got {limit!r}")
    labels = labels_of(loader.names)
    tallies, reads, found = [], [], list[Finding]()
    for label, dataset, schema in zip(labels, loader.datasets, loader.schemas, strict=True):
        indices = spread(len(dataset), limit)
        tally = tally_source(
            dataset,
            schema,
            indices,
            pad_features=loader.pad_features,
            metadata=loader.metadata,
            num_workers=num_workers,
            track=track,
            description=label,
        )
        found += data_findings(label, tally, len(indices))
        if structure:
            found += structure_findings(label, dataset, tally, indices.tolist())
        tallies.append(tally)
        reads.append(len(indices))
    if structure:
        found += metadata_findings(labels, loader.metadata, tallies, sum(reads))
    return build_report(loader, labels, tallies, reads, _errors_first(found))


def spread(size: int, limit: int | None) -> IntArray:
    """At most ``limit`` indices, evenly over ``[0, size)``, first and last included.

    Files are sorted by recording: their first rows would be one recording only.
    """
    if limit is None or limit >= size:
        return np.arange(size, dtype=np.int64)
    if limit == 1:
        return np.array([size // 2], dtype=np.int64)
    return np.arange(limit, dtype=np.int64) * (size - 1) // (limit - 1)


def _errors_first(found: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(found, key=lambda finding: finding.level != "error"))
