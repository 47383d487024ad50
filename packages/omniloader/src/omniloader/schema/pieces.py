"""Fit what a source read for a batch to its specs: one piece for all rows where that goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omniloader._types import Column, Gather, IntArray
from omniloader.masks import mask_name
from omniloader.schema.spec import TensorSpec
from omniloader.schema.values import (
    Misfit,
    always_exact,
    as_tensor,
    fit,
    fit_mask,
    fit_raw,
)


@dataclass(frozen=True)
class SourceRows:
    """What one source contributes to a batch.

    Args:
        rows: Positions in the batch, int64 ``(n,)`` with n ≥ 1.
        columns: What the source read for them; see ``Column``.
        declared: The source's own specs by name; other columns are ignored.
        refuse: Called with (position in ``rows``, name, problem) for a value that does not fit;
            raises, or returns to have it masked.
    """

    rows: IntArray
    columns: Mapping[str, Column]
    declared: Mapping[str, TensorSpec]
    refuse: Callable[[int, str, str], None]


@dataclass(frozen=True, slots=True)
class Piece:
    """Values of one key for some rows, fit to be copied.

    Args:
        rows: Positions in the batch, int64 ``(n,)``.
        values: The values, of one dtype that the spec's dtype can hold; may have more steps than
            ``steps``.
        mask: Bool ``(n,)`` or ``(n, steps)``; None means all real.
        steps: Steps to copy, 0 for a vector; the most where rows differ.
        lengths: Steps of each row, int64 ``(n,)``, where they differ; then ``mask`` is None.
    """

    rows: IntArray
    values: Tensor | Gather | list[Tensor]
    mask: Tensor | None
    steps: int
    lengths: IntArray | None = None

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the values."""
        values = self.values
        if isinstance(values, list):
            return values[0].dtype
        return values.dtype if isinstance(values, Tensor) else values.table.dtype


def fit_source(source: SourceRows, name: str, crop: bool) -> list[Piece]:
    """The pieces of one key that a source holds.

    Args:
        source: The source's contribution.
        name: A key that it declares and has read.
        crop: Keep only the first ``time_dim`` steps.
    """
    spec, column = source.declared[name], source.columns[name]
    flags = source.columns.get(mask_name(name))
    try:
        piece = _fit_whole(spec, column, flags, source.rows, crop)
        if piece is None and flags is None and spec.is_sequence and isinstance(column, list):
            piece = _fit_ragged(spec, column, source.rows, crop)
    except Misfit:
        piece = None  # row by row, to name the sample
    return _fit_rows(spec, column, flags, source, crop) if piece is None else [piece]


def _fit_whole(
    spec: TensorSpec, column: Column, flags: Column | None, rows: IntArray, crop: bool
) -> Piece | None:
    """Fit all rows at once, or None where they are not of one shape and dtype."""
    first = _first_row(column)
    if first is None or (flags is not None and _first_row(flags) is None):
        return None
    mask = None if flags is None else _stacked(flags)
    if _needs_no_check(spec, *first):
        steps = first[1][0] if spec.is_sequence else 0
        if mask is not None:
            mask = fit_mask(spec, mask, torch.Size((len(rows), *first[1][: spec.is_sequence])))
        if crop and spec.is_sequence:
            steps = min(steps, spec.time_dim or 0)
            mask = None if mask is None else mask[:, :steps]
        values = column if isinstance(column, Tensor | Gather) else list(column)
        return Piece(rows, values, mask, steps)
    value, mask = fit(spec, _stacked(column), mask, lead=1, crop=crop)
    return Piece(rows, value, mask, value.shape[1] if spec.is_sequence else 0)


def _first_row(column: Column) -> tuple[Tensor, tuple[int, ...]] | None:
    """A tensor of the column's kind and the shape of each row; None where rows differ."""
    if isinstance(column, Gather):
        return column.table, column.table.shape[1:]
    if isinstance(column, Tensor):
        return column, column.shape[1:]
    first = column[0]
    if not isinstance(first, Tensor):
        return None
    dtype, shape = first.dtype, first.shape
    for item in column:
        if not isinstance(item, Tensor) or item.dtype is not dtype or item.shape != shape:
            return None
    return first, shape


def _fit_ragged(
    spec: TensorSpec, column: Sequence[Any], rows: IntArray, crop: bool
) -> Piece | None:
    """Fit rows that differ in their length only, or None where they differ in more."""
    held = [i for i, item in enumerate(column) if item is not None]
    values = [column[i] for i in held]
    if not values or not isinstance(values[0], Tensor):
        return None
    dtype, trailing = values[0].dtype, values[0].shape[1:]
    for item in values:
        if not isinstance(item, Tensor) or item.dtype is not dtype or item.shape[1:] != trailing:
            return None
        if not item.ndim or not _is_plain(item):
            return None
    if not _needs_no_check(spec, values[0], values[0].shape):
        return None
    lengths = np.array([len(item) for item in values], dtype=np.int64)
    if crop:
        lengths = np.minimum(lengths, spec.time_dim or 0)
    return Piece(rows[held], values, None, int(lengths.max()), lengths)


def _needs_no_check(spec: TensorSpec, kind: Tensor, row_shape: tuple[int, ...]) -> bool:
    """Whether rows of this kind need no look at their numbers, only copying or an exact cast."""
    trailing = row_shape if spec.time_dim is None else row_shape[1:]
    return (
        (kind.dtype is spec.dtype or always_exact(kind.dtype, spec.dtype))
        and (spec.dtype.is_complex or not kind.dtype.is_complex)
        and trailing == spec.trailing_shape
        and len(row_shape) == len(trailing) + spec.is_sequence
        and spec.nonfinite == "keep"
        and spec.sentinel is None
        and _is_plain(kind)
    )


def _is_plain(tensor: Tensor) -> bool:
    """Whether NumPy can read the memory of a tensor."""
    return tensor.is_cpu and tensor.layout is torch.strided and not tensor.requires_grad


def _stacked(column: Column) -> Tensor:
    if isinstance(column, Gather):
        return column.table[torch.from_numpy(column.index)]
    return as_tensor(column if isinstance(column, Tensor) else torch.stack(list(column)))


def _fit_rows(
    spec: TensorSpec, column: Column, flags: Column | None, source: SourceRows, crop: bool
) -> list[Piece]:
    pieces: list[Piece] = []
    for i, raw in enumerate(_items(column)):
        if raw is None:
            continue
        flag = None if flags is None else _item(flags, i)
        fitted = fit_raw(spec, raw, flag, crop=crop)
        if isinstance(fitted, Misfit):
            source.refuse(i, spec.name, str(fitted))
            continue
        value, mask = fitted
        steps = value.shape[0] if spec.is_sequence else 0
        row_mask = None if mask is None else mask[None]
        pieces.append(Piece(source.rows[i : i + 1], [value], row_mask, steps))
    return pieces


def _items(column: Column) -> Sequence[Any]:
    if isinstance(column, Gather):
        return [column.table[i] for i in column.index.tolist()]
    return list(column)


def _item(column: Column, i: int) -> Any:
    return column.table[int(column.index[i])] if isinstance(column, Gather) else column[i]
