"""Blocks of shared memory that a worker fills and the trainer gives back.

A ``DataLoader`` worker writes its batches straight into shared blocks. The trainer maps a block
once, makes the tensors of a batch as views of it, and when the last of them is gone it writes one
byte into the block's header: the worker may fill it again. So a steady stream of batches costs
neither copies nor new pages nor file descriptors.

The header's bytes: 0 is 1 once the trainer has mapped the block, 1 is 1 when it must not be
filled again, and each of the others is one loan, 1 from the worker's sending until the trainer
has dropped what it got. A block may be on loan several times: a consumer's collate function can
send one batch twice. Every byte is set by one side and cleared by the other, so no lock is needed.
"""

from __future__ import annotations

import os
import sys
import uuid
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from omniloader.utils.sharing import shared

Bytes = npt.NDArray[np.uint8]

_HEADER = 64
_MAPPED, _RETIRED, _LOANS = 0, 1, 2
_SHM = Path("/dev/shm")
# Left free for others: queues, PyTorch's own tensors.
_SHM_MARGIN = 16 << 20


@dataclass(frozen=True)
class Ticket:
    """What travels with a batch: which block it lies in, and the block itself the first time.

    Args:
        pid: Process id of the worker.
        token: Names the block; never used twice, by no worker.
        block: The shared memory; None once the trainer has it.
        loan: The byte of the header to clear when the batch is gone.
    """

    pid: int
    token: str
    block: Tensor | None
    loan: int = _LOANS


@dataclass(eq=False)
class SharedBlock:
    """One block on the worker's side."""

    tensor: Tensor
    array: Bytes
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def address(self) -> int:
        """Where its body starts."""
        return self.tensor.data_ptr() + _HEADER

    @property
    def lent(self) -> bool:
        """Whether the trainer still holds a batch in it."""
        return bool(self.array[_LOANS:_HEADER].any())

    @property
    def retired(self) -> bool:
        """Whether another process may hold a batch in it for good."""
        return bool(self.array[_RETIRED])

    def lend(self) -> Ticket | None:
        """Hand the block to the trainer with a batch; None when it is on loan too often."""
        loan = _LOANS + int(self.array[_LOANS:_HEADER].argmin())
        if self.array[loan]:
            return None
        self.array[loan] = 1
        known = bool(self.array[_MAPPED])
        return Ticket(os.getpid(), self.token, None if known else self.tensor, loan)


class WorkerRing:
    """The shared blocks of one worker.

    Args:
        max_blocks: Blocks kept at most; when all are held, :meth:`take` gives None.
    """

    def __init__(self, max_blocks: int = 8) -> None:
        self._blocks: list[SharedBlock] = []
        # Apart from the blocks, so that a reference count tells whether a view is left.
        self._bodies: list[Bytes] = []
        self._max_blocks = max_blocks

    def take(self, nbytes: int) -> Bytes | None:
        """At least ``nbytes`` of shared memory that nobody holds, or None where there is none."""
        self._drop_retired()
        for position, block in enumerate(self._blocks):
            fits = nbytes <= self._bodies[position].nbytes <= 2 * nbytes
            if fits and not block.lent and references(self._bodies, position) == IDLE:
                return self._bodies[position]
        if len(self._blocks) >= self._max_blocks and not self._drop_one():
            return None
        tensor = shared_bytes(nbytes + _HEADER)
        if tensor is None:
            return None
        tensor[:_HEADER] = 0
        # The tensor owns the memory; a body whose base is this array keeps both alive.
        array = tensor.numpy()
        self._blocks.append(SharedBlock(tensor, array))
        self._bodies.append(np.asarray(_Span(array)))
        return self._bodies[-1]

    def _drop_retired(self) -> None:
        """Forget blocks that must not be filled again; batches in them keep them alive."""
        for position in reversed(range(len(self._blocks))):
            if self._blocks[position].retired:
                del self._blocks[position], self._bodies[position]

    def _drop_one(self) -> bool:
        """Forget a block of another size that nobody holds."""
        for position, block in enumerate(self._blocks):
            if not block.lent and references(self._bodies, position) == IDLE:
                del self._blocks[position], self._bodies[position]
                return True
        return False

    def owner_of(self, address: int, nbytes: int) -> tuple[SharedBlock, int] | None:
        """The block that some memory lies in and its offset there, or None."""
        for block, body in zip(self._blocks, self._bodies, strict=True):
            offset = address - block.address
            if offset >= 0 and offset + nbytes <= body.nbytes:
                return block, offset
        return None


