"""Write the columns of several sources straight into the stacked tensors of one batch.

Every key gets one output tensor. A source that holds the key writes its rows, the rows of the
others are filled with the placeholder in one go, and only then do masks say what is real. The
result equals unifying sample by sample and stacking, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omniloader._types import Column, Gather, IntArray
from omniloader.masks import mask_name
from omniloader.schema.buffers import allocate
from omniloader.schema.spec import TensorSpec, UnifiedSchema
from omniloader.schema.values import Misfit, as_tensor, fit

# Below this many bytes a row, one indexed assignment beats copying row by row.
_ROW_COPY_BYTES = 2048


@dataclass(frozen=True)
class SourceRows:
    """What one source contributes to a batch.

    Args:
        rows: Positions in the batch, int64 ``(n,)``.
        columns: What the source read for them; see ``Column``.
        declared: The source's own specs by name; other columns are ignored.
        refuse: Called with (position in ``rows``, name, problem) for a value that does not fit;
            raises, or returns to have it masked.
    """

    rows: IntArray
    columns: Mapping[str, Column]
    declared: Mapping[str, TensorSpec]
    refuse: Callable[[int, str, str], None]


@dataclass(frozen=True)
class _Piece:
    """Fitted values of one key for some rows, all of one length; ``mask`` None means all real."""

    rows: IntArray
    values: Tensor | Gather | list[Tensor]
    mask: Tensor | None
    steps: int


def assemble(
    schema: UnifiedSchema, size: int, sources: Sequence[SourceRows], pad_features: bool
) -> tuple[dict[str, Tensor], dict[str, IntArray] | None]:
    """Fill the value and mask tensors of a batch.

    Args:
        schema: The union schema.
        size: Number of samples B.
        sources: The contributions; their rows partition ``range(size)``.
        pad_features: Bring sequences to ``time_dim``, else to the longest of the batch.

    Returns:
        Names to tensors ``(B, …)`` in the order of the schema, and in native-length mode the
        lengths of every sequence.
    """
    values: dict[str, Tensor] = {}
    lengths: dict[str, IntArray] | None = None if pad_features else {}
    for spec in schema.specs:
        pieces: list[_Piece] = []
        for source in sources:
            pieces += _fit_source(source, spec.name, pad_features)
        steps = _batch_steps(spec, pieces, pad_features)
        value, mask = _fill(spec, size, steps, pieces)
        values[spec.name], values[mask_name(spec.name)] = value, mask
        if lengths is not None and spec.is_sequence:
            lengths[spec.name] = np.zeros(size, dtype=np.int64)
            for piece in pieces:
                lengths[spec.name][piece.rows] = piece.steps
    return values, lengths


def _batch_steps(spec: TensorSpec, pieces: Sequence[_Piece], pad_features: bool) -> int:
    if pad_features and spec.time_dim is not None:
        return spec.time_dim
    return max((piece.steps for piece in pieces), default=0)


def _fit_source(source: SourceRows, name: str, crop: bool) -> list[_Piece]:
    spec, column = source.declared.get(name), source.columns.get(name)
    if spec is None or column is None or not len(source.rows):
        return []
    flags = source.columns.get(mask_name(name))
    try:
        piece = _fit_whole(spec, column, flags, source.rows, crop)
    except Misfit:
        piece = None  # row by row, to name the sample
    return _fit_rows(spec, column, flags, source, crop) if piece is None else [piece]


def _fit_whole(
    spec: TensorSpec, column: Column, flags: Any, rows: IntArray, crop: bool
) -> _Piece | None:
    """Fit all rows at once, or None where they are not of one shape and dtype."""
    if not isinstance(column, Tensor | Gather) and not _uniform(column):
        return None
    if flags is not None and not isinstance(flags, Tensor | Gather) and not _uniform(flags):
        return None
    first = _row_like(column)
    if flags is None and _copies_as_is(spec, first):
        steps = _steps_of(spec, first.shape, crop)
        return _Piece(
            rows, column if isinstance(column, Tensor | Gather) else [*column], None, steps
        )
    mask = None if flags is None else _materialised(flags)
    value, mask = fit(spec, _materialised(column), mask, lead=1, crop=crop)
    return _Piece(rows, value, mask, value.shape[1] if spec.is_sequence else 0)


def _uniform(column: Sequence[Any]) -> bool:
    """Whether a list holds tensors of one shape and dtype, so that it can be stacked."""
    first = column[0]
    return isinstance(first, Tensor) and all(
        isinstance(item, Tensor) and item.dtype is first.dtype and item.shape == first.shape
        for item in column
    )


def _row_like(column: Column) -> Tensor:
    """One row of a column: all of them have its shape and dtype."""
    if isinstance(column, Gather):
        return column.table[0]
    row = column[0]
    return row if isinstance(row, Tensor) else as_tensor(row)


def _copies_as_is(spec: TensorSpec, row: Tensor) -> bool:
    """Whether rows like this one need no check and no cast, only copying."""
    return (
        row.dtype is spec.dtype
        and row.ndim == len(spec.value_shape)
        and tuple(row.shape[spec.is_sequence :]) == spec.trailing_shape
        and spec.nonfinite == "keep"
        and spec.sentinel is None
        and row.layout is torch.strided
        and row.device.type == "cpu"
        and not row.requires_grad
    )


def _steps_of(spec: TensorSpec, shape: Sequence[int], crop: bool) -> int:
    if spec.time_dim is None:
        return 0
    return min(shape[0], spec.time_dim) if crop else shape[0]


def _materialised(column: Column) -> Tensor:
    if isinstance(column, Gather):
        return column.table[torch.from_numpy(column.index)]
    return as_tensor(column if isinstance(column, Tensor) else torch.stack([*column]))


def _fit_rows(
    spec: TensorSpec, column: Column, flags: Any, source: SourceRows, crop: bool
) -> list[_Piece]:
    """Fit value by value; consecutive pieces of one shape need not be stacked to be copied."""
    pieces: list[_Piece] = []
    for i, raw in enumerate(_items(column)):
        if raw is None:
            continue
        flag = None if flags is None else _item(flags, i)
        try:
            mask = None if flag is None else as_tensor(flag)
            value, mask = fit(spec, as_tensor(raw), mask, crop=crop)
        except Misfit as problem:
            source.refuse(i, spec.name, str(problem))
            continue
        steps = value.shape[0] if spec.is_sequence else 0
        mask = None if mask is None else mask[None]
        pieces.append(_Piece(source.rows[i : i + 1], value[None], mask, steps))
    return pieces


def _items(column: Column) -> Sequence[Any]:
    if isinstance(column, Gather):
        return [column.table[i] for i in column.index.tolist()]
    return list(column)


def _item(column: Any, i: int) -> Any:
    return column.table[int(column.index[i])] if isinstance(column, Gather) else column[i]


def _fill(
    spec: TensorSpec, size: int, steps: int, pieces: Sequence[_Piece]
) -> tuple[Tensor, Tensor]:
    """Allocate one key's value and mask, write the pieces and everything around them."""
    time = (steps,) if spec.is_sequence else ()
    value = allocate((size, *time, *spec.trailing_shape), spec.dtype)
    mask = torch.zeros((size, *time), dtype=torch.bool)
    view, mask_view = _view(value), mask.numpy()
    absent = np.ones(size, dtype=bool)
    for piece in pieces:
        absent[piece.rows] = False
        _write(spec, view, mask_view, piece, steps)
    _fill_rows(view, np.flatnonzero(absent), spec.placeholder)
    return value, mask


