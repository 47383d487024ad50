"""Where and how sources are stored, and what of it is gone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py

from omniloader._types import MapDataset
from omniloader.data.hdf5 import HDF5Dataset

# Where adapters keep the place of their data.
_PLACES = ("h5_path", "root", "path")


def storage_facts(dataset: MapDataset) -> dict[str, Any]:
    """Class of a source, and place and bytes on disk where it has a file or folder.

    For an :class:`~omniloader.data.hdf5.HDF5Dataset` also dtype, chunks and filters of each key of
    its first sample. A source that has a ``storage()`` of its own adds what that returns.
    """
    facts: dict[str, Any] = {"type": type(dataset).__name__}
    place = next((getattr(dataset, name) for name in _PLACES if hasattr(dataset, name)), None)
    if isinstance(place, str | os.PathLike):
        path = Path(place)
        facts["path"] = str(path)
        if path.is_file():
            facts["bytes"] = path.stat().st_size
    if isinstance(dataset, HDF5Dataset) and len(dataset):
        facts["keys"] = _hdf5_keys(dataset)
    own = getattr(dataset, "storage", None)
    if callable(own):
        facts.update(own())
    return facts


def storage_problems(dataset: MapDataset, indices: list[int]) -> Iterator[str]:
    """What is gone of a source's files, and what the source itself says in ``storage_problems()``.

    In an HDF5 file a link may lead nowhere, and a virtual dataset whose source file is gone reads
    as its fill value without a word.

    Args:
        dataset: The source.
        indices: Samples to look at.
    """
    if isinstance(dataset, HDF5Dataset) and indices:
        with h5py.File(dataset.h5_path, "r") as file:
            for index in indices:
                group = file[dataset.subset][dataset.sample_ids[index]]
                yield from _group_problems(group, dataset.h5_path.parent)
    own = getattr(dataset, "storage_problems", None)
    if callable(own):
        yield from map(str, own())


def _hdf5_keys(dataset: HDF5Dataset) -> dict[str, str]:
    with h5py.File(dataset.h5_path, "r") as file:
        group = file[dataset.subset][dataset.sample_ids[0]]
        values = {key: group.get(key) for key in group}
        return {key: _layout(v) for key, v in values.items() if isinstance(v, h5py.Dataset)}


def _layout(value: h5py.Dataset) -> str:
    parts = [str(value.dtype)]
    if value.chunks:
        parts.append(f"chunks {value.chunks}")
    if value.compression:
        parts.append(f"{value.compression} {value.compression_opts}")
    if value.shuffle:
        parts.append("shuffle")
    return ", ".join(parts)


def _group_problems(group: h5py.Group, folder: Path) -> Iterator[str]:
    for key in group:
        link = group.get(key, getlink=True)
        value = group.get(key)
        if value is None:
            target = getattr(link, "filename", None) or link.path
            yield f"'{group.name}/{key}' is a link to '{target}', which is not there"
            continue
        if not isinstance(value, h5py.Dataset):
            continue
        sources = (
            [source.file_name for source in value.virtual_sources()] if value.is_virtual else []
        )
        sources += [name for name, _, _ in value.external or ()]
        for name in dict.fromkeys(sources):
            if name != "." and not (folder / name).exists():
                yield (
                    f"'{group.name}/{key}' has its data in '{name}', which is not there: it would "
                    "read as fill values"
                )
