"""Where the values of many samples lie in an HDF5 file: what is known so far, in few arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from omniloader._types import IntArray
from omniloader.data._hdf5_form import Form

Array = npt.NDArray[Any]

UNKNOWN, MISSING, PLAIN = -1, -2, -3
"""In place of a form: not looked at yet; the sample lacks the key; only HDF5 can read it."""

KEPT_TOTAL = 32 << 20
"""Bytes that small values may take in all; further ones are read from the file."""


Found: TypeAlias = tuple[Form, int, Array]
"""Of one value: form, steps, and rows for a tape: chunks, or bytes where the form is kept."""

_NOTHING = np.empty(0, dtype=np.uint8)


class Tape:
    """An array that grows at its end.

    Args:
        rows: The first rows.
    """

    def __init__(self, rows: Array) -> None:
        self._rows = rows
        self.used = len(rows)

    def view(self) -> Array:
        """The rows so far; what is appended later does not change them."""
        return self._rows[: self.used]

    def append(self, rows: Array) -> int:
        """Add rows, and say where they start."""
        start, end = self.used, self.used + len(rows)
        if end > len(self._rows):
            grown = np.empty((max(end, 2 * start), *self._rows.shape[1:]), self._rows.dtype)
            grown[:start] = self._rows[:start]
            self._rows = grown
        self._rows[start:end] = rows
        self.used = end
        return start


class KeyIndex:
    """One key of N samples.

    ``form`` numbers the form, or is one of the three marks; ``steps`` is the length of the first
    axis, of a text its bytes; the value's chunks (or its own bytes, where the form is kept) are
    ``count`` rows of a tape from row ``first``.
    """

    COLUMNS = ("form", "first", "count", "steps")
    TAPES = ("chunks", "kept")

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.form, self.first, self.count, self.steps = (arrays[name] for name in self.COLUMNS)
        self.chunks, self.kept = Tape(arrays["chunks"]), Tape(arrays["kept"])

    @classmethod
    def unknown(cls, size: int) -> KeyIndex:
        """A key about which nothing is known yet."""
        return cls(
            {
                "form": np.full(size, UNKNOWN, dtype=np.int32),
                "first": np.zeros(size, dtype=np.int64),
                "count": np.zeros(size, dtype=np.int32),
                "steps": np.zeros(size, dtype=np.int64),
                "chunks": np.empty((0, 3), dtype=np.int64),
                "kept": np.empty(0, dtype=np.uint8),
            }
        )

    def arrays(self) -> dict[str, Array]:
        """All of it, by name."""
        columns = {name: getattr(self, name) for name in self.COLUMNS}
        return {**columns, "chunks": self.chunks.view(), "kept": self.kept.view()}

    def put(self, at: int, form: int, steps: int, rows: Array, kept: bool) -> None:
        """Note one value."""
        self.first[at] = (self.kept if kept else self.chunks).append(rows)
        self.count[at], self.steps[at] = len(rows), steps
        self.form[at] = form  # last: another thread may look already

    def absorb(self, other: KeyIndex, numbers: Array, kept: Array) -> None:
        """Take over what another index of the key knows besides.

        Args:
            other: The other index.
            numbers: Our number of each of its forms.
            kept: Whether each of its forms is kept.
        """
        new = np.flatnonzero((self.form == UNKNOWN) & (other.form != UNKNOWN))
        forms = other.form[new]
        in_kept = kept[np.maximum(forms, 0)]
        for mine, theirs, rows in (
            (self.kept, other.kept, new[(forms >= 0) & in_kept]),
            (self.chunks, other.chunks, new[(forms >= 0) & ~in_kept]),
        ):
            counts = other.count[rows].astype(np.int64)
            ends = np.cumsum(counts)
            taken = np.repeat(other.first[rows] - (ends - counts), counts)
            start = mine.append(theirs.view()[taken + np.arange(len(taken))])
            self.first[rows] = start + ends - counts
        self.count[new], self.steps[new] = other.count[new], other.steps[new]
        self.form[new] = np.where(forms >= 0, numbers[np.maximum(forms, 0)], forms)


class ChunkIndex:
    """What is known of a group of N samples.

    Args:
        size: Number of samples N.
        forms: The forms that occur.
        keys: Name to what is known of the key.
    """

    def __init__(
        self, size: int, forms: Iterable[Form] = (), keys: Mapping[str, KeyIndex] | None = None
    ) -> None:
        self.size = size
        self.forms = list(forms)
        self.keys = dict(keys or {})
        self.kept_bytes = sum(key.kept.used for key in self.keys.values())
        self._numbers = {form: number for number, form in enumerate(self.forms)}

    def key(self, name: str) -> KeyIndex:
        """What is known of a key."""
        if name not in self.keys:
            self.keys[name] = KeyIndex.unknown(self.size)
        return self.keys[name]

    def number(self, form: Form) -> int:
        """The number of a form."""
        if form not in self._numbers:
            self.forms.append(form)
            self._numbers[form] = len(self.forms) - 1
        return self._numbers[form]

    def put(self, key: KeyIndex, at: int, found: Found | int) -> None:
        """Note what was found of one value, or a mark."""
        if isinstance(found, int):
            key.put(at, found, 0, _NOTHING, kept=True)
            return
        form, steps, rows = found
        key.put(at, self.number(form), steps, rows, form.kept)
        self.kept_bytes += len(rows) if form.kept else 0

    def unknown(self, names: Sequence[str], at: IntArray) -> list[int]:
        """Those of some samples of which a key is not known yet, each once, in order."""
        open_ = np.zeros(len(at), dtype=np.bool_)
        for name in names:
            open_ |= self.key(name).form[at] == UNKNOWN
        return list(dict.fromkeys(at[open_].tolist()))

    @property
    def known(self) -> int:
        """Number of values that are known."""
        return sum(int((key.form != UNKNOWN).sum()) for key in self.keys.values())

    def absorb(self, other: ChunkIndex) -> None:
        """Take over what another index of the same samples knows besides."""
        numbers = np.array([*map(self.number, other.forms), 0], dtype=np.int32)
        kept = np.array([*(form.kept for form in other.forms), False])
        for name, theirs in other.keys.items():
            self.key(name).absorb(theirs, numbers, kept)

    def dump(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """As plain values and few arrays: columns ``(keys, N)``, the tapes one after another."""
        own = [key.arrays() for key in self.keys.values()]
        meta = {
            "forms": [asdict(form) for form in self.forms],
            "keys": list(self.keys),
            "tapes": {name: [len(arrays[name]) for arrays in own] for name in KeyIndex.TAPES},
        }
        columns = {name: np.stack([a[name] for a in own]) for name in KeyIndex.COLUMNS}
        tapes = {name: np.concatenate([a[name] for a in own]) for name in KeyIndex.TAPES}
        return meta, {**columns, **tapes}

    @classmethod
    def restore(cls, size: int, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> ChunkIndex:
        """The inverse of :meth:`dump`.

        Raises:
            KeyError: If something is missing.
            ValueError: If the arrays are not those of ``size`` samples.
        """
        names = list(meta["keys"])
        if any(arrays[column].shape != (len(names), size) for column in KeyIndex.COLUMNS):
            raise ValueError(f"it is not about {len(names)} keys of {size} samples")
        tapes = {
            name: np.split(arrays[name], np.cumsum(meta["tapes"][name])[:-1])
            for name in KeyIndex.TAPES
        }
        keys = {
            key: KeyIndex(
                {name: arrays[name][k] for name in KeyIndex.COLUMNS}
                | {name: tapes[name][k] for name in KeyIndex.TAPES}
            )
            for k, key in enumerate(names)
        }
        return cls(size, map(_form, meta["forms"]), keys)


def _form(fields: dict[str, Any]) -> Form:
    chunk = fields["chunk"]
    tuples = {
        "trailing": tuple(fields["trailing"]),
        "chunk": None if chunk is None else tuple(chunk),
    }
    return Form(**{**fields, **tuples})
