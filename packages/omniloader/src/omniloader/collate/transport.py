"""Send a batch from a worker to the trainer: one block of memory and a table of contents.

PyTorch sends each tensor of a batch as a file descriptor of its own; a joint batch has dozens.
A batch that leaves a worker is pickled as the ticket of the shared block it was assembled in.
What lies elsewhere (a transform made a new tensor, the consumer holds all blocks) is copied into
one more block, or travels inside the message when it is small. It arrives as a plain dict.
"""

from __future__ import annotations

import warnings
from multiprocessing.reduction import ForkingPickler
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
    """A batch dict that goes to the trainer as one block and arrives as a plain ``dict``.

    Copied, or pickled by anything but the queue between processes (a cache file written in the
    worker), it is the plain dict with tensors of its own: a ticket is worth its block only once
    and only to the trainer.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def _send(batch: PackedBatch) -> tuple[Any, ...]:
    """What the queue between processes pickles instead of a packed batch."""
    entries: list[_Entry] = []
    arrays: list[tuple[int, npt.NDArray[Any]]] = []
    owner, ticket = None, None
    size = 0
    for name, item in batch.items():
        if not _packs(item):
            continue
        found = _in_ring(item)
        if owner is None and found is not None:
            ticket = found[0].lend()
            owner = None if ticket is None else found[0]
        if found is not None and found[0] is owner:
            entries.append(_Entry(name, item.dtype, tuple(item.shape), True, found[1]))
        else:
            entries.append(_Entry(name, item.dtype, tuple(item.shape), False, size))
            arrays.append((size, np.ascontiguousarray(as_array(item))))
            size += -(-item.nbytes // _ALIGN) * _ALIGN
    packed = {entry.name for entry in entries}
    rest = {name: item for name, item in batch.items() if name not in packed}
    return _unpack, (list(batch), entries, ticket, _copied(arrays, size), rest)


ForkingPickler.register(PackedBatch, _send)


def pack(batch: dict[str, Any]) -> dict[str, Any]:
    """Mark a batch to travel as one block."""
    return PackedBatch(batch)


def _packs(item: Any) -> bool:
    # A subclass, a gradient, a lazy conjugate or sign would be lost: those go PyTorch's way.
    return (
        type(item) is Tensor
        and item.is_cpu
        and item.layout is torch.strided
        and not (item.requires_grad or item.is_conj() or item.is_neg() or item.is_quantized)
    )


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
