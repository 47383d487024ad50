"""Send a batch from a worker to the trainer: one block of memory and a table of contents.

PyTorch sends each tensor of a batch as a file descriptor of its own; a joint batch has dozens.
A batch that leaves a worker is pickled as the ticket of the shared block it was assembled in.
What lies elsewhere (a transform made a new tensor, the consumer holds all blocks) is copied into
one more block, or travels inside the message when it is small. It arrives as a plain dict.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from omniloader.schema.buffers import worker_ring
from omniloader.schema.layout import as_array, as_torch, carrier
from omniloader.schema.ring import Bytes, SharedBlock, Ticket, redeem, shared_bytes

_ALIGN = 64
# A few KiB cost less inside the message than a block of their own.
_INLINE_BYTES = 64 << 10


class _Entry(NamedTuple):
    """Where a tensor lies: in the ring's block (``in_ring``) or in the copied one."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    in_ring: bool
    offset: int


def in_worker() -> bool:
    """Whether this is a ``DataLoader`` worker."""
    return get_worker_info() is not None


class PackedBatch(dict[str, Any]):
    """A batch dict that is pickled as one block; unpickled, it is a plain ``dict``."""

    def __reduce__(self) -> tuple[Any, ...]:
        entries: list[_Entry] = []
        arrays: list[tuple[int, npt.NDArray[Any]]] = []
        owner: SharedBlock | None = None
        size = 0
        for name, item in self.items():
            if not _packs(item):
                continue
            found = _in_ring(item)
            if found is not None and owner in (None, found[0]):
                owner, offset = found
                entries.append(_Entry(name, item.dtype, tuple(item.shape), True, offset))
            else:
                entries.append(_Entry(name, item.dtype, tuple(item.shape), False, size))
                arrays.append((size, np.ascontiguousarray(as_array(item))))
                size += -(-item.nbytes // _ALIGN) * _ALIGN
        ticket = None if owner is None else owner.lend()
        packed = {entry.name for entry in entries}
        rest = {name: item for name, item in self.items() if name not in packed}
        return _unpack, (list(self), entries, ticket, _copied(arrays, size), rest)


def pack(batch: dict[str, Any]) -> dict[str, Any]:
    """Mark a batch to travel as one block."""
    return PackedBatch(batch)


def _packs(item: Any) -> bool:
    return isinstance(item, Tensor) and item.is_cpu and item.layout is torch.strided


def _in_ring(tensor: Tensor) -> tuple[SharedBlock, int] | None:
    """The shared block that a tensor was assembled in and its offset there, or None."""
    if not tensor.nbytes or not tensor.is_contiguous():
        return None
    return worker_ring().owner_of(tensor.data_ptr(), tensor.nbytes)


def _copied(arrays: list[tuple[int, npt.NDArray[Any]]], size: int) -> Tensor | bytes:
    """The arrays in one piece: bytes when small, else fresh shared memory."""
    block = None if size <= _INLINE_BYTES else shared_bytes(size)
    if block is None and size > _INLINE_BYTES:
        warnings.warn(
            f"too little shared memory for a batch of {size} bytes: it is sent through a pipe, "
            "which is slow; enlarge /dev/shm (docker run --shm-size=…) or use fewer workers",
            RuntimeWarning,
            stacklevel=2,
        )
    target = np.empty(size, dtype=np.uint8) if block is None else block.numpy()
    for offset, array in arrays:
        target[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)
    return target.tobytes() if block is None else block


def _unpack(
    names: list[str],
    entries: list[_Entry],
    ticket: Ticket | None,
    copied: Tensor | bytes,
    rest: dict[str, Any],
) -> dict[str, Any]:
    ring = None if ticket is None else redeem(ticket)
    # bytearray: the trainer may write into its batch.
    other = (
        copied.numpy()
        if isinstance(copied, Tensor)
        else np.frombuffer(bytearray(copied), dtype=np.uint8)
    )
    batch = dict(rest)
    for name, dtype, shape, in_ring, offset in entries:
        body = ring if in_ring and ring is not None else other
        batch[name] = _tensor(body, dtype, shape, offset)
    return {name: batch[name] for name in names}


def _tensor(body: Bytes, dtype: torch.dtype, shape: tuple[int, ...], offset: int) -> Tensor:
    count = torch.Size(shape).numel() * dtype.itemsize
    if not count:
        return torch.empty(shape, dtype=dtype)
    part = body[offset : offset + count].view(carrier(dtype))
    return as_torch(part.reshape(shape), dtype)
