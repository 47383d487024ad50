"""Statistics of 256 million values: against concatenating and ``torch.quantile`` by column.

    python benchmarks/feature_stats.py [millions of values] [repeats]

A stream of samples ``(1000, 128)`` of float32, from a pool a quarter as large. Three things take
turns: one read of all values (the floor), ``compute_stats``, the reference.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import torch

from omniloader.transforms.stats import FeatureStats, compute_stats

STEPS, WIDTH = 1000, 128


def stream(pool: list[torch.Tensor], laps: int) -> Iterator[dict[str, Any]]:
    mask = torch.ones(STEPS, dtype=torch.bool)
    for _ in range(laps):
        for value in pool:
            yield {"x": value, "x_mask": mask}


def read_once(pool: list[torch.Tensor], laps: int) -> float:
    return sum(float(sample["x"].sum()) for sample in stream(pool, laps))


def ours(pool: list[torch.Tensor], laps: int) -> FeatureStats:
    return compute_stats(stream(pool, laps), ["x"])


def reference(pool: list[torch.Tensor], laps: int) -> dict[str, torch.Tensor]:
    values = torch.cat([sample["x"] for sample in stream(pool, laps)])
    shares = torch.tensor([0.25, 0.5, 0.75])
    quartiles = torch.stack([torch.quantile(values[:, c], shares) for c in range(WIDTH)], dim=1)
    std, mean = torch.std_mean(values, dim=0, correction=0)
    low, high = values.amin(0), values.amax(0)
    iqr = quartiles[2] - quartiles[0]
    return {
        "mean": mean, "std": std, "min": low, "max": high, "median": quartiles[1], "iqr": iqr
    }  # fmt: skip


def memory(name: str) -> float:
    """``VmRSS`` or ``VmHWM`` (its peak) of this process, in MB."""
    found = re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) / 1e3 if found else float("nan")


def timed(
    function: Callable[[list[torch.Tensor], int], Any], *args: Any
) -> tuple[float, float, Any]:
    """Seconds, peak memory over what was held before in MB, and the result."""
    Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
    base = memory("VmRSS")
    start = time.perf_counter()
    result = function(*args)
    return time.perf_counter() - start, memory("VmHWM") - base, result


def main(millions: int = 256, repeats: int = 3) -> None:
    laps = 4
    samples = max(1, millions * 1_000_000 // (laps * STEPS * WIDTH))
    generator = torch.Generator().manual_seed(0)
    pool = [torch.randn(STEPS, WIDTH, generator=generator) + 3 for _ in range(samples)]
    values = laps * samples * STEPS * WIDTH
    compute_stats(stream(pool[:1], 1), ["x"])
    runs: dict[str, list[tuple[float, float, Any]]] = {"read": [], "ours": [], "reference": []}
    for _ in range(repeats):
        for name, function in (("read", read_once), ("ours", ours), ("reference", reference)):
            runs[name].append(timed(function, pool, laps))
    seconds = {name: median(run[0] for run in each) for name, each in runs.items()}
    print(f"{values / 1e6:.0f} M values, median of {repeats}")
    for name, each in runs.items():
        ns = seconds[name] / values * 1e9
        print(
            f"{name:10} {seconds[name]:8.2f} s {ns:7.2f} ns/value {each[-1][1]:8.0f} MB over base"
        )
    ratios = [b[0] / a[0] for a, b in zip(runs["ours"], runs["reference"], strict=True)]
    print(f"reference / ours: {median(ratios):.1f} ({', '.join(f'{r:.1f}' for r in ratios)})")
    print(f"ours / one read:  {seconds['ours'] / seconds['read']:.1f}")
    found, expected = runs["ours"][-1][2], runs["reference"][-1][2]
    print("info:", found.info["x"])
    for name, figure in expected.items():
        print(f"largest difference of {name}: {float((found['x'][name] - figure).abs().max()):.2g}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
