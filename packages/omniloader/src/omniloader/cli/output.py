"""Output files: refused before the long pass, complete or absent after it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from omniloader.utils.atomic import replacing_output


def replacing(path: Path) -> AbstractContextManager[Path]:
    """Give a temporary file that takes the place of ``path`` when the block ends well.

    Args:
        path: The file to write, given by ``-o``.

    Raises:
        ConfigError: If it cannot be written.
    """
    return replacing_output(path, "-o")
