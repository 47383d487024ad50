"""Read batches from an HDF5 file by its chunks, past HDF5, once it is known where they lie.

Opening groups and datasets by name takes HDF5 as long as inflating an image. So what is met for
the first time is noted in a :class:`~omniloader.data._hdf5_index.ChunkIndex`; from then on a
value is one read and one inflation, or a copy where it is small. What is learnt is kept beside
the user's other caches, for the next process and the next run.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch

from omniloader._types import Column, IntArray
from omniloader.data._fast import cache_file, load_sidecar, save_sidecar
from omniloader.data._hdf5_chunks import Array, read_dataset
from omniloader.data._hdf5_file import GroupHandle, Identity, identity_of
from omniloader.data._hdf5_form import Form
from omniloader.data._hdf5_index import (
    KEPT_TOTAL,
    MISSING,
    PLAIN,
    UNKNOWN,
    ChunkIndex,
    KeyIndex,
)
from omniloader.data._hdf5_look import look, plain_offsets
from omniloader.data._hdf5_read import open_sample
from omniloader.data._names import CompactNames
from omniloader.data._values import Stored, as_column, storable
from omniloader.errors import SourceError
from omniloader.schema.buffers import BlockPool

PlainRead: TypeAlias = Callable[[int, Sequence[str]], dict[str, Stored]]
"""Reads some keys of one sample through HDF5."""

_VERSION = 1
# The index is kept again when it has grown by a quarter, and by this many values.
_SAVE_FROM = 512


class _Job(NamedTuple):
    """A dataset to be read into an array."""

    form: Form
    steps: int
    chunks: Array
    out: Array


class FastReader:
    """Reads the values of a group by an index of their chunks.

    Args:
        handle: The group; opened only for what the index does not know yet.
        sample_ids: Its samples.
        threads: Number of threads that read and inflate; 0 and 1 are the calling one.
    """

    def __init__(self, handle: GroupHandle, sample_ids: CompactNames, threads: int) -> None:
        self._handle = handle
        self._sample_ids = sample_ids
        self._threads = threads
        self._forget()

    def _forget(self) -> None:
        self._index: ChunkIndex | None = None
        self._identity: Identity | None = None
        self._known = 0
        self._fresh = 0
        self._leave_process()

    def _leave_process(self) -> None:
        """Drop what a forked child must not use: descriptor, threads, locks."""
        self._pid = os.getpid()
        self._fd = -1
        self._lock = threading.Lock()
        self._blocks = BlockPool()
        self._executor: ThreadPoolExecutor | None = None

    def read(self, names: Sequence[str], at: IntArray, plain: PlainRead) -> dict[str, Column]:
        """Columns of some samples, the same as by HDF5.

        Args:
            names: The keys.
            at: The samples, int64 ``(n,)`` with n ≥ 1.
            plain: Reads what only HDF5 can read.

        Raises:
            OSError: If the file cannot be read.
            ValueError: If a value is damaged, or the file is another one now.
        """
        index = self._opened()
        self._learn(index, names, at)
        jobs: list[_Job] = []
        read = {name: self._column(index, name, at, plain, jobs) for name in names}
        self._run(jobs)
        return {name: _finished(rows) for name, rows in read.items() if rows is not None}

    def close(self) -> None:
        """Release the file and the threads, and keep what has been learnt."""
        if self._pid != os.getpid():
            self._drop_inherited()
        elif self._fd >= 0:
            self._save()
            os.close(self._fd)
            self._fd = -1
            if self._executor is not None:
                self._executor.shutdown()
                self._executor = None

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            os.close(self._fd)

    def __getstate__(self) -> dict[str, Any]:
        names = ("_handle", "_sample_ids", "_threads")
        return {name: self.__dict__[name] for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    # -- the file --------------------------------------------------------------------------

    def _drop_inherited(self) -> None:
        inherited = self._fd
        self._leave_process()
        if inherited >= 0:
            os.close(inherited)

    def _opened(self) -> ChunkIndex:
        """The index, with the file open in this process."""
        if self._pid != os.getpid():
            self._drop_inherited()
        with self._lock:
            if self._fd < 0:
                self._fd = os.open(self._handle.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
                identity = identity_of(self._fd)
                if self._index is None or identity != self._identity:
                    self._identity, self._fresh = identity, 0
                    self._index = self._load() or ChunkIndex(len(self._sample_ids))
                    self._known = self._index.known
            if self._index is None:
                raise SourceError(f"{self._handle.label} has no index; open the dataset again")
            return self._index

    def _sidecar(self) -> tuple[str, dict[str, Any]]:
        """Name of the sidecar, and what must stand in it for it to be about this file."""
        whose = f"{self._handle.path}\0{self._handle.subset}"
        name = hashlib.sha256(whose.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        about = [_VERSION, list(self._identity or ()), self._sample_ids.digest()]
        return f"hdf5-{name}.npz", {"about": about}

    def _load(self) -> ChunkIndex | None:
        name, about = self._sidecar()
        found = load_sidecar(cache_file(name))
        if found is None or found[0].get("about") != about["about"]:
            return None
        try:
            return ChunkIndex.restore(len(self._sample_ids), *found)
        except (KeyError, TypeError, ValueError):
            return None

    def _save(self) -> None:
        """Keep the index, joined with what other processes have kept meanwhile."""
        if not self._fresh or self._index is None:
            return
        with self._lock:
            kept = self._load()
            if kept is not None:
                self._index.absorb(kept)
            self._known, self._fresh = self._index.known, 0
            name, about = self._sidecar()
            meta, arrays = self._index.dump()
            save_sidecar(cache_file(name), {**about, **meta}, arrays)

    # -- the index -------------------------------------------------------------------------

    def _learn(self, index: ChunkIndex, names: Sequence[str], at: IntArray) -> None:
        """Look up where the values of some samples lie, unless that is known."""
        todo = index.unknown(names, at)
        if not todo:
            return
        with self._lock:
            parent = self._handle.group()
            if self._handle.identity != self._identity:
                raise SourceError(f"{self._handle.label} has changed; open the dataset again")
            path = str(self._handle.path) if plain_offsets(parent) else ""
            for i in todo:
                sample_id = self._sample_ids[i]
                where = f"'{self._handle.path}' sample '{self._handle.subset}/{sample_id}'"
                group = open_sample(parent, sample_id, where)
                for name in names:
                    key = index.key(name)
                    if key.form[i] == UNKNOWN:
                        room = index.kept_bytes <= KEPT_TOTAL
                        found = look(group, name, where, path, room)
                        index.put(key, i, found)
                        self._fresh += 1
        known = self._known + self._fresh
        if known == index.size * len(index.keys) or self._fresh > max(_SAVE_FROM, known // 5):
            self._save()

    # -- values ----------------------------------------------------------------------------

    def _column(
        self, index: ChunkIndex, name: str, at: IntArray, plain: PlainRead, jobs: list[_Job]
    ) -> Array | list[Stored | None] | None:
        """Rows of one key: an array where all are alike, else a list; ``jobs`` fill them."""
        key = index.keys[name]
        forms, steps = key.form[at], key.steps[at]
        if (forms == MISSING).all():
            return None
        if forms[0] >= 0 and (forms == forms[0]).all() and (steps == steps[0]).all():
            form = index.forms[forms[0]]
            if form.dtype:
                return self._table(key, form, int(steps[0]), at, jobs)
        rows = [
            self._row(index, name, int(i), number, length, plain, jobs)
            for i, number, length in zip(at, forms.tolist(), steps.tolist(), strict=True)
        ]
        return rows if any(row is not None for row in rows) else None

    def _table(
        self, key: KeyIndex, form: Form, steps: int, at: IntArray, jobs: list[_Job]
    ) -> Array:
        shape = (len(at), *form.shape(steps))
        if form.kept:
            size = int(key.count[at[0]])
            return (
                key.kept.view()[key.first[at, None] + np.arange(size)]
                .view(form.stored)
                .reshape(shape)
            )
        nbytes = int(np.prod(shape)) * form.native.itemsize
        table: Array = self._blocks.take(nbytes)[:nbytes].view(form.native).reshape(shape)
        chunks = key.chunks.view()
        firsts, counts = key.first[at].tolist(), key.count[at].tolist()
        for i, (first, count) in enumerate(zip(firsts, counts, strict=True)):
            # `...` keeps a single number a view.
            jobs.append(_Job(form, steps, chunks[first : first + count], table[i, ...]))
        return table

    def _row(
        self,
        index: ChunkIndex,
        name: str,
        at: int,
        number: int,
        steps: int,
        plain: PlainRead,
        jobs: list[_Job],
    ) -> Stored | None:
        if number == PLAIN:
            return plain(at, (name,)).get(name)
        if number == MISSING:
            return None
        key, form = index.keys[name], index.forms[number]
        first = int(key.first[at])
        rows = slice(first, first + int(key.count[at]))
        if not form.dtype:
            return key.kept.view()[rows].tobytes().decode()
        if form.kept:
            kept: Array = key.kept.view()[rows].copy().view(form.stored).reshape(form.shape(steps))
            return kept
        out = np.empty(form.shape(steps), form.native)
        jobs.append(_Job(form, steps, key.chunks.view()[rows], out))
        return out

    def _run(self, jobs: Sequence[_Job]) -> None:
        fd = self._fd

        def work(own: Sequence[_Job]) -> None:
            for job in own:
                read_dataset(fd, *job)

        if self._threads < 2 or len(jobs) < 2:
            work(jobs)
            return
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._threads, "omniloader-hdf5")
        parts = [jobs[start :: self._threads] for start in range(self._threads)]
        for _ in self._executor.map(work, parts):
            pass


def _finished(rows: Array | list[Stored | None]) -> Column:
    if isinstance(rows, np.ndarray):
        return torch.from_numpy(storable(rows, "a column"))
    held = [storable(row, "a value") if isinstance(row, np.ndarray) else row for row in rows]
    return as_column(held, shared=False)
