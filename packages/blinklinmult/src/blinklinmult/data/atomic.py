"""Files that are there whole, or not at all, in folders that are made for them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from omniloader.utils import atomic


def replacing(path: Path) -> AbstractContextManager[Path]:
    """A path to write to, which takes the real name when the block ends without an error.

    Args:
        path: The name the file gets. Its folder is made if need be.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    return atomic.replacing(path)
