"""Whatever holds samples, as a stream of columns: the same for statistics and histograms."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader

from omniloader._types import Gather
from omniloader.errors import StatsError
from omniloader.masks import mask_name
from omniloader.schema.batch import UnifiedBatch
from omniloader.schema.spec import DatasetSchema, UnifiedSchema
from omniloader.stats.blocks import Column, Where, make_column
from omniloader.stats.pack import Packer

_MAX_BATCH = 1 << 16
_BATCH_BYTES = 8 << 20  # a batch is grown from one sample until it holds about this much


@dataclass(frozen=True, slots=True)
class Block:
    """Some keys of n samples.

    Args:
        size: n.
        names: All names the samples hold, for messages.
        columns: The keys that were asked for and are there, each for all n samples.
        metadata: Names to columns of length n.
        where: Names a sample.
    """

    size: int
    names: tuple[str, ...]
    columns: Mapping[str, Column]
    metadata: Mapping[str, Any]
    where: Where


class BlockReader:
    """Reads any source of samples block by block.

    Read in the fastest way it offers: ``read_batch`` (whole columns), ``__getitems__`` (an
    ``OmniLoader``), a ``DataLoader``'s batches, else sample by sample.

    Args:
        samples: A map-style dataset, an ``OmniLoader``, a ``DataLoader``, or any iterable of
            sample dicts.
        keys: The keys wanted; their masks come along.
        schema: Says which keys are sequences, where samples carry no masks.
        metadata: Names of metadata wanted.
        numbers: The values are one number a step (class ids), so that an axis no mask and no
            schema explains is time.
    """

    def __init__(
        self,
        samples: Any,
        keys: Sequence[str],
        schema: DatasetSchema | UnifiedSchema | None = None,
        metadata: Sequence[str] = (),
        numbers: bool = False,
    ) -> None:
        self._numbers = numbers
        self.samples = samples
        self.keys = tuple(keys)
        self.metadata = tuple(dict.fromkeys((*metadata, "index", "dataset", "key")))
        self._sequence = {} if schema is None else {s.name: s.is_sequence for s in schema.specs}

    @property
    def size(self) -> int | None:
        """Number of samples of a map-style dataset; None for anything else."""
        if isinstance(self.samples, DataLoader) or not hasattr(self.samples, "__getitem__"):
            return None
        return len(self.samples) if hasattr(self.samples, "__len__") else None

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Block]:
        """The samples in order; a range of them where the dataset is map-style."""
        size = self.size
        if size is None:
            batched = (
                isinstance(self.samples, DataLoader) and self.samples.batch_sampler is not None
            )
            return self._of_items(iter(self.samples), 0, batched)
        stop = size if stop is None else stop
        if hasattr(self.samples, "read_batch"):
            return self._of_columns(start, stop)
        if hasattr(self.samples, "__getitems__"):
            return self._of_batches(start, stop)
        return self._of_items((self.samples[i] for i in range(start, stop)), start, batched=False)

    def _of_columns(self, start: int, stop: int) -> Iterator[Block]:
        step = 1
        while start < stop:
            indices = np.arange(start, min(start + step, stop), dtype=np.int64)
            columns = self.samples.read_batch(indices)
            held = {name: _rows(column, len(indices)) for name, column in columns.items()}
            yield from self._stacked(held, len(indices), start)
            start += len(indices)
            step = _next_step(len(indices), held.values())

    def _of_batches(self, start: int, stop: int) -> Iterator[Block]:
        step = 1
        while start < stop:
            # An array, which an OmniLoader takes as a whole.
            indices = np.arange(start, min(start + step, stop), dtype=np.int64)
            batch = self.samples.__getitems__(indices)
            yield from self._of_item(batch, start)
            start += len(indices)
            values = (
                batch.values.values()
                if isinstance(batch, UnifiedBatch)
                else itertools.chain.from_iterable(sample.values() for sample in batch)
            )
            step = _next_step(len(indices), values)

    def _of_items(self, items: Iterable[Any], start: int, batched: bool) -> Iterator[Block]:
        """Blocks of samples, packed while they look alike, or of batches."""
        packer = Packer([n for key in self.keys for n in (key, mask_name(key))], self.metadata)
        for item in items:
            if isinstance(item, Mapping) and not batched and not _is_batch(item):
                blocks = self._packed(item, packer, start)
            else:
                blocks = itertools.chain(
                    self._unpacked(packer, start), self._of_item(item, start + packer.size)
                )
            for block in blocks:
                start += block.size
                yield block
        yield from self._unpacked(packer, start)

    def _packed(self, sample: Mapping[str, Any], packer: Packer, start: int) -> Iterator[Block]:
        """Put a sample to those collected; the collected first, or the sample, as a block."""
        if packer.push(sample):
            return
        start += packer.size
        yield from self._unpacked(packer, start - packer.size)
        if not packer.push(sample):
            yield self._single(sample, start)

    def _unpacked(self, packer: Packer, start: int) -> Iterator[Block]:
        if packer.size:
            size, names = packer.size, packer.names
            yield from self._stacked(packer.take(), size, start, names)

    def _of_item(self, item: Any, start: int) -> Iterator[Block]:
        """Blocks of a batch of any form: ours, stacked columns, a list of samples."""
        if isinstance(item, UnifiedBatch):
            held = {**item.values, **item.metadata, "index": item.origin["index"]}
            yield from self._stacked(held, len(item), start)
        elif isinstance(item, Mapping):
            yield from self._stacked(item, _batch_size(item), start)
        elif isinstance(item, Sequence) and not isinstance(item, str):
            yield from self._of_items(item, start, batched=False)
        else:
            raise StatsError(
                f"sample {start} must be a dict of named values, got {type(item).__name__}; "
                "give a dataset, an OmniLoader, a DataLoader or an iterable of sample dicts"
            )

    def _single(self, sample: Mapping[str, Any], start: int) -> Block:
        """A block of one sample."""
        metadata = {name: [sample[name]] for name in self.metadata if name in sample}
        where = _namer(start, metadata)
        columns = {}
        for key in self.keys:
            value, mask = sample.get(key), sample.get(mask_name(key))
            if value is not None:
                # An axis of one sample, put before conversion for numbers and lists alike.
                lone = value[None] if isinstance(value, np.ndarray | Tensor) else [value]
                flags = (
                    mask
                    if mask is None
                    else (mask[None] if isinstance(mask, np.ndarray | Tensor) else [mask])
                )
                columns[key] = self._column(key, lone, flags, where)
        return Block(1, tuple(sample), columns, metadata, where)

    def _column(self, key: str, value: Any, mask: Any, where: Where) -> Column:
        is_sequence = self._sequence.get(key)
        if is_sequence is None and self._numbers:
            is_sequence = np.ndim(value) > 1
        return make_column(key, value, mask, where, is_sequence=is_sequence)

    def _stacked(
        self, held: Mapping[str, Any], size: int, start: int, names: tuple[str, ...] = ()
    ) -> Iterator[Block]:
        """A block of whole columns; sample by sample where a key is a list (ragged, or missing)."""
        wanted = [name for key in self.keys for name in (key, mask_name(key)) if name in held]
        if any(not isinstance(held[name], np.ndarray | Tensor) for name in wanted):
            ours = [*wanted, *(name for name in self.metadata if name in held)]
            rows = ({name: held[name][row] for name in ours} for row in range(size))
            for block in self._of_items(rows, start, batched=False):
                yield replace(block, names=names or tuple(held))
            return
        metadata = {name: held[name] for name in self.metadata if name in held}
        where = _namer(start, metadata)
        columns = {
            key: self._column(key, held[key], held.get(mask_name(key)), where)
            for key in self.keys
            if key in held
        }
        yield Block(size, names or tuple(held), columns, metadata, where)


def _rows(column: Any, size: int) -> Any:
    """A column of ``read_batch``, gathered; neighbouring rows of a table are a view."""
    if not isinstance(column, Gather):
        return column
    index = column.index
    first = int(index[0]) if size else 0
    if np.array_equal(index, np.arange(first, first + size)):
        return column.table[first : first + size]
    return column.table[index]


def _is_batch(item: Mapping[str, Any]) -> bool:
    """Whether a mapping of an iterable holds many samples: its metadata are columns then."""
    index = item.get("index")
    if isinstance(index, Tensor) and index.ndim == 1:
        return True
    return isinstance(item.get("dataset"), list | tuple)


def _batch_size(batch: Mapping[str, Any]) -> int:
    sized = [value for value in batch.values() if isinstance(value, Tensor) and value.ndim]
    listed = [value for value in batch.values() if isinstance(value, list)]
    return len((sized or listed or [[]])[0])


def _next_step(size: int, values: Iterable[Any]) -> int:
    """How many samples to read next: four times as many, while they are small."""
    flat = itertools.chain.from_iterable(v if isinstance(v, list) else [v] for v in values)
    held = sum(value.nbytes for value in flat if isinstance(value, np.ndarray | Tensor))
    fitting = size * _BATCH_BYTES // max(held, 1)
    return max(1, min(4 * size, fitting, _MAX_BATCH))


def _namer(start: int, metadata: Mapping[str, Any]) -> Where:
    """Names samples as ``sample 12 of 'faces' (key 'clip_03')``."""

    def where(row: int) -> str:
        index, dataset, key = (
            None if (column := metadata.get(name)) is None else column[row]
            for name in ("index", "dataset", "key")
        )
        text = f"sample {start + row if index is None else int(index)}"
        text += "" if dataset is None else f" of '{dataset}'"
        return text if key is None else f"{text} (key '{key}')"

    return where
