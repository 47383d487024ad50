"""One pass over chosen samples of a source, here, in worker processes or by an engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from omniloader._types import IntArray, MapDataset
from omniloader.introspection.subject import Track
from omniloader.introspection.tally import SourceTally
from omniloader.schema.spec import DatasetSchema
from omniloader.utils.parts import Workers, compute, slots_of

_CHUNK = 64
# With an engine chunks grow with the source: a task costs more than a worker's item.
_CHUNKS_PER_SLOT = 8


class _Chunks(Dataset[SourceTally]):
    """Item i is the tally of chunk i: what a worker sends back is small."""

    def __init__(
        self, dataset: MapDataset, chunks: list[IntArray], options: tuple[Any, ...]
    ) -> None:
        self.dataset = dataset
        self._chunks = chunks
        self._options = options

    def __len__(self) -> int:
        return len(self._chunks)

    def __getitem__(self, index: int) -> SourceTally:
        tally = SourceTally(*self._options)
        for sample in self._chunks[index].tolist():
            tally.add(sample, self.dataset)
        return tally


def tally_source(
    dataset: MapDataset,
    schema: DatasetSchema,
    indices: IntArray,
    *,
    pad_features: bool,
    metadata: Iterable[str],
    num_workers: Workers,
    track: Track,
    description: str,
) -> SourceTally:
    """Count what some samples of a source hold.

    Args:
        dataset: The source.
        schema: What it declares.
        indices: Local indices, int64 ``(n,)``.
        pad_features: As of the loader.
        metadata: Names that are carried besides values.
        num_workers: Processes that read, or an engine; 0 reads here.
        track: Shows progress, in samples rounded to chunks.
        description: What progress calls the source.

    Returns:
        The counts, the same for any number of workers.
    """
    options = (schema, pad_features, tuple(metadata))
    chunk = _CHUNK
    if not isinstance(num_workers, int):
        chunk = max(chunk, -(-len(indices) // (_CHUNKS_PER_SLOT * slots_of(num_workers))))
    cuts = np.arange(chunk, len(indices), chunk)
    chunks = _Chunks(dataset, np.split(indices, cuts) if len(indices) else [], options)
    whole = SourceTally(*options)
    parts = compute(chunks, num_workers)
    for part in track(parts, total=len(chunks), description=description):
        whole.merge(part)
    return whole
