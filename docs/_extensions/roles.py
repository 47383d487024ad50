"""Lets the API pages link what docstrings name by a Sphinx role.

``:class:`~omniloader.loader.OmniLoader``` is what an editor shows and what the site has to
turn into a link; Markdown knows no roles.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`(~?)([^`]+)`")


class Roles(griffe.Extension):
    """Rewrites roles in every docstring as it is loaded."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring:
            obj.docstring.value = ROLE.sub(_link, obj.docstring.value)


def _link(match: re.Match[str]) -> str:
    short, path = match.groups()
    shown = path.rpartition(".")[2] if short else path
    # A bare name is of the module at hand: shown, not linked.
    return f"[`{shown}`][{path}]" if path.startswith("omniloader.") else f"`{shown}`"
