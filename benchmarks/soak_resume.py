"""Stop and resume runs at random places, with random numbers of workers and ranks: no difference.

    python benchmarks/soak_resume.py                    ranks one after another in this process
    python benchmarks/soak_resume.py --processes        ranks as processes (gloo)

A run of three epochs is stopped after a random number of steps and gone on with by another
number of ranks and workers, again and again until it ends. At every step the ranks together must
hold what an uninterrupted run on one rank without workers holds, bit for bit, augmentation
included. Ends with 1 at the first difference, and says how to meet it again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from omniloader import DatasetSchema, DictTensorDataset, OmniConfig, TensorSpec

GLOBAL_BATCH, EPOCHS = 12, 3
WORLDS, WORKERS = (1, 2, 3, 4, 6), (0, 0, 1, 2)
VARIANTS: dict[str, dict[str, Any]] = {
    "mixed": {},
    "drop_last": {"drop_last": True},
    "exhaust": {"subsample": {"policy": "exhaust"}},
    "replacement": {"subsample": {"replacement": True}},
    "exact_ratio": {"composition": "exact_ratio"},
    "per_source": {"composition": "per_source"},
    "buckets": {
        "bucketing": {"key": "x", "bucket_multiplier": 2},
        "pad_features": False,
        "collate": "dynamic",
    },
}
FULL = ("x", "x_mask", "index", "visit", "epoch")

Step = tuple[int, dict[str, torch.Tensor]]  # number of the epoch, and the batch


class Ragged:
    """Sequences whose lengths differ."""

    def __init__(self, size: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.rows = [
            torch.randn(1 + (7 * i + seed) % 6, 3, generator=generator) for i in range(size)
        ]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": self.rows[index]}


def make_loader(variant: str, world: int, workers: int, rank: int | None) -> Any:
    """The loader of one rank; without a rank that of this process in its group."""
    fixed = DictTensorDataset({"x": torch.arange(41 * 18.0).reshape(41, 6, 3)})
    schema = DatasetSchema([TensorSpec("x", feature_dim=3, time_dim=6)])
    config = OmniConfig(
        seed=17,
        batch_size=GLOBAL_BATCH // world,
        num_workers=workers,
        persistent_workers=workers == 2,
        strategy="temperature",
        transforms=[{"name": "gaussian_noise", "std": 0.5, "p": 0.8}],
        rank=rank,
        num_replicas=None if rank is None else world,
        **VARIANTS[variant],
    )
    return config.build_dataloader([fixed, Ragged(23, 1), Ragged(9, 2)], [schema] * 3)


def steps(loader: Any, state: dict[str, Any] | None) -> Iterator[Step]:
    """What a training loop meets from a state on."""
    if state is not None:
        loader.load_state_dict(state)  # at once, also where no step is taken
    return _epochs(loader, 0 if state is None else state["epoch"])


def _epochs(loader: Any, first: int) -> Iterator[Step]:
    for epoch in range(first, EPOCHS):
        loader.set_epoch(epoch)
        for batch in loader:
            yield epoch, {name: batch[name].clone() for name in FULL}


def leg_here(
    variant: str, world: int, workers: int, state: dict[str, Any] | None, count: int, teller: int
) -> tuple[list[list[Step]], dict[str, Any]]:
    """Some steps of every rank, and the state that rank ``teller`` saves after them."""
    loaders = [make_loader(variant, world, workers, rank) for rank in range(world)]
    ranks = [list(itertools.islice(steps(own, state), count)) for own in loaders]
    return ranks, json.loads(json.dumps(loaders[teller].state_dict()))


def leg_in_processes(
    variant: str, world: int, workers: int, state: dict[str, Any] | None, count: int, teller: int
) -> tuple[list[list[Step]], dict[str, Any]]:
    """The same with each rank a process of a gloo group, which compares the ranks as well."""
    with tempfile.TemporaryDirectory() as folder:
        task = (folder, variant, world, workers, state, count)
        mp.start_processes(_process, args=task, nprocs=world, start_method="forkserver")
        ranks = [torch.load(Path(folder, f"{rank}.pt"), weights_only=True) for rank in range(world)]
        saved = Path(folder, f"{teller}.json").read_text(encoding="utf-8")
    return ranks, json.loads(saved)


def _process(
    rank: int,
    folder: str,
    variant: str,
    world: int,
    workers: int,
    state: dict[str, Any] | None,
    count: int,
) -> None:
    torch.set_num_threads(1)
    meet = f"file://{folder}/meet"
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=world)
    loader = make_loader(variant, world, workers, None)
    torch.save(list(itertools.islice(steps(loader, state), count)), Path(folder, f"{rank}.pt"))
    Path(folder, f"{rank}.json").write_text(json.dumps(loader.state_dict()), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def difference(ranks: list[list[Step]], expected: list[Step]) -> str | None:
    """How the ranks together differ from the run on one; None if they do not."""
    counts = {len(own) for own in ranks}
    if counts != {len(expected)}:
        return f"{sorted(counts)} steps, expected {len(expected)}"
    for number, (epoch, whole) in enumerate(expected):
        parts = [own[number] for own in ranks]
        if {other for other, _ in parts} != {epoch}:
            return f"step {number} is not of epoch {epoch}"
        if len({len(batch["index"]) for _, batch in parts}) != 1:
            return f"step {number}: the ranks' batches differ in size"
        for name in FULL:
            problem = _differs(name, [batch[name] for _, batch in parts], whole)
            if problem:
                return f"step {number} of epoch {epoch}: {problem}"
    return None


def _differs(name: str, parts: list[torch.Tensor], whole: dict[str, torch.Tensor]) -> str | None:
    expected = whole[name]
    if expected.ndim > 1:  # dynamic padding: a rank's batch may need fewer steps than all together
        wide = expected.shape[1]
        parts = [_padded(part, wide) for part in parts]
    # Rank r holds rows r, r + world, … of a global batch; one that is not full repeats some.
    found = torch.stack(parts, 1).flatten(0, 1)
    if not 0 <= len(found) - len(expected) < len(parts):
        return f"'{name}' has {len(found)} rows, expected {len(expected)}"
    return None if torch.equal(found[: len(expected)], expected) else f"'{name}' differs"


def _padded(part: torch.Tensor, steps: int) -> torch.Tensor:
    short = max(steps - part.shape[1], 0)
    filled = torch.cat([part, part.new_zeros(len(part), short, *part.shape[2:])], 1)
    return filled[:, :steps]


def soak(resumes: int, seed: int, in_processes: bool) -> int:
    """Run until ``resumes`` states have been gone on from."""
    leg = leg_in_processes if in_processes else leg_here
    worlds = WORLDS[:2] if in_processes else WORLDS
    references = {name: list(steps(make_loader(name, 1, 0, 0), None)) for name in VARIANTS}
    met: Counter[str] = Counter()
    done = run = 0
    started = time.perf_counter()
    while done < resumes:
        rng = random.Random(f"{seed}/{run}")
        variant = rng.choice(list(VARIANTS))
        reference, at, state = references[variant], 0, None
        while at < len(reference):
            world, workers = rng.choice(worlds), rng.choice(WORKERS)
            count = rng.randint(0, max(1, len(reference) * 2 // 3))
            count = min(count, len(reference) - at)
            ranks, state = leg(variant, world, workers, state, count, rng.randrange(world))
            problem = difference(ranks, reference[at : at + count])
            if problem:
                print(
                    f"DIFFERENCE in run {run} of --seed {seed} ({variant}), from step {at} on with "
                    f"{world} ranks and {workers} workers: {problem}"
                )
                return 1
            met[f"{world} ranks"] += 1
            met[f"{workers} workers"] += 1
            done += at > 0 or count == 0
            at += count
        run += 1
    took = time.perf_counter() - started
    print(f"{done} resumes of {run} runs in {took:.0f} s, no difference")
    print(", ".join(f"{what}: {count}" for what, count in sorted(met.items())))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--resumes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", action="store_true", help="ranks as processes (gloo)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    mp.get_context("forkserver").set_forkserver_preload(["torch", "omniloader"])
    return soak(options.resumes, options.seed, options.processes)


if __name__ == "__main__":
    raise SystemExit(main())
