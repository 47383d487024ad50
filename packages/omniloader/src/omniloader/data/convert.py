"""Write the samples of any source as columns: plain arrays that are mapped, not decoded.

Groups and packed values cost a look-up and an inflation each time they are read. A store that
:func:`to_columnar` makes is larger on disk and read at the speed of memory.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from omniloader._types import MapDataset, PathLike
from omniloader.data._column_files import (
    HEADER_BYTES,
    ColumnEntry,
    Kind,
    write_header,
    write_index,
)
from omniloader.data._values import storable
from omniloader.errors import ConfigError, SampleError
from omniloader.utils.atomic import current_umask

Array = npt.NDArray[Any]


def to_columnar(
    dataset: MapDataset,
    path: PathLike,
    subset: str | None = None,
    keys: Collection[str] | None = None,
) -> Path:
    """Write all samples of a dataset as a columnar store, whole or not at all.

    ::

        to_columnar(HDF5Dataset("voices.h5", "train"), "voices", subset="train")
        ColumnarDataset("voices", subset="train")

    Values keep their dtype and shape. Of a key, all values must have one dtype and one shape, of
    which the first axis may differ; texts and lists of texts are kept as such. A sample need not
    have every key. The names of the samples (``sample_ids``) go along.

    Args:
        dataset: The source; its samples are read one by one.
        path: Folder of the store; it is made.
        subset: Folder below ``path``, for stores of several subsets.
        keys: Keys to write; None writes all of them.

    Returns:
        The folder that holds the columns.

    Raises:
        ConfigError: If the folder exists and is not empty. A ``ValueError``.
        SampleError: If values of a key do not fit each other, or cannot be stored.
    """
    target = Path(path) if subset is None else Path(path) / subset
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"'{target}' exists already; remove it, or name another folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
    try:
        _write(dataset, draft, subset, keys)
        draft.chmod(0o777 & ~current_umask())
        draft.replace(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def _write(
    dataset: MapDataset, folder: Path, subset: str | None, keys: Collection[str] | None
) -> None:
    writers: dict[str, _ColumnWriter] = {}
    size = len(dataset)
    ids = getattr(dataset, "sample_ids", None)
    try:
        for at in range(size):
            where = f"sample {at}" if ids is None else f"sample {at} (key '{ids[at]}')"
            for name, value in dataset[at].items():
                if value is None or (keys is not None and name not in keys):
                    continue
                if name not in writers:
                    writers[name] = _ColumnWriter(folder, f"{len(writers):03}", name, size)
                writers[name].put(at, value, f"{where}: '{name}'")
        entries = [writer.finish() for writer in writers.values()]
    finally:
        for writer in writers.values():
            writer.close()
    about = {
        "samples": size,
        "sample_ids": None if ids is None else list(ids),
        "subset": getattr(dataset, "subset", None) if subset is None else subset,
    }
    write_index(folder, about, entries)


class _ColumnWriter:
    """Appends the values of one key to its file."""

    def __init__(self, folder: Path, stem: str, name: str, size: int) -> None:
        self._folder, self._stem, self._name = folder, stem, name
        self._file = (folder / f"{stem}.npy").open("wb")
        self._file.write(b"\0" * HEADER_BYTES)
        self._rows = np.full(size, -1, dtype=np.int64)
        self._lengths: list[int] = []
        self._kind: Kind | None = None
        self._form: tuple[np.dtype[Any], tuple[int, ...], bool] | None = None

    def put(self, at: int, value: Any, where: str) -> None:
        """Write the value of a sample."""
        kind, array = _stored(value, where)
        form = (array.dtype, array.shape[1:], bool(array.shape))
        if self._kind is None:
            self._kind, self._form = kind, form
        if (kind, form) != (self._kind, self._form):
            raise SampleError(
                f"{where} must have the kind, dtype and shape of the values before it, of which "
                f"only the first axis may differ; got {_said(kind, form)} after "
                f"{_said(self._kind, self._form or form)}; leave the key out with keys=, or make "
                "the values alike"
            )
        self._rows[at] = len(self._lengths)
        self._lengths.append(array.shape[0] if array.shape else 1)
        self._file.write(np.ascontiguousarray(array).data if array.size else b"")

    def finish(self) -> ColumnEntry:
        """Write what is known only now: shapes, and where samples start."""
        dtype, trailing, ranked = self._form or (np.dtype(np.uint8), (), True)
        kind, count = self._kind or "rows", len(self._lengths)
        if kind == "rows" and len(set(self._lengths)) > 1:
            kind = "ragged"
        if kind == "rows":
            own = (self._lengths[0], *trailing) if ranked else ()
            write_header(self._file, dtype, (count, *own))
        else:
            write_header(self._file, dtype, (sum(self._lengths), *trailing))
            starts = np.zeros(count + 1, dtype=np.int64)
            np.cumsum(self._lengths, out=starts[1:])
            np.save(self._folder / f"{self._stem}.starts.npy", starts, allow_pickle=False)
        complete = count == len(self._rows)
        if not complete:
            np.save(self._folder / f"{self._stem}.rows.npy", self._rows, allow_pickle=False)
        return ColumnEntry(self._name, kind, self._stem, complete)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _stored(value: Any, where: str) -> tuple[Kind, Array]:
    """A value as an array, and what it is."""
    if isinstance(value, str):
        return "text", np.frombuffer(value.encode("utf-8", "surrogatepass"), np.uint8)
    if isinstance(value, torch.Tensor):
        value = _as_numpy(value, where)
    if isinstance(value, np.ndarray | np.generic | bool | int | float):
        return "rows", storable(np.asarray(value), where)
    try:
        return "json", np.frombuffer(json.dumps(value).encode(), np.uint8)
    except (TypeError, ValueError) as error:
        raise SampleError(
            f"{where} must be an array, a number, a text or a list of texts, got "
            f"{type(value).__name__}; leave the key out with keys="
        ) from error


def _as_numpy(value: torch.Tensor, where: str) -> Array:
    try:
        return value.detach().cpu().numpy()
    except TypeError as error:
        raise SampleError(
            f"{where} must have a dtype that NumPy knows, got {value.dtype}; "
            "convert it in the source, for example to float32"
        ) from error


def _said(kind: Kind, form: tuple[np.dtype[Any], tuple[int, ...], bool]) -> str:
    dtype, trailing, ranked = form
    if kind != "rows":
        return kind
    return f"{dtype.name} of shape {('t', *trailing) if ranked else ()}".replace("'", "")
