"""Read the chunks of a dataset from the file and undo their filters, without HDF5.

Inflating takes most of the time. ``deflate`` (libdeflate; the extra ``fast``) does it twice as
fast as zlib; both let other threads run meanwhile.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import sys
import zlib
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from omniloader.data._hdf5_form import Form

Array: TypeAlias = npt.NDArray[Any]
Buffer: TypeAlias = bytes | bytearray | memoryview

# Chunks that lie so close together are read at once.
_GAP_BYTES = 1 << 16


def read_dataset(
    fd: int, form: Form, steps: int, chunks: npt.NDArray[np.int64], out: Array
) -> None:
    """Fill an array with a dataset.

    Args:
        fd: Descriptor of the file.
        form: How the dataset is stored.
        steps: Length of its first axis.
        chunks: Its chunks, as :func:`~omniloader.data._hdf5_form.form_of` gives them.
        out: C-contiguous array of the dataset's shape and the form's native dtype.

    Raises:
        ValueError: If the file ends early, or a chunk is not what its filters make.
        OSError: If the file cannot be read.
    """
    if form.chunk is None:
        offset, size = chunks[0, :2].tolist()
        _read_piece(fd, form, offset, size, out.reshape(-1))
        return
    pieces = _read_chunks(fd, chunks)
    if form.chunk == out.shape:
        _place(form, pieces[0], int(chunks[0, 2]), out.reshape(-1))
        return
    whole = np.empty(form.chunk, form.native)
    corners = itertools.product(
        *(range(0, n, c) for n, c in zip(out.shape, form.chunk, strict=True))
    )
    for corner, piece, mask in zip(corners, pieces, chunks[:, 2].tolist(), strict=True):
        _place(form, piece, mask, whole.reshape(-1))
        target = out[tuple(slice(at, at + c) for at, c in zip(corner, form.chunk, strict=True))]
        target[...] = whole[tuple(map(slice, target.shape))]


def _read_piece(fd: int, form: Form, offset: int, size: int, out: Array) -> None:
    """Read what lies in one piece, straight into its place where no byte has to change."""
    if form.stored != form.native or os.preadv(fd, [out.view(np.uint8).data], offset) < size:
        _place(form, _read(fd, offset, size), 0, out)


def _read_chunks(fd: int, chunks: npt.NDArray[np.int64]) -> list[Buffer]:
    """The stored bytes of every chunk, by one call where they lie side by side."""
    if len(chunks) == 1:
        return [_read(fd, *chunks[0, :2].tolist())]
    offsets, sizes = chunks[:, 0], chunks[:, 1]
    start, span = int(offsets.min()), int((offsets + sizes).max() - offsets.min())
    if span > int(sizes.sum()) + _GAP_BYTES:
        return [_read(fd, offset, size) for offset, size in chunks[:, :2].tolist()]
    block = memoryview(_read(fd, start, span))
    return [
        block[at : at + n] for at, n in zip((offsets - start).tolist(), sizes.tolist(), strict=True)
    ]


def _read(fd: int, offset: int, size: int) -> Buffer:
    data = os.pread(fd, size, offset)
    while len(data) < size:  # one read is capped at 2 GiB
        more = os.pread(fd, size - len(data), offset + len(data))
        if not more:
            raise ValueError(f"the file ends before byte {offset + size}")
        data += more
    return data


def _place(form: Form, data: Buffer, mask: int, out: Array) -> None:
    """Undo the filters of one chunk; ``mask`` has a bit for each that was left out."""
    if form.deflate and not mask >> form.shuffle & 1:
        data = _inflated(data, out.nbytes)
    if memoryview(data).nbytes != out.nbytes:
        raise ValueError(f"a chunk must have {out.nbytes} bytes, got {memoryview(data).nbytes}")
    if form.shuffle and not mask & 1:
        _unshuffle(np.frombuffer(data, np.uint8).reshape(form.stored.itemsize, -1), form, out)
    else:
        out[...] = np.frombuffer(data, form.stored)


def _inflated(data: Buffer, nbytes: int) -> Buffer:
    fast = _deflate()
    if fast is None:
        try:
            return zlib.decompress(data, bufsize=nbytes)
        except zlib.error as error:
            raise ValueError(f"a chunk cannot be inflated ({error})") from error
    try:
        inflated: bytearray = fast.zlib_decompress(data, nbytes)
    except fast.DeflateError as error:
        raise ValueError(f"a chunk cannot be inflated ({error})") from error
    return inflated


@functools.cache
def _deflate() -> Any:
    """The extra's module or None; imported at first use, as no import of ours loads an extra."""
    try:
        return importlib.import_module("deflate")
    except ImportError:
        return None


def _unshuffle(planes: npt.NDArray[np.uint8], form: Form, out: Array) -> None:
    """Put items together whose first bytes, second bytes, … lie in one plane each."""
    dtype = form.stored
    if dtype.kind == "c":
        items = np.ascontiguousarray(planes.T)
        out[...] = items.reshape(-1).view(dtype)
        return
    # Shifting whole planes takes a quarter of the time of transposing bytes.
    little = dtype.byteorder == "<" or (dtype.byteorder in "=|" and sys.byteorder == "little")
    words = out.view(f"u{dtype.itemsize}")
    ordered = planes[::-1] if little else planes
    words[...] = ordered[0]
    for plane in ordered[1:]:
        np.left_shift(words, 8, out=words)
        np.bitwise_or(words, plane, out=words)
