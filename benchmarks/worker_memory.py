"""How much a worker's own memory grows over an epoch of 2 million samples; at most 40 MB.

A worker is a fork: pages that it writes to become its own. A Python object is written to whenever
it is looked at (its reference count), so tables of indices, lengths and weights are arrays.
Run ``python benchmarks/worker_memory.py``; ends with 1 where the limit is passed. Linux only.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
from pathlib import Path
from typing import Any

import numpy as np
import torch

from omniloader import DatasetSchema, DictTensorDataset, OmniConfig, TensorSpec

LIMIT_MB = 40.0
SCHEMA = DatasetSchema(
    [TensorSpec("x", feature_dim=4)], [TensorSpec("label", dtype=torch.int64, placeholder=-1)]
)


def private_mb(pid: int) -> float:
    """Memory that a process shares with no other."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    kilobytes = sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
    return kilobytes / 1024


def mix(samples: int) -> tuple[list[DictTensorDataset], list[DatasetSchema]]:
    """Two sources in memory, three quarters and a quarter of the samples."""
    sizes = (samples * 3 // 4, samples // 4)
    sources = [
        DictTensorDataset({"x": torch.rand(size, 4), "label": torch.arange(size) % 10})
        for size in sizes
    ]
    return sources, [SCHEMA] * 2


def growth(samples: int, workers: int, **options: Any) -> list[tuple[float, float]]:
    """Each worker's own memory after two batches and after the epoch, in MB."""
    config = OmniConfig(
        batch_size=512, num_workers=workers, persistent_workers=True, strategy="temperature"
    ).replace(**options)
    loader = config.build_dataloader(*mix(samples))
    before: list[float] = []
    for number, _ in enumerate(loader):
        if number == 2 * workers:
            pids = [process.pid for process in mp.active_children() if process.pid]
            before = [private_mb(pid) for pid in pids]
    return list(zip(before, [private_mb(pid) for pid in pids], strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2_000_000)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    weights = np.random.default_rng(0).random(options.samples)
    cut = options.samples * 3 // 4
    weighted = [{"sample_weights": part} for part in (weights[:cut], weights[cut:])]
    cases: dict[str, dict[str, Any]] = {
        "plain": {},
        "per_source batches": {"composition": "per_source"},
        "a weight a sample": {"subsample": [{**own, "replacement": True} for own in weighted]},
    }
    worst = 0.0
    for name, extra in cases.items():
        found = growth(options.samples, options.workers, **extra)
        grown = max(after - before for before, after in found)
        worst = max(worst, grown)
        start = max(before for before, _ in found)
        print(
            f"{name}: {start:.0f} MB of its own at the start, grown by {grown:.1f} MB", flush=True
        )
    print(f"at most {LIMIT_MB:.0f} MB: {'reached' if worst < LIMIT_MB else 'MISSED'}")
    return int(worst >= LIMIT_MB)


if __name__ == "__main__":
    raise SystemExit(main())
