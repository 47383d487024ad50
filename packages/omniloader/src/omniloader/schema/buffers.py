"""Where the memory of a batch comes from: the only module that knows.

Filling fresh memory is slow, because the kernel maps it page by page; the same batch written
into memory that was used before takes a third of the time. So large blocks are used again, once
nobody holds them: a block is a NumPy array, every tensor of a batch is a view that keeps a
reference to it, and its reference count tells when the last one is gone.
"""

from __future__ import annotations

import sys
import threading
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Block: TypeAlias = npt.NDArray[np.uint8]

# Small blocks come from the allocator's own warm memory; pooling them gains nothing.
_POOL_FROM = 1 << 20
_POOL_BLOCKS = 8
_POOL_BYTES = 512 << 20


def _references(blocks: list[Block], position: int) -> int:
    return sys.getrefcount(blocks[position])


# What an idle block counts differs between versions of Python, so it is measured.
_IDLE = _references([np.empty(1, dtype=np.uint8)], 0)


class BlockPool:
    """Blocks that are handed out again when no view of them is left.

    Args:
        max_blocks: Blocks kept at most.
        max_bytes: Bytes kept at most; larger blocks are never kept.
    """

    def __init__(self, max_blocks: int = _POOL_BLOCKS, max_bytes: int = _POOL_BYTES) -> None:
        self._blocks: list[Block] = []
        self._lock = threading.Lock()
        self._max_blocks = max_blocks
        self._max_bytes = max_bytes

    def take(self, nbytes: int) -> Block:
        """A block of at least ``nbytes``, its content undefined; give it back by forgetting it."""
        if nbytes < _POOL_FROM:
            return np.empty(nbytes, dtype=np.uint8)
        with self._lock:
            for position in range(len(self._blocks)):
                # A much larger block would stay held for a small batch.
                fits = nbytes <= self._blocks[position].nbytes <= 2 * nbytes
                if fits and _references(self._blocks, position) == _IDLE:
                    return self._blocks[position]
            block = np.empty(nbytes, dtype=np.uint8)
            self._keep(block)
            return block

    def _keep(self, block: Block) -> None:
        self._blocks.append(block)
        held = sum(one.nbytes for one in self._blocks)
        # Oldest first; a block in use lives on with its batch, only the pool forgets it.
        while len(self._blocks) > self._max_blocks or held > self._max_bytes:
            held -= self._blocks.pop(0).nbytes

    def __getstate__(self) -> dict[str, Any]:
        return {"_max_blocks": self._max_blocks, "_max_bytes": self._max_bytes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_max_blocks"], state["_max_bytes"])  # type: ignore[misc]


_POOL = BlockPool()


def take_block(nbytes: int) -> Block:
    """A block from the pool of this process."""
    return _POOL.take(nbytes)
