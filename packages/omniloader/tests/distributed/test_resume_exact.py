"""The rest of a stopped run is that of an uninterrupted one, bit for bit, augmentation included."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from mixes import assert_same_batch, batches

from omniloader import DatasetSchema, DictTensorDataset, OmniConfig, TensorSpec
from omniloader.config.dataloader import OmniDataLoader
from omniloader.errors import StateError

FACES = DatasetSchema(
    [TensorSpec("x", feature_dim=3, time_dim=4)], [TensorSpec("y", dtype=torch.int64)]
)
SPEECH = DatasetSchema([TensorSpec("x", feature_dim=3, time_dim=4)], [TensorSpec("z")])
VARIANTS: dict[str, dict[str, Any]] = {
    "mixed": {},
    "mixup": {"collate": "mixup", "collate_kwargs": {"alpha": 0.4}},
    "exact_ratio": {"composition": "exact_ratio", "drop_last": True},
    "per_source": {"composition": "per_source", "batch_sizes": {"dataset_0": 3}},
    "buckets": {
        "bucketing": {"key": "x", "max_tokens": 20, "bucket_multiplier": 2},
        "pad_features": False,
        "collate": "dynamic",
    },
    "exhaust": {"subsample": {"policy": "exhaust", "effective_size": 20}},
}
WORKERS = [(0, False), (1, False), (2, False), (2, True)]


def loader(workers: int = 0, persistent: bool = False, **options: Any) -> OmniDataLoader:
    generator = torch.Generator().manual_seed(1)
    faces = DictTensorDataset(
        {
            "x": torch.randn(26, 4, 3, generator=generator),
            "x_mask": torch.ones(26, 4, dtype=torch.bool),
            "y": torch.arange(26),
        }
    )
    speech = DictTensorDataset(
        {"x": torch.randn(11, 4, 3, generator=generator), "z": torch.rand(11, generator=generator)}
    )
    transforms = [
        {"name": "gaussian_noise", "std": 0.5, "p": 0.7},
        {"name": "feature_dropout", "p": 0.2},
    ]
    settings: dict[str, Any] = {
        "seed": 11,
        "batch_size": 5,
        "strategy": "temperature",
        "transforms": transforms,
        "num_workers": workers,
        "persistent_workers": persistent,
        **options,
    }
    return OmniConfig(**settings).build_dataloader([faces, speech], [FACES, SPEECH])


def run(made: OmniDataLoader, first: int, epochs: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Batches of some epochs as a training loop meets them."""
    for epoch in range(first, epochs):
        made.set_epoch(epoch)
        for batch in made:
            yield epoch, batch


def whole_run(variant: str) -> list[tuple[int, dict[str, Any]]]:
    options = VARIANTS[variant]
    return list(zip_kept(run(loader(**options), 0, 2)))


