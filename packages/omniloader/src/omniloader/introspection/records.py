"""What a report is made of: facts a source and a key, and findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that is wrong with the data, or that its owner should know.

    Args:
        level: ``"error"``: the data does not fit its declaration. ``"warning"``: it does, but
            probably means something else than was meant.
        source: Label of the source.
        key: Name of the value; None where it is about the source.
        text: What is the matter and the next step.
    """

    level: Literal["error", "warning"]
    source: str
    key: str | None
    text: str

    def __str__(self) -> str:
        key = f", '{self.key}'" if self.key is not None else ""
        return f"{self.level}: source '{self.source}'{key}: {self.text}"


@dataclass(frozen=True, kw_only=True)
class KeyFacts:
    """What one source holds of one value; counts are over the samples that were read.

    Args:
        role: ``"feature"`` or ``"target"``.
        spec: The declaration in one line.
        present: Samples that have the value.
        valid_fraction: Share of positions (steps of a sequence, whole vectors) that are real, as
            in a batch: padding counts as not real unless the loader keeps native lengths.
        lengths: Native length: minimum, median, maximum; None for a vector.
        nan: NaN among real values.
        posinf: Positive infinities among real values.
        neginf: Negative infinities among real values.
        sentinel: Real steps that hold the sentinel.
        misfits: Samples whose value does not fit the declaration.
        minimum: Least finite real value; None if there is none.
        maximum: Greatest finite real value; None if there is none.
    """

    role: Literal["feature", "target"]
    spec: str
    present: int
    valid_fraction: float
    lengths: tuple[int, float, int] | None
    nan: int
    posinf: int
    neginf: int
    sentinel: int
    misfits: int
    minimum: float | None
    maximum: float | None


@dataclass(frozen=True, kw_only=True)
class SourceFacts:
    """What one source holds.

    Args:
        name: Its label, unique in the report.
        size: Number of samples.
        read: Number of samples that were read for this report.
        storage: Where and how it is stored, as far as the source says.
        keys: Facts of each value it declares.
    """

    name: str
    size: int
    read: int
    storage: dict[str, Any]
    keys: dict[str, KeyFacts]
