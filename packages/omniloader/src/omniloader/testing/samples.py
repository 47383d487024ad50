"""Random samples of a schema, for checks to run over: real steps of all numbers, with holes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omniloader._types import IntArray, Sample
from omniloader.masks import mask_name
from omniloader.schema.batch import UnifiedBatch
from omniloader.schema.spec import DatasetSchema, TensorSpec, UnifiedSchema

_EXTRA = 3


def random_batch(
    schema: UnifiedSchema, datasets: Sequence[str], size: int, seed: int
) -> tuple[UnifiedBatch, dict[str, IntArray]]:
    """Samples at full length, and the native length of each of their sequences."""
    rng = np.random.default_rng([seed, 0])
    values: dict[str, Tensor] = {}
    native: dict[str, IntArray] = {}
    for spec in schema.specs:
        value = _random_values(spec, rng, size)
        mask = torch.from_numpy(np.asarray(rng.random((size, *spec.mask_shape)) < 0.7))
        if spec.time_dim is not None:
            lengths = rng.integers(0, spec.time_dim + 1, size)
            lengths[: min(size, 3)] = [0, 1, spec.time_dim][:size]
            native[spec.name] = lengths = rng.permutation(lengths)
            inside = torch.arange(spec.time_dim) < torch.from_numpy(lengths)[:, None]
            mask &= inside
            value[~inside] = placeholder_of(spec)
        else:
            value[~mask] = placeholder_of(spec)
        values[spec.name], values[mask_name(spec.name)] = value, mask
    numbers = torch.arange(size)
    origin = {name: numbers.clone() for name in ("index", "dataset_index", "epoch", "visit")}
    metadata: dict[str, list[Any]] = {
        "dataset": [datasets[i % len(datasets)] for i in range(size)],
        "subset": [None] * size,
        "key": [str(i) for i in range(size)],
    }
    return UnifiedBatch(schema, values, metadata, origin), native


def _random_values(spec: TensorSpec, rng: np.random.Generator, size: int) -> Tensor:
    shape = (size, *spec.value_shape)
    if spec.dtype.is_floating_point:
        return torch.from_numpy(np.asarray(rng.normal(1.0, 2.0, shape))).to(spec.dtype)
    return torch.from_numpy(np.asarray(rng.integers(0, 2, shape))).to(spec.dtype)


def native_batch(batch: UnifiedBatch, lengths: dict[str, IntArray]) -> UnifiedBatch:
    """The same samples at native length."""
    values = dict(batch.values)
    for key, own in lengths.items():
        for name in (key, mask_name(key)):
            values[name] = values[name][:, : int(own.max())].contiguous()
    return batch.with_values(values, dict(lengths))


def padded_batch(batch: UnifiedBatch, schema: UnifiedSchema) -> tuple[UnifiedBatch, UnifiedSchema]:
    """The same samples with more padding after every sequence."""
    values = dict(batch.values)
    for spec in schema.specs:
        if spec.is_sequence:
            value, flags = values[spec.name], values[mask_name(spec.name)]
            tail = placeholder_of(spec).expand(len(batch), _EXTRA, *spec.trailing_shape)
            values[spec.name] = torch.cat([value, tail], 1)
            values[mask_name(spec.name)] = torch.cat(
                [flags, flags.new_zeros(len(batch), _EXTRA)], 1
            )
    longer = UnifiedSchema(
        [DatasetSchema([_longer(s) for s in schema.features], [_longer(s) for s in schema.targets])]
    )
    return replace(batch, schema=longer, values=values), longer


def _longer(spec: TensorSpec) -> TensorSpec:
    return spec if spec.time_dim is None else replace(spec, time_dim=spec.time_dim + _EXTRA)


def placeholder_of(spec: TensorSpec) -> Tensor:
    """One step (or vector) of a value that is not there."""
    return torch.full(spec.trailing_shape, spec.placeholder, dtype=spec.dtype)


def owned(sample: Sample) -> Sample:
    """The sample with memory of its own."""
    return {name: v.clone() if isinstance(v, Tensor) else v for name, v in sample.items()}


def copied(batch: UnifiedBatch) -> UnifiedBatch:
    """The batch with memory of its own."""
    return batch.with_values({name: value.clone() for name, value in batch.values.items()})
