"""Class histogram of a million labels: against a loop over samples.

    python benchmarks/class_histogram.py [labels] [repeats]

The loop reads a tenth of the samples and is scaled up.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from reference import ReferenceLoader

from omniloader import DatasetSchema, DictTensorDataset, OmniLoader, TensorSpec
from omniloader.sampling.weights import class_histogram, class_weights_for_sampler


def loop(samples: Any, count: int) -> list[int]:
    """The plain way: one sample, one label at a time."""
    counts: Counter[int] = Counter()
    for index in range(count):
        sample = samples[index]
        if bool(sample.get("y_mask", True)):
            counts[int(sample["y"])] += 1
    return [counts[c] for c in range(10)]


def seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main(labels: int = 1_000_000, repeats: int = 5) -> None:
    generator = torch.Generator().manual_seed(0)
    source = DictTensorDataset(
        {
            "x": torch.randn(labels, 4, generator=generator),
            "y": torch.randint(0, 10, (labels,), generator=generator),
        }
    )
    schema = DatasetSchema([TensorSpec("x", feature_dim=4)], [TensorSpec("y", dtype=torch.int64)])
    omni, plain = OmniLoader([source], [schema]), ReferenceLoader([source], [schema])
    part = labels // 10
    assert class_histogram(source, "y").sum() == class_histogram(omni, "y").sum() == labels
    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "from memory": (lambda: class_histogram(source, "y"), lambda: loop(source, part)),
        "through an OmniLoader": (lambda: class_histogram(omni, "y"), lambda: loop(plain, part)),
        "sampler weights": (
            lambda: class_weights_for_sampler(source, "y"), lambda: loop(source, part)
        ),
    }  # fmt: skip
    print(f"{labels:,} labels, median of {repeats}")
    for name, (ours, theirs) in pairs.items():
        runs = [(seconds(ours), 10 * seconds(theirs)) for _ in range(repeats)]
        fast, slow = (median(column) for column in zip(*runs, strict=True))
        ratio = median(b / a for a, b in runs)
        print(f"{name:22} {fast * 1e3:8.1f} ms   loop {slow:6.2f} s   {ratio:6.0f}x")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
