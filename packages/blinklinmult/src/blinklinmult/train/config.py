"""What a run reads: which corpora, in what windows, mixed and loaded how."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from blinklinmult.data.names import DATASETS, WINDOW_SECONDS
from blinklinmult.data.spec import DatasetSpec
from blinklinmult.errors import ConfigError, SchemaError
from omniloader import errors
from omniloader._types import PathLike
from omniloader.config.document import Document
from omniloader.config.load import read_config
from omniloader.config.options import keys_of, options_model, plain
from omniloader.config.problems import Problems, unknown_name

STRATEGIES = ("proportional", "temperature", "annealed_temperature", "fixed", "round_robin")
"""Mixing strategies selectable from a data config."""


@dataclass(frozen=True)
class DataConfig:
    """The data of one run.

    Args:
        datasets: Corpora to train, validate and test on.
        eval_datasets: Corpora to test on only.
        window_seconds: Length of a window; corpora of stills ignore it.
        time_dim: Frames T of a window; None: the longest any corpus needs.
        image_size: Side of the crops; None: the corpora must agree.
        stills: Serve single frames.
        still_stride: Of the open frames every so many-th is served.
        still_open_to_closed: Open frames for each closed one in training.
        fit_fractions: Corpus to the share of it that training and validation use.
        embedding_cache: Root of a cache of embeddings to attach; a path, from the run's root.
        embedding_dim: Their width; None: as the cache says.
        strategy: How corpora are mixed.
        strategy_kwargs: The strategy's own options.
        batch_size: Samples a batch.
        num_workers: Processes that read.
        pin_memory: Put batches into pinned memory, where that helps.
        persistent_workers: Keep workers from epoch to epoch.
        prefetch_factor: Batches each worker makes ahead.
        cache_size: Decoded samples each process keeps, of each corpus.
        preload: Decode everything at the start.
        seed: All randomness of the data follows from it.
        transforms: Augmentation and normalisation, as in an omniloader config.

    Raises:
        ConfigError: If a value cannot be used, naming its key.
    """

    datasets: list[str]
    eval_datasets: list[str] = field(default_factory=list)
    window_seconds: float | None = WINDOW_SECONDS
    time_dim: int | None = None
    image_size: int | None = None
    stills: bool = False
    still_stride: int = 6
    still_open_to_closed: float = 1.0
    fit_fractions: Mapping[str, float] = field(default_factory=dict)
    embedding_cache: str | Path | None = None
    embedding_dim: int | None = None
    strategy: str = "temperature"
    strategy_kwargs: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int = 32
    num_workers: int = 8
    pin_memory: bool = True
    persistent_workers: bool = True
    prefetch_factor: int | None = 2
    cache_size: int = 0
    preload: bool = False
    seed: int = 42
    transforms: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Bring values to their types, then check them, alone and together."""
        given = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        for name, value in _typed(given, Document(values=given)).items():
            object.__setattr__(self, name, value)
        self._check_corpora()
        self._check_numbers()
        self._check_fractions()
        self._check_together()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """A config from plain values.

        Raises:
            ConfigError: If a key is unknown, naming the nearest, or a value cannot be used.
        """
        if not isinstance(data, Mapping):
            raise ConfigError(f"a data config must be a mapping of keys to values, got {data!r}")
        return cls(**_typed(data, Document(values=dict(data))))

    @classmethod
    def from_file(cls, path: PathLike) -> Self:
        """A config from a YAML or JSON file.

        Raises:
            ConfigError: As :meth:`from_dict`, with file and line.
        """
        try:
            document = read_config(path)
        except errors.ConfigError as error:
            raise ConfigError(str(error)) from error
        return cls(**_typed(document.values, document))

    def resolve_specs(self, config_dir: PathLike) -> list[DatasetSpec]:
        """The declarations of all corpora, those for testing only last, in this run's windows.

        Args:
            config_dir: Folder with one ``<name>.yaml`` a corpus.

        Raises:
            ConfigError: If a file is missing, no valid YAML, or of another corpus.
            SchemaError: If no corpus can be as it is declared.
        """
        names = [*self.datasets, *self.eval_datasets]
        specs = [_read_spec(Path(config_dir) / f"{name}.yaml", name) for name in names]
        return [spec.with_window(self.window_seconds) for spec in specs]

    def _check_corpora(self) -> None:
        if not self.datasets:
            raise ConfigError(f"datasets: must name at least one corpus of {', '.join(DATASETS)}")
        names = [*self.datasets, *self.eval_datasets]
        for name in names:
            if name not in DATASETS:
                raise ConfigError(f"datasets: {unknown_name('corpus', name, DATASETS)}")
            if names.count(name) > 1:
                raise ConfigError(
                    f"datasets: '{name}' stands twice in datasets and eval_datasets; name it once"
                )
        if self.strategy not in STRATEGIES:
            raise ConfigError(f"strategy: {unknown_name('strategy', self.strategy, STRATEGIES)}")

    def _check_numbers(self) -> None:
        for name in ("batch_size", "still_stride", "time_dim", "image_size", "embedding_dim"):
            _check_least(name, getattr(self, name), 1)
        for name in ("num_workers", "cache_size"):
            _check_least(name, getattr(self, name), 0)
        _check_least("prefetch_factor", self.prefetch_factor, 1)
        for name in ("window_seconds", "still_open_to_closed"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise ConfigError(f"{name}: must be a positive number, got {value:g}")

    def _check_fractions(self) -> None:
        for name, fraction in self.fit_fractions.items():
            if name not in self.datasets:
                raise ConfigError(
                    f"fit_fractions: '{name}' is no corpus of datasets "
                    f"({', '.join(self.datasets)}); name one of them, or leave it out"
                )
            if not 0 < fraction <= 1:
                raise ConfigError(f"fit_fractions.{name}: must be in (0, 1], got {fraction:g}")

    def _check_together(self) -> None:
        if self.stills and self.time_dim is not None and self.time_dim > 1:
            raise ConfigError(
                f"time_dim: must be 1 or left out with stills, which have one frame, got "
                f"{self.time_dim}"
            )
        if self.embedding_cache is not None and self.transforms:
            raise ConfigError(
                "transforms: must be empty with embedding_cache, because embeddings were made of "
                "images as they are; remove one of the two"
            )
        if self.embedding_dim is not None and self.embedding_cache is None:
            raise ConfigError("embedding_dim: means nothing without embedding_cache; give both")


def _typed(given: Mapping[str, Any], document: Document) -> dict[str, Any]:
    """The values in their types; unknown keys and wrong types are refused, all at once."""
    model = options_model(DataConfig)
    try:
        return plain(model.model_validate(dict(given)))
    except ValidationError as error:
        problems = Problems(document)
        problems.add_all(error, (), {(): keys_of(model)})
        try:
            problems.raise_if_any()
        except errors.ConfigError as found:
            raise ConfigError(str(found)) from error
        raise


def _check_least(name: str, value: int | None, least: int) -> None:
    if value is not None and value < least:
        raise ConfigError(f"{name}: must be at least {least}, got {value}")


def _read_spec(path: Path, name: str) -> DatasetSpec:
    try:
        values = dict(read_config(path).values)
    except errors.ConfigError as error:
        raise ConfigError(f"corpus '{name}': {error}") from error
    if values.setdefault("name", name) != name:
        raise ConfigError(
            f"corpus '{name}': '{path}' declares '{values['name']}'; name the file after its corpus"
        )
    try:
        return DatasetSpec.from_dict(values)
    except SchemaError as error:
        raise SchemaError(f"'{path}': {error}") from error


__all__ = ["STRATEGIES", "ConfigError", "DataConfig"]
