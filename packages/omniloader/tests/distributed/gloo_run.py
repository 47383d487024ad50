"""Run by ``test_processes.py`` under torchrun: what every rank draws, or why it refuses.

torchrun … gloo_run.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from omniloader import DatasetSchema, OmniConfig, OmniSampler, TensorSpec
from omniloader.config import build
from omniloader.errors import StateError
from omniloader.sampling.strategies import ProportionalStrategy

GLOBAL_BATCH = 8
SCHEMA = DatasetSchema([TensorSpec("x", feature_dim=2, time_dim=9)])
KINDS: dict[str, dict[str, Any]] = {
    "mixed": {},
    "drop_last": {"drop_last": True},
    "exact_ratio": {"composition": "exact_ratio"},
    "per_source": {"composition": "per_source"},
    "buckets": {
        "bucketing": {"key": "x", "bucket_multiplier": 3},
        "pad_features": False,
        "collate": "dynamic",
    },
}


class Ragged:
    """Sample i has a length and a value that depend on i."""

    def __init__(self, size: int, shift: int) -> None:
        self.size, self.shift = size, shift

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": torch.full((1 + (3 * index + self.shift) % 9, 2), float(index))}


def mix(sizes: tuple[int, ...] = (21, 9)) -> tuple[list[Ragged], list[DatasetSchema]]:
    """Sources whose samples differ in length."""
    sources = [Ragged(size, number) for number, size in enumerate(sizes)]
    return sources, [SCHEMA] * len(sizes)


def config(world: int, **options: Any) -> OmniConfig:
    noise = {"name": "gaussian_noise", "std": 0.5, "p": 1.0}
    return OmniConfig(
        seed=3,
        batch_size=GLOBAL_BATCH // world,
        strategy="temperature",
        transforms=[noise],
        **options,
    )


def rows(batch: dict[str, Any]) -> list[tuple[int, int, float]]:
    """Each sample of a batch: which it is, which visit, and what augmentation made of it."""
    sums = batch["x"].double().sum((1, 2)).tolist()
    return list(zip(batch["index"].tolist(), batch["visit"].tolist(), sums, strict=True))


def drawn(world: int) -> dict[str, Any]:
    """Two epochs of every kind of batches, and an evaluation."""
    found: dict[str, Any] = {}
    for kind, options in KINDS.items():
        loader = config(world, **options).build_dataloader(*mix())
        found[kind] = []
        for epoch in range(2):
            loader.set_epoch(epoch)
            found[kind].append([rows(batch) for batch in loader])
    evaluation = config(world).build_dataloader(*mix(), training=False)
    found["evaluation"] = [rows(batch) for batch in evaluation]
    return found


def resumed(world: int, folder: Path) -> list[Any]:
    """The rest of an epoch of which a world of one has consumed three batches."""
    loader = config(world).build_dataloader(*mix())
    loader.load_state_dict(json.loads((folder / "state.json").read_text()))
    return [rows(batch) for batch in loader]


def refusals(rank: int) -> dict[str, str]:
    """What is said where rank 1 differs."""
    odd = rank == 1
    loaders = {
        "seed": config(2).replace(seed=3 + odd).build_dataloader(*mix()),
        "sizes": config(2).build_dataloader(*mix((21, 10 if odd else 9))),
        "strategy": config(2)
        .replace(strategy_kwargs={"temperature": 3.0 if odd else 2.0})
        .build_dataloader(*mix()),
        "epoch": config(2).build_dataloader(*mix(), epoch=int(odd)),
        "position": config(2).build_dataloader(*mix()),
        "drop_last": config(2, drop_last=odd).build_dataloader(*mix()),
        "buckets": config(2, **KINDS["buckets"]).replace(seed=3 + odd).build_dataloader(*mix()),
        "per_source": config(2, composition="per_source")
        .replace(seed=3 + odd)
        .build_dataloader(*mix()),
        "plain sampler": OmniSampler(ProportionalStrategy([5, 6], seed=int(odd))),
    }
    if odd:
        state = loaders["position"].state_dict()
        loaders["position"].load_state_dict({**state, "position": 16})
    said = {}
    for name, loader in loaders.items():
        try:
            next(iter(loader))
        except StateError as error:
            said[name] = str(error)
    return said


def alone(rank: int) -> int:
    """What one rank does for itself waits for no other: a look ahead, a loader of its own."""
    if rank != 0:
        return 0
    loader = config(2).build_loader(*mix())
    (forecast,) = build.forecasts(config(2), loader, [0])
    own = config(2, rank=0, num_replicas=1).build_dataloader(*mix())
    return len(list(own)) - forecast.batches


def main() -> None:
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    found: dict[str, Any] = {"drawn": drawn(world), "resumed": resumed(world, folder)}
    if world == 2:
        found |= {"refusals": refusals(rank), "alone": alone(rank)}
    (folder / f"{world}-{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
