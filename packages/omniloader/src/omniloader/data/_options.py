"""Checks of the options that adapters share."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence

from omniloader.errors import ConfigError

_NO_NAME = frozenset("/\\\0")


def checked_keys(keys: Sequence[str] | None) -> tuple[str, ...] | None:
    """The requested keys, each once, or None for all.

    Raises:
        ConfigError: If this is no list of different non-empty texts; one text is not a list.
    """
    if keys is None:
        return None
    is_list = isinstance(keys, Sequence) and not isinstance(keys, str | bytes)
    if not is_list or not all(isinstance(key, str) and key for key in keys):
        raise ConfigError(f"keys must be a list of key names or None for all, got {keys!r}")
    nested = [key for key in keys if "/" in key or "\\" in key]
    if nested:
        raise ConfigError(f"keys must be plain names without '/' or '\\', got {nested[0]!r}")
    if not keys or len(set(keys)) < len(keys):
        raise ConfigError(f"keys must name at least one key, each once, got {list(keys)!r}")
    return tuple(keys)


def names_to_read(
    wanted: Collection[str] | None, served: Sequence[str] | None
) -> tuple[str, ...] | None:
    """Which names ``read_batch`` reads: those asked for that are served; None is all there are."""
    if wanted is None:
        return None if served is None else tuple(served)
    names = (name for name in dict.fromkeys(wanted) if served is None or name in served)
    # No stored value has such a name, but a path of it may lead somewhere else.
    return tuple(name for name in names if name.strip(".") and not set(name) & _NO_NAME)


def checked_count(value: int, label: str) -> int:
    """A whole number of at least 0.

    Raises:
        ConfigError: If it is not one.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"{label} must be a whole number of at least 0, got {value!r}")
    return value


def checked_subset(subset: str, what: str) -> str:
    """The name of a subset.

    Raises:
        ConfigError: If it is no text.
    """
    if not isinstance(subset, str) or not subset:
        raise ConfigError(f"subset must be the name of a {what}, got {subset!r}")
    return subset


def unknown_key(key: str, known: Iterable[str]) -> str:
    """What to say about a key that is not known: the nearest that is, or all of them."""
    names = list(known)
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    return (
        f"unknown key, did you mean '{near[0]}'?"
        if near
        else f"unknown key; known: {listed(names)}"
    )


def listed(names: Iterable[str]) -> str:
    """Names for a message."""
    return ", ".join(names) or "none"
