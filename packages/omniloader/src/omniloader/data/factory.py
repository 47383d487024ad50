"""Datasets from plain values, as they stand in a config.

One entry::

    name: voices            # of the source; default dataset_<i>
    adapter: hdf5           # a name in ADAPTERS
    path: data/voices.h5    # relative to base_dir, which is the config's folder
    subset: train           # this and the rest: options of the adapter
    schema:
      features: [{name: audio, feature_dim: 12, time_dim: 29}]
      targets: [{name: speaker, dtype: int64, placeholder: -1}]

``features`` and ``targets`` may also stand in the entry itself, without ``schema``.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from omniloader._types import MapDataset, PathLike
from omniloader.data._options import listed, unknown_key
from omniloader.data.columnar import ColumnarDataset
from omniloader.data.declare import ROLES, is_user_key, schema_from_dict
from omniloader.data.hdf5 import HDF5Dataset
from omniloader.data.npy import NpyFolderDataset
from omniloader.data.source import Source, make_sources
from omniloader.errors import ConfigError, SourceError
from omniloader.schema.spec import DatasetSchema

__all__ = [
    "ADAPTERS",
    "build_dataset",
    "build_datasets",
    "build_sources",
    "register_adapter",
    "schema_from_dict",
]

Adapter = Callable[..., MapDataset]


def open_hdf5(
    path: PathLike,
    subset: str,
    keys: Sequence[str] | None = None,
    cache_size: int = 0,
    preload: bool = False,
    name: str | None = None,
    threads: int = 0,
) -> HDF5Dataset:
    """The adapter ``hdf5``: see :class:`~omniloader.data.hdf5.HDF5Dataset`."""
    return HDF5Dataset(path, subset, keys, cache_size, preload, name, threads)


def open_npy(
    path: PathLike,
    subset: str | None = None,
    keys: Sequence[str] | None = None,
    mmap: bool = True,
    name: str | None = None,
) -> NpyFolderDataset:
    """The adapter ``npy``: see :class:`~omniloader.data.npy.NpyFolderDataset`."""
    return NpyFolderDataset(path, keys, mmap, subset, name)


def open_columnar(
    path: PathLike,
    subset: str | None = None,
    keys: Sequence[str] | None = None,
    name: str | None = None,
) -> ColumnarDataset:
    """The adapter ``columnar``: see :class:`~omniloader.data.columnar.ColumnarDataset`."""
    return ColumnarDataset(path, subset, keys, name)


ADAPTERS: dict[str, Adapter] = {
    "hdf5": open_hdf5,
    "npy": open_npy,
    "columnar": open_columnar,
}
"""Config name to the function (or class) that opens a dataset; its parameters are the options."""

_ENTRY_KEYS = ("name", "adapter", "schema", *ROLES)


def register_adapter(name: str, factory: Adapter) -> None:
    """Make an adapter known to configs.

    Args:
        name: What a config calls it.
        factory: A class or function whose keyword parameters are the options; a parameter
            ``path`` is resolved against the config's folder, one ``name`` gets the source's name.

    Raises:
        ConfigError: If the name is taken by another adapter, or the factory cannot be called.
    """
    if not isinstance(name, str) or not name or not callable(factory):
        raise ConfigError(
            f"an adapter needs a name and something to call, got {name!r}, {factory!r}"
        )
    if ADAPTERS.get(name, factory) is not factory:
        raise ConfigError(f"adapter '{name}' is registered already; known: {listed(ADAPTERS)}")
    ADAPTERS[name] = factory


def build_dataset(
    entry: Mapping[str, Any], base_dir: PathLike | None = None, where: str = "dataset"
) -> MapDataset:
    """Open the dataset of one entry.

    Args:
        entry: The entry; its schema is not looked at.
        base_dir: Where a relative ``path`` starts; None is the working directory.
        where: Key path of the entry in its config, for messages.

    Raises:
        ConfigError: If the adapter or an option is unknown, one is missing, or does not fit.
        SourceError: If the files cannot be read.
    """
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{where} must be a mapping with adapter, path and schema, got {entry!r}")
    adapter = _adapter(entry, where)
    parameters = inspect.signature(adapter).parameters
    options = {k: v for k, v in entry.items() if k not in _ENTRY_KEYS and not is_user_key(k)}
    _check_options(options, parameters, where)
    if "path" in options:
        options["path"] = _resolved(options["path"], base_dir, f"{where}.path")
    if "name" in parameters and "name" in entry:
        options["name"] = entry["name"]
    try:
        return adapter(**options)
    except (ConfigError, SourceError) as error:
        raise type(error)(f"{where}: {error}") from error


def build_sources(
    entries: Sequence[Mapping[str, Any]],
    base_dir: PathLike | None = None,
    where: str = "datasets",
) -> tuple[Source, ...]:
    """Open the datasets of a list of entries, with their schemas and names.

    Args:
        entries: One mapping a source.
        base_dir: Where relative paths start; None is the working directory.
        where: Key path of the list in its config, for messages.

    Raises:
        ConfigError: If an entry cannot be used.
        SchemaError: If a declaration is impossible, or two sources have one name.
        SourceError: If files cannot be read.
    """
    if isinstance(entries, Mapping | str) or not isinstance(entries, Sequence):
        raise ConfigError(f"{where} must be a list of entries, got {type(entries).__name__}")
    labels = [f"{where}[{i}]" for i in range(len(entries))]
    datasets = [build_dataset(e, base_dir, label) for e, label in zip(entries, labels, strict=True)]
    schemas = [_schema(e, label) for e, label in zip(entries, labels, strict=True)]
    return make_sources(datasets, schemas, [entry.get("name") for entry in entries])


def build_datasets(
    entries: Sequence[Mapping[str, Any]], base_dir: PathLike | None = None
) -> tuple[list[MapDataset], list[DatasetSchema]]:
    """Like :func:`build_sources`, as the two lists that ``OmniLoader`` takes."""
    sources = build_sources(entries, base_dir)
    return [source.dataset for source in sources], [source.schema for source in sources]


def _adapter(entry: Mapping[str, Any], where: str) -> Adapter:
    if "adapter" not in entry:
        raise ConfigError(f"{where}.adapter is required; known: {listed(ADAPTERS)}")
    adapter = entry["adapter"]
    if not isinstance(adapter, str) or adapter not in ADAPTERS:
        raise ConfigError(
            f"{where}.adapter: unknown adapter {adapter!r}; known: {listed(ADAPTERS)}; "
            "your own is made known with register_adapter"
        )
    return ADAPTERS[adapter]


def _check_options(
    options: Mapping[str, Any], parameters: Mapping[str, inspect.Parameter], where: str
) -> None:
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    named = [
        k for k, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    for key in options:
        if key not in named and not takes_any:
            known = dict.fromkeys((*named, *_ENTRY_KEYS))
            raise ConfigError(f"{where}.{key}: {unknown_key(str(key), known)}")
    for key in named:
        if (
            key not in options
            and key != "name"
            and parameters[key].default is inspect.Parameter.empty
        ):
            raise ConfigError(f"{where}.{key} is required by this adapter")


def _resolved(path: object, base_dir: PathLike | None, where: str) -> Path:
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ConfigError(f"{where} must be a path, got {path!r}")
    return Path(base_dir or ".") / Path(path).expanduser()


def _schema(entry: Mapping[str, Any], where: str) -> DatasetSchema:
    flat = {role: entry[role] for role in ROLES if role in entry}
    if "schema" in entry and flat:
        raise ConfigError(
            f"{where} has schema and {listed(flat)} side by side; move all of it under schema"
        )
    if "schema" not in entry and not flat:
        raise ConfigError(f"{where}.schema is required: the features and targets of the dataset")
    given = entry.get("schema", flat)
    if isinstance(given, DatasetSchema):
        return given
    return schema_from_dict(given, f"{where}.schema" if "schema" in entry else where)
