"""How a dataset of an HDF5 file is stored, for the layouts that are read without HDF5."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5d, h5t, h5z

_SIZES = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16)}


@dataclass(frozen=True)
class Form:
    """What many datasets of a key have in common; only the length of the first axis differs.

    Args:
        dtype: Stored dtype such as ``<f2``; empty for one text.
        trailing: Shape without its first axis.
        ranked: Whether there is a first axis.
        chunk: Shape of a chunk; None for one contiguous piece.
        shuffle: Whether the bytes of a chunk are transposed.
        deflate: Whether a chunk is then packed by zlib.
        kept: Whether values lie decoded in the index, because they are small.
    """

    dtype: str
    trailing: tuple[int, ...] = ()
    ranked: bool = False
    chunk: tuple[int, ...] | None = None
    shuffle: bool = False
    deflate: bool = False
    kept: bool = False

    @cached_property
    def stored(self) -> np.dtype[Any]:
        """The dtype in the file."""
        return np.dtype(self.dtype)

    @cached_property
    def native(self) -> np.dtype[Any]:
        """The same in the machine's byte order."""
        return self.stored.newbyteorder("=")

    def shape(self, steps: int) -> tuple[int, ...]:
        """Shape of a dataset whose first axis has this length."""
        return (steps, *self.trailing) if self.ranked else ()

    def grid(self, steps: int) -> tuple[int, ...]:
        """Number of chunks along every axis."""
        chunk = self.chunk or ()
        return tuple(-(-size // own) for size, own in zip(self.shape(steps), chunk, strict=True))


def form_of(
    node: h5d.DatasetID, shape: tuple[int, ...]
) -> tuple[Form, npt.NDArray[np.int64]] | None:
    """The form of a dataset, and where its chunks lie.

    Args:
        node: The dataset.
        shape: Its shape.

    Returns:
        The form and the chunks in row-major order, int64 ``(c, 3)``: offset in the file, stored
        bytes, mask of the filters that were left out. None for a layout that only HDF5 reads.
    """
    dtype = _plain_dtype(node.get_type())
    if dtype is None or not math.prod(shape):
        return None
    form = Form(dtype.str, shape[1:], bool(shape))
    plan = node.get_create_plist()
    layout = plan.get_layout()
    if layout == h5d.CONTIGUOUS and not plan.get_external_count():
        offset, size = node.get_offset(), math.prod(shape) * dtype.itemsize
        return None if offset is None else (form, np.array([[offset, size, 0]], dtype=np.int64))
    if layout != h5d.CHUNKED:
        return None
    filters = _known_filters(plan, dtype.itemsize)
    if filters is None:
        return None
    form = Form(dtype.str, shape[1:], True, plan.get_chunk(), *filters)
    chunks = _chunks(node, form, shape[0])
    return None if chunks is None else (form, chunks)


def _plain_dtype(kind: h5t.TypeID) -> np.dtype[Any] | None:
    """The dtype of a type whose bytes NumPy reads as they are."""
    try:
        dtype: np.dtype[Any] = kind.dtype
    except TypeError:
        return None
    if dtype.metadata or dtype.itemsize not in _SIZES.get(dtype.kind, ()):
        return None
    # Unusual floats and integers of fewer bits have a NumPy dtype too, to which HDF5 converts.
    return dtype if h5t.py_create(dtype, logical=True).equal(kind) else None


def _known_filters(plan: h5py.h5p.PropDCID, itemsize: int) -> tuple[bool, bool] | None:
    """Whether chunks are shuffled and deflated; None if something else is done to them."""
    filters = [plan.get_filter(i) for i in range(plan.get_nfilters())]
    codes = [code for code, *_ in filters]
    shuffle = codes[:1] == [h5z.FILTER_SHUFFLE]
    if codes[shuffle:] not in ([], [h5z.FILTER_DEFLATE]):
        return None
    if shuffle and tuple(filters[0][2][:1]) != (itemsize,):
        return None
    return shuffle, codes[shuffle:] != []


def _chunks(node: h5d.DatasetID, form: Form, steps: int) -> npt.NDArray[np.int64] | None:
    grid = form.grid(steps)
    if math.prod(grid) == 1:
        if node.get_num_chunks() != 1:
            return None
        one = node.get_chunk_info(0)
        return np.array([[one.byte_offset, one.size, one.filter_mask]], dtype=np.int64)
    found: list[Any] = []
    node.chunk_iter(found.append)
    if len(found) != math.prod(grid):
        return None  # a chunk that was never written reads as the fill value
    own = form.chunk or ()
    at = [tuple(o // c for o, c in zip(one.chunk_offset, own, strict=True)) for one in found]
    order = np.ravel_multi_index(np.array(at).T, grid)
    chunks = np.empty((len(found), 3), dtype=np.int64)
    chunks[order] = [(one.byte_offset, one.size, one.filter_mask) for one in found]
    return chunks
