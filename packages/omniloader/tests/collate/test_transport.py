import gc
import os
import pickle
import signal
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest
import torch
from mixes import Numbered, assert_same_batch, quickstart
from torch.utils.data import DataLoader

from omniloader.collate import transport, unified_collate
from omniloader.collate.transport import PackedBatch, pack
from omniloader.loader import OmniLoader
from omniloader.schema.spec import DatasetSchema, TensorSpec
from omniloader.utils.seeding import seed_worker


@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
def test_a_packed_batch_arrives_as_a_plain_dict_with_the_same_bits() -> None:
    batch = {
        "x": torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),
        "flag": torch.tensor([True, False, True]),
        "none": torch.zeros(0, 2, dtype=torch.int16),
        "key": ["a", "b", None],
        "turned": torch.arange(6).reshape(2, 3).T,
        "sparse": torch.eye(2).to_sparse(),
    }
    packed = pack(batch)
    assert isinstance(packed, PackedBatch)
    arrived = pickle.loads(ForkingPickler.dumps(packed))  # noqa: S301 - our own batch
    assert type(arrived) is dict
    assert torch.equal(arrived.pop("sparse").to_dense(), torch.eye(2))
    batch.pop("sparse")
    assert_same_batch(arrived, batch)
    arrived["x"].add_(1.0)


def test_a_batch_without_tensors_travels_too() -> None:
    assert pickle.loads(ForkingPickler.dumps(pack({"key": ["a"]}))) == {"key": ["a"]}  # noqa: S301


@pytest.mark.parametrize("workers", [0, 1])
def test_the_trainer_gets_plain_dicts_it_may_keep_and_write(workers: int) -> None:
    datasets, schemas = quickstart()
    omni = OmniLoader(datasets, schemas)
    loader = DataLoader(
        omni,
        batch_size=16,
        num_workers=workers,
        collate_fn=unified_collate,
        worker_init_fn=seed_worker,
    )
    kept = list(loader)
    assert {type(batch) for batch in kept} == {dict}
    for batch in kept:
        batch["video"].add_(1.0)
    again = list(loader)
    for before, after in zip(kept, again, strict=True):
        assert torch.equal(before["video"], after["video"] + 1.0)


def test_a_large_batch_outside_of_a_ring_travels_in_one_shared_block() -> None:
    batch = {"x": torch.arange(100_000), "y": torch.ones(3, 3), "key": ["a"] * 3}
    arrived = pickle.loads(ForkingPickler.dumps(pack(batch)))  # noqa: S301 - our own batch
    assert_same_batch(arrived, batch)


def test_without_shared_memory_it_is_sent_through_the_pipe_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "shared_bytes", lambda nbytes: None)
    batch = {"x": torch.arange(100_000)}
    with pytest.warns(RuntimeWarning, match="too little shared memory for a batch of 800000 bytes"):
        message = ForkingPickler.dumps(pack(batch))
    arrived = pickle.loads(message)  # noqa: S301 - our own batch
    assert_same_batch(arrived, batch)
    arrived["x"].add_(1)


BIG = DatasetSchema(
    [TensorSpec("x", feature_dim=512, time_dim=32)], [TensorSpec("y", dtype=torch.int64)]
)


def numbered_loader(workers: int, method: str = "fork", **knobs: object) -> DataLoader[object]:
    return DataLoader(
        OmniLoader([Numbered()], [BIG]),
        batch_size=20,
        num_workers=workers,
        multiprocessing_context=method,
        collate_fn=unified_collate,
        worker_init_fn=seed_worker,
        **knobs,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_consumer_that_keeps_every_batch_finds_them_unchanged(method: str) -> None:
    kept = list(numbered_loader(2, method))
    for number, batch in enumerate(kept):
        first = 20 * number
        assert batch["y"].tolist() == list(range(first, first + 20))
        assert torch.equal(batch["x"][:, 31, 511], batch["y"].float())
        assert torch.equal(batch["x"][:, 0, 0], batch["y"].float())


def test_blocks_are_used_again_and_never_while_a_view_lives() -> None:
    loader = numbered_loader(1, persistent_workers=True)
    places, rows = set(), []
    for _ in range(3):
        for batch in loader:
            places.add(batch["x"].data_ptr())
            rows.append(batch["x"][3, 5] if len(rows) < 4 else None)
            batch["x"].neg_()  # what a consumer writes must not show in a later batch
            del batch
    assert len(places) < 60
    for number, row in enumerate(rows[:4]):
        assert bool((row == -(20.0 * number + 3)).all())
    check = [batch["x"][:, 7, 7].tolist() for batch in loader]
    assert check == [[float(i) for i in range(20 * n, 20 * n + 20)] for n in range(20)]


def test_an_early_stop_gives_blocks_back() -> None:
    loader = numbered_loader(2, persistent_workers=True)
    for _ in range(4):
        for number, batch in enumerate(loader):
            assert batch["y"][0] == 20 * number
            if number == 2:
                break
    assert [int(batch["y"][0]) for batch in loader] == list(range(0, 400, 20))


def shared_files() -> set[Path]:
    """What lies in shared memory under a name."""
    return set(Path("/dev/shm").glob("*"))


def test_a_killed_worker_is_an_error_and_leaves_nothing_behind() -> None:
    before = shared_files()
    loader = numbered_loader(2)
    stream = iter(loader)
    held = next(stream)
    # torch raises from its handler of SIGCHLD, wherever the program happens to be: both deaths
    # are held back until the test is ready for one error.
    handler = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for worker in stream._workers:
        os.kill(worker.pid, signal.SIGKILL)
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
    signal.signal(signal.SIGCHLD, handler)
    with pytest.raises(RuntimeError, match="DataLoader worker"):
        signal.raise_signal(signal.SIGCHLD)
    assert torch.equal(held["x"][:, 0, 0], held["y"].float())
    del stream, held
    gc.collect()
    assert shared_files() <= before
