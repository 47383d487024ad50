"""One read-only HDF5 handle a process, whatever way the process came about."""

from __future__ import annotations

import contextlib
import os
import weakref
from pathlib import Path
from typing import TypeAlias

import h5py

from omniloader.errors import MissingFileError, MissingGroupError, SourceError

_OPEN: weakref.WeakSet[GroupHandle] = weakref.WeakSet()

Identity: TypeAlias = tuple[int, int]
"""Size and time of the last change: another file, or one written again, differs in it."""


def identity_of(file: Path | int) -> Identity | None:
    """The identity of a file, by path or descriptor; None when there is none."""
    try:
        status = os.stat(file)  # noqa: PTH116 - a descriptor has no path
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


class GroupHandle:
    """A group of an HDF5 file, opened when it is first used in a process.

    A forked child inherits open handles, and HDF5 would hand the inherited file out again for
    a second ``open`` of the same path. So the first use in a new process closes all inherited
    handles before it opens its own. Pickling keeps the path only.

    Args:
        path: The file.
        subset: Path of the group in the file.
    """

    def __init__(self, path: Path, subset: str) -> None:
        self.path = path
        self.subset = subset
        self._file: h5py.File | None = None
        self._group: h5py.h5g.GroupID | None = None
        self._pid = 0
        self.identity: Identity | None = None

    @property
    def label(self) -> str:
        """File and group, for messages."""
        return f"'{self.path}' group '{self.subset}'"

    @property
    def is_open(self) -> bool:
        """Whether this process holds the file open."""
        return self._file is not None and self._pid == os.getpid()

    def group(self) -> h5py.h5g.GroupID:
        """The group, opened in this process.

        Raises:
            SourceError: If the file is missing, unreadable or not HDF5.
            MissingGroupError: If it has no such group.
        """
        if self._group is not None and self._pid == os.getpid():
            return self._group
        for handle in list(_OPEN):
            if handle._pid != os.getpid():
                handle.close()
        with contextlib.ExitStack() as undo:
            self.identity = identity_of(self.path)
            file = undo.enter_context(_opened(self.path))
            group = _subset_of(file, self.path, self.subset)
            undo.pop_all()
        self._file, self._group, self._pid = file, group, os.getpid()
        _OPEN.add(self)
        return group

    def close(self) -> None:
        """Release the handle; the next use opens it again."""
        file, self._file, self._group = self._file, None, None
        _OPEN.discard(self)
        if file is not None:
            file.close()

    def __getstate__(self) -> dict[str, object]:
        return {"path": self.path, "subset": self.subset, "identity": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _file=None, _group=None, _pid=0)


def _opened(path: Path) -> h5py.File:
    if not path.exists():
        raise MissingFileError(
            f"'{path}' does not exist; check the path (relative paths in a config start at the "
            "config file)"
        )
    if path.is_dir():
        raise SourceError(f"'{path}' must be an HDF5 file, got a folder; name the file in it")
    try:
        return h5py.File(path, "r")
    except PermissionError as error:
        raise SourceError(f"'{path}' must be readable, got: {error}; check its rights") from error
    except OSError as error:
        if _has_signature(path):
            hint = "it is damaged, incomplete or still being written: copy or build it again"
        else:
            hint = "it is not an HDF5 file: check the path"
        raise SourceError(f"'{path}' cannot be opened ({error}); {hint}") from error


def _has_signature(path: Path) -> bool:
    # h5py.is_hdf5 says False for a truncated file as well.
    with path.open("rb") as file:
        return file.read(8) == b"\x89HDF\r\n\x1a\n"


def _subset_of(file: h5py.File, path: Path, subset: str) -> h5py.h5g.GroupID:
    node = file.get(subset)
    if isinstance(node, h5py.Group):
        return node.id
    groups = ", ".join(f"'{name}'" for name in file) or "nothing"
    what = "no group" if node is None else "an array, not a group, at"
    raise MissingGroupError(f"'{path}' has {what} '{subset}'; the file holds {groups}")
