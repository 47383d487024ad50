"""Where the memory of a batch comes from: the only module that knows.

Filling fresh memory is slow, because the kernel maps it page by page; the same batch written
into memory that was used before takes a third of the time. So large blocks are used again, once
nobody holds them: a block is a NumPy array, every tensor of a batch is a view that keeps a
reference to it, and its reference count tells when the last one is gone. In a worker the block
lies in shared memory, so that the batch need not be copied to be sent.
"""

from __future__ import annotations

import os
import threading

import numpy as np
from torch.utils.data import get_worker_info

from omniloader.schema.ring import IDLE, Bytes, WorkerRing, references

# Small blocks come from the allocator's own warm memory; pooling them gains nothing.
_POOL_FROM = 1 << 20
_POOL_BLOCKS = 8
_POOL_BYTES = 512 << 20


class BlockPool:
    """Blocks that are handed out again when no view of them is left.

    Args:
        max_blocks: Blocks kept at most.
        max_bytes: Bytes kept at most; larger blocks are never kept.
    """

    def __init__(self, max_blocks: int = _POOL_BLOCKS, max_bytes: int = _POOL_BYTES) -> None:
        self._blocks: list[Bytes] = []
        self._lock = threading.Lock()
        self._max_blocks = max_blocks
        self._max_bytes = max_bytes

    def take(self, nbytes: int) -> Bytes:
        """A block of at least ``nbytes``, its content undefined; give it back by forgetting it."""
        if nbytes < _POOL_FROM:
            return np.empty(nbytes, dtype=np.uint8)
        with self._lock:
            for position in range(len(self._blocks)):
                # A much larger block would stay held for a small batch.
                fits = nbytes <= self._blocks[position].nbytes <= 2 * nbytes
                if fits and references(self._blocks, position) == IDLE:
                    return self._blocks[position]
            block = np.empty(nbytes, dtype=np.uint8)
            self._keep(block)
            return block

    def _keep(self, block: Bytes) -> None:
        self._blocks.append(block)
        held = sum(one.nbytes for one in self._blocks)
        # Oldest first; a block in use lives on with its batch, only the pool forgets it.
        while len(self._blocks) > self._max_blocks or held > self._max_bytes:
            held -= self._blocks.pop(0).nbytes


_pool = BlockPool()
_ring: WorkerRing | None = None


def take_block(nbytes: int) -> Bytes:
    """Memory for a batch: shared in a worker, this process's own elsewhere."""
    if get_worker_info() is None:
        return _pool.take(nbytes)
    block = worker_ring().take(nbytes)
    # None: the trainer keeps many batches, or shared memory is short; sending makes a copy then.
    return np.empty(nbytes, dtype=np.uint8) if block is None else block


def worker_ring() -> WorkerRing:
    """The shared blocks of this worker."""
    global _ring
    if _ring is None:
        _ring = WorkerRing()
    return _ring


def _start_afresh() -> None:
    """In a forked child: shared blocks are its parent's to fill, and a lock may be held there."""
    global _pool, _ring
    _pool, _ring = BlockPool(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh)
