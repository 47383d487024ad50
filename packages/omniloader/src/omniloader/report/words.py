"""Facts and names as the page writes them."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup


def plain(name: str, value: Any) -> str:
    """A fact about storage as text.

    Args:
        name: Its name; ``bytes`` is written as a size.
        value: A number, text, or a list or dict of such.
    """
    if isinstance(value, dict):
        return "; ".join(f"{key}: {plain(key, own)}" for key, own in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(plain(name, own) for own in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return size(value) if name == "bytes" else f"{value:,}"
    return str(value)


def size(count: float) -> str:
    """A number of bytes to three digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:  # 999.7 would be written as 1000, or 1e+03
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"


def breakable(name: str) -> Markup:
    """A name, escaped, that may go on in the next line after an underscore."""
    return Markup("_<wbr>").join(name.split("_"))
