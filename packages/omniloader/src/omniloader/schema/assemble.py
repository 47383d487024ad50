"""Write the columns of several sources straight into the stacked tensors of one batch.

All values and masks of a batch lie in one block. A source that holds a key writes its rows, the
rows of the others are filled with the placeholder, and masks say what is real. The result equals
unifying sample by sample and stacking, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from omniloader._types import Gather, IntArray
from omniloader.masks import mask_name
from omniloader.schema.buffers import take_block
from omniloader.schema.layout import as_array, as_torch, fill_of, filled_row, layout_of
from omniloader.schema.pieces import Piece, SourceRows, fit_source
from omniloader.schema.spec import TensorSpec, UnifiedSchema

__all__ = ["SourceRows", "assemble"]

# Below this many bytes a row, one indexed assignment beats copying row by row.
_ROW_COPY_BYTES = 2048

Array = npt.NDArray[Any]


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
        lengths of every sequence, int64 ``(B,)``.
    """
    specs = tuple(schema.specs)
    pieces = _all_pieces(sources, pad_features)
    steps = tuple(_steps(spec, pieces.get(spec.name, ()), pad_features) for spec in specs)
    layout = layout_of(specs, size, steps)
    block = take_block(layout.nbytes)
    block[layout.masks_start : layout.nbytes] = 0
    values: dict[str, Tensor] = {}
    for spec, (value, mask) in zip(specs, layout.views(block), strict=True):
        _fill(spec, value, mask, pieces.get(spec.name, ()))
        values[spec.name] = as_torch(value, spec.dtype)
        values[mask_name(spec.name)] = torch.from_numpy(mask)
    return values, None if pad_features else _lengths(specs, size, pieces)


def _all_pieces(sources: Sequence[SourceRows], crop: bool) -> dict[str, list[Piece]]:
    pieces: dict[str, list[Piece]] = {}
    for source in sources:
        for name in source.declared:
            if source.columns.get(name) is not None:
                pieces.setdefault(name, []).extend(fit_source(source, name, crop))
    return pieces


def _steps(spec: TensorSpec, pieces: Sequence[Piece], pad_features: bool) -> int:
    """Number of steps of a key in this batch."""
    if pad_features and spec.time_dim is not None:
        return spec.time_dim
    return max((piece.steps for piece in pieces), default=0)


def _lengths(
    specs: Sequence[TensorSpec], size: int, pieces: dict[str, list[Piece]]
) -> dict[str, IntArray]:
    lengths: dict[str, IntArray] = {}
    for spec in specs:
        if spec.is_sequence:
            own = lengths[spec.name] = np.zeros(size, dtype=np.int64)
            for piece in pieces.get(spec.name, ()):
                own[piece.rows] = piece.steps if piece.lengths is None else piece.lengths
    return lengths


def _fill(spec: TensorSpec, value: Array, mask: Array, pieces: Sequence[Piece]) -> None:
    """Write one key: the pieces, and the placeholder everywhere else."""
    if value[:1].nbytes < _ROW_COPY_BYTES:
        value[...] = fill_of(spec.dtype, spec.placeholder)
        for piece in pieces:
            if piece.lengths is None:
                _write_small(spec, value, piece)
            else:
                fill = filled_row(spec.dtype, spec.placeholder, value.shape[1:])
                _write_by_row(spec, value, piece, fill, piece.lengths.tolist())
    else:
        fill = filled_row(spec.dtype, spec.placeholder, value.shape[1:])
        absent = np.ones(len(value), dtype=np.bool_)
        for piece in pieces:
            absent[piece.rows] = False
            _write_large(spec, value, piece, fill)
        for row in absent.nonzero()[0].tolist():
            value[row] = fill
    for piece in pieces:
        _write_mask(spec, mask, piece)


def _write_mask(spec: TensorSpec, mask: Array, piece: Piece) -> None:
    own = mask[:, : piece.steps] if spec.is_sequence else mask
    if piece.lengths is not None:
        own[piece.rows] = np.arange(piece.steps) < piece.lengths[:, None]
    else:
        own[piece.rows] = True if piece.mask is None else piece.mask.numpy()


def _write_small(spec: TensorSpec, value: Array, piece: Piece) -> None:
    """Rows of few bytes: all of a piece in one indexed assignment."""
    values = piece.values
    if isinstance(values, Gather):
        if piece.dtype is spec.dtype:
            table = as_array(values.table)[values.index]
        else:
            table = as_array(values.table[torch.from_numpy(values.index)].to(spec.dtype))
    else:
        stacked = values if isinstance(values, Tensor) else torch.stack(values)
        table = as_array(stacked.to(spec.dtype))
    if spec.is_sequence:
        value[piece.rows, : piece.steps] = table[:, : piece.steps]
    else:
        value[piece.rows] = table


def _write_large(spec: TensorSpec, value: Array, piece: Piece, fill: Array) -> None:
    """Rows of many bytes: copy each to its place, without an intermediate."""
    if spec.is_sequence:
        count = len(piece.rows)
        lengths = [piece.steps] * count if piece.lengths is None else piece.lengths.tolist()
        _write_by_row(spec, value, piece, fill, lengths)
        return
    out, rows = _sides(spec, value, piece)
    for row, source in zip(piece.rows.tolist(), rows, strict=True):
        out[row] = source


def _write_by_row(
    spec: TensorSpec, value: Array, piece: Piece, fill: Array, lengths: Sequence[int]
) -> None:
    """Copy sequences, and fill up what is left of each row."""
    out, rows = _sides(spec, value, piece)
    total = value.shape[1]
    for row, source, steps in zip(piece.rows.tolist(), rows, lengths, strict=True):
        out[row, :steps] = source[:steps]
        if steps < total:
            value[row, steps:] = fill[steps:]


def _sides(spec: TensorSpec, value: Array, piece: Piece) -> tuple[Any, Iterable[Any]]:
    """What to write to, and the rows to write: arrays, or tensors where torch has to cast."""
    values = piece.values
    # NumPy copies rows at a fifth of the cost, but casts float16 thirty times slower.
    cast = piece.dtype is not spec.dtype
    view: Callable[[Tensor], Any] = _itself if cast else as_array
    out = as_torch(value, spec.dtype) if cast else value
    if isinstance(values, Gather):
        table = view(values.table)
        return out, (table[number] for number in values.index.tolist())
    return out, view(values) if isinstance(values, Tensor) else map(view, values)


def _itself(tensor: Tensor) -> Tensor:
    return tensor
