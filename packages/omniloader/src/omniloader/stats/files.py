"""Figures as JSON: flat or per dataset, versioned, with counts, method, error and fingerprint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from omniloader._types import PathLike
from omniloader.errors import StatsError
from omniloader.stats.results import FeatureStats
from omniloader.utils.atomic import replacing

FORMAT = "omniloader.stats"
VERSION = 1

Flat = Mapping[str, Mapping[str, Any]]


def save_stats(
    stats: Flat | Mapping[str, Flat], path: PathLike, *, fingerprint: str | None = None
) -> None:
    """Write what ``compute_stats`` or ``compute_dataset_stats`` returned, atomically.

    Args:
        stats: ``{key: {figure: tensor}}``, or ``{dataset: {key: {figure: tensor}}}``.
        path: The JSON file; folders are made.
        fingerprint: Of the config the figures were taken with, for ``load_stats`` to compare.
            Default: that of ``stats`` itself, if it was loaded.

    Raises:
        StatsError: If a figure is not a finite array, naming it.
    """
    layout, groups = _layout(stats)
    known = fingerprint or getattr(stats, "fingerprint", None)
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "layout": layout,
        "fingerprint": known,
    }
    if layout == "flat":
        document |= _to_json("", groups[""])
    else:
        document["datasets"] = {name: _to_json(name, flat) for name, flat in groups.items()}
    _write(Path(path), json.dumps(document, indent=1, allow_nan=False) + "\n")


def _layout(stats: Mapping[str, Any]) -> tuple[str, dict[str, Flat]]:
    """Whether figures are flat or per dataset: the second level holds arrays, or mappings."""
    if not isinstance(stats, Mapping) or not stats:
        raise StatsError(f"save_stats: stats must be a non-empty mapping, got {stats!r:.60}")
    if isinstance(stats, FeatureStats):
        return "flat", {"": stats}
    for name, inner in stats.items():
        if not isinstance(inner, Mapping):
            raise StatsError(
                f"save_stats: '{name}' must map figures to arrays, got {type(inner).__name__}; "
                "give what compute_stats or compute_dataset_stats returns"
            )
    figures = [figure for inner in stats.values() for figure in inner.values()]
    nested = [isinstance(figure, Mapping) for figure in figures]
    if any(nested) != all(nested):
        raise StatsError("save_stats: stats mix figures of keys with datasets; save them apart")
    if figures and not any(nested):
        return "flat", {"": stats}
    return "per_dataset", dict(stats)


def _to_json(dataset: str, flat: Flat) -> dict[str, Any]:
    stats = {
        key: {name: _numbers(dataset, key, name, value) for name, value in figures.items()}
        for key, figures in flat.items()
    }
    return {"stats": stats, "info": getattr(flat, "info", {})}


def _numbers(dataset: str, key: str, name: str, value: Any) -> Any:
    whose = f"'{key}' of '{dataset}'" if dataset else f"'{key}'"
    raw = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
    try:
        array = np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError):
        raise StatsError(
            f"save_stats: {name} of {whose} must be an array of numbers, got {value!r:.60}"
        ) from None
    if not np.isfinite(array).all():
        raise StatsError(f"save_stats: {name} of {whose} must be finite, got NaN or infinity")
    return array.tolist()


def _write(path: Path, text: str) -> None:
    """Write beside the target and rename, so that a reader never meets half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def load_stats(
    path: PathLike, *, expected_fingerprint: str | None = None
) -> FeatureStats | dict[str, FeatureStats]:
    """Read figures back, as ``Normalize`` and ``PerDatasetNormalize`` take them.

    Args:
        path: A file of :func:`save_stats`, or a bare ``{key: {figure: numbers}}`` or
            ``{dataset: {key: {figure: numbers}}}`` written by hand.
        expected_fingerprint: Of the present config; a file that carries another is refused.

    Returns:
        The figures as float64 tensors, flat or per dataset as they were saved, with their
        ``info`` and ``fingerprint``.

    Raises:
        StatsError: If the file is missing, holds no such figures, has another version, or belongs
            to another config.
    """
    path = Path(path)
    document = _read(path)
    fingerprint = document.get("fingerprint")
    if expected_fingerprint is not None and fingerprint != expected_fingerprint:
        raise StatsError(
            f"{path}: statistics belong to another config: the file's fingerprint is "
            f"{fingerprint!r}, expected {expected_fingerprint!r}; compute them again with this "
            "config"
        )
    if document.get("layout") == "flat":
        return _from_json(path, document, fingerprint)
    datasets = document.get("datasets")
    if document.get("layout") != "per_dataset" or not isinstance(datasets, dict):
        _refuse(path, "must be laid out flat or per_dataset")
    return {name: _from_json(path, part, fingerprint) for name, part in datasets.items()}


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise StatsError(
            f"{path}: no such statistics file; make it with 'omniloader compute-stats -o'"
        ) from None
    except (OSError, UnicodeDecodeError) as problem:
        raise StatsError(f"{path}: statistics cannot be read: {problem}") from None
    try:
        document = json.loads(text, parse_constant=lambda name: _refuse(path, f"holds {name}"))
    except json.JSONDecodeError as problem:
        _refuse(path, f"is no JSON (line {problem.lineno}: {problem.msg})")
    if not isinstance(document, dict):
        _refuse(path, "must hold a mapping")
    if document and all(isinstance(inner, dict) for inner in document.values()):
        return _with_header(document)
    if document.get("format") != FORMAT:
        _refuse(path, f'lacks "format": "{FORMAT}"')
    if document.get("version") != VERSION:
        _refuse(path, f"must have version {VERSION}, got {document.get('version')!r}")
    return document


def _with_header(bare: dict[str, Any]) -> dict[str, Any]:
    """Figures written by hand, laid out as :func:`save_stats` would; datasets are a level more."""
    figures = [figure for inner in bare.values() for figure in inner.values()]
    if figures and all(isinstance(figure, dict) for figure in figures):
        datasets = {name: {"stats": flat} for name, flat in bare.items()}
        return {"layout": "per_dataset", "datasets": datasets}
    return {"layout": "flat", "stats": bare}


def _from_json(path: Path, part: Any, fingerprint: str | None) -> FeatureStats:
    stats = part.get("stats") if isinstance(part, dict) else None
    if not isinstance(stats, dict):
        _refuse(path, "lacks the mapping 'stats'")
    try:
        figures = {
            key: {name: torch.tensor(value, dtype=torch.float64) for name, value in inner.items()}
            for key, inner in stats.items()
        }
    except (AttributeError, TypeError, ValueError):
        _refuse(path, "must hold numbers for every figure")
    for key, inner in figures.items():
        for name, figure in inner.items():
            if not bool(torch.isfinite(figure).all()):
                _refuse(path, f"must hold finite numbers, got {name} of '{key}' beyond float64")
    return FeatureStats(figures, part.get("info"), fingerprint)


def _refuse(path: Path, problem: str) -> NoReturn:
    raise StatsError(
        f"{path}: the statistics file {problem}; make it with 'omniloader compute-stats -o' or "
        "save_stats"
    )
