"""What a consumer may do with batches that lie in shared blocks without finding them changed."""

import copy
import io
import multiprocessing
import pickle
from collections.abc import Callable
from multiprocessing.queues import SimpleQueue
from typing import Any

import pytest
import torch
from mixes import Numbered
from torch.utils.data import DataLoader

from omniloader.collate import unified_collate
from omniloader.collate.transport import pack
from omniloader.loader import OmniLoader
from omniloader.schema import buffers
from omniloader.schema.ring import WorkerRing, redeem
from omniloader.schema.spec import DatasetSchema, TensorSpec

Batch = dict[str, Any]
SCHEMA = DatasetSchema(
    [TensorSpec("x", feature_dim=512, time_dim=32)], [TensorSpec("y", dtype=torch.int64)]
)


def loader(collate: Callable[[Any], Any]) -> DataLoader[Any]:
    return DataLoader(
        OmniLoader([Numbered()], [SCHEMA]),
        batch_size=20,
        num_workers=1,
        multiprocessing_context="fork",
        persistent_workers=True,
        collate_fn=collate,
    )


def wrong(batch: Batch) -> int:
    """Number of values that are not those of their sample."""
    return int((batch["x"] != batch["y"][:, None, None]).sum())


class SendsTheLastToo:
    last: Batch | None = None

    def __call__(self, rows: Any) -> tuple[Batch, Batch]:
        batch = unified_collate(rows)
        before, self.last = self.last or batch, batch
        return before, batch


def twice(rows: Any) -> tuple[Batch, Batch]:
    return unified_collate(rows), unified_collate(rows)


@pytest.mark.parametrize("collate", [twice, SendsTheLastToo()])
def test_a_block_that_was_sent_twice_is_free_when_both_are_gone(
    collate: Callable[[Any], Any],
) -> None:
    kept: list[Batch] = []
    for first, second in loader(collate):
        kept = [*kept[-2:], second]
        del first, second
        assert sum(map(wrong, kept)) == 0


def test_a_block_on_loan_everywhere_is_copied_instead() -> None:
    ring = WorkerRing()
    body = ring.take(1000)
    assert body is not None
    block, _ = ring.owner_of(body.ctypes.data, 1) or (None, 0)
    assert block is not None
    tickets = [block.lend() for _ in range(62)]
    assert None not in tickets
    assert block.lend() is None
    for ticket in tickets[1:]:
        redeem(ticket)  # type: ignore[arg-type]
    assert block.lent
    del body
    assert ring.take(1000) is not None
    redeem(tickets[0])  # type: ignore[arg-type]
    assert not block.lent


def through_pickle(batch: Batch) -> Any:
    return pickle.loads(pickle.dumps(batch))  # noqa: S301 - our own batch


def through_a_file(batch: Batch) -> Any:
    file = io.BytesIO()
    torch.save(batch, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


class Copies:
    def __init__(self, copied: Callable[[Batch], Any]) -> None:
        self.copied = copied

    def __call__(self, rows: Any) -> Batch:
        batch = unified_collate(rows)
        other = self.copied(batch)
        batch["wrong"] = torch.full((len(rows),), wrong(other))
        batch["plain"] = [type(other) is dict] * len(rows)
        return batch


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, through_pickle, through_a_file])
def test_a_worker_may_copy_or_store_its_batch(copied: Callable[[Batch], Any]) -> None:
    for batch in loader(Copies(copied)):
        assert wrong(batch) == 0
        assert not batch["wrong"].any()
        assert all(batch["plain"])


def test_a_deep_copy_owns_its_memory() -> None:
    batch = pack({"x": torch.zeros(3)})
    copy.deepcopy(batch)["x"].add_(1)
    assert not batch["x"].any()


def _count_wrong(batch: Batch, go: Any, out: SimpleQueue[int]) -> None:
    go.wait(60)
    # NumPy: PyTorch's pool of threads does not outlive a fork.
    out.put(int((batch["x"].numpy() != batch["y"].numpy()[:, None, None]).sum()))


def test_a_forked_process_may_keep_a_batch_after_its_parent_dropped_it() -> None:
    fork = multiprocessing.get_context("fork")
    go, out = fork.Event(), fork.SimpleQueue()
    batches = loader(unified_collate)
    child = None
    for number, batch in enumerate(batches):
        if number == 1:
            child = fork.Process(target=_count_wrong, args=(batch, go, out))
            child.start()
        del batch
    assert child is not None
    for batch in batches:  # fills every block again
        assert wrong(batch) == 0
        del batch
    go.set()
    assert out.get() == 0
    child.join()


def test_a_retired_block_is_not_filled_again() -> None:
    ring = WorkerRing()
    body = ring.take(1000)
    assert body is not None
    block, _ = ring.owner_of(body.ctypes.data, 1) or (None, 0)
    assert block is not None
    ticket = block.lend()
    assert ticket is not None
    del body
    held = redeem(ticket)
    child = multiprocessing.get_context("fork").Process(target=int)
    child.start()
    child.join()
    del held
    assert block.retired
    assert not block.lent
    other = ring.take(1000)
    assert other is not None
    assert ring.owner_of(other.ctypes.data, 1) != (block, 0)


def test_a_forked_child_fills_no_block_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "_ring", WorkerRing())
    fork = multiprocessing.get_context("fork")
    out = fork.SimpleQueue()
    with buffers._pool._lock:
        child = fork.Process(target=_take, args=(out,))
        child.start()
        assert out.get() == 2 << 20
    child.join()


def _take(out: SimpleQueue[int]) -> None:
    out.put(-1 if buffers._ring is not None else buffers.take_block(2 << 20).nbytes)


def test_a_gradient_is_not_dropped_on_the_way() -> None:
    leaf = torch.zeros(2, requires_grad=True)
    lazy = torch.zeros(2, dtype=torch.complex64).conj()
    batch = loader_result({"leaf": leaf, "lazy": lazy, "y": torch.ones(2)})
    assert batch["leaf"].requires_grad
    assert torch.equal(batch["lazy"], lazy)


def loader_result(batch: Batch) -> Any:
    return next(
        iter(
            DataLoader(
                [0],
                batch_size=None,
                collate_fn=lambda _: pack(batch),
                num_workers=1,
                multiprocessing_context="fork",
            )
        )
    )
