"""Statistics for normalisation: taken in one pass over any samples, saved and loaded as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Literal

from torch import Tensor

from omniloader.errors import StatsError
from omniloader.schema.spec import DatasetSchema, UnifiedSchema
from omniloader.stats.feature import FeatureOptions
from omniloader.stats.files import load_stats, save_stats
from omniloader.stats.passes import run_pass
from omniloader.stats.results import FeatureStats
from omniloader.stats.table import POOLED, FeatureTable
from omniloader.utils.parts import Workers

__all__ = [
    "FeatureStats",
    "compute_dataset_stats",
    "compute_feature_stats",
    "compute_stats",
    "load_stats",
    "save_stats",
]


def compute_stats(
    samples: Any,
    keys: Iterable[str],
    eps: float = 1e-6,
    *,
    workers: Workers = 0,
    progress: bool = False,
    memory_budget: int = 64 << 20,
    schema: DatasetSchema | UnifiedSchema | None = None,
    channelwise: bool = False,
    nonfinite: Literal["raise", "skip"] = "raise",
) -> FeatureStats:
    """Figures of values over all valid positions, pooled over all datasets.

    One pass in constant memory. Only positions whose ``<key>_mask`` is True count; a sample
    without the mask is real throughout, one without the key is missing. ``std`` is that of the
    population (ddof 0). Moments are float64 sums and do not depend on order, batches or
    ``workers`` (to 1e-9 relative). Median and IQR are exact (linear interpolation, as
    ``numpy.quantile``) while a key's valid values fit ``memory_budget``, then from KLL sketches:
    ``result.info[key]`` tells which, and the error.

    Samples are taken as they are served: give an ``OmniLoader`` without a transform, or the
    figures are those of transformed values.

    Args:
        samples: An ``OmniLoader``, a map-style dataset, a ``DataLoader``, or any iterable of
            sample dicts.
        keys: Names of the values.
        eps: The least ``std`` that is reported, so that a constant feature can be divided by it.
            The other figures are not floored: ``iqr`` and ``max - min`` may be 0.
        workers: Processes that read slices of a map-style dataset, or an engine that reads them
            elsewhere (``RayEngine``); 0 reads here.
        progress: Show a progress bar on standard error.
        memory_budget: Bytes of values kept for exact quartiles, per key (and process); more than
            three keys share three budgets.
        schema: Says which keys are sequences, for raw samples without masks. Without schema and
            mask, ``(T, F)`` is read as a sequence, ``(F,)`` as a vector, more axes are an error.
        channelwise: For structured values ``(C, …)``: figures per first axis, shape
            ``(C, 1, …)``. Default: for every element.
        nonfinite: NaN or ±inf under a True mask is an error naming the key and the sample;
            ``"skip"`` leaves the step (the whole value of a vector) out and counts it in
            ``info[key]["skipped"]``.

    Returns:
        ``{key: {mean, std, min, max, median, iqr}}``, float64 tensors of the shape of one step:
        ``(F,)``, or ``()`` for numbers.

    Raises:
        StatsError: If a key is in no sample or has no valid value, shapes disagree, or a valid
            value is not finite; naming the key.
    """
    options = FeatureOptions(
        memory_budget=memory_budget, channelwise=channelwise, nonfinite=nonfinite
    )
    return _pooled(samples, keys, eps, options, schema, workers, progress)


def compute_feature_stats(
    samples: Any,
    keys: Iterable[str],
    eps: float = 1e-6,
    *,
    workers: Workers = 0,
    progress: bool = False,
    schema: DatasetSchema | UnifiedSchema | None = None,
    channelwise: bool = False,
    nonfinite: Literal["raise", "skip"] = "raise",
) -> dict[str, tuple[Tensor, Tensor]]:
    """Mean and standard deviation only: :func:`compute_stats` without quartiles, faster.

    Returns:
        ``{key: (mean, std)}``, float64 tensors of the shape of one step.

    Raises:
        StatsError: As :func:`compute_stats`.
    """
    options = FeatureOptions(quartiles=False, channelwise=channelwise, nonfinite=nonfinite)
    stats = _pooled(samples, keys, eps, options, schema, workers, progress)
    return {key: (figures["mean"], figures["std"]) for key, figures in stats.items()}


def compute_dataset_stats(
    samples: Any,
    keys: Iterable[str],
    dataset_key: str = "dataset",
    eps: float = 1e-6,
    *,
    workers: Workers = 0,
    progress: bool = False,
    memory_budget: int = 64 << 20,
    schema: DatasetSchema | UnifiedSchema | None = None,
    channelwise: bool = False,
    nonfinite: Literal["raise", "skip"] = "raise",
) -> dict[str, FeatureStats]:
    """Figures of values for each dataset apart, in one pass.

    Args:
        samples: As for :func:`compute_stats`; every sample names its dataset.
        keys: Names of the values.
        dataset_key: Metadata that tells datasets apart, a text.
        eps: The least ``std`` that is reported.
        workers: Processes that read slices of a map-style dataset, or an engine that reads them
            elsewhere (``RayEngine``); 0 reads here.
        progress: Show a progress bar on standard error.
        memory_budget: Bytes of values kept for exact quartiles, per key and dataset.
        schema: Says which keys are sequences, for raw samples without masks.
        channelwise: For structured values: figures per first axis.
        nonfinite: ``"raise"`` or ``"skip"``.

    Returns:
        ``{dataset: {key: {mean, …}}}`` in order of first appearance. A dataset holds only the
        keys of which it has a valid value.

    Raises:
        StatsError: As :func:`compute_stats`, or if a sample does not name its dataset.
    """
    options = FeatureOptions(
        memory_budget=memory_budget, channelwise=channelwise, nonfinite=nonfinite
    )
    table = _table(samples, keys, eps, options, dataset_key, schema, workers, progress)
    return {group: FeatureStats(*table.figures(group, eps)) for group in table.tables}


def _pooled(
    samples: Any,
    keys: Iterable[str],
    eps: float,
    options: FeatureOptions,
    schema: DatasetSchema | UnifiedSchema | None,
    workers: Workers,
    progress: bool,
) -> FeatureStats:
    table = _table(samples, keys, eps, options, None, schema, workers, progress)
    return FeatureStats(*table.figures(POOLED, eps))


def _table(
    samples: Any,
    keys: Iterable[str],
    eps: float,
    options: FeatureOptions,
    dataset_key: str | None,
    schema: DatasetSchema | UnifiedSchema | None,
    workers: Workers,
    progress: bool,
) -> FeatureTable:
    if isinstance(keys, str):
        raise StatsError(f"keys must be a list of names, got the text '{keys}'; write ['{keys}']")
    if not eps > 0:
        raise StatsError(f"eps must be positive, got {eps}")
    names = tuple(dict.fromkeys(keys))
    if not names:
        raise StatsError("keys must name at least one value, got none")
    table = run_pass(
        samples,
        names,
        partial(FeatureTable, names, options, dataset_key),
        schema=schema,
        metadata=() if dataset_key is None else (dataset_key,),
        workers=workers,
        progress=progress,
        description="statistics",
    )
    table.check_seen()
    return table
