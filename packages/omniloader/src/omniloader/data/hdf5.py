"""Samples in an HDF5 file, one group a sample."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from omniloader._types import Column, Gather, IntArray, PathLike, Sample
from omniloader.data._fast import fast_paths
from omniloader.data._hdf5_fast import FastReader
from omniloader.data._hdf5_file import GroupHandle
from omniloader.data._hdf5_read import array_names, open_sample, read_sample, steps_of
from omniloader.data._names import CompactNames
from omniloader.data._options import checked_count, checked_keys, checked_subset, names_to_read
from omniloader.data._preload import PreloadedColumn, preload_columns
from omniloader.data._values import (
    Stored,
    as_column,
    checked_index,
    checked_indices,
    handed_out,
    wanted,
)
from omniloader.errors import MissingGroupError

_log = logging.getLogger(__name__)


class HDF5Dataset(Dataset[Sample]):
    """Samples of ``/<subset>/<sample>/<key>``, in order of their names.

    Values become tensors of the stored dtype, in the machine's byte order; uint16 becomes int32,
    uint32 and uint64 int64. Texts become ``str``, arrays of texts lists. Compound, reference,
    opaque and other types are refused by name. HDF5's null counts as a key that is not there.

    The file is opened when a process first reads from it, so a dataset may be used before and
    after ``fork``, ``spawn`` and pickling, with or without ``seed_worker``.

    Args:
        h5_path: The file.
        subset: Group with one sub-group a sample, such as ``"train"``.
        keys: Values to read; None reads all of them. A sample need not have every key.
        cache_size: Number of decoded samples each process keeps, the least recently used going
            first.
        preload: Decode all samples now. The fastest to read; keeps the subset in memory, which
            forked workers share.
        name: Name of the source, the fallback of the metadata ``dataset``.
        threads: Number of threads of each process that inflate values for ``read_batch``; 0 and 1
            are the calling one.

    ``read_batch`` notes where values lie, and from then on reads packed and plain arrays past
    HDF5, with the same result. The notes are kept in ``$OMNILOADER_CACHE``, else in
    ``~/.cache/omniloader``, and made again when the file changes; ``OMNILOADER_FAST=0`` in the
    environment turns this off.

    Raises:
        SourceError: If the file is missing, unreadable or not HDF5. An ``OSError``.
        MissingGroupError: If it lacks the subset, or no sample has one of ``keys``. A
            ``KeyError``.
        ConfigError: If an option is not what it must be. A ``ValueError``.
    """

    def __init__(
        self,
        h5_path: PathLike,
        subset: str,
        keys: Sequence[str] | None = None,
        cache_size: int = 0,
        preload: bool = False,
        name: str | None = None,
        threads: int = 0,
    ) -> None:
        self.h5_path = Path(h5_path).absolute()
        self.subset = checked_subset(subset, "group")
        self.keys = checked_keys(keys)
        self.cache_size = checked_count(cache_size, "cache_size")
        self.name = name
        self.threads = checked_count(threads, "threads")
        self._fast: FastReader | None = None
        self._handle = GroupHandle(self.h5_path, self.subset)
        self._cache: OrderedDict[int, dict[str, Stored]] = OrderedDict()
        self._lengths: dict[str, IntArray] = {}
        self._columns: dict[str, PreloadedColumn] | None = None
        try:
            # Sorted by name: HDF5's own order depends on how the file was written.
            self.sample_ids = CompactNames(
                raw.decode("utf-8", "surrogateescape") for raw in sorted(self._handle.group())
            )
            self._check_keys_occur()
            if fast_paths() and not preload and not self.cache_size:
                self._fast = FastReader(self._handle, self.sample_ids, self.threads)
            if preload:
                self._columns = preload_columns(
                    (self._read(at, self.keys) for at in range(len(self))), len(self)
                )
        finally:
            # Nothing stays open that a worker could inherit.
            self._handle.close()

    def __len__(self) -> int:
        return len(self.sample_ids)

    def __getitem__(self, index: int) -> Sample:
        """The sample at a position; nothing in it is shared with a cache.

        Raises:
            IndexError: If there is no such sample.
            SourceError: If the file cannot be read.
            SampleError: If a value cannot be held by a tensor or text.
        """
        at = checked_index(index, len(self), self._handle.label)
        return {key: handed_out(value, self._shares) for key, value in self._stored(at).items()}

    def read_batch(
        self, indices: IntArray | Sequence[int], keys: Collection[str] | None = None
    ) -> dict[str, Column]:
        """Columns of many samples: stacked where all have one shape and dtype, else lists.

        Args:
            indices: Positions, shape ``(n,)``.
            keys: What to read; None is everything, a name that is not there is left out.
        """
        at = checked_indices(indices, len(self), self._handle.label)
        if self._columns is not None:
            return {key: _take(column, at) for key, column in wanted(self._columns, keys)}
        names = names_to_read(keys, self.keys)
        if self._fast is not None and names and len(at):
            try:
                return self._fast.read(names, at, partial(self._read, arrays_only=keys is not None))
            except (OSError, ValueError, LookupError, RuntimeError) as error:
                # HDF5 decides what is wrong, if anything is.
                _log.debug("%s is read by HDF5 (%s)", self._handle.label, error)
        if self.cache_size:
            samples = [dict(wanted(self._stored(int(i)), names)) for i in at]
        else:
            samples = [self._read(int(i), names, keys is not None) for i in at]
        found = dict.fromkeys(key for sample in samples for key in sample)
        return {key: as_column([s.get(key) for s in samples], self._shares) for key in found}

    def sequence_lengths(self, key: str) -> IntArray:
        """Number of steps of every sample, int64 ``(N,)``, from shapes; 0 where the key is missing.

        Raises:
            SampleError: If a value has no time axis.
        """
        if key not in self._lengths:
            self._lengths[key] = self._read_lengths(key)
        return self._lengths[key].copy()

    def reset_for_worker(self) -> None:
        """Drop the handle and cache that this process inherited; the next read opens its own."""
        self.close()
        self._cache.clear()

    def close(self) -> None:
        """Release the file; the next read opens it again."""
        self._handle.close()
        if self._fast is not None:
            self._fast.close()

    def __enter__(self) -> HDF5Dataset:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the handle and the cache; preloaded samples travel along."""
        return {**self.__dict__, "_cache": OrderedDict()}

    def __repr__(self) -> str:
        return f"HDF5Dataset('{self.h5_path}', subset='{self.subset}', samples={len(self)})"

    @property
    def _shares(self) -> bool:
        return self.cache_size > 0 or self._columns is not None

    def _where(self, at: int) -> str:
        return f"'{self.h5_path}' sample '{self.subset}/{self.sample_ids[at]}'"

    def _stored(self, at: int) -> dict[str, Stored]:
        """The decoded sample, from memory where it is there."""
        if self._columns is not None:
            return _row(self._columns, at)
        if self.cache_size == 0:
            return self._read(at, self.keys)
        # Single operations only: threads may share the dataset, and a lock would not survive fork.
        sample = self._cache.pop(at, None)
        if sample is None:
            sample = self._read(at, self.keys)
        self._cache[at] = sample
        if len(self._cache) > self.cache_size:
            self._cache.popitem(last=False)
        return sample

    def _read(
        self, at: int, names: Sequence[str] | None, arrays_only: bool = False
    ) -> dict[str, Stored]:
        where = self._where(at)
        group = open_sample(self._handle.group(), self.sample_ids[at], where)
        return read_sample(group, names, where, arrays_only)

    def _read_lengths(self, key: str) -> IntArray:
        if self.keys is not None and key not in self.keys:
            return np.zeros(len(self), dtype=np.int64)
        parent, raw_key = self._handle.group(), key.encode()
        steps = (
            steps_of(open_sample(parent, sample_id, self._where(at)), raw_key, self._where(at))
            for at, sample_id in enumerate(self.sample_ids)
        )
        return np.fromiter(steps, dtype=np.int64, count=len(self))

    def _check_keys_occur(self) -> None:
        """Look through the samples until every requested key has been met; mostly that is one."""
        wanted = set(self.keys or ())
        known: set[str] = set()
        parent = self._handle.group()
        for at, sample_id in enumerate(self.sample_ids):
            if at > 0 and not wanted:
                return
            names = array_names(open_sample(parent, sample_id, self._where(at)), self._where(at))
            known.update(names)
            wanted.difference_update(names)
        if wanted and len(self):
            raise MissingGroupError(
                f"{self._handle.label}: no sample has "
                f"{', '.join(repr(key) for key in sorted(wanted))}; known keys: "
                f"{', '.join(sorted(known)) or 'none'}"
            )


def _take(column: PreloadedColumn, at: IntArray) -> Column:
    if isinstance(column, torch.Tensor):
        return Gather(column, at)
    return as_column([column[i] for i in at], shared=True)


def _row(columns: dict[str, PreloadedColumn], at: int) -> dict[str, Stored]:
    row = {
        key: column[at].numpy() if isinstance(column, torch.Tensor) else column[at]
        for key, column in columns.items()
    }
    return {key: value for key, value in row.items() if value is not None}
