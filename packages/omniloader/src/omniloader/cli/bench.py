"""``bench``: how fast batches come by number of workers, where the time goes, what to set."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import count as numbers_from
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from omniloader.cli.common import AsJson, ConfigPath, command, load
from omniloader.cli.console import show, show_json, table, track
from omniloader.cli.stages import Stage, stage_times
from omniloader.config import OmniConfig, OmniDataLoader
from omniloader.errors import ConfigError

# More workers are worth it while they bring at least this much.
_WORTH = 1.08


@dataclass(frozen=True, kw_only=True)
class Speed:
    """What one setting reached.

    Args:
        workers: Processes that read; 0 is the main process.
        prefetch: Batches each worker makes ahead.
        samples_per_s: Samples a second.
        batches_per_s: Batches a second, after the first one.
        megabytes_per_s: Bytes of tensors a second, in 10⁶.
        first_batch_s: Seconds to the first batch, workers started.
        waiting_share: Share of the time that a loop with the given step waited.
        ceiling: Batches a second when the same workers replay one finished batch.
        worker_megabytes: Peak resident memory of the largest worker; None where unknown.
    """

    workers: int
    prefetch: int | None
    samples_per_s: float
    batches_per_s: float
    megabytes_per_s: float
    first_batch_s: float
    waiting_share: float
    ceiling: float
    worker_megabytes: float | None


class _Replay(Dataset[Any]):
    """Gives one finished batch again and again: what remains is the way out of a worker."""

    def __init__(self, batch: Any, count: int) -> None:
        self._batch = batch
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Any:
        return {
            key: value.clone() if isinstance(value, Tensor) else value
            for key, value in self._batch.items()
        }


def measure(config: OmniConfig, workers: int, batches: int, step: float) -> Speed:
    """Measure one setting.

    Args:
        config: The config; its ``num_workers`` is replaced.
        workers: Processes that read.
        batches: Batches to time, after the first.
        step: Seconds the model takes for a batch.
    """
    loader = config.replace(num_workers=workers).build_dataloader(training=True)
    started = time.perf_counter()
    iterator = _endless(loader)
    batch = next(iterator)
    first = time.perf_counter() - started
    samples, seconds, waited, peak = _timed(iterator, batches, step)
    nbytes = sum(value.nbytes for value in batch.values() if isinstance(value, Tensor))
    ceiling = DataLoader(_Replay(dict(batch), batches + 1), batch_size=None, num_workers=workers)
    return Speed(
        workers=workers,
        prefetch=config.prefetch_factor if workers else None,
        samples_per_s=samples / seconds,
        batches_per_s=batches / seconds,
        megabytes_per_s=nbytes * batches / seconds / 1e6,
        first_batch_s=first,
        waiting_share=waited / seconds,
        ceiling=_rate(ceiling),
        worker_megabytes=peak,
    )


def _timed(
    iterator: Iterator[dict[str, Any]], batches: int, step: float
) -> tuple[int, float, float, float | None]:
    samples, waited = 0, 0.0
    started = asked = time.perf_counter()
    for batch in islice(iterator, batches):
        waited += time.perf_counter() - asked
        samples += len(batch["index"])
        if step:
            time.sleep(step)
        asked = time.perf_counter()
    seconds = max(time.perf_counter() - started, 1e-9)
    return samples, seconds, waited, _peak_megabytes(_child_pids())


def _endless(loader: OmniDataLoader) -> Iterator[dict[str, Any]]:
    """Epoch after epoch, so that a small data set can be timed too."""
    for epoch in numbers_from(0):
        loader.set_epoch(epoch)
        empty = True
        for batch in loader:
            empty = False
            yield batch
        if empty:
            raise ConfigError("bench: the loader gives no batch; lower batch_size or drop_last")


def _rate(loader: Iterable[Any]) -> float:
    iterator = iter(loader)
    next(iterator)
    started = time.perf_counter()
    count = sum(1 for _ in iterator)
    return count / max(time.perf_counter() - started, 1e-9)


def _child_pids() -> list[int]:
    import multiprocessing

    return [child.pid for child in multiprocessing.active_children() if child.pid is not None]


def _peak_megabytes(pids: Iterable[int]) -> float | None:
    """Largest peak of resident memory, from /proc; None where there is none."""
    peaks = []
    for pid in pids:
        status = Path(f"/proc/{pid}/status")
        if not status.is_file():
            continue
        lines = status.read_text().splitlines()
        peaks += [int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM:")]
    return max(peaks, default=None)


def recommend(speeds: list[Speed]) -> str:
    """Which number of workers to set, and why: the fewest that are near the fastest."""
    fastest = max(speeds, key=lambda speed: speed.batches_per_s)
    enough = [speed for speed in speeds if speed.batches_per_s * _WORTH >= fastest.batches_per_s]
    chosen = min(enough, key=lambda speed: speed.workers)
    reason = f"{chosen.batches_per_s:.1f} batches/s"
    if chosen is not fastest:
        gain = fastest.batches_per_s / chosen.batches_per_s - 1
        reason += f"; {fastest.workers} workers bring {gain:.0%} more"
    elif chosen.workers == 0:
        reason += "; workers do not make it faster, as is usual for data in memory"
    return f"num_workers: {chosen.workers}  ({reason})"


@command
def bench_command(
    config: ConfigPath,
    workers: Annotated[str, typer.Option(help="Numbers of workers to try.")] = "0,1,2,4",
    batches: Annotated[int, typer.Option(min=1, help="Batches to time for each.")] = 50,
    prefetch: Annotated[
        str | None, typer.Option(help="Prefetch factors to try; default as the config says.")
    ] = None,
    step_ms: Annotated[
        float, typer.Option(min=0.0, help="Time the model takes for a batch, in milliseconds.")
    ] = 0.0,
    as_json: AsJson = False,
) -> int:
    """Time loading by number of workers, and recommend one."""
    settings = load(config)
    factors = [settings.prefetch_factor] if prefetch is None else _whole("--prefetch", prefetch, 1)
    numbers = _whole("--workers", workers, 0)
    tried = [(count, factor) for count in numbers for factor in (factors if count else factors[:1])]
    speeds = [
        measure(settings.replace(prefetch_factor=factor), count, batches, step_ms / 1000)
        for count, factor in track(tried, total=len(tried), description="bench")
    ]
    stages = stage_times(settings.build_loader(training=True), settings)
    advice = recommend(speeds)
    if as_json:
        show_json(
            {
                "speeds": [asdict(speed) for speed in speeds],
                "stages": [asdict(stage) for stage in stages],
                "recommendation": advice,
            }
        )
    else:
        show(_speed_table(speeds), _stage_table(stages), f"Recommended: {advice}")
    return 0


def _whole(option: str, text: str, least: int) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < least:
        raise ConfigError(
            f"{option} must be whole numbers of at least {least}, such as 1,2,4, got '{text}'"
        )
    return numbers


def _speed_table(speeds: list[Speed]) -> Any:
    made = table(
        "Loading by workers",
        "num_workers",
        "prefetch",
        "batches/s",
        "vs in-process",
        "samples/s",
        "MB/s",
        "waiting",
        "first batch",
        "ceiling",
        "worker peak",
        caption="ceiling: batches/s when the workers replay a finished batch",
    )
    base = next((speed.batches_per_s for speed in speeds if speed.workers == 0), None)
    for speed in speeds:
        peak = speed.worker_megabytes
        made.add_row(
            str(speed.workers),
            "" if speed.prefetch is None else str(speed.prefetch),
            f"{speed.batches_per_s:.2f}",
            "" if base is None else f"{speed.batches_per_s / base:.2f}x",
            f"{speed.samples_per_s:,.0f}",
            f"{speed.megabytes_per_s:,.1f}",
            f"{speed.waiting_share:.0%}",
            f"{speed.first_batch_s:.2f} s",
            f"{speed.ceiling:.1f}",
            "" if peak is None else f"{peak:,.0f} MB",
        )
    return made


def _stage_table(stages: list[Stage]) -> Any:
    made = table("Where the time goes, one process", "source", "stage", "µs a sample", left=2)
    for stage in stages:
        made.add_row(stage.source, stage.name, f"{stage.microseconds:,.1f}")
    return made
