"""Brings docstrings to Markdown: Sphinx roles become links, ``::`` before an example goes away.

``:class:`~omniloader.loader.OmniLoader``` is what editors understand; Markdown knows no roles.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`(~?)([^`]+)`")
LITERAL = re.compile(r"^(.*?)(\s*)::$", re.MULTILINE)


class Roles(griffe.Extension):
    """Rewrites roles in every docstring as it is loaded."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring:
            linked = ROLE.sub(_link, obj.docstring.value)
            obj.docstring.value = LITERAL.sub(_introduction, linked)


def _link(match: re.Match[str]) -> str:
    short, path = match.groups()
    shown = path.rpartition(".")[2] if short else path
    # A bare name is of the module at hand: shown, not linked.
    return f"[`{shown}`][{path}]" if path.startswith("omniloader.") else f"`{shown}`"


def _introduction(match: re.Match[str]) -> str:
    """The line before an indented example, which Markdown takes for code by its indent alone."""
    return f"{match[1]}:" if match[1] else ""