def _view(tensor: Tensor) -> Any:
    """A NumPy view where NumPy knows the dtype (its row copies cost a fifth), else the tensor."""
    return tensor if tensor.dtype is torch.bfloat16 else tensor.numpy()


def _fill_rows(view: Any, rows: IntArray, placeholder: float) -> None:
    if len(rows) == len(view):
        view[...] = placeholder
        return
    for row in rows.tolist():
        view[row] = placeholder


def _write(spec: TensorSpec, view: Any, mask_view: Any, piece: _Piece, steps: int) -> None:
    rows = piece.rows
    if spec.is_sequence:
        head = (slice(None), slice(0, piece.steps))
        _copy_rows(view[head], rows, piece)
        if piece.steps < steps:
            tail = view[:, piece.steps :]
            for row in rows.tolist():
                tail[row] = spec.placeholder
        mask_view = mask_view[head]
    else:
        _copy_rows(view, rows, piece)
    mask_view[rows] = True if piece.mask is None else piece.mask.numpy()


def _copy_rows(view: Any, rows: IntArray, piece: _Piece) -> None:
    """Copy the rows of a piece to their places; ``view`` is already cut to its steps."""
    values = piece.values
    small = math.prod(view.shape[1:]) * view.dtype.itemsize < _ROW_COPY_BYTES
    if isinstance(values, Gather):
        table = _cut(_view(values.table), view)
        if small:
            view[rows] = table[values.index]
            return
        sources = (table[number] for number in values.index.tolist())
    elif small:
        stacked = values if isinstance(values, Tensor) else torch.stack(values)
        view[rows] = _cut(_view(stacked), view)
        return
    else:
        sources = (_cut(_view(row)[None], view)[0] for row in values)
    for row, source in zip(rows.tolist(), sources, strict=True):
        view[row] = source


def _cut(table: Any, view: Any) -> Any:
    """Crop the steps of a table to those of the output."""
    return table[:, : view.shape[1]] if view.ndim > 1 else table
