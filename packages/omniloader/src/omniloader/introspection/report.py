"""The report: facts a source and a key, findings, and their forms as dict, JSON and table."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omniloader.introspection.records import Finding, KeyFacts, SourceFacts

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Finding", "KeyFacts", "Report", "SourceFacts"]


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a mix holds. Printed, it is a table; ``print(omni.describe())``.

    Sources appear under labels: their names, with ``[0]``, ``[1]``, … where two share one.

    Args:
        sources: Facts a source.
        union_keys: Names of all features, then all targets.
        target_keys: Names of the targets.
        class_distributions: Source and categorical target to counts of class ids, over the real
            positions of the samples read.
        findings: What to look at, errors first.
    """

    sources: tuple[SourceFacts, ...]
    union_keys: list[str]
    target_keys: list[str]
    class_distributions: dict[str, dict[str, dict[int, int]]]
    findings: tuple[Finding, ...]

    @property
    def names(self) -> list[str]:
        """Labels of the sources."""
        return [source.name for source in self.sources]

    @property
    def sizes(self) -> list[int]:
        """Number of samples a source."""
        return [source.size for source in self.sources]

    @property
    def coverage(self) -> dict[str, dict[str, bool]]:
        """Source and union key to whether the source declares it."""
        return {
            source.name: {key: key in source.keys for key in self.union_keys}
            for source in self.sources
        }

    @property
    def valid_fraction(self) -> dict[str, dict[str, float]]:
        """Source and union key to the share of real positions; 0 where it is not declared."""
        return {
            source.name: {
                key: source.keys[key].valid_fraction if key in source.keys else 0.0
                for key in self.union_keys
            }
            for source in self.sources
        }

    @property
    def errors(self) -> list[Finding]:
        """The findings that are errors."""
        return [finding for finding in self.findings if finding.level == "error"]

    @property
    def ok(self) -> bool:
        """Whether there is no error; warnings may remain."""
        return not self.errors

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values that JSON can hold."""
        return {
            "names": self.names,
            "sizes": self.sizes,
            "union_keys": self.union_keys,
            "coverage": self.coverage,
            "valid_fraction": self.valid_fraction,
            "class_distributions": {
                name: {key: {str(c): n for c, n in ids.items()} for key, ids in targets.items()}
                for name, targets in self.class_distributions.items()
            },
            "sources": [dataclasses.asdict(source) for source in self.sources],
            "findings": [dataclasses.asdict(finding) for finding in self.findings],
            "ok": self.ok,
        }

    def to_json(self, indent: int | None = 2) -> str:
        """:meth:`to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def __rich__(self) -> RenderableType:
        from omniloader.introspection.render import render

        return render(self)

    def __str__(self) -> str:
        from omniloader.introspection.render import as_text

        return as_text(self)