class _Span:
    """The body of a block as the base of arrays: it is gone when no view of it is left."""

    __slots__ = ("__array_interface__", "__weakref__", "memory")

    def __init__(self, memory: Bytes) -> None:
        self.memory = memory
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "typestr": "|u1",
            "shape": (memory.nbytes - _HEADER,),
            "data": (memory.ctypes.data + _HEADER, False),
        }


# -- the trainer's side ----------------------------------------------------------------------

_mapped: dict[str, tuple[int, Bytes]] = {}
# What batches of this process lie in now, by block and loan.
_held: dict[tuple[str, int], Bytes] = {}


def redeem(ticket: Ticket) -> Bytes:
    """Map the block of a ticket; it goes back to its worker with the last view of the result.

    Args:
        ticket: Came with a batch; to be redeemed once.

    Returns:
        The body of the block, uint8.

    Raises:
        RuntimeError: If the block's worker is gone and its memory was never mapped here.
    """
    if ticket.block is not None and ticket.token not in _mapped:
        _forget_gone_blocks()
        memory = ticket.block.numpy()
        memory[_MAPPED] = 1
        _mapped[ticket.token] = (ticket.pid, memory)
    if ticket.token not in _mapped:
        raise RuntimeError(
            f"a batch of worker process {ticket.pid} lies in memory that this process never "
            "mapped; batches of a DataLoader can be unpickled once, by the process that iterates"
        )
    memory = _mapped[ticket.token][1]
    _held[ticket.token, ticket.loan] = memory
    span = _Span(memory)
    end = weakref.finalize(span, _give_back, memory, ticket.token, ticket.loan, os.getpid())
    end.atexit = False
    return np.asarray(span)


def _give_back(memory: Bytes, token: str, loan: int, pid: int) -> None:
    # A process forked from the trainer drops its copies too; the block is not its to give.
    if os.getpid() == pid:
        _held.pop((token, loan), None)
        memory[loan] = 0


def _retire_held() -> None:
    """Before a fork: the child may keep the batches held now, longer than this process does."""
    for memory in list(_held.values()):
        memory[_RETIRED] = 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_retire_held, after_in_child=_held.clear)


def _forget_gone_blocks() -> None:
    """Unmap blocks that are retired or whose worker has ended; batches in them keep them alive."""
    for token, (pid, memory) in list(_mapped.items()):
        retired = memory[_RETIRED] and not memory[_LOANS:_HEADER].any()
        if retired or not _alive(pid):
            _mapped.pop(token, None)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


# -- shared by both ----------------------------------------------------------------------------


def references(arrays: list[Bytes], position: int) -> int:
    """How many references an array of a list has; compare it to :data:`IDLE`."""
    return sys.getrefcount(arrays[position])


# What an array in a list counts that nobody else holds differs between versions of Python.
IDLE = references([np.empty(1, dtype=np.uint8)], 0)


def shared_bytes(nbytes: int) -> Tensor | None:
    """Fresh shared memory, or None where the machine has too little left of it."""
    # Writing to an overfull /dev/shm kills the process with SIGBUS, so ask before.
    if _SHM.is_dir():
        status = os.statvfs(_SHM)
        if status.f_bavail * status.f_frsize < nbytes + _SHM_MARGIN:
            return None
    try:
        return shared(torch.empty(max(nbytes, 1), dtype=torch.uint8))
    except RuntimeError:
        return None
