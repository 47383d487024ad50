"""Many names in two arrays: a list of a million strings would be copied into every worker."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import overload

import numpy as np


class CompactNames(Sequence[str]):
    """A sequence of texts kept as one block of bytes.

    It reads like a tuple of strings and equals a list or tuple with the same texts. Reading an
    entry touches no per-entry Python object, so forked workers share all of it.

    Args:
        names: The texts, in order.
    """

    __slots__ = ("_blob", "_ends")

    def __init__(self, names: Iterable[str] = ()) -> None:
        # surrogateescape: HDF5 link names and file names need not be valid UTF-8.
        encoded = [name.encode("utf-8", "surrogateescape") for name in names]
        self._blob = b"".join(encoded)
        self._ends = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(name) for name in encoded], out=self._ends[1:])

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        at = range(len(self))[index]
        raw = self._blob[self._ends[at] : self._ends[at + 1]]
        return raw.decode("utf-8", "surrogateescape")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, CompactNames):
            return self._blob == other._blob and np.array_equal(self._ends, other._ends)
        if isinstance(other, list | tuple):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))
        return NotImplemented

    def digest(self) -> str:
        """Names the sequence of texts, in any process."""
        return hashlib.sha256(self._blob + self._ends.tobytes()).hexdigest()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"CompactNames([{shown}{', …' if len(self) > 3 else ''}], n={len(self)})"
