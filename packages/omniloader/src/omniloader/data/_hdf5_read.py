"""Read the values of one sample group, through h5py's low-level calls.

``group[name][()]`` spends more time in Python than in HDF5 for small values; these calls take a
third of it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5g, h5o, h5s, h5t

from omniloader.data._values import Stored, decoded, storable
from omniloader.errors import SampleError, SourceError


def read_sample(
    group: h5g.GroupID, keys: Sequence[str] | None, where: str, arrays_only: bool = False
) -> dict[str, Stored]:
    """Decode the values of one sample.

    Args:
        group: The sample's group.
        keys: Names of the values to read; None reads every array of the group.
        where: Whose group this is, for messages.
        arrays_only: Whether a group under one of ``keys`` is passed over.

    Returns:
        Key to value. Keys that the sample lacks, or that hold HDF5's null, are left out.

    Raises:
        SampleError: If a value is of a type that neither a tensor nor a text can hold.
        SourceError: If a value cannot be read.
    """
    sample: dict[str, Stored] = {}
    for key in group if keys is None else map(raw_name, keys):
        node = find_node(group, key, where)
        if not isinstance(node, h5d.DatasetID):
            if keys is not None and node is not None and not arrays_only:
                raise SampleError(f"{where}: '{_text(key)}' must be an array, got a group")
            continue
        if node.shape is not None:
            sample[_text(key)] = read_value(node, f"{where}: '{_text(key)}'")
    return sample


def array_names(group: h5g.GroupID, where: str) -> list[str]:
    """Names of the arrays of a sample group."""
    return [_text(k) for k in group if isinstance(find_node(group, k, where), h5d.DatasetID)]


def steps_of(group: h5g.GroupID, key: bytes, where: str) -> int:
    """Length of the first axis of a value, from its shape; 0 when the sample lacks it.

    Raises:
        SampleError: If the value has no axis.
    """
    node = find_node(group, key, where)
    if not isinstance(node, h5d.DatasetID) or node.shape is None:
        return 0
    if not node.shape:
        raise SampleError(
            f"{where}: '{_text(key)}' has no time axis, it is one value; "
            "ask for the lengths of a sequence"
        )
    return int(node.shape[0])


def open_sample(parent: h5g.GroupID, sample_id: str, where: str) -> h5g.GroupID:
    """The group of a sample.

    Raises:
        SourceError: If an array or nothing stands in its place.
    """
    node = find_node(parent, raw_name(sample_id), where)
    if isinstance(node, h5g.GroupID):
        return node
    raise SourceError(
        f"{where}: must be a group with one array a key, got {'an array' if node else 'nothing'}; "
        "the layout is /<subset>/<sample>/<key>"
    )


def find_node(group: h5g.GroupID, key: bytes, where: str) -> object | None:
    """What stands at a name, or None.

    Raises:
        SourceError: If it is a link that leads nowhere, or damaged.
    """
    try:
        node: object = h5o.open(group, key)
        return node
    except (KeyError, OSError, RuntimeError) as error:
        # HDF5 says KeyError for a name that is not there and for much that is damaged.
        if b"/" in key or not _stands(group, key):
            return None
        raise SourceError(
            f"{where}: '{_text(key)}' stands there but cannot be opened ({_cause(error)}); "
            "it is damaged, or a link that leads nowhere: build the file again"
        ) from error


def _stands(group: h5g.GroupID, key: bytes) -> bool:
    """Whether anything has this name; a group too damaged to say counts as having it."""
    try:
        return bool(group.links.exists(key))
    except (OSError, RuntimeError):
        return True


def read_value(node: h5d.DatasetID, where: str, dtype: np.dtype[Any] | None = None) -> Stored:
    """Decode one array; raises as :func:`read_sample` does.

    Args:
        node: The array.
        where: Whose it is, for messages.
        dtype: Its dtype, if the caller has it already.
    """
    try:
        dtype = node.dtype if dtype is None else dtype
        is_text = h5py.check_string_dtype(dtype) is not None
        if not is_text and dtype.kind not in "biufc":
            raise SampleError(
                f"{where}: values must be numbers, bool or text, got {_type_name(dtype)}; "
                "store each part as a plain array of its own"
            )
        # In the machine's byte order: HDF5 swaps while it reads.
        array = np.empty(node.shape, dtype if is_text else dtype.newbyteorder("="))
        if array.size:
            # An enumeration is read as itself; of a plain type the reader's own is made once.
            plain = None if is_text or dtype.metadata else _memory_type(array.dtype)
            node.read(h5s.ALL, h5s.ALL, array, plain)
    except SampleError:
        raise
    except (OSError, RuntimeError, TypeError) as error:
        raise SourceError(
            f"{where}: cannot be read ({_cause(error)}); the file is damaged, or made with a "
            "filter or type that this HDF5 lacks"
        ) from error
    return decoded(array, where) if is_text else storable(array, where)


@functools.lru_cache(maxsize=64)
def _memory_type(dtype: np.dtype[Any]) -> h5t.TypeID:
    return h5t.py_create(dtype)


def _type_name(dtype: np.dtype[np.void] | np.dtype[np.object_]) -> str:
    if dtype.names:
        return f"compound {dtype.names}"
    if dtype.subdtype:
        return f"an array type {dtype.subdtype}"
    if h5py.check_ref_dtype(dtype):
        return "references"
    if h5py.check_vlen_dtype(dtype):
        return "arrays of varying length"
    return f"opaque bytes {dtype}"


def _cause(error: BaseException) -> str:
    return str(error.args[0]) if error.args else str(error)


def raw_name(key: str) -> bytes:
    """A name as HDF5 has it."""
    return key.encode("utf-8", "surrogateescape")


def _text(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")
