import pickle

import pytest
import torch
from mixes import assert_same_batch, quickstart
from torch.utils.data import DataLoader

from omniloader.collate import unified_collate
from omniloader.collate.transport import PackedBatch, pack
from omniloader.loader import OmniLoader
from omniloader.utils.seeding import seed_worker


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
    arrived = pickle.loads(pickle.dumps(packed))  # noqa: S301 - our own batch
    assert type(arrived) is dict
    assert torch.equal(arrived.pop("sparse").to_dense(), torch.eye(2))
    batch.pop("sparse")
    assert_same_batch(arrived, batch)
    assert arrived["x"].untyped_storage().data_ptr() == arrived["flag"].untyped_storage().data_ptr()


def test_a_batch_without_tensors_travels_too() -> None:
    assert pickle.loads(pickle.dumps(pack({"key": ["a"]}))) == {"key": ["a"]}  # noqa: S301


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
