"""Reads one source for the loader: fetch, say whose fault a failure is, unify, fill metadata."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from omniloader._types import Column, Gather, IntArray, Sample
from omniloader.data.source import Source
from omniloader.errors import OmniError, SampleError
from omniloader.loader.faults import FaultLog
from omniloader.loader.reuse import changed, copied, share_memory, witness
from omniloader.masks import mask_name
from omniloader.schema.assemble import SourceRows
from omniloader.schema.spec import METADATA_KEYS, UnifiedSchema
from omniloader.schema.unify import SampleUnifier

# What a source may raise for one sample without the whole run being wrong.
# RuntimeError is what most decoders raise.
_FAULTS = (
    *(OmniError, LookupError, StopIteration, ValueError),
    *(OSError, EOFError, RuntimeError, ArithmeticError),
)
# What keeps its class, with a note of where, when bad samples are not masked.
_KEPT = (OmniError, OSError, RuntimeError, ArithmeticError)


class SourceReader:
    """One source of the mix, seen from the loader.

    Args:
        number: Number of the source.
        source: Its name, dataset and schema.
        schema: The union schema.
        pad_features: See :class:`~omniloader.loader.OmniLoader`.
        metadata: Names of more metadata to carry.
        faults: Decides about bad values.
    """

    def __init__(
        self,
        number: int,
        source: Source,
        schema: UnifiedSchema,
        pad_features: bool,
        metadata: Sequence[str],
        faults: FaultLog,
    ) -> None:
        self._number = number
        self._source = source
        self._faults = faults
        self._metadata = (*METADATA_KEYS, *metadata)
        self._unify = SampleUnifier(schema, pad_features, declared=source.schema)
        self._declared = {spec.name: spec for spec in source.schema.specs}
        names = (*self._declared, *map(mask_name, self._declared), *self._metadata)
        self._names: tuple[str, ...] = tuple(dict.fromkeys(names))
        self._takes_keys = _takes_keys(source.dataset)
        self._reuses_memory = False

    # -- one sample ------------------------------------------------------------------------

    def read(self, local: int, epoch: int) -> Sample:
        """Read and unify one sample, metadata included."""
        self._advance(epoch)
        raw = self._fetch(local)

        def refuse(name: str, problem: str) -> None:
            self._faults.refuse(self._number, f"{self._where(local, raw)}, '{name}': {problem}")

        unified = self._unify(raw, refuse)
        for name in self._metadata:
            unified[name] = self._metadatum(name, raw.get(name), local)
        return unified

    def _fetch(self, local: int) -> Mapping[str, Any]:
        """One raw sample; empty when it cannot be read and bad samples are masked."""
        try:
            raw = self._source.dataset[local]
        except _FAULTS as error:
            return self._unreadable(local, error)
        except Exception as error:
            error.add_note(f"while reading {self._where(local)}")
            raise
        if not isinstance(raw, Mapping):
            problem = f"must be a dict of named values, got {type(raw).__name__}"
            self._faults.refuse(self._number, f"{self._where(local)}: {problem}; wrap it in one")
            return {}
        return raw

    def _unreadable(self, local: int, error: Exception) -> Mapping[str, Any]:
        text = (
            f"{self._where(local)}: must be readable, the dataset raised "
            f"{type(error).__name__}: {error}"
        )
        keeps_its_class = isinstance(error, _KEPT) and not self._faults.masks
        if keeps_its_class and not isinstance(error, SampleError):
            error.add_note(f"while reading {self._where(local)}")
            raise error
        self._faults.refuse(self._number, text, error)
        return {}

    def _where(self, local: int, raw: Mapping[str, Any] | None = None) -> str:
        key = self._metadatum("key", (raw or {}).get("key"), local)
        return f"source '{self._source.name}', sample {local} (key '{key}')"

    def _metadatum(self, name: str, given: Any, local: int) -> Any:
        """What the sample says, else what its source says for all of its samples."""
        if given is not None:
            return _plain(given)
        if name == "dataset":
            return self._source.name
        if name == "subset":
            return getattr(self._source.dataset, "subset", None)
        if name == "key":
            ids = getattr(self._source.dataset, "sample_ids", None)
            return str(local) if ids is None else ids[local]
        return None

    # -- many samples ----------------------------------------------------------------------

    def read_rows(
        self, rows: IntArray, locals_: IntArray, epoch: int, metadata: dict[str, list[Any]]
    ) -> SourceRows:
        """Read the samples that stand at ``rows`` of a batch, and fill their metadata in."""
        self._advance(epoch)
        columns = self._read_columns(locals_)
        numbers = locals_.tolist()
        for name in self._metadata:
            self._fill_metadata(metadata[name], name, columns.get(name), rows.tolist(), numbers)

        def refuse(i: int, name: str, problem: str) -> None:
            where = self._where(numbers[i], {"key": metadata["key"][int(rows[i])]})
            self._faults.refuse(self._number, f"{where}, '{name}': {problem}")

        return SourceRows(rows, columns, self._declared, refuse)

    def _fill_metadata(
        self, out: list[Any], name: str, column: Column | None, rows: list[int], locals_: list[int]
    ) -> None:
        if column is not None:
            own = _as_list(column)
            items = [self._metadatum(name, *pair) for pair in zip(own, locals_, strict=True)]
        elif name == "key":
            ids = getattr(self._source.dataset, "sample_ids", None)
            items = list(map(str, locals_)) if ids is None else [ids[local] for local in locals_]
        else:
            items = [self._metadatum(name, None, 0)] * len(rows)
        first = rows[0]
        if rows[-1] - first + 1 == len(rows):  # ascending, so neighbours
            out[first : first + len(rows)] = items
            return
        for row, item in zip(rows, items, strict=True):
            out[row] = item

    def _read_columns(self, locals_: IntArray) -> Mapping[str, Column]:
        read_batch = getattr(self._source.dataset, "read_batch", None)
        if callable(read_batch):
            try:
                columns = (
                    read_batch(locals_, keys=self._names)
                    if self._takes_keys
                    else read_batch(locals_)
                )
            except _FAULTS:
                pass  # sample by sample, to name the one that cannot be read
            else:
                self._check_columns(columns, len(locals_))
                return columns  # type: ignore[no-any-return]
        return self._transposed(self._fetch_all(locals_.tolist()))

    def _fetch_all(self, locals_: list[int]) -> list[Mapping[str, Any]]:
        """Raw samples of a batch, none of them written over by a later one."""
        watched = None if self._reuses_memory else witness(locals_)
        samples: list[Mapping[str, Any]] = []
        before: Mapping[str, Any] = {}
        for i, local in enumerate(locals_):
            sample = self._fetch(local)
            samples.append(copied(sample, self._names) if self._reuses_memory else sample)
            if i == watched:
                before = copied(sample, self._names)
        if watched is not None:
            held = samples[watched]
            if changed(held, before) or share_memory(held, samples[-1], self._names):
                self._reuses_memory = True
                return self._fetch_all(locals_)
        return samples

    def _transposed(self, samples: Sequence[Mapping[str, Any]]) -> dict[str, Column]:
        columns = {name: [sample.get(name) for sample in samples] for name in self._names}
        return {
            name: column for name, column in columns.items() if any(v is not None for v in column)
        }

    def _check_columns(self, columns: Mapping[str, Column], count: int) -> None:
        if not isinstance(columns, Mapping):
            raise SampleError(
                f"source '{self._source.name}': read_batch must return a dict of columns, got "
                f"{type(columns).__name__}; mend the dataset's read_batch"
            )
        for name, column in columns.items():
            found = _rows(column)
            if found != count:
                raise SampleError(
                    f"source '{self._source.name}', '{name}': read_batch must return one row an "
                    f"index, got {_described(column, found)} for {count} indices; mend the "
                    "dataset's read_batch"
                )

    # -- the rest --------------------------------------------------------------------------

    @property
    def reads_shapes(self) -> bool:
        """Whether the source gives lengths without reading samples."""
        return callable(getattr(self._source.dataset, "sequence_lengths", None))

    def sequence_lengths(self, key: str, start: int = 0, stop: int | None = None) -> IntArray:
        """Native lengths of a sequence in a range of samples, 0 where this source lacks it."""
        dataset = self._source.dataset
        stop = len(dataset) if stop is None else stop
        if key not in self._declared:
            return np.zeros(stop - start, dtype=np.int64)
        if self.reads_shapes:
            lengths = np.asarray(dataset.sequence_lengths(key), dtype=np.int64)  # type: ignore[attr-defined]
            if lengths.shape != (len(dataset),):
                raise SampleError(
                    f"source '{self._source.name}', '{key}': sequence_lengths must give one length "
                    f"for each of {len(dataset)} samples, got shape {lengths.shape}; mend the "
                    "dataset's sequence_lengths"
                )
            return lengths[start:stop]
        read = (_length(self._fetch(local).get(key)) for local in range(start, stop))
        return np.fromiter(read, dtype=np.int64, count=stop - start)

    def reset_for_worker(self) -> None:
        """Have the dataset drop handles inherited from another process."""
        reset = getattr(self._source.dataset, "reset_for_worker", None)
        if callable(reset):
            reset()

    def _advance(self, epoch: int) -> None:
        """Tell the dataset the epoch of what is read next, in the process that reads it."""
        # Each time: another source or loader may share the dataset and read another epoch.
        set_epoch = getattr(self._source.dataset, "set_epoch", None)
        if callable(set_epoch):
            set_epoch(epoch)


def _takes_keys(dataset: object) -> bool:
    """Whether the dataset can be told what to read."""
    read_batch = getattr(dataset, "read_batch", None)
    if not callable(read_batch):
        return False
    try:
        return "keys" in inspect.signature(read_batch).parameters
    except (TypeError, ValueError):
        return False  # a callable whose parameters Python cannot see, such as a compiled one


def _rows(column: Any) -> int | None:
    """Number of rows of a column; None where it is none."""
    if isinstance(column, Gather):
        return len(column.index)
    if isinstance(column, torch.Tensor | np.ndarray):
        return column.shape[0] if column.ndim else None
    counts = hasattr(column, "__len__") and not isinstance(column, str | bytes | Mapping)
    return len(column) if counts else None


def _described(column: Any, found: int | None) -> str:
    return f"one {type(column).__name__}" if found is None else f"{found} rows"


def _as_list(column: Column) -> Sequence[Any]:
    if isinstance(column, Gather):
        return column.table[torch.from_numpy(column.index)].tolist()
    return column.tolist() if isinstance(column, torch.Tensor) else column


def _plain(item: Any) -> Any:
    """A metadatum as a Python value: one number out of a tensor or array, bytes as text."""
    if isinstance(item, torch.Tensor | np.ndarray | np.generic):
        return item.tolist()
    return item.decode() if isinstance(item, bytes) else item


def _length(value: Any) -> int:
    return 0 if value is None else len(value)
