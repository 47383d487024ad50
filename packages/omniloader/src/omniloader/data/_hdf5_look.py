"""Look at a value in an HDF5 file for the first time: where it lies, or what it is if small."""

from __future__ import annotations

import functools
import math
import os
from typing import Any

import numpy as np
from h5py import h5d, h5f, h5g, h5i, h5t

from omniloader.data._hdf5_form import Form, form_of
from omniloader.data._hdf5_index import MISSING, PLAIN, Found
from omniloader.data._hdf5_read import find_node, raw_name, read_value

KEPT_BYTES = 256
"""A value of at most so many bytes is kept decoded: finding it takes longer than copying it."""

_TEXT = Form("", kept=True)


def plain_offsets(group: h5g.GroupID) -> bool:
    """Whether offsets count from the start of a group's file: not so after a user block."""
    return not h5i.get_file_id(group).get_create_plist().get_userblock()


def look(group: h5g.GroupID, name: str, where: str, path: str, keep: bool) -> Found | int:
    """What is to be noted of one value.

    Args:
        group: The sample's group.
        name: The key.
        where: Whose group this is, for messages.
        path: The file; empty where offsets in it are of no use.
        keep: Whether small values are kept.

    Returns:
        Form, steps and rows of the value; or a mark: missing, or only for HDF5 to read.

    Raises:
        SampleError: If a small value is of a type that neither a tensor nor a text can hold.
        SourceError: If the value cannot be opened, or is small and cannot be read.
    """
    node = find_node(group, raw_name(name), where)
    if node is None:
        return MISSING
    if not isinstance(node, h5d.DatasetID):
        return PLAIN
    shape = node.shape
    if shape is None:
        return MISSING
    small = _small(node, shape, f"{where}: '{name}'") if keep else None
    if small is not None:
        return small
    # A link may lead into another file.
    lies = form_of(node, shape) if os.fsdecode(h5f.get_name(node)) == path else None
    return PLAIN if lies is None else (lies[0], shape[0] if shape else 0, lies[1])


def _small(node: h5d.DatasetID, shape: tuple[int, ...], where: str) -> Found | None:
    """The bytes of a small value or text; None where it is not small."""
    kind = node.get_type()
    if kind.get_class() == h5t.STRING:
        text = None if shape else read_value(node, where)
        raw = text.encode() if isinstance(text, str) else None
        if raw is None or len(raw) > KEPT_BYTES:
            return None
        return _TEXT, len(raw), np.frombuffer(raw, np.uint8)
    if kind.get_size() * math.prod(shape) > KEPT_BYTES:
        return None
    value = read_value(node, where, _dtype_of(kind.encode()))
    if not isinstance(value, np.ndarray):
        return None
    form = _kept_form(value.dtype, value.shape[1:], bool(shape))
    return form, shape[0] if shape else 0, value.reshape(-1).view(np.uint8)


@functools.lru_cache(maxsize=256)
def _dtype_of(encoded: bytes) -> np.dtype[Any] | None:
    """The dtype of a type as HDF5 encodes it; None where it has none."""
    try:
        dtype: np.dtype[Any] = h5t.decode(encoded).dtype
    except TypeError:
        return None
    return dtype


@functools.lru_cache(maxsize=1024)
def _kept_form(dtype: np.dtype[Any], trailing: tuple[int, ...], ranked: bool) -> Form:
    return Form(dtype.str, trailing, ranked, kept=True)