def zip_kept(found: Iterator[tuple[int, dict[str, Any]]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The same with batches that own their memory."""
    for epoch, batch in found:
        yield epoch, batches([batch])[0]


@pytest.fixture(scope="module")
def whole() -> dict[str, list[tuple[int, dict[str, Any]]]]:
    return {variant: whole_run(variant) for variant in VARIANTS}


def stop_and_go(variant: str, stops: list[int], kinds: list[tuple[int, bool]]) -> list[Any]:
    """Two epochs in several processes' worth of loaders, stopped after some batches each."""
    found: list[Any] = []
    state = None
    for stop, (workers, persistent) in zip([*stops, None], kinds, strict=True):
        made = loader(workers, persistent, **VARIANTS[variant])
        first = 0
        if state is not None:
            made.load_state_dict(json.loads(state))
            first = json.loads(state)["epoch"]
        part = run(made, first, 2)
        found += zip_kept(itertools.islice(part, stop))
        state = json.dumps(made.state_dict())
        del part
    return found


def assert_same_run(found: list[Any], expected: list[Any]) -> None:
    assert [epoch for epoch, _ in found] == [epoch for epoch, _ in expected]
    for (_, mine), (_, theirs) in zip(found, expected, strict=True):
        assert_same_batch(mine, theirs)


@pytest.mark.parametrize("variant", VARIANTS)
def test_any_batch_is_a_place_to_stop(whole: dict[str, Any], variant: str) -> None:
    expected = whole[variant]
    # The last of the first epoch, and of the run, are among them.
    for stop in range(len(expected) + 1):
        found = stop_and_go(variant, [stop], [(0, False)] * 2)
        assert_same_run(found, expected)


@pytest.mark.parametrize("kind", WORKERS[1:], ids=str)
@pytest.mark.parametrize("variant", ["mixup", "buckets", "per_source"])
def test_workers_change_nothing(
    whole: dict[str, Any], variant: str, kind: tuple[int, bool]
) -> None:
    expected = whole[variant]
    epoch_end = sum(epoch == 0 for epoch, _ in expected)
    for stop in (0, 3, epoch_end):
        assert_same_run(stop_and_go(variant, [stop], [kind, kind]), expected)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_second_stop_in_one_epoch_and_another_number_of_workers(
    whole: dict[str, Any], variant: str
) -> None:
    found = stop_and_go(variant, [2, 2], [(0, False), (2, True), (1, False)])
    assert_same_run(found, whole[variant])


def test_a_stop_before_anything_was_consumed_again(whole: dict[str, Any]) -> None:
    found = stop_and_go("mixed", [3, 0, 0, 1], [(0, False)] * 5)
    assert_same_run(found, whole["mixed"])


@pytest.mark.parametrize("variant", ["mixed", "exact_ratio"])
def test_another_world_and_batch_with_the_same_global_batch(
    whole: dict[str, Any], variant: str
) -> None:
    options = {**VARIANTS[variant], "batch_size": 6}
    alone = list(loader(**options))
    for stop in range(len(alone)):
        made = loader(**options)
        list(itertools.islice(made, stop))
        state = json.loads(json.dumps(made.state_dict()))
        ranks = []
        for rank in range(3):
            own = loader(**{**options, "batch_size": 2, "rank": rank, "num_replicas": 3})
            own.load_state_dict(state)
            ranks.append(list(own))
        for parts, expected in zip(zip(*ranks, strict=True), alone[stop:], strict=True):
            # Rank r holds rows r, r + 3, … of the global batch.
            mine = torch.stack([part["x"] for part in parts], 1).flatten(0, 1)
            shorter = min(len(mine), len(expected["x"]))
            assert torch.equal(mine[:shorter], expected["x"][:shorter])
            assert len(mine) - len(expected["x"]) in (0, 1, 2)


def test_an_epoch_after_a_resumed_one_is_whole() -> None:
    made = loader()
    list(itertools.islice(made, 4))
    resumed = loader()
    resumed.load_state_dict(made.state_dict())
    assert len(list(resumed)) == len(loader()) - 4
    resumed.set_epoch(1)
    assert len(list(resumed)) == len(resumed)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"version": 99}, "of plan version 99, this is version"),
        ({"seed": 12}, "saved with seed 12, this strategy has seed 11"),
        ({"position": -1}, "position must be a whole number of at least 0, got -1"),
        ({"position": 10**9}, "position must be at most 37"),
        ({"epoch": "0"}, "epoch must be a whole number of at least 0, got '0'"),
        ({"cursors": [1]}, "cursors must be a mapping, got list"),
    ],
)
def test_a_state_that_cannot_be_right_is_refused(change: dict[str, Any], text: str) -> None:
    made = loader()
    with pytest.raises(StateError, match=text):
        made.load_state_dict({**made.state_dict(), **change})


def test_a_truncated_state_is_refused() -> None:
    made = loader()
    state = made.state_dict()
    for key in ("version", "epoch", "position", "seed", "fingerprint", "mix", "cursors"):
        with pytest.raises(StateError, match=f"sampler state lacks {key}; it is truncated"):
            made.load_state_dict({k: v for k, v in state.items() if k != key})
    with pytest.raises(StateError, match="must be a mapping, got str"):
        made.load_state_dict(json.dumps(state)[:40])  # type: ignore[arg-type]


# -- torchdata ---------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("variant", ["mixup", "buckets"])
def test_stateful_dataloader_goes_on_with_the_same_batches(
    whole: dict[str, Any], variant: str, workers: int
) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def made() -> Any:
        ours = loader(**VARIANTS[variant])
        return stateful.StatefulDataLoader(
            ours.dataset,
            batch_sampler=ours.index_batches(),
            collate_fn=ours.collate_fn,
            worker_init_fn=ours.worker_init_fn,
            num_workers=workers,
        )

    expected = [batch for epoch, batch in whole[variant] if epoch == 0]
    for stop in (0, 3, len(expected) - 1):
        stopped = made()
        found = batches(itertools.islice(stopped, stop))
        resumed = made()
        resumed.load_state_dict(json.loads(json.dumps(stopped.state_dict())))
        found += batches(resumed)
        assert len(found) == len(expected)
        for mine, theirs in zip(found, expected, strict=True):
            assert_same_batch(mine, theirs)
