"""Stored arrays as values that PyTorch holds, and rows of them as columns.

Adapters keep what they decode as NumPy arrays, texts and lists of texts; only what is handed out
becomes a tensor. NumPy types that PyTorch lacks are converted without loss, or refused by name.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from omniloader._types import Column, IntArray
from omniloader.errors import SampleError

T = TypeVar("T")

Stored: TypeAlias = npt.NDArray[Any] | str | list[Any]
"""A decoded value: an array that PyTorch can hold, a text, or a (nested) list of texts."""

# PyTorch has uint16/32/64 in name only: hardly any operation takes them.
_WIDER = {2: np.int32, 4: np.int64, 8: np.int64}
_FLOATS = {"f": (2, 4, 8), "c": (8, 16)}


def storable(array: npt.NDArray[Any], where: str) -> npt.NDArray[Any]:
    """Bring an array to a native dtype, layout and width that PyTorch holds, without loss.

    Args:
        array: Any numeric or bool array; uint16 becomes int32, uint32 and uint64 int64.
        where: Whose array this is, for messages.

    Returns:
        A C-contiguous, writable array; the given one when nothing has to change.

    Raises:
        SampleError: If PyTorch cannot hold the values.
    """
    dtype = array.dtype
    if dtype.kind == "u" and dtype.itemsize > 1:
        if dtype.itemsize == 8 and array.size and int(array.max()) > np.iinfo(np.int64).max:
            raise SampleError(
                f"{where}: values must fit int64, got {dtype.name} up to {int(array.max())}; "
                "store smaller numbers"
            )
        return array.astype(_WIDER[dtype.itemsize])
    if dtype.kind not in "biu" and dtype.itemsize not in _FLOATS.get(dtype.kind, ()):
        raise SampleError(
            f"{where}: values must be numbers, bool or text that a tensor or str can hold, "
            f"got {dtype}; store them as separate plain arrays"
        )
    if not dtype.isnative:
        return array.astype(dtype.newbyteorder("="))
    if not (array.flags.c_contiguous and array.flags.writeable and array.flags.aligned):
        return array.copy(order="C")
    return array


def decoded(raw: object, where: str) -> str | list[Any]:
    """Text of a str, of UTF-8 bytes, or of a (nested) list or array of them.

    Raises:
        SampleError: If bytes are not UTF-8, or something else stands among the texts.
    """
    if isinstance(raw, np.ndarray | np.generic):
        raw = raw.tolist()
    if isinstance(raw, list):
        return [decoded(item, where) for item in raw]
    if isinstance(raw, str):
        return str(raw)
    if not isinstance(raw, bytes):
        raise SampleError(f"{where}: every item must be text, got {type(raw).__name__}")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SampleError(
            f"{where}: text must be UTF-8, got {raw[:40]!r} ({error.reason}); store it as UTF-8"
        ) from error


def handed_out(value: Stored, shared: bool) -> Any:
    """What a consumer gets for a stored value: a tensor, a text or a list of its own.

    Args:
        value: A decoded value.
        shared: Whether a cache keeps ``value`` too; then it is copied.
    """
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy() if shared else value)
    return copy.deepcopy(value) if shared else value


def as_column(rows: Sequence[Stored | None], shared: bool) -> Column:
    """Stack rows of one shape and dtype; hand out a list otherwise.

    Args:
        rows: One value a sample, ``None`` where the sample lacks it.
        shared: Whether a cache keeps the rows too; then they are copied.
    """
    if is_uniform(rows):
        return torch.from_numpy(np.stack(rows))  # type: ignore[arg-type]
    return [None if row is None else handed_out(row, shared) for row in rows]


def is_uniform(rows: Sequence[Stored | None]) -> bool:
    """Whether all rows are arrays of one shape and dtype."""
    first = rows[0] if rows else None
    return isinstance(first, np.ndarray) and all(
        isinstance(row, np.ndarray) and row.shape == first.shape and row.dtype == first.dtype
        for row in rows
    )


def wanted(columns: Mapping[str, T], keys: Collection[str] | None) -> list[tuple[str, T]]:
    """Names and columns of those that are asked for; None asks for all."""
    return [(key, column) for key, column in columns.items() if keys is None or key in keys]


def checked_index(index: int, size: int, label: str) -> int:
    """A position in ``[0, size)``; negative ones count from the end.

    Raises:
        IndexError: If there is no such sample.
    """
    at = operator.index(index)
    if not -size <= at < size:
        raise IndexError(f"{label}: index {at} is out of range for {size} samples")
    return at % size


def checked_indices(indices: IntArray | Sequence[int], size: int, label: str) -> IntArray:
    """The same for many positions at once, as int64 ``(n,)``."""
    at = np.asarray(indices, dtype=np.int64).reshape(-1)
    wrong = at[(at < -size) | (at >= size)]
    if wrong.size:
        raise IndexError(f"{label}: index {wrong[0]} is out of range for {size} samples")
    return np.where(at < 0, at + size, at)
