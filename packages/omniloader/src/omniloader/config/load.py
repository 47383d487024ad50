"""Read a YAML or JSON file into a :class:`Document`, refusing what would be read wrongly.

YAML 1.1 reads ``012`` as 10, ``12:30`` as 750, and lets the last of two equal keys win; JSON as
Python reads it knows NaN. All of these are errors here, with file and line. Nothing is ever
constructed but text, numbers, booleans, lists and mappings.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import yaml

from omniloader._types import PathLike
from omniloader.config.document import Document
from omniloader.config.walk import PLAIN_TAGS, Walk
from omniloader.errors import ConfigError, MissingConfigError


class _Loader(yaml.SafeLoader):
    """The safe loader without timestamps and ``=``: those stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] in PLAIN_TAGS]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_config(path: PathLike) -> Document:
    """Read a config file by its suffix: ``.yaml``, ``.yml`` or ``.json``.

    Raises:
        ConfigError: If the suffix is another one, or the file cannot be used.
        MissingConfigError: If there is no such file (also a ``FileNotFoundError``).
    """
    suffix = Path(path).suffix.lower()
    if suffix in (".yaml", ".yml"):
        return read_yaml(path)
    if suffix == ".json":
        return read_json(path)
    raise ConfigError(
        f"{os.fspath(path)}: a config file must end in .yaml, .yml or .json, got '{suffix}'; "
        "rename it, or read it with OmniConfig.from_yaml or OmniConfig.from_json"
    )


def read_yaml(path: PathLike) -> Document:
    """Read a YAML file whatever its suffix; errors as :func:`read_config`."""
    return parse_yaml(_text_of(path), os.fspath(path))


def read_json(path: PathLike) -> Document:
    """Read a JSON file whatever its suffix; errors as :func:`read_config`."""
    return parse_json(_text_of(path), os.fspath(path))


def parse_yaml(text: str, name: str) -> Document:
    """Parse YAML text.

    Args:
        text: One YAML document; an empty one is an empty mapping.
        name: What messages call it, usually the path.

    Raises:
        ConfigError: With name and line: bad syntax, a duplicate key, a tag, a key that is not
            text, a number that YAML reads as another one, aliases in a circle.
    """
    walk = Walk(name)
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        walk.check(node)
        values = None if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, name) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(
            f"{name}:{line}: not valid YAML: the character {chr(error.character)!r} is not allowed"
        ) from error
    except RecursionError:
        raise ConfigError(f"{name}: is nested too deeply to be a config") from None
    return _document(values, name, walk)


def parse_json(text: str, name: str) -> Document:
    """Parse JSON text; like :func:`parse_yaml`, and NaN and Infinity are refused too."""
    walk = Walk(name, json_text=True)
    found: list[str] = []
    try:
        values = json.loads(
            text,
            parse_constant=lambda word: found.append(f"{word} is not JSON; give a number"),
            object_pairs_hook=lambda pairs: _without_doubles(pairs, found),
        )
    except json.JSONDecodeError as error:
        raise ConfigError(f"{name}:{error.lineno}: not valid JSON: {error.msg}") from error
    except RecursionError:
        raise ConfigError(f"{name}: is nested too deeply to be a config") from None
    # JSON is YAML but for tabs: composing it gives the lines that json does not keep. Where YAML
    # sees it otherwise (a key of over 1024 characters) messages go without lines.
    with contextlib.suppress(yaml.YAMLError):
        walk.check(yaml.compose(text.replace("\t", " "), Loader=_Loader))
    if found:
        raise ConfigError(f"{name}: {found[0]}")
    return _document(values, name, walk)


def _without_doubles(pairs: list[tuple[str, Any]], found: list[str]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            found.append(f"the key '{key}' stands twice in one mapping; remove one of them")
        mapping[key] = value
    return mapping


def _document(values: Any, name: str, walk: Walk) -> Document:
    if values is None:
        values = {}
    if not isinstance(values, dict):
        raise ConfigError(
            f"{name}: a config must be a mapping of keys to values, got a {type(values).__name__}"
        )
    return Document(values=values, name=name, lines=walk.lines, spellings=walk.spellings)


def _text_of(path: PathLike) -> str:
    """The file's text, UTF-8 with or without a byte order mark."""
    name = os.fspath(path)
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise MissingConfigError(
            f"{name}: there is no such config file (looked from {Path.cwd()})"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{name}: a config must be UTF-8 text, byte {error.start} is not"
        ) from error
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror}") from error


def _syntax_error(error: yaml.MarkedYAMLError, name: str) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    place = name if mark is None else f"{name}:{mark.line + 1}"
    problem = error.problem or error.context or "bad syntax"
    if "\\t" in problem:
        return ConfigError(f"{place}: a tab stands where YAML wants spaces; indent with spaces")
    if error.context == "expected a single document in the stream":
        return ConfigError(f"{place}: a config must be one YAML document, a second starts here")
    return ConfigError(f"{place}: not valid YAML: {problem}")
