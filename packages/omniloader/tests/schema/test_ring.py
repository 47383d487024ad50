import os

import pytest
import torch

from omniloader.schema import ring
from omniloader.schema.ring import Ticket, WorkerRing, redeem, shared_bytes


def test_a_block_goes_round() -> None:
    worker = WorkerRing()
    body = worker.take(1000)
    assert body is not None
    body[:3] = (1, 2, 3)
    block, offset = worker.owner_of(body.ctypes.data + 1, 2) or (None, 0)
    assert block is not None
    assert offset == 1
    ticket = block.lend()
    assert ticket.block is not None
    del body
    arrived = redeem(ticket)
    assert arrived[:3].tolist() == [1, 2, 3]
    other = worker.take(1000)
    assert other is not None
    assert worker.owner_of(other.ctypes.data, 1) != (block, 0)
    view = torch.from_numpy(arrived[:8])[1:]
    del arrived
    assert block.lent
    del view
    assert not block.lent
    assert block.lend().block is None  # mapped already: only the token travels
    again = redeem(Ticket(os.getpid(), block.token, None))
    assert again[:3].tolist() == [1, 2, 3]


def test_a_ring_that_is_all_held_gives_none_and_drops_other_sizes_first() -> None:
    worker = WorkerRing(max_blocks=2)
    held = [worker.take(100), worker.take(100)]
    assert worker.take(100) is None
    held.pop()
    bigger = worker.take(5000)
    assert bigger is not None
    assert bigger.nbytes == 5000
    assert worker.owner_of(bigger.ctypes.data, 5001) is None


def test_a_stranger_cannot_redeem_a_ticket() -> None:
    with pytest.raises(RuntimeError, match="batch of worker process 5 lies in memory that this"):
        redeem(Ticket(5, "unknown", None))


def test_blocks_of_dead_workers_are_forgotten() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    memory = shared_bytes(1000)
    redeem(Ticket(child, "dead", memory))
    assert "dead" in ring._mapped
    redeem(Ticket(os.getpid(), "living", shared_bytes(1000)))
    assert "dead" not in ring._mapped
    assert "living" in ring._mapped


def test_little_shared_memory_is_noticed_before_it_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring, "_SHM_MARGIN", 1 << 60)
    if not ring._SHM.is_dir():
        pytest.skip("this system has no /dev/shm to ask")
    assert shared_bytes(10) is None
    assert WorkerRing().take(10) is None
