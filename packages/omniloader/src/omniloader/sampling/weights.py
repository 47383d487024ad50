"""Class balance of categorical targets: weights for a sampler, counts and weights for a loss.

Two tools, named for what consumes their output; both count valid (unmasked) positions only:

- :func:`class_weights_for_sampler`: one weight a *sample*, to resample toward a flat histogram.
- :func:`class_histogram`, :func:`class_weights_for_loss`, :func:`positive_weights_for_loss`:
  figures of *positions* (each valid step of a framewise target), as a loss sees them. Compute
  them once and keep them; the loss stays in your training code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omniloader._types import FloatArray, IntArray
from omniloader.errors import StatsError
from omniloader.schema.spec import DatasetSchema, UnifiedSchema
from omniloader.stats.histogram import ClassCounts, PositiveCounts, SampleClasses
from omniloader.stats.passes import run_pass
from omniloader.utils.parts import Workers

Schema = DatasetSchema | UnifiedSchema


def class_weights_for_sampler(
    samples: Any,
    target_key: str,
    *,
    schema: Schema | None = None,
    workers: Workers = 0,
    progress: bool = False,
) -> list[float]:
    """Per-sample inverse class frequencies, for ``SubsampleConfig(sample_weights=…)``.

    With them every class is drawn equally often, to within one draw where the strategy draws
    without replacement. Balance within a source: its weights align with the source's samples.

    Args:
        samples: A source dataset, an ``OmniLoader``, a ``DataLoader`` that does not shuffle, or
            any iterable of sample dicts. Read once.
        target_key: A categorical target. ``<target_key>_mask`` says which positions are valid;
            without it all are. A framewise ``(T,)`` sample is of the class that most of its
            valid steps have (the smallest id among equals).
        schema: Tells whether the target is a sequence, for raw samples without masks.
        workers: Processes that read slices of a map-style dataset, or an engine.
        progress: Show a progress bar on standard error.

    Returns:
        One weight a sample, in order: 1 / (number of samples of its class), and 0 for a sample
        without a valid target, which is then never drawn.

    Raises:
        StatsError: If the key is in no sample, a class id is impossible, or no sample has a
            valid target. A ``ValueError``.
    """
    found = run_pass(
        samples,
        [target_key],
        partial(SampleClasses, target_key),
        schema=schema,
        numbers=True,
        workers=workers,
        progress=progress,
        description="sampler weights",
    )
    found.seen.check(target_key)
    classes = found.classes()
    valid = classes >= 0
    if not valid.any():
        raise _nothing_valid(target_key)
    weights = np.zeros(len(classes))
    weights[valid] = 1.0 / np.bincount(classes[valid])[classes[valid]]
    return weights.tolist()


def class_histogram(
    samples: Any,
    target_key: str,
    num_classes: int | None = None,
    *,
    schema: Schema | None = None,
    workers: Workers = 0,
    progress: bool = False,
) -> Tensor:
    """Count the valid positions of each class.

    Args:
        samples: A source dataset, an ``OmniLoader``, a ``DataLoader``, or any iterable of sample
            dicts. Read once.
        target_key: A categorical target; ``<target_key>_mask`` says which positions are valid.
            Every valid step of a framewise target counts.
        num_classes: Number of classes. None: largest id + 1.
        schema: Tells whether the target is a sequence, for raw samples without masks.
        workers: Processes that read slices of a map-style dataset, or an engine.
        progress: Show a progress bar on standard error.

    Returns:
        Counts, int64 ``(num_classes,)``.

    Raises:
        StatsError: If the key is in no sample; an id is negative, not whole, or not below
            ``num_classes``, naming the sample; or no position is valid and ``num_classes`` is
            not given. A ``ValueError``.
    """
    counts = _counts(samples, target_key, num_classes, schema, workers, progress)
    return torch.from_numpy(counts)


def class_weights_for_loss(
    samples: Any,
    target_key: str,
    num_classes: int | None = None,
    scheme: str = "inverse",
    beta: float = 0.999,
    *,
    schema: Schema | None = None,
    workers: Workers = 0,
    progress: bool = False,
) -> Tensor:
    """Per-class weights, for ``CrossEntropyLoss(weight=…)`` and the like.

    Args:
        samples: As for :func:`class_histogram`.
        target_key: A categorical target.
        num_classes: Number of classes. None: largest id + 1.
        scheme: ``"inverse"`` (1 / count) or ``"effective"`` (effective number of samples,
            Cui et al. 2019: ``(1 - beta) / (1 - beta ** count)``).
        beta: In ``[0, 1)``, for ``"effective"``: 0 weighs all classes alike, near 1 as inverse.
        schema: Tells whether the target is a sequence, for raw samples without masks.
        workers: Processes that read slices of a map-style dataset, or an engine.
        progress: Show a progress bar on standard error.

    Returns:
        Weights, float32 ``(num_classes,)``, 1 on average over all classes so that the loss keeps
        its scale; 0 for classes without an instance.

    Raises:
        StatsError: As :func:`class_histogram`; also for an unknown scheme, a beta outside
            ``[0, 1)``, or if no position is valid. A ``ValueError``.
    """
    check_scheme(scheme, beta)
    counts = _counts(samples, target_key, num_classes, schema, workers, progress)
    if not counts.any():
        raise _nothing_valid(target_key)
    return weights_of_counts(torch.from_numpy(counts), scheme, beta)


def check_scheme(scheme: str, beta: float) -> None:
    """Refuse options of :func:`class_weights_for_loss` before a long pass.

    Raises:
        StatsError: If the scheme is unknown, or beta outside ``[0, 1)``.
    """
    if scheme not in SCHEMES:
        raise StatsError(f"scheme must be one of {', '.join(SCHEMES)}, got {scheme!r}")
    if not 0.0 <= beta < 1.0:
        raise StatsError(f"beta must be at least 0 and below 1, got {beta}")


def weights_of_counts(counts: Tensor, scheme: str = "inverse", beta: float = 0.999) -> Tensor:
    """Per-class loss weights from a histogram; see :func:`class_weights_for_loss`.

    Args:
        counts: From :func:`class_histogram`, ``(num_classes,)``.
        scheme: ``"inverse"`` or ``"effective"``.
        beta: For ``"effective"``.

    Returns:
        Weights, float32 ``(num_classes,)``.

    Raises:
        StatsError: If all counts are 0, or an option cannot be used.
    """
    check_scheme(scheme, beta)
    found = counts.numpy()
    present = found > 0
    if not present.any():
        raise StatsError(f"counts must not all be 0 to be weighed, got {len(found)} zeros")
    weights = np.zeros(len(found))
    weights[present] = SCHEMES[scheme](found[present], beta)
    return torch.from_numpy(weights * (len(found) / weights.sum())).to(torch.float32)


def _inverse(counts: IntArray, beta: float) -> FloatArray:
    return np.asarray(1.0 / counts)


def _effective(counts: IntArray, beta: float) -> FloatArray:
    if beta == 0.0:
        return np.ones(len(counts))
    # expm1 keeps the digits that 1 - beta ** count loses where beta is near 1.
    return np.asarray((1.0 - beta) / -np.expm1(counts * np.log(beta)))


SCHEMES: dict[str, Callable[[IntArray, float], FloatArray]] = {
    "inverse": _inverse,
    "effective": _effective,
}


def positive_weights_for_loss(
    samples: Any,
    target_key: str,
    *,
    schema: Schema | None = None,
    workers: Workers = 0,
    progress: bool = False,
) -> Tensor:
    """Weights of the positives of a multi-label target, for ``BCEWithLogitsLoss(pos_weight=…)``.

    Args:
        samples: As for :func:`class_histogram`.
        target_key: A target of 0 and 1 for each of C labels: ``(C,)``, or framewise ``(T, C)``.
        schema: Tells whether the target is a sequence, for raw samples without masks.
        workers: Processes that read slices of a map-style dataset, or an engine.
        progress: Show a progress bar on standard error.

    Returns:
        Negatives / positives of each label over valid positions, float32 ``(C,)``; 1 for a label
        that is never, or always, positive, where there is nothing to balance.

    Raises:
        StatsError: If the key is in no sample, a valid entry is neither 0 nor 1, or nothing is
            valid. A ``ValueError``.
    """
    found = run_pass(
        samples,
        [target_key],
        partial(PositiveCounts, target_key),
        schema=schema,
        workers=workers,
        progress=progress,
        description="positive weights",
    )
    found.seen.check(target_key)
    if found.positives is None or not found.total:
        raise _nothing_valid(target_key)
    negatives = found.total - found.positives
    balanced = (found.positives > 0) & (negatives > 0)
    weights = np.where(balanced, negatives / np.maximum(found.positives, 1.0), 1.0)
    return torch.from_numpy(weights).to(torch.float32)


def _counts(
    samples: Any,
    target_key: str,
    num_classes: int | None,
    schema: Schema | None,
    workers: Workers,
    progress: bool,
) -> IntArray:
    if num_classes is not None:
        if isinstance(num_classes, bool) or not isinstance(num_classes, int | np.integer):
            raise StatsError(f"num_classes must be a whole number, got {num_classes!r}")
        if num_classes < 1:
            raise StatsError(f"num_classes must be at least 1, got {num_classes}")
    found = run_pass(
        samples,
        [target_key],
        partial(ClassCounts, target_key, num_classes),
        schema=schema,
        numbers=True,
        workers=workers,
        progress=progress,
        description="class histogram",
    )
    found.seen.check(target_key)
    if num_classes is None and not len(found.counts):
        raise _nothing_valid(target_key)
    return found.counts


def _nothing_valid(target_key: str) -> StatsError:
    return StatsError(
        f"'{target_key}' has no valid position in any sample: all are masked; check the source, "
        "or leave the target out"
    )
