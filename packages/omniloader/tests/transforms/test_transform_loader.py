"""Transforms under a loader: both paths, any worker count and start method, replay."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from omniloader.collate import DynamicCollator, unified_collate
from omniloader.data.memory import DictTensorDataset
from omniloader.loader import OmniLoader
from omniloader.schema.spec import DatasetSchema, TensorSpec
from omniloader.transforms import (
    Compose,
    FeatureDropout,
    GaussianNoise,
    MixupCollator,
    RandomCrop,
    SpanMasking,
    TimeWarp,
)


def loader(transform: Any = None, **options: Any) -> OmniLoader:
    generator = torch.Generator().manual_seed(0)
    video = torch.randn(10, 12, 4, generator=generator)
    audio = torch.randn(14, 9, 3, generator=generator)
    return OmniLoader(
        [
            DictTensorDataset({"video": video, "valence": video[..., 0].clone()}),
            DictTensorDataset({"audio": audio, "mood": torch.arange(14.0)}),
        ],
        [
            DatasetSchema(
                [TensorSpec("video", feature_dim=4, time_dim=12)],
                [TensorSpec("valence", time_dim=12, placeholder=-5.0)],
            ),
            DatasetSchema([TensorSpec("audio", feature_dim=3, time_dim=12)], [TensorSpec("mood")]),
        ],
        transform=transform,
        names=["faces", "speech"],
        **options,
    )


def pipeline() -> Compose:
    return Compose(
        [
            GaussianNoise(),
            Compose([TimeWarp(), SpanMasking()]),
            RandomCrop(8),
            FeatureDropout(p=0.5),
        ]
    )


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        same = torch.equal(value, other[name]) if torch.is_tensor(value) else value == other[name]
        assert same, name


@pytest.mark.parametrize("pad", [True, False])
def test_batches_equal_collated_samples(pad: bool) -> None:
    omni = loader(pipeline(), pad_features=pad)
    collate = unified_collate if pad else DynamicCollator(omni.schema)
    indices = [3, 20, 3, 11, 0, 23]
    omni.set_epoch(2)
    singles = collate([omni[i] for i in indices])
    assert_same(collate(omni.__getitems__(indices)), singles)
    assert singles["video"].shape == (6, 8, 4)
    assert bool((singles["valence"][~singles["valence_mask"]] == -5).all())
    for name in ("valence", "mood"):
        assert_same({"y": singles[name][0]}, {"y": singles[name][2]})


def test_targets_are_left_alone_by_feature_transforms() -> None:
    noisy, quiet = loader(GaussianNoise(p=1.0)), loader()
    one, other = noisy[0], quiet[0]
    assert not torch.equal(one["video"], other["video"])
    for name in ("valence", "mood", "audio"):
        assert torch.equal(one[name], other[name])


def test_epochs_and_visits_are_augmented_differently_and_replayed() -> None:
    omni = loader(GaussianNoise(p=1.0))
    draws = [omni.sample(3, epoch=e, visit=v)["video"] for e, v in ((0, 0), (1, 0), (0, 1))]
    assert not torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert torch.equal(draws[0], omni.sample(3, epoch=0, visit=0)["video"])


@pytest.mark.parametrize(("workers", "method"), [(1, "fork"), (2, "fork"), (2, "spawn")])
def test_worker_counts_and_start_methods_change_nothing(workers: int, method: str) -> None:
    omni = loader(pipeline(), seed=3)
    collate = MixupCollator(unified_collate, omni.schema, alpha=1.0)
    expected = list(DataLoader(omni, batch_size=6, collate_fn=collate))
    found = DataLoader(
        omni,
        batch_size=6,
        collate_fn=collate,
        num_workers=workers,
        multiprocessing_context=method,
    )
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other)
