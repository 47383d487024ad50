"""What the counts of a source say that its owner should know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from omniloader._types import MapDataset
from omniloader.introspection.report import Finding
from omniloader.introspection.storage import storage_problems
from omniloader.introspection.tally import KeyTally, SourceTally

_SHOWN = 5


def data_findings(label: str, tally: SourceTally, read: int) -> Iterator[Finding]:
    """Findings that show in the samples read.

    Args:
        label: The source's label.
        tally: Its counts.
        read: Number of samples that were asked for.
    """
    if read == 0:
        yield Finding(
            level="warning",
            source=label,
            key=None,
            text="holds no samples; it never contributes to a mix",
        )
    if tally.unreadable:
        index, problem = tally.unreadable[0]
        yield Finding(
            level="error",
            source=label,
            key=None,
            text=f"{len(tally.unreadable)} of {read} samples read cannot be read, "
            f"first sample {index}: {problem}",
        )
    for key, counts in tally.keys.items():
        yield from _key_findings(label, key, counts)


def _key_findings(label: str, key: str, counts: KeyTally) -> Iterator[Finding]:
    if counts.misfits:
        index, problem = counts.misfits[0]
        text = f"sample {index} {problem} ({len(counts.misfits)} of {counts.samples} samples read)"
        yield Finding(level="error", source=label, key=key, text=text)
    nonfinite = counts.nan + counts.posinf + counts.neginf
    if nonfinite and counts.spec.nonfinite == "keep":
        text = (
            f"{counts.nan} NaN, {counts.posinf} +inf, {counts.neginf} -inf among its real values; "
            'declare nonfinite="mask" to mask such steps, or clean the source'
        )
        yield Finding(level="warning", source=label, key=key, text=text)
    if nonfinite and counts.spec.nonfinite == "raise":
        text = f"{nonfinite} NaN or infinite values, and its spec says nonfinite='raise'"
        yield Finding(level="error", source=label, key=key, text=text)
    time_dim = counts.spec.time_dim
    longer = [n for n in counts.lengths if time_dim is not None and n > time_dim]
    if longer and counts.pad_features:
        text = (
            f"{len(longer)} of {counts.present} samples read are longer than time_dim={time_dim} "
            f"(up to {max(longer)} steps) and lose their end; raise time_dim, or keep native "
            "lengths (pad_features: false) and crop at random"
        )
        yield Finding(level="warning", source=label, key=key, text=text)
    if counts.present > len(counts.misfits) and counts.valid == 0:
        text = f"no real value in the {counts.samples} samples read: its masks are all False"
        yield Finding(level="warning", source=label, key=key, text=text)


def metadata_findings(
    labels: Sequence[str], metadata: Iterable[str], tallies: Sequence[SourceTally], samples: int
) -> Iterator[Finding]:
    """Metadata that is asked for and that no source has: its list would be all None.

    Args:
        labels: Labels of all sources.
        metadata: Names the loader carries.
        tallies: Counts of all sources.
        samples: How many samples were read.
    """
    carried = set[str]().union(*(tally.carried for tally in tallies))
    for name in metadata:
        if samples and name not in carried:
            text = (
                f"is asked for as metadata, but none of the {samples} samples read has it; "
                "correct the name, or leave it out"
            )
            yield Finding(level="warning", source=", ".join(labels), key=name, text=text)


def structure_findings(
    label: str, dataset: MapDataset, tally: SourceTally, indices: list[int]
) -> Iterator[Finding]:
    """Findings about declarations and files as a whole.

    Args:
        label: The source's label.
        dataset: The source; its ``sample_ids`` and ``storage_problems()`` are used if it has them.
        tally: Its counts.
        indices: The samples that were asked for.
    """
    for key, counts in tally.keys.items():
        if counts.samples and not counts.present:
            text = (
                f"is declared, but none of the {counts.samples} samples read has it; "
                "correct the name, or leave it out of the schema"
            )
            yield Finding(level="error", source=label, key=key, text=text)
    if tally.undeclared:
        names = ", ".join(f"'{name}'" for name in sorted(tally.undeclared))
        text = (
            f"holds {names}, which its schema does not declare: never in a batch; "
            "declare what you need, or carry text by metadata"
        )
        yield Finding(level="warning", source=label, key=None, text=text)
    doubled = _doubled(getattr(dataset, "sample_ids", None))
    if doubled:
        shown = ", ".join(f"'{name}'" for name in doubled[:_SHOWN])
        text = f"{len(doubled)} sample ids stand more than once: {shown}; make them unique"
        yield Finding(level="error", source=label, key=None, text=text)
    for problem in storage_problems(dataset, indices):
        yield Finding(level="error", source=label, key=None, text=problem)


def _doubled(sample_ids: Sequence[str] | None) -> list[str]:
    if sample_ids is None:
        return []
    return [name for name, count in Counter(map(str, sample_ids)).items() if count > 1]
