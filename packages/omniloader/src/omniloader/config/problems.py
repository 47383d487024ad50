"""Turn findings into one :class:`ConfigError`: where, what it must be, and what came."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from omniloader.config.document import Document, KeyPath, path_text
from omniloader.errors import ConfigError

_EXPECTED = {
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "greater_than_equal": "at least {ge:g}",
    "greater_than": "over {gt:g}",
    "less_than_equal": "at most {le:g}",
    "less_than": "under {lt:g}",
    "too_short": "a list of at least {min_length}",
    "string_too_short": "a non-empty text",
    "finite_number": "a finite number",
}


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``, did you mean 'std'?`` for the nearest known word, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f", did you mean '{near[0]}'?" if near else ""


def unknown_key(key: str, known: Iterable[str]) -> str:
    """The finding about a key that is not one, with the nearest that is, or all of them."""
    names = list(known)
    near = did_you_mean(key, names)
    return f"unknown key{near or '; known: ' + ', '.join(names)}"


def unknown_name(family: str, name: str, known: Iterable[str]) -> str:
    """The finding about a name that is in no registry: the nearest, and all known ones."""
    names = list(known)
    return f"unknown {family} '{name}'{did_you_mean(name, names)}; known: {', '.join(names)}"


class Problems:
    """Collects what is wrong with one document, so that all of it is said at once.

    Args:
        document: Where the values come from; it knows their lines.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._lines: list[str] = []

    def add(self, path: KeyPath, finding: str) -> None:
        """Note one finding about the value at a key path."""
        at = path_text(path)
        self._lines.append(f"{self._document.where(path)}{at}{': ' if at else ''}{finding}")

    def add_all(
        self, error: ValidationError, base: KeyPath, known: Mapping[KeyPath, Iterable[str]]
    ) -> None:
        """Note all that pydantic found below one place.

        Args:
            error: What pydantic raised.
            base: The key path that was being checked.
            known: The keys allowed in a mapping, by its path below ``base``; list positions
                are left out of that path.
        """
        for detail in error.errors(include_url=False):
            loc = tuple(detail["loc"])
            mapping = tuple(part for part in loc[:-1] if isinstance(part, str))
            self.add(base + loc, self._finding(detail, known.get(mapping, ()), base + loc))

    def raise_if_any(self) -> None:
        """Raise what was noted, one line each.

        Raises:
            ConfigError: If anything was.
        """
        if len(self._lines) == 1:
            raise ConfigError(self._lines[0])
        if self._lines:
            raise ConfigError("\n".join([f"{len(self._lines)} problems:", *self._lines]))

    def _finding(self, detail: ErrorDetails, known: Iterable[str], path: KeyPath) -> str:
        kind = detail["type"]
        if kind == "extra_forbidden":
            return unknown_key(str(path[-1]), known)
        if kind == "missing":
            return "is required"
        hint = yaml_hint(detail["input"], self._document.spellings.get(path))
        return f"{_expected(detail)}, got {shown(detail['input'])}{hint}"


def _expected(detail: ErrorDetails) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "literal_error":
        return f"must be one of {context['expected'].replace(' or ', ', ')}"
    if kind in _EXPECTED:
        return "must be " + _EXPECTED[kind].format(**context)
    return detail["msg"][:1].lower() + detail["msg"][1:]


def yaml_hint(value: Any, spelling: str | None) -> str:
    """What to write instead, where YAML made a boolean of a word such as ``no``."""
    if spelling is None or not isinstance(value, bool) or spelling.lower() in ("true", "false"):
        return ""
    return f' (YAML reads {spelling} as a boolean; write "{spelling}" for the text)'


def shown(value: Any) -> str:
    """A value as a message shows it: as YAML would write it, and not at length."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
