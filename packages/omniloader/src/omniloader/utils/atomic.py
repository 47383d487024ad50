"""Files that are there whole, or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from omniloader.errors import ConfigError

PARTIAL = ".partial"
"""Suffix of what is still being written; a killed run leaves such a file, never the real name."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the real name when the block ends without an error.

    An error or Ctrl-C removes it and leaves what was at ``path``.

    Args:
        path: The name the file gets; its folder has to be there.

    Raises:
        OSError: If the folder is not there or may not be written to; raised on entry.
    """
    # In the same folder, because a rename is atomic only within a file system.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=PARTIAL)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp makes files that only their owner can read; ours follow the umask.
        temporary.chmod(0o666 & ~current_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_output(path: Path, option: str) -> Iterator[Path]:
    """:func:`replacing` for a file that a person asked for: refused before the work, with advice.

    Args:
        path: The file.
        option: What asked for it, in front of the path in messages.

    Raises:
        ConfigError: If it cannot be written; raised on entry.
    """
    if path.is_dir():
        raise ConfigError(f"{option} {path}: must be a file, is a folder; give a file name in it")
    with ExitStack() as stack:
        try:
            temporary = stack.enter_context(replacing(path))
        except OSError as error:
            raise ConfigError(
                f"{option} {path}: cannot be written: {error.strerror}; "
                "choose a folder that is there and that you may write to"
            ) from error
        yield temporary


def current_umask() -> int:
    """The rights that new files of this process lack."""
    # It can only be read by setting it.
    umask = os.umask(0o022)
    os.umask(umask)
    return umask
