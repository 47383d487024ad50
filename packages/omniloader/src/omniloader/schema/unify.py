"""Bring one raw sample to the union schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from omniloader._types import Sample
from omniloader.errors import SampleError
from omniloader.masks import mask_name
from omniloader.schema.spec import METADATA_KEYS, DatasetSchema, TensorSpec, UnifiedSchema
from omniloader.schema.values import Misfit, fit_raw

__all__ = ["METADATA_KEYS", "SampleUnifier"]

Refuse = Callable[[str, str], None]
"""Called with (name of the value, problem); raises, or returns to have the value masked."""


class SampleUnifier:
    """Maps a raw sample onto the union schema: every value there, with a mask beside it.

    ::

        >>> schema = DatasetSchema([TensorSpec("x", time_dim=3)], [TensorSpec("y")])
        >>> SampleUnifier(schema)({"x": torch.tensor([1.0, 2.0])})
        {'x': tensor([1., 2., 0.]), 'x_mask': tensor([ True,  True, False]),
         'y': tensor(0.), 'y_mask': tensor(False), 'dataset': None, 'subset': None, 'key': None}

    Args:
        schema: The union of all sources (a :class:`DatasetSchema` is its own union).
        pad_features: Bring sequences to ``time_dim``. False keeps their native length; a
            missing sequence then has length 0.
        declared: What the sample's own source declares. Values it does not declare are left
            out even where another source declares the name; its ``nonfinite`` and ``sentinel``
            apply. None: all of ``schema``.
    """

    def __init__(
        self,
        schema: UnifiedSchema | DatasetSchema,
        pad_features: bool = True,
        declared: DatasetSchema | None = None,
    ) -> None:
        self.schema = schema if isinstance(schema, UnifiedSchema) else UnifiedSchema([schema])
        self.pad_features = pad_features
        own = self.schema.specs if declared is None else declared.specs
        self._own = {spec.name: spec for spec in own}

    def __call__(self, sample: Mapping[str, Any], refuse: Refuse | None = None) -> Sample:
        """Unify one sample.

        Args:
            sample: Names to values, ``<name>_mask`` beside a value where not all of it is real.
            refuse: Decides about a value that does not fit; default raises.

        Returns:
            Value and mask of every spec of the union, then the metadata ``dataset``, ``subset``
            and ``key`` (None where the sample has none). Owns its memory.

        Raises:
            SampleError: If a value does not fit its spec, naming the value.
        """
        unified: Sample = {}
        for spec in self.schema.specs:
            own = self._own.get(spec.name)
            raw = None if own is None else sample.get(spec.name)
            value, mask = self._absent(spec), None
            if own is not None and raw is not None:
                fitted = self._unify(own, raw, sample.get(mask_name(spec.name)))
                if isinstance(fitted, Misfit):
                    (refuse or _raise)(spec.name, str(fitted))
                else:
                    value, mask = fitted
            unified[spec.name] = value
            unified[mask_name(spec.name)] = self._false(spec) if mask is None else mask
        for name in METADATA_KEYS:
            unified[name] = sample.get(name)
        return unified

    def _unify(self, spec: TensorSpec, raw: Any, raw_mask: Any) -> tuple[Tensor, Tensor] | Misfit:
        """Value and mask that own their memory, or what is wrong with them."""
        fitted = fit_raw(spec, raw, raw_mask, crop=self.pad_features)
        if isinstance(fitted, Misfit):
            return fitted
        value, mask = fitted
        if not spec.is_sequence:
            real = torch.ones((), dtype=torch.bool) if mask is None else mask.clone()
            return value.clone(memory_format=torch.contiguous_format), real
        steps = value.shape[0]
        length = spec.time_dim if self.pad_features and spec.time_dim is not None else steps
        out = torch.full((length, *spec.trailing_shape), spec.placeholder, dtype=spec.dtype)
        out[:steps] = value
        out_mask = torch.zeros(length, dtype=torch.bool)
        out_mask[:steps] = True if mask is None else mask
        return out, out_mask

    def _absent(self, spec: TensorSpec) -> Tensor:
        if spec.is_sequence and not self.pad_features:
            return torch.empty((0, *spec.trailing_shape), dtype=spec.dtype)
        return spec.placeholder_value()

    def _false(self, spec: TensorSpec) -> Tensor:
        if spec.is_sequence and not self.pad_features:
            return torch.empty(0, dtype=torch.bool)
        return spec.placeholder_mask()


def _raise(name: str, problem: str) -> None:
    raise SampleError(f"'{name}': {problem}")
