"""Run the benchmarks: ``make bench``, or ``make bench WORKLOAD=plan`` for one of them."""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import json
import os
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from harness import Row
from rich.console import Console
from rich.table import Table

MODULES = (
    "memory_mix",
    "ragged_npy",
    "blink_hdf5",
    "plan",
    "statistics_pass",
    "startup",
)


def machine() -> str:
    """What the figures were taken on."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in _cpuinfo()
            if line.startswith(("model name", "Model"))
        ),
        platform.processor() or platform.machine(),
    )
    cores = len(os.sched_getaffinity(0))
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    return f"{model}, {cores} cores, {versions}, numpy {np.__version__}"


def _cpuinfo() -> list[str]:
    file = Path("/proc/cpuinfo")
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def table_of(rows: list[Row]) -> Table:
    """Figures as people read them."""
    table = Table(title="reference against product, medians of interleaved runs")
    for column in ("workload", "reference", "product", "ratio", "target", "of the floor", ""):
        table.add_column(column, justify="left" if column in ("workload", "") else "right")
    for row in rows:
        floor = "" if row.floor is None else f"{row.floor / row.product:.0%}"
        table.add_row(
            row.workload,
            _time(row.reference),
            _time(row.product),
            f"[{'green' if row.reached else 'red'}]{row.ratio:.1f}×",
            "" if row.target is None else f"≥ {row.target:g}×",
            floor,
            row.note,
        )
    return table


def _time(value: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * factor >= 1.0:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def run(names: list[str]) -> Iterator[Row]:
    """The rows of some workloads."""
    for name in names:
        yield from importlib.import_module(name).rows()


def print_rows(rows: Iterable[Row]) -> None:
    """Print the table of one workload."""
    Console(width=150).print(table_of(list(rows)))


def main() -> int:
    """Run, print, write JSON; exit code 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", nargs="*", help="default: all")
    parser.add_argument("-o", "--output", type=Path, default=Path("out/bench.json"))
    parser.add_argument("--plot", type=Path, help="draw the ratios into this SVG (matplotlib)")
    options = parser.parse_args()
    console = Console()
    if not console.is_terminal:
        console = Console(width=150)
    console.print(machine())
    unknown = set(options.workload) - set(MODULES)
    if unknown:
        parser.error(f"unknown workload {', '.join(unknown)}; there are {', '.join(MODULES)}")
    rows = []
    for row in run(options.workload or list(MODULES)):
        console.print(f"{row.workload}: {row.ratio:.1f}×", style="dim")
        rows.append(row)
    console.print(table_of(rows))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "machine": machine(),
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "rows": [row.as_dict() for row in rows],
    }
    options.output.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")
    console.print(f"written: {options.output}")
    if options.plot is not None:
        from plot import draw

        draw(rows, options.plot)
    return 0 if all(row.reached for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
