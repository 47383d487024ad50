"""Check a composed YAML tree and note where each of its values stands."""

from __future__ import annotations

import re
from typing import NoReturn

import yaml

from omniloader.config.document import KeyPath, path_text
from omniloader.errors import ConfigError

_TAG = "tag:yaml.org,2002:"
PLAIN_TAGS = frozenset(
    _TAG + kind for kind in ("null", "bool", "int", "float", "str", "seq", "map", "merge")
)
_MERGE = _TAG + "merge"
# Octal by a leading zero, and base 60: numbers that are not what they look like.
_LYING_NUMBER = re.compile(r"[-+]?(0[0-9_]+|[0-9][0-9_]*(:[0-9][0-9_.]*)+)")
_JSON_NONFINITE = {"NaN", "Infinity", "-Infinity"}
# A file of a few kilobytes whose aliases expand to gigabytes is refused long before that.
_MAX_NODES = 200_000


class Walk:
    """One walk over one file.

    Args:
        name: What messages call the file.
        json_text: Whether it is JSON, where ``NaN`` is refused.

    After :meth:`visit`, ``lines`` and ``spellings`` are those of a
    :class:`~omniloader.config.document.Document`.
    """

    def __init__(self, name: str, json_text: bool = False) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.spellings: dict[KeyPath, str] = {}
        self._name = name
        self._json = json_text
        self._open: set[int] = set()
        self._nodes = 0

    def check(self, root: yaml.Node | None) -> None:
        """Check a whole document; None is an empty one.

        Raises:
            ConfigError: As :meth:`visit`.
        """
        if root is not None:
            self.visit(root, ())

    def visit(self, node: yaml.Node, path: KeyPath) -> None:
        """Check a node and all below it.

        Raises:
            ConfigError: At the first thing that would be read wrongly, with its line.
        """
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            self._fail(node, f"the aliases of this file expand to over {_MAX_NODES} values")
        if id(node) in self._open:
            self._fail(node, f"{path_text(path)}: an alias stands inside its own anchor")
        self.lines.setdefault(path, node.start_mark.line + 1)
        if node.tag not in PLAIN_TAGS:
            self._fail(
                node,
                f"{path_text(path)}: the tag '{node.tag.replace(_TAG, '!!')}' is not allowed; "
                "a config holds only text, numbers, booleans, lists and mappings",
            )
        self._open.add(id(node))
        if isinstance(node, yaml.MappingNode):
            self._visit_mapping(node, path)
        elif isinstance(node, yaml.SequenceNode):
            for i, item in enumerate(node.value):
                self.visit(item, (*path, i))
        else:
            self._visit_scalar(node, path)
        self._open.discard(id(node))

    def _visit_mapping(self, node: yaml.MappingNode, path: KeyPath) -> None:
        seen: dict[str, int] = {}
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                # Merged keys give way to those written here, so they are noted after them.
                is_list = isinstance(value_node, yaml.SequenceNode)
                merged += value_node.value if is_list else [value_node]
                continue
            key = self._key_of(key_node, path)
            line = key_node.start_mark.line + 1
            if key in seen:
                self._fail(
                    key_node,
                    f"{path_text((*path, key))}: the key stands twice, first on line {seen[key]}; "
                    "remove one of them",
                )
            seen[key] = line
            self.lines.setdefault((*path, key), line)
            self.visit(value_node, (*path, key))
        for other in merged:
            self.visit(other, path)

    def _key_of(self, node: yaml.Node, path: KeyPath) -> str:
        within = f" in {path_text(path)}" if path else ""
        if not isinstance(node, yaml.ScalarNode):
            self._fail(node, f"a key{within} must be text, got a list or mapping")
        if node.tag != _TAG + "str":
            kind = node.tag.removeprefix(_TAG)
            self._fail(
                node,
                f"a key{within} must be text, but YAML reads {node.value} as a {kind}; "
                f'write "{node.value}"',
            )
        return str(node.value)

    def _visit_scalar(self, node: yaml.Node, path: KeyPath) -> None:
        kind = node.tag.removeprefix(_TAG)
        if self._json and getattr(node, "style", None) is None and node.value in _JSON_NONFINITE:
            self._fail(
                node,
                f"{path_text(path)}: {node.value} is not JSON; give a number, or use YAML's .nan",
            )
        if kind == "bool":
            self.spellings.setdefault(path, node.value)
        lies = kind in ("int", "float") and _LYING_NUMBER.fullmatch(node.value)
        if lies and not self._json:
            self._fail(
                node,
                f"{path_text(path)}: YAML reads {node.value} as "
                f'{yaml.safe_load(node.value)}; write that number, or "{node.value}" for the text',
            )

    def _fail(self, node: yaml.Node, text: str) -> NoReturn:
        raise ConfigError(f"{self._name}:{node.start_mark.line + 1}: {text.removeprefix(': ')}")
