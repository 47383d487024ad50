"""Read one ``.npy`` file: header and data with a single call, or mapped into memory.

NumPy's own reader parses each header anew; a folder of many samples has few different ones.
"""

from __future__ import annotations

import ast
import functools
import math
import os
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from omniloader.data._values import Stored, decoded, storable
from omniloader.errors import SampleError, SourceError

MAP_FROM_BYTES = 1 << 18
"""Smaller files are read at once: mapping them costs more than reading them."""

_MAGIC = b"\x93NUMPY"
_HEAD_BYTES = 256
# numpy.save pads what stands before the data to a multiple of 64; of most arrays that is 128.
_USUAL_BYTES = 128
_USUAL_HEADER = _MAGIC + bytes([1, 0, _USUAL_BYTES - 10, 0])
_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)
# The limit of NumPy itself: literal_eval of a longer text may exhaust the stack.
_LONGEST_HEADER = 10_000


class NpyHeader(NamedTuple):
    """What the head of a file says."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    offset: int
    file_bytes: int
    """Size that a complete file has at least."""


def read_header(path: str) -> NpyHeader:
    """Read only the head of a file.

    Raises:
        FileNotFoundError: If there is no such file.
        SourceError: If it is not a complete npy file.
        SampleError: If it holds Python objects.
    """
    fd = _opened(path)
    try:
        size = os.fstat(fd).st_size
        header = _of_prefix(os.pread(fd, _USUAL_BYTES, 0))
        if header is None:
            head = os.pread(fd, _HEAD_BYTES, 0)
            end = _header_end(head, path)
            header = _parsed(os.pread(fd, end, 0), path)
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(fd)
    _check_complete(header, size, path)
    return header


def read_value(path: str, mmap: bool) -> Stored:
    """Read a file.

    Args:
        path: The file.
        mmap: Whether a large file is mapped. The mapping is private: writing into the value
            changes memory, never the file.

    Returns:
        An array that PyTorch can hold, a text, or a list of texts.

    Raises:
        FileNotFoundError: If there is no such file.
        SourceError: If it cannot be read or is not a complete npy file.
        SampleError: If it holds what no tensor or text can.
    """
    fd = _opened(path)
    try:
        size = os.fstat(fd).st_size
        raw = _mapped(path, size) if mmap and size >= MAP_FROM_BYTES else _all_of(fd, size)
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(fd)
    header = _of_prefix(raw[:_USUAL_BYTES].tobytes())
    if header is None:
        end = _header_end(raw[:_HEAD_BYTES].tobytes(), path)
        header = _parsed(raw[:end].tobytes(), path)
    _check_complete(header, raw.size, path)
    values = raw[header.offset : header.file_bytes].view(header.dtype)
    array = values.reshape(header.shape, order="F" if header.fortran else "C")
    if header.dtype.kind in "SU":
        return decoded(array, f"'{path}'")
    return storable(array, f"'{path}'")


def _opened(path: str) -> int:
    try:
        return os.open(path, _FLAGS)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> OSError:
    if isinstance(error, SourceError):
        return error
    return SourceError(f"'{path}' cannot be read ({error}); check the file")


def _all_of(fd: int, size: int) -> npt.NDArray[np.uint8]:
    raw = np.empty(size, dtype=np.uint8)
    done = 0
    # A single read is capped at 2 GiB.
    while done < size and (got := os.readv(fd, [raw.data[done:]])):
        done += got
    return raw[:done]


def _mapped(path: str, size: int) -> npt.NDArray[np.uint8]:
    # Not np.memmap: that keeps a file descriptor for every sample somebody holds.
    tensor = torch.from_file(path, shared=False, size=size, dtype=torch.uint8)
    mapped: npt.NDArray[np.uint8] = tensor.numpy()
    return mapped


def _header_end(head: bytes, path: str) -> int:
    """Length of everything before the data."""
    if len(head) < 12 or head[:6] != _MAGIC:
        what = "is empty" if not head else "is not an npy file, or is cut off in its header"
        raise SourceError(f"'{path}' {what}; write it again with numpy.save")
    wide = head[6] > 1
    start = 12 if wide else 10
    length = int.from_bytes(head[8:start], "little")
    if head[6] not in (1, 2, 3) or length > _LONGEST_HEADER:
        raise SourceError(
            f"'{path}' has a header of version {head[6]} with {length} bytes, which no array of "
            "numbers or text has; write it again with numpy.save"
        )
    return start + length


def _parsed(head: bytes, path: str) -> NpyHeader:
    try:
        header = _parse_header(head)
    except (ValueError, SyntaxError, TypeError, KeyError) as error:
        raise SourceError(
            f"'{path}' has a broken header ({error}); write it again with numpy.save"
        ) from error
    if header.dtype.hasobject:
        raise SampleError(
            f"'{path}' holds Python objects, which are pickles and never loaded; "
            "save a plain array of numbers or text"
        )
    return header


@functools.lru_cache(maxsize=4096)
def _parse_header(head: bytes) -> NpyHeader:
    start = 12 if head[6] > 1 else 10
    size = start + int.from_bytes(head[8:start], "little")
    if len(head) < size:
        raise ValueError("it is cut off")
    fields = ast.literal_eval(head[start:].decode("utf-8" if head[6] == 3 else "latin-1").strip())
    shape = tuple(fields["shape"])
    if not all(isinstance(axis, int) and axis >= 0 for axis in shape):
        raise ValueError(f"shape is {shape}")
    dtype = np.lib.format.descr_to_dtype(fields["descr"])
    stored = dtype.itemsize * math.prod(shape)
    return NpyHeader(dtype, shape, bool(fields["fortran_order"]), size, size + stored)


@functools.lru_cache(maxsize=4096)
def _of_prefix(prefix: bytes) -> NpyHeader | None:
    """The header of a file that starts so; None where it takes a closer look."""
    if len(prefix) < _USUAL_BYTES or prefix[: len(_USUAL_HEADER)] != _USUAL_HEADER:
        return None
    try:
        header = _parse_header(prefix)
    except (ValueError, SyntaxError, TypeError, KeyError):
        return None
    return None if header.dtype.hasobject else header


def _check_complete(header: NpyHeader, size: int, path: str) -> None:
    if size < header.file_bytes:
        raise SourceError(
            f"'{path}' is cut off: {header.dtype} {header.shape} needs {header.file_bytes} bytes, "
            f"the file has {size}; copy or write it again"
        )
