"""The same batches whatever the number of workers, how they start, and whether they persist."""

from typing import Any

import pytest
import torch
from mixes import AddNoise, assert_same_batch, batches, quickstart
from torch.utils.data import DataLoader

from omniloader.collate import unified_collate
from omniloader.errors import SampleError
from omniloader.loader import OmniLoader
from omniloader.sampling.strategies import TemperatureStrategy
from omniloader.schema.spec import DatasetSchema, TensorSpec
from omniloader.utils.seeding import seed_worker


def epochs_of(workers: int, method: str | None = None, persistent: bool = False) -> list[Any]:
    """Two epochs of a mix that draws samples more than once."""
    datasets, schemas = quickstart()
    omni = OmniLoader(datasets, schemas, transform=AddNoise(), seed=3)
    strategy = TemperatureStrategy(omni.dataset_sizes, temperature=100.0, seed=1)
    sampler = omni.make_sampler(strategy)
    loader = DataLoader(
        omni,
        batch_size=32,
        sampler=sampler,
        num_workers=workers,
        collate_fn=unified_collate,
        worker_init_fn=seed_worker,
        multiprocessing_context=method if workers else None,
        persistent_workers=persistent,
    )
    seen = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        seen += batches(loader)
    del loader
    return seen


@pytest.fixture(scope="module")
def in_process() -> list[Any]:
    return epochs_of(0)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_change_nothing(
    in_process: list[Any], workers: int, persistent: bool, method: str
) -> None:
    found = epochs_of(workers, method, persistent)
    assert len(found) == len(in_process)
    for ours, theirs in zip(found, in_process, strict=True):
        assert_same_batch(ours, theirs)


def test_epochs_and_visits_are_augmented_differently(in_process: list[Any]) -> None:
    noisy: dict[int, list[tuple[int, int, torch.Tensor]]] = {}
    for batch in in_process:
        for row in torch.nonzero(batch["dataset_index"] == 0).flatten().tolist():
            entry = (int(batch["epoch"][row]), int(batch["visit"][row]), batch["video"][row])
            noisy.setdefault(int(batch["index"][row]), []).append(entry)
    assert {epoch for rows in noisy.values() for epoch, _, _ in rows} == {0, 1}
    assert max(visit for rows in noisy.values() for _, visit, _ in rows) >= 1
    for rows in noisy.values():
        assert len({(epoch, visit) for epoch, visit, _ in rows}) == len(rows)
        assert len({value.numpy().tobytes() for _, _, value in rows}) == len(rows)


def test_any_augmented_sample_can_be_made_again(in_process: list[Any]) -> None:
    datasets, schemas = quickstart()
    omni = OmniLoader(datasets, schemas, transform=AddNoise(), seed=3)
    batch = in_process[-1]
    for row in range(len(batch["index"])):
        index, epoch, visit = (int(batch[name][row]) for name in ("index", "epoch", "visit"))
        again = omni.sample(index, epoch=epoch, visit=visit)
        assert torch.equal(again["video"], batch["video"][row])


def test_plain_indices_take_the_epoch_from_set_epoch_in_running_workers() -> None:
    datasets, schemas = quickstart()
    omni = OmniLoader(datasets, schemas, transform=AddNoise())
    loader = DataLoader(
        omni, batch_size=40, num_workers=1, persistent_workers=True, collate_fn=unified_collate
    )
    for epoch in (0, 5):
        omni.set_epoch(epoch)
        first = next(iter(loader))
        assert set(first["epoch"].tolist()) == {epoch}
        assert torch.equal(first["video"][7], omni.sample(7, epoch=epoch)["video"])


class Broken:
    """Sample 5 has another width."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": torch.zeros(3 if index == 5 else 2)}


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_in_a_worker_names_the_sample(workers: int) -> None:
    schema = DatasetSchema([TensorSpec("x", feature_dim=2)])
    omni = OmniLoader([Broken()], [schema], names=["speech"])
    loader = DataLoader(omni, batch_size=4, num_workers=workers, collate_fn=unified_collate)
    with pytest.raises(SampleError, match=r"source 'speech', sample 5 \(key '5'\), 'x': must be a"):
        list(loader)


# A forked worker inherits "warnings are errors"; here the warning is expected.
@pytest.mark.filterwarnings("default::RuntimeWarning")
def test_masked_faults_are_counted_over_all_workers() -> None:
    schema = DatasetSchema([TensorSpec("x", feature_dim=2)])
    omni = OmniLoader([Broken(), Broken()], [schema] * 2, names=["a", "b"], on_error="mask")
    loader = DataLoader(omni, batch_size=4, num_workers=2, collate_fn=unified_collate)
    masked = sum(int((~batch["x_mask"]).sum()) for batch in loader)
    assert masked == 2
    assert omni.error_counts == {"a": 1, "b": 1}
