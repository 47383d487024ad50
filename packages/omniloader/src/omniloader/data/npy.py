"""Samples in folders of ``.npy`` files, one folder a sample."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset

from omniloader._types import Column, IntArray, PathLike, Sample
from omniloader.data._names import CompactNames
from omniloader.data._npy_file import read_header, read_value
from omniloader.data._options import checked_keys, checked_subset, names_to_read
from omniloader.data._values import Stored, as_column, checked_index, checked_indices, handed_out
from omniloader.errors import MissingFileError, MissingGroupError, SampleError, SourceError

_SUFFIX = ".npy"
# Trying so few names costs less than listing the sample's folder.
_FEW = 2


class NpyFolderDataset(Dataset[Sample]):
    """Samples of ``root/<sample>/<key>.npy``, in order of the folders' names.

    A key is a file's name without ``.npy``; other files and hidden ones are left alone. Dtypes are
    treated as in :class:`~omniloader.data.hdf5.HDF5Dataset`. A text is an array of NumPy's text
    type without axes (``numpy.save("speaker.npy", "anna")``), which becomes a ``str``. Python
    objects are refused: they would be pickles.

    Args:
        root: The folder.
        keys: Values to read; None reads all files of a sample. A sample need not have every key.
        mmap: Map large files into memory instead of reading them, so that only the steps in use
            are read. Writing into such a value never reaches the file.
        subset: Folder below ``root`` that holds the samples, such as ``"train"``.
        name: Name of the source, the fallback of the metadata ``dataset``.

    Raises:
        SourceError: If the folder is missing or laid out otherwise. An ``OSError``.
        MissingGroupError: If there is no such subset, or no sample has one of ``keys``. A
            ``KeyError``.
        ConfigError: If ``keys`` is no list of names. A ``ValueError``.
    """

    def __init__(
        self,
        root: PathLike,
        keys: Sequence[str] | None = None,
        mmap: bool = True,
        subset: str | None = None,
        name: str | None = None,
    ) -> None:
        self.root = Path(root).absolute()
        self.subset = None if subset is None else checked_subset(subset, "folder")
        self.keys = checked_keys(keys)
        self.mmap = mmap
        self.name = name
        self._folder = str(_sample_folder(self.root, self.subset))
        self._lengths: dict[str, IntArray] = {}
        # Which files a sample has, once somebody looked: the number of their set, -1 before.
        self._numbers: dict[frozenset[str], int] = {}
        self._choices: dict[tuple[int, tuple[str, ...]], tuple[str, ...]] = {}
        entries = sorted(os.scandir(self._folder), key=lambda entry: entry.name)
        self.sample_ids = CompactNames(
            entry.name for entry in entries if entry.name[0] != "." and entry.is_dir()
        )
        self._sets = np.full(len(self.sample_ids), -1, dtype=np.int32)
        self._check_layout([entry.name for entry in entries])

    def __len__(self) -> int:
        return len(self.sample_ids)

    def __getitem__(self, index: int) -> Sample:
        """The sample at a position.

        Raises:
            IndexError: If there is no such sample.
            SourceError: If a file is cut off or unreadable.
            SampleError: If a value cannot be held by a tensor or text.
        """
        at = checked_index(index, len(self), f"'{self._folder}'")
        return {
            key: handed_out(value, shared=False) for key, value in self._read(at, self.keys).items()
        }

    def read_batch(
        self, indices: IntArray | Sequence[int], keys: Collection[str] | None = None
    ) -> dict[str, Column]:
        """Columns of many samples: stacked where all have one shape and dtype, else lists.

        Args:
            indices: Positions, shape ``(n,)``.
            keys: What to read; None is everything, a name that is not there is left out.
        """
        at = checked_indices(indices, len(self), f"'{self._folder}'")
        names = names_to_read(keys, self.keys)
        samples = [self._read(i, names) for i in at.tolist()]
        found = dict.fromkeys(key for sample in samples for key in sample)
        return {key: as_column([s.get(key) for s in samples], shared=False) for key in found}

    def sequence_lengths(self, key: str) -> IntArray:
        """Number of steps of every sample, int64 ``(N,)``, from headers; 0 where it is missing.

        Raises:
            SampleError: If a value has no time axis.
        """
        if key not in self._lengths:
            served = "/" not in key and (self.keys is None or key in self.keys)
            steps = (self._steps(i, key) if served else 0 for i in range(len(self)))
            self._lengths[key] = np.fromiter(steps, dtype=np.int64, count=len(self))
        return self._lengths[key].copy()

    def __repr__(self) -> str:
        return f"NpyFolderDataset('{self._folder}', samples={len(self)})"

    def _path(self, at: int, key: str) -> str:
        # Joined by hand: a Path object costs more than opening the file.
        return f"{self._folder}{os.sep}{self.sample_ids[at]}{os.sep}{key}{_SUFFIX}"

    def _listed(self, at: int) -> list[str]:
        try:
            return os.listdir(f"{self._folder}{os.sep}{self.sample_ids[at]}")  # noqa: PTH208
        except OSError as error:
            raise SourceError(
                f"'{self._folder}' sample '{self.sample_ids[at]}': its folder cannot be read "
                f"({error}); it was there when the dataset was made"
            ) from error

    def _keys_of(self, at: int) -> list[str]:
        names = self._listed(at)
        return sorted(n.removesuffix(_SUFFIX) for n in names if n.endswith(_SUFFIX) and n[0] != ".")

    def _read(self, at: int, names: Sequence[str] | None) -> dict[str, Stored]:
        sample: dict[str, Stored] = {}
        folder = f"{self._folder}{os.sep}{self.sample_ids[at]}{os.sep}"
        for key in self._keys_of(at) if names is None else self._present(at, names):
            try:
                sample[key] = read_value(f"{folder}{key}{_SUFFIX}", self.mmap)
            except FileNotFoundError:
                continue
        return sample

    def _present(self, at: int, names: Sequence[str]) -> Sequence[str]:
        """Those of some names that a sample may have a file of."""
        if len(names) <= _FEW:
            return names
        number = int(self._sets[at])
        if number < 0:
            held = frozenset(self._listed(at))
            number = self._sets[at] = self._numbers.setdefault(held, len(self._numbers))
        choice = (number, tuple(names))
        if choice not in self._choices:
            held = list(self._numbers)[number]
            self._choices[choice] = tuple(name for name in names if f"{name}{_SUFFIX}" in held)
        return self._choices[choice]

    def _steps(self, at: int, key: str) -> int:
        path = self._path(at, key)
        try:
            shape = read_header(path).shape
        except FileNotFoundError:
            return 0
        if not shape:
            raise SampleError(
                f"'{path}' has no time axis, it is one value; ask for the lengths of a sequence"
            )
        return shape[0]

    def _check_layout(self, entries: list[str]) -> None:
        """Refuse folders of another layout, and keys that no sample has."""
        if not len(self):
            if any(entry.endswith(_SUFFIX) for entry in entries):
                raise SourceError(
                    f"'{self._folder}' holds npy files, not one folder a sample; "
                    "the layout is root/<sample>/<key>.npy"
                )
            return
        wanted = set(self.keys or ())
        known: set[str] = set()
        for at in range(len(self)):
            if known and not wanted:
                return
            names = self._keys_of(at)
            known.update(names)
            wanted.difference_update(names)
        if not known:
            raise SourceError(
                f"'{self._folder}': no folder in it holds an npy file, got folders "
                f"{', '.join(map(repr, self.sample_ids[:5]))}; the layout is "
                "root/<sample>/<key>.npy, or name the subset: root/<subset>/<sample>/<key>.npy"
            )
        if wanted:
            raise MissingGroupError(
                f"'{self._folder}': no sample has {', '.join(map(repr, sorted(wanted)))}; "
                f"known keys: {', '.join(sorted(known))}"
            )


def _sample_folder(root: Path, subset: str | None) -> Path:
    if not root.exists():
        raise MissingFileError(
            f"'{root}' does not exist; check the path (relative paths in a config start at the "
            "config file)"
        )
    if not root.is_dir():
        raise SourceError(f"'{root}' must be a folder with one folder a sample, got a file")
    if subset is None:
        return root
    folder = root / subset
    if not folder.is_dir():
        known = sorted(p.name for p in root.iterdir() if p.is_dir() and p.name[0] != ".")
        raise MissingGroupError(
            f"'{root}' has no folder '{subset}'; it holds {', '.join(map(repr, known)) or 'none'}"
        )
    return folder
