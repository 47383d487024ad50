"""One pass over samples, here or split over processes or machines."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from torch.utils.data import Dataset

from omniloader.errors import StatsError
from omniloader.schema.spec import DatasetSchema, UnifiedSchema
from omniloader.stats.stream import Block, BlockReader
from omniloader.utils.parts import Workers, compute, slots_of

# More slices than workers: they need not be equally slow, progress moves, and little is lost
# with a worker.
_SLICES_PER_WORKER = 4


class Accumulator(Protocol):
    """What a pass fills: picklable, and a merge in order gives what one pass would have."""

    def add(self, block: Block, /) -> None:
        """Take in n samples."""
        ...

    def merge(self, other: Any, /) -> None:
        """Take in what another one has seen after this one."""
        ...


State = TypeVar("State", bound=Accumulator)


def run_pass(
    samples: Any,
    keys: Sequence[str],
    make: Callable[[], State],
    *,
    schema: DatasetSchema | UnifiedSchema | None = None,
    metadata: Sequence[str] = (),
    numbers: bool = False,
    workers: Workers = 0,
    progress: bool = False,
    description: str = "reading",
) -> State:
    """Feed every sample to an accumulator.

    Args:
        samples: A map-style dataset, an ``OmniLoader``, a ``DataLoader``, or any iterable of
            sample dicts.
        keys: The keys to read.
        make: Makes an empty accumulator; picklable where ``workers`` is not 0.
        schema: Says which keys are sequences, where samples carry no masks.
        metadata: Names of metadata to read.
        numbers: The values are one number a step, as class ids are.
        workers: Processes that read slices of a map-style dataset, or an engine that computes
            them elsewhere; 0 reads here.
        progress: Show a progress bar on standard error.
        description: What the bar is called.

    Returns:
        The filled accumulator.

    Raises:
        StatsError: If ``workers`` is given for something that cannot be split.
    """
    reader = BlockReader(samples, keys, schema, metadata, numbers)
    if isinstance(workers, int) and workers < 0:
        raise StatsError(f"workers must be at least 0, got {workers}")
    with _bar(progress, description, reader.size) as advance:
        if workers:
            return _split(reader, make, workers, advance)
        state = make()
        for block in reader.blocks():
            state.add(block)
            advance(block.size)
        return state


class _Slices(Dataset[Any]):
    """Item i is the accumulator of slice i: a worker sends back figures, not data."""

    def __init__(self, reader: BlockReader, make: Callable[[], Any], cuts: list[int]) -> None:
        self.reader = reader
        self.make = make
        self.cuts = cuts
        self.dataset = reader.samples  # so that seed_worker reaches its handles

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def __getitem__(self, index: int) -> Any:
        state = self.make()
        for block in self.reader.blocks(self.cuts[index], self.cuts[index + 1]):
            state.add(block)
        return state


def _split(
    reader: BlockReader, make: Callable[[], State], workers: Workers, advance: Callable[[int], None]
) -> State:
    size = reader.size
    if size is None:
        raise StatsError(
            f"workers={slots_of(workers)} needs a dataset with len() and [i], got "
            f"{type(reader.samples).__name__}; give the dataset, or a DataLoader with its own "
            "num_workers and workers=0"
        )
    parts = min(slots_of(workers) * _SLICES_PER_WORKER, size)
    cuts = [size * part // max(parts, 1) for part in range(parts + 1)]
    slices = _Slices(reader, make, cuts)
    state = make()
    results = compute(slices, workers)
    for part, (start, stop) in zip(results, itertools.pairwise(cuts), strict=True):
        state.merge(part)
        advance(stop - start)
    return state


@contextlib.contextmanager
def _bar(progress: bool, description: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar over samples, or nothing."""
    if not progress:
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda count: bar.advance(task, count)
