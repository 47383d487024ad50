"""Stack unified samples into one batch dict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omniloader._types import IntArray, Sample
from omniloader.collate.transport import in_worker, pack
from omniloader.errors import SampleError
from omniloader.schema.batch import UnifiedBatch
from omniloader.schema.spec import INDEX_KEYS


def unified_collate(batch: Sequence[Sample]) -> dict[str, Any]:
    """Stack samples of an :class:`~omniloader.loader.OmniLoader` into a batch.

    Args:
        batch: B unified samples (what ``DataLoader`` hands to a ``collate_fn``).

    Returns:
        A dict: values and masks as tensors ``(B, …)``, metadata as lists of length B, and
        ``index dataset_index epoch visit`` as int64 ``(B,)``.

    Raises:
        SampleError: If a value is missing in some samples, or has another shape or dtype in
            some, naming the value and the samples. Sequences of native length
            (``pad_features=False``) need :class:`DynamicCollator`.
    """
    if isinstance(batch, UnifiedBatch):
        return finish(batch.values, batch.metadata, batch.origin, batch.lengths)
    names = list(dict.fromkeys(name for sample in batch for name in sample))
    collated = {
        name: _column(name, [sample.get(name) for sample in batch], batch) for name in names
    }
    return pack(collated) if in_worker() else collated


def finish(
    values: dict[str, Tensor],
    metadata: dict[str, list[Any]],
    origin: dict[str, Tensor],
    lengths: dict[str, IntArray] | None,
) -> dict[str, Any]:
    """Join the parts of a stacked batch into its dict, refusing native lengths that differ."""
    for name, own in (lengths or {}).items():
        if len(own) and np.any(own != own[0]):
            raise SampleError(_lengths_differ(name, own.tolist()))
    collated = {**values, **metadata, **origin}
    return pack(collated) if in_worker() else collated


def _column(name: str, column: list[Any], batch: Sequence[Sample]) -> Any:
    tensors = [item for item in column if isinstance(item, Tensor)]
    if not tensors:
        return torch.tensor(column) if name in INDEX_KEYS and None not in column else column
    first = tensors[0]
    for i, item in enumerate(column):
        if not isinstance(item, Tensor):
            raise SampleError(
                f"{_which(batch[i], i)}: '{name}' must be a tensor in every sample of a batch, got "
                f"{type(item).__name__}; let the transform set it for all samples or for none"
            )
        if item.dtype is not first.dtype:
            raise SampleError(
                f"{_which(batch[i], i)}: '{name}' must have dtype {first.dtype} like the samples "
                f"before it, got {item.dtype}; keep the dtype of the schema in transforms"
            )
        if item.shape[1:] == first.shape[1:] and item.ndim and item.shape != first.shape:
            raise SampleError(_lengths_differ(name, [len(tensor) for tensor in tensors]))
        if item.shape != first.shape:
            raise SampleError(
                f"{_which(batch[i], i)}: '{name}' must have shape {tuple(first.shape)} like the "
                f"samples before it, got {tuple(item.shape)}; keep shapes equal in transforms"
            )
    return torch.stack(tensors)


def _lengths_differ(name: str, lengths: list[int]) -> str:
    return (
        f"'{name}': all sequences of a batch must have one length to be stacked, got lengths "
        f"{min(lengths)} to {max(lengths)}; use DynamicCollator (collate: dynamic) to pad them to "
        "the longest, or OmniLoader(pad_features=True) to bring them to time_dim"
    )


def _which(sample: Sample, i: int) -> str:
    return f"batch row {i} (source '{sample.get('dataset')}', key '{sample.get('key')}')"
