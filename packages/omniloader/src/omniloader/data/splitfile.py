"""Splits in a JSON file: written whole or not at all, checked when read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omniloader._types import PathLike
from omniloader.errors import ConfigError, MissingFileError, SourceError
from omniloader.utils.atomic import replacing

_VERSION = 1


class SplitInfo(dict[str, list[int]]):
    """Split name to indices, with the ``meta`` that was saved beside them.

    Args:
        splits: Name to sorted indices.
        meta: What the split was made from.
    """

    def __init__(
        self, splits: Mapping[str, list[int]], meta: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(splits)
        self.meta = dict(meta or {})


def save_split_info(
    splits: Mapping[str, Sequence[int]], path: PathLike, meta: Mapping[str, Any] | None = None
) -> None:
    """Write splits as JSON; an interrupted run leaves the old file, never half a new one.

    Args:
        splits: Name to indices, as from :func:`~omniloader.data.splits.split_indices`.
        path: The file; its folder exists.
        meta: What the split was made from (seed, ratios, …), values that JSON holds.

    Raises:
        ConfigError: If an index is negative, stands twice, or ``meta`` does not fit JSON.
        SourceError: If the file cannot be written.
    """
    target = Path(path)
    checked = _checked(splits, f"split info for '{target}'")
    document = {"version": _VERSION, "splits": checked, "meta": dict(meta or {})}
    try:
        text = json.dumps(document, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"split info for '{target}': meta must fit JSON: {error}") from error
    try:
        _write_whole(target, text + "\n")
    except OSError as error:
        raise SourceError(f"'{target}' cannot be written ({error}); check its folder") from error


def load_split_info(path: PathLike) -> SplitInfo:
    """Read what :func:`save_split_info` wrote.

    Returns:
        Name to sorted indices; ``.meta`` holds what was saved beside them.

    Raises:
        SourceError: If the file is missing or is no JSON.
        ConfigError: If it holds something else, a negative index, or one in two splits.
    """
    source = Path(path)
    try:
        document = json.loads(source.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise MissingFileError(
            f"'{source}' does not exist; make it with save_split_info"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise SourceError(
            f"'{source}' cannot be read as JSON ({error}); write it again with save_split_info"
        ) from error
    if not isinstance(document, dict) or not isinstance(document.get("splits"), dict):
        raise ConfigError(f"'{source}' holds no splits; write it with save_split_info")
    if document.get("version") != _VERSION:
        raise ConfigError(
            f"'{source}' has version {document.get('version')!r}, this package reads {_VERSION}"
        )
    return SplitInfo(_checked(document["splits"], f"'{source}'"), document.get("meta"))


def _checked(splits: Mapping[str, Sequence[int]], where: str) -> dict[str, list[int]]:
    """Plain sorted lists in which every index stands once."""
    owner: dict[int, str] = {}
    checked: dict[str, list[int]] = {}
    for name, indices in splits.items():
        if isinstance(indices, str | Mapping) or not hasattr(indices, "__iter__"):
            raise ConfigError(f"{where}: '{name}' must be a list of indices, got {indices!r}")
        checked[name] = sorted(_index(index, f"{where}: '{name}'") for index in indices)
        for index in checked[name]:
            if index in owner:
                raise ConfigError(
                    f"{where}: every index must stand once, {index} stands in '{owner[index]}' "
                    f"and in '{name}'; make the splits again"
                )
            owner[index] = name
    return checked


def _index(value: object, where: str) -> int:
    try:
        index = value.__index__()  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        index = -1
    if isinstance(value, bool) or index < 0:
        raise ConfigError(f"{where} must hold indices of at least 0, got {value!r}")
    return int(index)


def _write_whole(target: Path, text: str) -> None:
    with replacing(target) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
