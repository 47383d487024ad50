"""Output files: refused before the long pass, complete or absent after it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from omniloader.errors import ConfigError


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary file that takes the place of ``path`` when the block ends well.

    The temporary file is made on entry, so that a folder that is not there or may not be
    written to is found before the work and not after it. An error or Ctrl-C removes it and
    leaves what was at ``path``.

    Args:
        path: The file to write.

    Raises:
        ConfigError: If it cannot be written.
    """
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    if path.is_dir():
        raise ConfigError(f"-o {path}: must be a file, is a folder; give a file name in it")
    try:
        temporary.touch()
    except OSError as error:
        raise ConfigError(
            f"-o {path}: cannot be written: {error.strerror}; "
            "choose a folder that is there and that you may write to"
        ) from error
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
