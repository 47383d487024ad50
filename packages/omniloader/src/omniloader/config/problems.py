"""Turn pydantic's findings into one :class:`ConfigError` that says where, what, and what came."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from omniloader.config.document import Document, KeyPath, path_text
from omniloader.config.types import MUST
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


def config_error(document: Document, path: KeyPath, finding: str) -> ConfigError:
    """An error at one place of a document."""
    at = path_text(path)
    return ConfigError(f"{document.where(path)}{at}{': ' if at else ''}{finding}")


def translate(
    error: ValidationError, document: Document, base: KeyPath, known: Mapping[KeyPath, Iterable[str]]
) -> ConfigError:
    """Make one error of all that pydantic found below one place.

    Args:
        error: What pydantic raised.
        document: Where the values come from.
        base: The key path that was being checked.
        known: The keys allowed in a mapping, by its path relative to ``base``.

    Returns:
        The error to raise; with several findings, one line each.
    """
    lines = []
    for detail in error.errors(include_url=False):
        loc = tuple(detail["loc"])
        path = base + loc
        finding = _finding(detail, known.get(loc[:-1], ()), document, path)
        lines.append(str(config_error(document, path, finding)))
    if len(lines) == 1:
        return ConfigError(lines[0])
    return ConfigError("\n".join([f"{len(lines)} problems in the config:", *lines]))


def _finding(
    detail: ErrorDetails, known: Iterable[str], document: Document, path: KeyPath
) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return unknown_key(str(path[-1]), known)
    if kind in ("missing", "missing_argument", "missing_keyword_only_argument"):
        return "is required"
    if kind == "literal_error":
        expected = f"must be one of {context['expected'].replace(' or ', ', ')}"
    elif kind == MUST:
        expected = detail["msg"]
    elif kind in _EXPECTED:
        expected = "must be " + _EXPECTED[kind].format(**context)
    else:
        expected = detail["msg"][0].lower() + detail["msg"][1:]
    return f"{expected}, got {shown(detail['input'])}{_yaml_hint(detail['input'], document, path)}"


def _yaml_hint(value: Any, document: Document, path: KeyPath) -> str:
    spelling = document.spellings.get(path)
    if spelling is None or not isinstance(value, bool) or spelling.lower() in ("true", "false"):
        return ""
    return f" (YAML reads {spelling} as a boolean; write \"{spelling}\" for the text)"


def shown(value: Any) -> str:
    """A value as a message shows it: as YAML would write it, and not at length."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
