"""Every adapter, strategy, collator and batch sampler of the registries keeps its contract."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from transform_cases import SCHEMA

from omniloader.config.families import COLLATES
from omniloader.data.convert import to_columnar
from omniloader.data.factory import ADAPTERS
from omniloader.data.memory import DictTensorDataset
from omniloader.sampling.batches import COMPOSITIONS
from omniloader.sampling.bucketing import LengthBucketBatchSampler
from omniloader.sampling.evaluation import SequentialStrategy, evaluation_sampler
from omniloader.sampling.per_source import plan_batches
from omniloader.sampling.sampler import OmniSampler
from omniloader.sampling.strategies import STRATEGIES
from omniloader.sampling.subsamplers import SubsampleConfig
from omniloader.schema.spec import DatasetSchema, TensorSpec
from omniloader.testing import check_adapter, check_batch_sampler, check_collator, check_strategy

DECLARED = DatasetSchema(
    features=[
        TensorSpec("audio", feature_dim=3, time_dim=6),
        TensorSpec("face", shape=(2, 4)),
        TensorSpec("pitch", time_dim=5, dtype=torch.float64),
    ],
    targets=[TensorSpec("label", dtype=torch.int64)],
)


def recordings() -> dict[str, dict[str, Any]]:
    """Samples with ragged, plain, rare and text values."""
    rng = np.random.default_rng(3)
    samples: dict[str, dict[str, Any]] = {}
    for number in range(9):
        sample: dict[str, Any] = {
            "audio": rng.normal(size=(1 + number % 4, 3)).astype(np.float32),
            "face": rng.normal(size=(2, 4)).astype(np.float16),
            "label": np.int64(number % 3),
            "speaker": f"søren-{number % 2}",
        }
        if number % 3:
            sample["pitch"] = rng.normal(size=4)
        samples[f"take-{number}"] = sample
    return samples


def write_hdf5(folder: Path) -> Path:
    path = folder / "voices.h5"
    with h5py.File(path, "w") as file:
        for name, sample in recordings().items():
            for key, value in sample.items():
                packed = {"compression": "gzip", "chunks": True} if key == "face" else {}
                file.create_dataset(f"train/{name}/{key}", data=value, **packed)
    return path


def write_npy(folder: Path) -> Path:
    for name, sample in recordings().items():
        (folder / "voices" / name).mkdir(parents=True)
        for key, value in sample.items():
            np.save(folder / "voices" / name / f"{key}.npy", value)
    return folder / "voices"


def write_columns(folder: Path) -> Path:
    return to_columnar(ADAPTERS["hdf5"](write_hdf5(folder), "train"), folder / "columns")


ADAPTER_CASES: dict[str, tuple[Callable[[Path], Path], list[dict[str, Any]]]] = {
    "hdf5": (
        write_hdf5,
        [
            {"subset": "train"},
            {"subset": "train", "cache_size": 3},
            {"subset": "train", "preload": True, "name": "voices"},
            {"subset": "train", "threads": 2},
            {"subset": "train", "keys": ["audio", "face", "pitch", "label"]},
        ],
    ),
    "npy": (write_npy, [{}, {"mmap": False}, {"keys": ["label", "audio", "face", "pitch"]}]),
    "columnar": (write_columns, [{}, {"keys": ["audio", "face", "pitch", "label"]}]),
}


def test_every_registered_part_has_a_case() -> None:
    assert ADAPTER_CASES.keys() == ADAPTERS.keys()
    assert STRATEGY_CASES.keys() == STRATEGIES.keys()
    assert COLLATE_CASES.keys() == COLLATES.keys()


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, case) for name, (_, cases) in ADAPTER_CASES.items() for case in cases],
)
@pytest.mark.parametrize("fast", ["0", "1"])
def test_an_adapter(
    name: str, options: dict[str, Any], fast: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNILOADER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMNILOADER_FAST", fast)
    path = ADAPTER_CASES[name][0](tmp_path)
    check_adapter(ADAPTERS[name](path, **options), DECLARED)
    check_adapter(ADAPTERS[name](path, **options), max_samples=3, seed=1)


def test_tensors_in_memory() -> None:
    table = {"audio": torch.randn(5, 6, 3), "label": np.arange(5), "ok": torch.ones(5).bool()}
    check_adapter(DictTensorDataset(table, {"speaker": list("abcde")}))


STRATEGY_CASES: dict[str, list[dict[str, Any]]] = {
    "proportional": [{}, {"epoch_size": 40}],
    "temperature": [{"temperature": 3.0, "size_cap": 12}],
    "annealed_temperature": [
        {"num_epochs": 4},
        {"num_steps": 8, "step_size": 6, "shape": "cosine"},
    ],
    "fixed": [
        {"weights": [3, 1, 2]},
        {"groups": {"big": {"weight": 2, "sources": {"a": 1, "b": 2}}, "c": 1}},
    ],
    "round_robin": [{}, {"samples_per_dataset": 9}],
    "scheduled": [
        {"points": [{"at": 0, "weights": [1, 0, 1]}, {"at": 3, "weights": [1, 1, 1]}]},
        {
            "points": [{"at": 0, "weights": [1, 0, 1]}, {"at": 5, "weights": [1, 1, 0]}],
            "unit": "step",
            "step_size": 6,
            "shape": "cosine",
        },
    ],
}
SUBSAMPLES: list[Any] = [
    None,
    SubsampleConfig(policy="exhaust"),
    SubsampleConfig(replacement=True),
    [None, SubsampleConfig(effective_size=9), SubsampleConfig(sample_weights=[1, 0, 2, 5, 1])],
    [SubsampleConfig(replacement=True, sample_weights=range(1, 24)), None, None],
]


@pytest.mark.parametrize("subsample", SUBSAMPLES, ids=["plain", "exhaust", "again", "own", "drawn"])
@pytest.mark.parametrize(
    ("name", "options"), [(name, case) for name, cases in STRATEGY_CASES.items() for case in cases]
)
def test_a_strategy(name: str, options: dict[str, Any], subsample: Any) -> None:
    sizes, names = [23, 12, 5], ["a", "b", "c"]
    check_strategy(STRATEGIES[name](sizes, seed=4, subsample=subsample, names=names, **options))


def test_strategies_with_an_empty_source_and_of_evaluation() -> None:
    with pytest.warns(UserWarning, match="source 'dataset_1' has no samples"):
        check_strategy(STRATEGIES["round_robin"]([4, 0, 3]))
    check_strategy(SequentialStrategy([4, 9]))


COLLATE_CASES: dict[str, list[dict[str, Any]]] = {
    "unified": [{}],
    "dynamic": [{}, {"keys": ["audio", "valence"]}],
    "mixup": [{"mode": "mixup", "alpha": 1.0}, {"mode": "cutmix", "alpha": 1.0}, {"p": 0.5}],
}


@pytest.mark.parametrize(
    ("name", "options"), [(name, case) for name, cases in COLLATE_CASES.items() for case in cases]
)
def test_a_collator(name: str, options: dict[str, Any]) -> None:
    bases = [COLLATES["unified"]]
    if name == "mixup":
        bases.append(COLLATES["dynamic"](SCHEMA))
    for base in bases:
        made = {
            "unified": lambda: COLLATES["unified"],
            "dynamic": lambda: COLLATES["dynamic"](SCHEMA, **options),
            "mixup": lambda base=base: COLLATES["mixup"](base, SCHEMA, **options),
        }[name]()
        native = name == "dynamic" or base is not COLLATES["unified"]
        check_collator(made, SCHEMA, native=native, mixes=name == "mixup")


def sampler(rank: int = 0, world: int = 1, **options: Any) -> OmniSampler:
    strategy = STRATEGIES["temperature"](
        [23, 12, 5], seed=2, subsample=SubsampleConfig(policy="exhaust")
    )
    return OmniSampler(strategy, num_replicas=world, rank=rank, **options)


@pytest.mark.parametrize("world", [1, 3])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_batches_of_a_composition(composition: str, drop_last: bool, world: int) -> None:
    for rank in range(world):
        own = sampler(rank, world, drop_last=drop_last)
        more = {"batch_sizes": {"dataset_1": 2}} if composition == "per_source" else {}
        check_batch_sampler(plan_batches(own, 3, drop_last, composition=composition, **more))


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize(
    "options",
    [{}, {"drop_last": True, "shuffle": False}, {"max_tokens": 40, "bucket_multiplier": 2}],
)
def test_batches_of_like_lengths(options: dict[str, Any], world: int) -> None:
    lengths = np.random.default_rng(0).integers(1, 20, 40)
    for rank in range(world):
        own = sampler(rank, world)
        check_batch_sampler(LengthBucketBatchSampler(own, lengths, 4, **options))


def test_batches_of_evaluation_and_of_a_plain_sampler() -> None:
    check_batch_sampler(plan_batches(evaluation_sampler([7, 6], 2, 1), 4))
    plain = LengthBucketBatchSampler(torch.utils.data.SequentialSampler(range(9)), range(9), 2)
    check_batch_sampler(plain, resume=False)
