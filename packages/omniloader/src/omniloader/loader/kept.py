"""What a transform has to keep: every value and mask of the schema, in its dtype and width."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from omniloader._types import Sample
from omniloader.errors import SampleError
from omniloader.masks import mask_name
from omniloader.schema.batch import UnifiedBatch
from omniloader.schema.spec import TensorSpec, UnifiedSchema

Result = TypeVar("Result", bound=Sample | UnifiedBatch | list[Sample])


def kept(schema: UnifiedSchema, result: Result) -> Result:
    """Give back what a transform made of a sample or batch, or refuse what fits no longer.

    The number of steps is free, as long as value and mask have the same.

    Raises:
        SampleError: Naming source, sample, value, what was expected and what came.
    """
    if isinstance(result, UnifiedBatch):
        _check(schema, result.values, 1, "the batch")
        return result
    for sample in [result] if isinstance(result, dict) else result:
        _check(schema, sample, 0, f"source '{sample.get('dataset')}', key '{sample.get('key')}'")
    return result


def _check(schema: UnifiedSchema, values: Mapping[str, Any], lead: int, where: str) -> None:
    for spec in schema.specs:
        value, mask = values.get(spec.name), values.get(mask_name(spec.name))
        if not isinstance(value, Tensor) or not isinstance(mask, Tensor):
            lost = spec.name if not isinstance(value, Tensor) else mask_name(spec.name)
            raise SampleError(
                f"{where}: a transform must keep '{lost}' as a tensor, got "
                f"{type(values.get(lost)).__name__}; return every value and mask of the sample"
            )
        problem = _misfit(spec, value, mask, lead)
        if problem:
            raise SampleError(f"{where}, '{spec.name}': after a transform {problem}")


def _misfit(spec: TensorSpec, value: Tensor, mask: Tensor, lead: int) -> str:
    axes = lead + spec.is_sequence
    if value.dtype is not spec.dtype:
        return f"must still have dtype {spec.dtype}, got {value.dtype}; cast it back"
    if value.ndim < axes or value.shape[axes:] != spec.trailing_shape:
        return (
            f"each step must still have shape {spec.trailing_shape}, "
            f"got {tuple(value.shape[axes:])}; keep the width of the schema"
        )
    if mask.dtype is not torch.bool or mask.shape != value.shape[:axes]:
        return (
            f"the mask must be bool of shape {tuple(value.shape[:axes])} like the value, got "
            f"{mask.dtype} {tuple(mask.shape)}; cut value and mask alike"
        )
    return ""
