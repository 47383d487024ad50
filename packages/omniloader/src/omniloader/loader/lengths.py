"""Lengths of a sequence in all samples, source by source, here or in parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from omniloader._types import IntArray
from omniloader.loader.reader import SourceReader
from omniloader.utils.parts import Workers, compute, slots_of

_SLICES_PER_WORKER = 4


class _LengthParts:
    """Item i is the lengths of part i, int64."""

    def __init__(self, readers: Sequence[SourceReader], key: str, cuts: list[list[int]]) -> None:
        self.readers = readers
        self._key = key
        self._cuts = cuts

    def __len__(self) -> int:
        return len(self._cuts)

    def __getitem__(self, index: int) -> IntArray:
        number, start, stop = self._cuts[index]
        return self.readers[number].sequence_lengths(self._key, start, stop)

    def reset_for_worker(self) -> None:
        """Drop handles inherited from another process."""
        for reader in self.readers:
            reader.reset_for_worker()


def lengths_of(
    readers: Sequence[SourceReader], sizes: Sequence[int], key: str, workers: Workers
) -> IntArray:
    """Native number of steps of a sequence in every sample, 0 where it is missing.

    Args:
        readers: Of all sources.
        sizes: Samples of each.
        key: The sequence.
        workers: Who reads.

    Returns:
        int64 ``(N,)`` in the order of global indices.
    """
    cuts = list(_cuts(readers, sizes, slots_of(workers) * _SLICES_PER_WORKER))
    parts = compute(_LengthParts(readers, key, cuts), workers)
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _cuts(
    readers: Sequence[SourceReader], sizes: Sequence[int], slices: int
) -> Iterator[list[int]]:
    """Parts as (source, start, stop); a source that reads shapes is asked once, as a whole."""
    share = max(-(-sum(sizes) // max(slices, 1)), 1)
    for number, (reader, size) in enumerate(zip(readers, sizes, strict=True)):
        step = max(size, 1) if reader.reads_shapes or not slices else share
        for start in range(0, size, step):
            yield [number, start, min(start + step, size)]
