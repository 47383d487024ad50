"""A parsed config file: its values, and the line where each of them stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""Where a value stands: keys of mappings and positions in lists, outermost first."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """Values as read, with what a message needs to point at them.

    Args:
        values: The top-level mapping.
        name: The file's path as the user gave it; empty for a dict made in Python.
        lines: Line numbers, from 1, by key path.
        spellings: How a boolean was written (``no``, ``on``, …), by key path.
    """

    values: dict[str, Any]
    name: str = ""
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    spellings: Mapping[KeyPath, str] = field(default_factory=dict)

    def where(self, path: KeyPath) -> str:
        """``config.yaml:12: `` for a key path, or for the nearest one above that is known."""
        if not self.name:
            return ""
        for length in range(len(path), -1, -1):
            line = self.lines.get(path[:length])
            if line is not None:
                return f"{self.name}:{line}: "
        return f"{self.name}: "


def path_text(path: KeyPath) -> str:
    """``("transforms", 2, "std")`` as ``transforms[2].std``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
