"""Statistics of 256 million values, and a histogram of a million labels.

Values: a stream of samples ``(1000, 128)`` of float32, from a pool a quarter as large. The
reference concatenates them and takes ``torch.quantile`` by column. Labels: the reference loops
over a tenth of the samples and is scaled up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from harness import Row, compare
from reference import ReferenceLoader

from omniloader import (
    DatasetSchema,
    DictTensorDataset,
    OmniLoader,
    TensorSpec,
    class_histogram,
    compute_stats,
)

STEPS, WIDTH, LAPS = 1000, 128, 4
LABELS = 1_000_000


def stream(pool: list[torch.Tensor]) -> Iterator[dict[str, Any]]:
    """The samples of all laps, one by one."""
    mask = torch.ones(STEPS, dtype=torch.bool)
    for _ in range(LAPS):
        for value in pool:
            yield {"x": value, "x_mask": mask}


def read_once(pool: list[torch.Tensor]) -> float:
    """The floor: touch every value."""
    return sum(float(sample["x"].sum()) for sample in stream(pool))


def by_column(pool: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """The reference: all values in memory, quantiles column by column."""
    values = torch.cat([sample["x"] for sample in stream(pool)])
    shares = torch.tensor([0.25, 0.5, 0.75])
    quartiles = torch.stack([torch.quantile(values[:, c], shares) for c in range(WIDTH)], dim=1)
    std, mean = torch.std_mean(values, dim=0, correction=0)
    figures = {"mean": mean, "std": std, "min": values.amin(0), "max": values.amax(0)}
    return {**figures, "median": quartiles[1], "iqr": quartiles[2] - quartiles[0]}


def peak_over_base(work: Callable[[], object]) -> float:
    """MB by which the peak of this process exceeds what it held before."""
    reset = Path("/proc/self/clear_refs")
    if not reset.exists():
        return float("nan")
    reset.write_text("5", encoding="ascii")
    base = _memory("VmRSS")
    work()
    return _memory("VmHWM") - base


def _memory(name: str) -> float:
    text = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(rf"{name}:\s+(\d+)", text)
    return int(found[1]) / 1e3 if found else float("nan")


def statistics_row(millions: int = 256) -> Row:
    """All six figures of a stream of values."""
    generator = torch.Generator().manual_seed(0)
    count = max(1, millions * 1_000_000 // (LAPS * STEPS * WIDTH))
    pool = [torch.randn(STEPS, WIDTH, generator=generator) + 3 for _ in range(count)]
    found, expected = compute_stats(stream(pool), ["x"]), by_column(pool)
    for name in ("mean", "std", "min", "max"):
        assert torch.allclose(found["x"][name].float(), expected[name], rtol=1e-4), name
    for name in ("median", "iqr"):  # a sketch beyond its memory budget: within its rank error
        assert float((found["x"][name] - expected[name]).abs().max()) < 0.05, name
    held = peak_over_base(lambda: compute_stats(stream(pool), ["x"]))
    return compare(
        f"statistics of {millions} M values",
        lambda: by_column(pool),
        lambda: compute_stats(stream(pool), ["x"]),
        target=20.0,
        floor=lambda: read_once(pool),
        repeats=2,
        note=f"{held:.0f} MB over the base (under 300)",
    )


def loop(samples: Any, count: int) -> list[int]:
    """The plain way: one sample, one label at a time."""
    counts: Counter[int] = Counter()
    for index in range(count):
        sample = samples[index]
        if bool(sample.get("y_mask", True)):
            counts[int(sample["y"])] += 1
    return [counts[c] for c in range(10)]


def histogram_rows() -> Iterator[Row]:
    """Counting a million labels from memory, and through a loader."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(LABELS, 4, generator=generator)
    labels = torch.randint(0, 10, (LABELS,), generator=generator)
    source = DictTensorDataset({"x": features, "y": labels})
    schema = DatasetSchema([TensorSpec("x", feature_dim=4)], [TensorSpec("y", dtype=torch.int64)])
    omni, plain = OmniLoader([source], [schema]), ReferenceLoader([source], [schema])
    part = LABELS // 10
    for name, ours, theirs, target in (
        ("from memory", source, source, 300.0),
        ("through an OmniLoader", omni, plain, 50.0),
    ):
        assert class_histogram(ours, "y").tolist() == torch.bincount(labels).tolist()
        yield compare(
            f"histogram of 1 M labels, {name}",
            lambda theirs=theirs: loop(theirs, part),
            lambda ours=ours: class_histogram(ours, "y"),
            target=target,
            scale=LABELS / part,
            repeats=3,
        )


def rows() -> Iterator[Row]:
    """All rows of this workload."""
    yield from histogram_rows()
    yield statistics_row()
