"""HDF5 across processes: every way a worker can come about, with the file open before or not."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader

from omniloader.data.datasets import HDF5Dataset
from omniloader.utils.seeding import seed_worker

METHODS = [
    m for m in ("fork", "spawn", "forkserver") if m in multiprocessing.get_all_start_methods()
]
needs_fork = pytest.mark.skipif("fork" not in METHODS, reason="this platform has no fork")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.h5"
    with h5py.File(path, "w") as file:
        for subset, offset in (("train", 0), ("valid", 100)):
            for i in range(8):
                group = file.create_group(f"{subset}/{i}")
                values = np.full((50, 20), offset + i, np.float32)
                group.create_dataset("x", data=values, compression="gzip")
    return path


def numbers(loader: DataLoader) -> list[float]:
    return [sample["x"][0, 0].item() for batch in loader for sample in batch]


def loader_of(data: torch.utils.data.Dataset, workers: int, **kwargs: object) -> DataLoader:
    timeout = 60 if workers else 0
    return DataLoader(
        data, batch_size=2, num_workers=workers, collate_fn=list, timeout=timeout, **kwargs
    )


@pytest.mark.parametrize("mode", [{}, {"cache_size": 4}, {"preload": True}], ids=str)
@pytest.mark.parametrize("seeded", [False, True], ids=["plain", "seed_worker"])
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_reading_before_workers_start(path: Path, mode: dict, seeded: bool, workers: int) -> None:
    data = HDF5Dataset(path, "train", **mode)
    before = data[3]["x"]
    loader = loader_of(data, workers, worker_init_fn=seed_worker if seeded else None)
    assert numbers(loader) == list(range(8))
    assert torch.equal(data[3]["x"], before)
    assert numbers(loader) == list(range(8))


@pytest.mark.parametrize("method", METHODS)
def test_every_start_method(path: Path, method: str) -> None:
    data = ConcatDataset([HDF5Dataset(path, "train"), HDF5Dataset(path, "valid", preload=True)])
    assert data[0]["x"][0, 0] == 0
    loader = loader_of(data, 2, multiprocessing_context=method, persistent_workers=True)
    expected = [*range(8), *range(100, 108)]
    assert numbers(loader) == expected
    assert data[9]["x"][0, 0] == 101
    assert numbers(loader) == expected


def in_fork(work: object, seconds: float = 30) -> int:
    """Exit status of a forked child that runs ``work``; a child that hangs is an error."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()  # type: ignore[operator]
            status = 0
        finally:
            os._exit(status)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise TimeoutError("the forked child hangs")


@needs_fork
def test_a_fork_closes_all_inherited_handles_before_it_opens_its_own(path: Path) -> None:
    train, valid = HDF5Dataset(path, "train"), HDF5Dataset(path, "valid")
    assert train[0]["x"][0, 0] == 0
    assert valid[0]["x"][0, 0] == 100
    inherited = valid._handle._file

    def child() -> None:
        assert not train._handle.is_open
        assert train[1]["x"][0, 0] == 1
        assert not inherited
        assert valid[1]["x"][0, 0] == 101

    assert in_fork(child) == 0
    assert inherited
    assert train[2]["x"][0, 0] == 2
    assert valid[2]["x"][0, 0] == 102


@needs_fork
def test_a_fork_while_another_thread_reads_does_not_hang(path: Path) -> None:
    data = HDF5Dataset(path, "train", cache_size=2)
    stop = threading.Event()

    def read_on() -> None:
        while not stop.is_set():
            data.read_batch([0, 1, 2, 3])

    reader = threading.Thread(target=read_on)
    reader.start()
    try:
        statuses = [in_fork(lambda: data[5]["x"].sum()) for _ in range(10)]
    finally:
        stop.set()
        reader.join()
    assert statuses == [0] * 10


def test_threads_may_share_a_dataset(path: Path) -> None:
    data = HDF5Dataset(path, "train", cache_size=2)
    wrong: list[float] = []

    def read(order: list[int]) -> None:
        for i in order:
            got = data[i]["x"][0, 0].item()
            if got != i:
                wrong.append(got)

    rng = np.random.default_rng(0)
    threads = [
        threading.Thread(target=read, args=(rng.integers(0, 8, 100).tolist(),)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(data._cache) <= 2
