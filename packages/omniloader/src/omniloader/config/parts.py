"""The parts of an assembly, each made from the fields of a config."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from omniloader._types import MapDataset
from omniloader.collate import unified_collate
from omniloader.config.families import COLLATES, STATS_OPTIONS
from omniloader.config.model import ConfigFields, is_by_name
from omniloader.config.options import without_user_keys
from omniloader.data.factory import build_datasets
from omniloader.errors import ConfigError, StatsError
from omniloader.sampling.mixing import MixingStrategy, Subsample
from omniloader.sampling.strategies import STRATEGIES
from omniloader.sampling.subsamplers import SubsampleConfig
from omniloader.schema.spec import DatasetSchema, UnifiedSchema
from omniloader.stats.files import load_stats
from omniloader.transforms import Transform, build_transform

Collate = Callable[..., dict[str, Any]]
Sources = tuple[list[MapDataset], list[DatasetSchema]]


def open_datasets(config: ConfigFields, base_dir: Path | None, training: bool) -> Sources:
    """The datasets and schemas of a config.

    Args:
        config: Its ``datasets`` are opened.
        base_dir: Where relative paths start.
        training: False lays each entry's ``eval`` options over the entry.
    """
    entries = []
    for entry in config.datasets:
        own = without_user_keys(entry)
        instead = own.pop("eval", None) or {}
        entries.append(own if training else {**own, **without_user_keys(instead)})
    return build_datasets(entries, base_dir)


def make_subsample(config: ConfigFields) -> Subsample | None:
    """One :class:`SubsampleConfig` for all sources, one a source, one a name, or None."""
    given = config.subsample
    if given is None:
        return None
    if isinstance(given, list):
        return [_subsample_of(item or {}) for item in given]
    if is_by_name(given):
        own = without_user_keys(given)
        return {name: _subsample_of(item or {}) for name, item in own.items()}
    return _subsample_of(given)


def _subsample_of(options: Mapping[str, Any]) -> SubsampleConfig:
    return SubsampleConfig(**without_user_keys(options))


def make_strategy(
    config: ConfigFields,
    sizes: Sequence[int],
    subsample: Subsample | None,
    names: Sequence[str] | None,
) -> MixingStrategy:
    """The mixing strategy over sources of these sizes."""
    if subsample is None:
        subsample = make_subsample(config)
    options = without_user_keys(config.strategy_kwargs)
    return STRATEGIES[config.strategy](
        list(sizes), seed=config.seed, subsample=subsample, names=names, **options
    )


def make_transform(
    config: ConfigFields, schema: UnifiedSchema | None, base_dir: Path | None, training: bool
) -> Transform | None:
    """The pipeline of ``transforms``; for evaluation of ``eval_transforms`` if they are given.

    Without ``eval_transforms`` evaluation uses ``transforms`` too: the loader skips those that
    work in training only and keeps the others, such as normalisation.
    """
    field = "transforms" if training or config.eval_transforms is None else "eval_transforms"
    entries: list[dict[str, Any]] = getattr(config, field) or []
    if not entries:
        return None
    parts = []
    for i, entry in enumerate(entries):
        try:
            parts.append(build_transform(_with_stats(without_user_keys(entry), base_dir)))
        except (ConfigError, StatsError) as error:
            raise type(error)(f"{field}[{i}]: {error}") from error
    return build_transform(parts, schema)


def _with_stats(entry: dict[str, Any], base_dir: Path | None) -> dict[str, Any]:
    """Read the figures that an entry names by path."""
    for option in STATS_OPTIONS:
        path = entry.pop(f"{option}_path", None)
        if path is not None:
            entry[option] = load_stats((base_dir or Path()) / Path(path).expanduser())
    return entry


def make_collate(config: ConfigFields, schema: UnifiedSchema, training: bool) -> Collate:
    """The collate function; for evaluation ``mixup`` gives way to its base."""
    name, options = config.collate, without_user_keys(config.collate_kwargs)
    if name != "mixup":
        return _plain_collate(name, schema, options)
    base = _plain_collate(
        options.pop("base", "unified"), schema, options.pop("base_kwargs", None) or {}
    )
    if not training:
        return base
    return cast("Collate", COLLATES[name](base, schema, seed=config.seed, **options))


def _plain_collate(name: str, schema: UnifiedSchema, options: Mapping[str, Any]) -> Collate:
    if name == "unified":
        return unified_collate
    return cast("Collate", COLLATES[name](schema, **options))
