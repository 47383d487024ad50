"""Send a batch from a worker to the trainer as one block of shared memory.

PyTorch sends each tensor of a batch as a file descriptor of its own; a joint batch has dozens.
A batch that leaves a worker is therefore pickled as one block with a table of contents, and
arrives as a plain dict of tensors that are views of it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from omniloader.utils.sharing import shared

# A cache line, so that every tensor starts aligned.
_ALIGN = 64

_Entry = tuple[str, torch.dtype, tuple[int, ...], int]


def in_worker() -> bool:
    """Whether this is a ``DataLoader`` worker."""
    return get_worker_info() is not None


class PackedBatch(dict[str, Any]):
    """A batch dict that is pickled as one block; unpickled, it is a plain ``dict``."""

    def __reduce__(self) -> tuple[Any, ...]:
        tensors = {name: item for name, item in self.items() if _packs(item)}
        entries, size = _layout(tensors)
        block = _shared_block(size)
        for name, dtype, shape, offset in entries:
            _view(block, dtype, shape, offset).copy_(tensors[name])
        rest = {name: item for name, item in self.items() if name not in tensors}
        return _unpack, (list(self), entries, block, rest)


def pack(batch: dict[str, Any]) -> dict[str, Any]:
    """Mark a batch to travel as one block."""
    return PackedBatch(batch)


def _packs(item: Any) -> bool:
    return isinstance(item, Tensor) and item.device.type == "cpu" and item.layout is torch.strided


def _layout(tensors: dict[str, Tensor]) -> tuple[list[_Entry], int]:
    entries: list[_Entry] = []
    offset = 0
    for name, tensor in tensors.items():
        entries.append((name, tensor.dtype, tuple(tensor.shape), offset))
        offset += -(-tensor.nbytes // _ALIGN) * _ALIGN
    return entries, offset


def _shared_block(size: int) -> Tensor:
    return shared(torch.empty(max(size, 1), dtype=torch.uint8))


def _view(block: Tensor, dtype: torch.dtype, shape: tuple[int, ...], offset: int) -> Tensor:
    count = torch.Size(shape).numel() * dtype.itemsize
    return block[offset : offset + count].view(dtype).view(shape)


def _unpack(
    names: list[str], entries: list[_Entry], block: Tensor, rest: dict[str, Any]
) -> dict[str, Any]:
    tensors = {name: _view(block, dtype, shape, at) for name, dtype, shape, at in entries}
    return {name: tensors[name] if name in tensors else rest[name] for name in names}
