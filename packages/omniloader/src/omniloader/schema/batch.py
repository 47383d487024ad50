"""Many unified samples at once: stacked tensors that also read as a list of samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

from torch import Tensor

from omniloader._types import IntArray, Sample
from omniloader.masks import mask_name
from omniloader.schema.spec import UnifiedSchema


@dataclass(frozen=True, eq=False)
class UnifiedBatch(Sequence[Sample]):
    """B unified samples, stacked; ``batch[i]`` is sample i as a dict of views.

    Args:
        schema: The union schema the values follow.
        values: Value and mask names to tensors ``(B, …)``, in the order of the schema.
        metadata: Metadata names to lists of length B.
        origin: ``index dataset_index epoch visit``, each int64 ``(B,)``.
        lengths: None, or in native-length mode each sequence's lengths, int64 ``(B,)``; values
            are then padded to the longest of the batch and ``batch[i]`` is cut to its own.
        seed: Seed of the loader, for randomness at collate.
    """

    schema: UnifiedSchema
    values: dict[str, Tensor]
    metadata: dict[str, list[Any]]
    origin: dict[str, Tensor]
    lengths: dict[str, IntArray] | None = None
    seed: int = 0

    def __len__(self) -> int:
        return int(self.origin["index"].shape[0])

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        """Sample i as a dict of views, or a list of such dicts for a slice."""
        if isinstance(index, slice):
            return [self._row(i) for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"batch holds {len(self)} samples, asked for {index}")
        return self._row(index % len(self))

    def __iter__(self) -> Iterator[Sample]:
        return (self._row(i) for i in range(len(self)))

    def _row(self, i: int) -> Sample:
        row: Sample = {name: tensor[i] for name, tensor in self.values.items()}
        for name, lengths in (self.lengths or {}).items():
            for key in (name, mask_name(name)):
                row[key] = row[key][: int(lengths[i])]
        row.update((name, column[i]) for name, column in self.metadata.items())
        row.update((name, int(column[i])) for name, column in self.origin.items())
        return row

    def with_values(
        self, values: dict[str, Tensor], lengths: dict[str, IntArray] | None = None
    ) -> UnifiedBatch:
        """The same samples with other values; ``lengths`` None keeps the present ones."""
        return replace(self, values=values, lengths=self.lengths if lengths is None else lengths)
