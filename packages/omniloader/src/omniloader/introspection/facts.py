"""From tallies to the report."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from omniloader.introspection.report import Finding, KeyFacts, Report, SourceFacts
from omniloader.introspection.storage import storage_facts
from omniloader.introspection.subject import Mix
from omniloader.introspection.tally import KeyTally, SourceTally, is_categorical
from omniloader.schema.spec import DatasetSchema


def build_report(
    loader: Mix,
    labels: Sequence[str],
    tallies: Sequence[SourceTally],
    reads: Sequence[int],
    findings: tuple[Finding, ...],
) -> Report:
    """Put together the report of a mix.

    Args:
        loader: The mix.
        labels: Unique labels of its sources.
        tallies: Counts a source.
        reads: Number of samples read a source.
        findings: In the order they are to be shown.
    """
    sources = tuple(
        SourceFacts(
            name=label,
            size=len(dataset),
            read=read,
            storage=storage_facts(dataset),
            keys=_key_facts(schema, tally),
        )
        for label, dataset, schema, tally, read in zip(
            labels, loader.datasets, loader.schemas, tallies, reads, strict=True
        )
    )
    return Report(
        sources=sources,
        union_keys=[*loader.schema.feature_keys, *loader.schema.target_keys],
        target_keys=list(loader.schema.target_keys),
        class_distributions=_class_distributions(labels, loader.schemas, tallies),
        findings=findings,
    )


def _class_distributions(
    labels: Sequence[str], schemas: Sequence[DatasetSchema], tallies: Sequence[SourceTally]
) -> dict[str, dict[str, dict[int, int]]]:
    return {
        label: {
            spec.name: dict(sorted(tally.keys[spec.name].classes.items()))
            for spec in schema.targets
            if is_categorical(spec)
        }
        for label, schema, tally in zip(labels, schemas, tallies, strict=True)
    }


def _key_facts(schema: DatasetSchema, tally: SourceTally) -> dict[str, KeyFacts]:
    targets = {spec.name for spec in schema.targets}
    return {
        name: KeyFacts(
            role="target" if name in targets else "feature",
            spec=counts.spec.describe(),
            present=counts.present,
            valid_fraction=counts.valid / counts.positions if counts.positions else 0.0,
            lengths=_lengths(counts),
            nan=counts.nan,
            posinf=counts.posinf,
            neginf=counts.neginf,
            sentinel=counts.sentinel,
            misfits=len(counts.misfits),
            minimum=counts.low if math.isfinite(counts.low) else None,
            maximum=counts.high if math.isfinite(counts.high) else None,
        )
        for name, counts in tally.keys.items()
    }


def _lengths(counts: KeyTally) -> tuple[int, float, int] | None:
    if not counts.lengths:
        return None
    return min(counts.lengths), float(np.median(counts.lengths)), max(counts.lengths)
