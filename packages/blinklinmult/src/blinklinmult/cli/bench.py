"""``bench``: batches a second of a run's training mix, by number of workers."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from blinklinmult.data.datamodule import BlinkDataModule
from blinklinmult.errors import DataModuleError
from blinklinmult.train.config import DataConfig
from omniloader.cli.common import AsJson, command
from omniloader.cli.console import show, show_json, table


@dataclass(frozen=True, kw_only=True)
class Speed:
    """What one number of workers reached.

    Args:
        num_workers: Processes that read; 0 is the main process.
        batches_per_s: Batches a second, after a warm-up.
        vs_in_process: The same as a multiple of what 0 workers reached; None if not measured.
    """

    num_workers: int
    batches_per_s: float
    vs_in_process: float | None


def measure(
    config: DataConfig, config_dir: Path, root: Path, workers: Sequence[int], batches: int = 50
) -> list[Speed]:
    """Time the training loader for each number of workers.

    Args:
        config: The run's data.
        config_dir: Folder with the corpora's declarations.
        root: The run's root.
        workers: Numbers of workers to try, also more than a run would be given.
        batches: Batches to time, after a warm-up of some.
    """
    rates = {count: _rate(config, config_dir, root, count, batches) for count in workers}
    base = rates.get(0)
    return [
        Speed(num_workers=count, batches_per_s=rate, vs_in_process=base and rate / base)
        for count, rate in rates.items()
    ]


def _rate(config: DataConfig, config_dir: Path, root: Path, workers: int, batches: int) -> float:
    module = BlinkDataModule(
        dataclasses.replace(config, num_workers=0), config.resolve_specs(config_dir), root
    )
    # Past worker_count: the table is there to show where more workers stop paying.
    module.config = module.config.replace(num_workers=workers)
    module.setup("fit")
    stream = _endless(module)
    # Every worker has to have started, and filled its queue, before the clock does.
    for _ in islice(stream, 2 + 2 * workers):
        pass
    started = time.perf_counter()
    for _ in islice(stream, batches):
        pass
    return batches / max(time.perf_counter() - started, 1e-9)


def _endless(module: BlinkDataModule) -> Iterator[Any]:
    epoch = 0
    loader = module.train_dataloader()
    if not len(loader):
        raise DataModuleError("bench: the training split does not fill a batch; lower batch_size")
    while True:
        module.set_epoch(epoch)
        yield from loader
        epoch += 1


@command
def bench_command(
    root: Annotated[Path, typer.Option(help="Root of the run.")],
    config: Annotated[Path, typer.Option(help="Data config; corpora are declared beside it.")],
    workers: Annotated[str, typer.Option(help="Numbers of workers to try.")] = "0,2,4",
    batches: Annotated[int, typer.Option(min=1, help="Batches to time for each.")] = 50,
    as_json: AsJson = False,
) -> int:
    """Time loading by number of workers over a run's own mix."""
    settings = DataConfig.from_file(config)
    speeds = measure(settings, config.parent, root, _whole(workers), batches)
    if as_json:
        show_json([asdict(speed) for speed in speeds])
        return 0
    made = table("Training mix by workers", "num_workers", "batches/s", "vs in-process")
    for speed in speeds:
        ratio = "" if speed.vs_in_process is None else f"{speed.vs_in_process:.2f}x"
        made.add_row(str(speed.num_workers), f"{speed.batches_per_s:.2f}", ratio)
    show(made)
    return 0


def _whole(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise DataModuleError(f"--workers must be whole numbers such as 0,2,4, got '{text}'")
    return [int(part) for part in parts]
