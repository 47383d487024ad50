"""Transforms written for whole batches: one kernel, of which one sample is the case B = 1."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from omniloader._types import IntArray, Sample
from omniloader.errors import OmniError
from omniloader.masks import mask_name
from omniloader.schema.batch import UnifiedBatch
from omniloader.schema.spec import DatasetSchema, UnifiedSchema
from omniloader.transforms.base import Draw, Place, Transform, fresh_generator
from omniloader.transforms.select import (
    Form,
    Needs,
    checked_keys,
    forms_of_schema,
    forms_of_values,
    select,
)

Keys = npt.NDArray[np.uint64]
"""One random key a sample, uint64 ``(B,)``."""


@dataclass(slots=True)
class Stack:
    """B samples in columns, the state a kernel works on.

    Args:
        size: B.
        values: Values and masks ``(B, …)``. A kernel may write into them or replace them.
        metadata: Names to B values.
        lengths: In native-length mode each sequence's own lengths ``(B,)``, else None.
    """

    size: int
    values: dict[str, Tensor]
    metadata: Mapping[str, Sequence[Any]]
    lengths: dict[str, IntArray] | None = None

    def pair(self, name: str) -> tuple[Tensor, Tensor]:
        """A value ``(B, …)`` and its mask."""
        return self.values[name], self.values[mask_name(name)]


class BatchTransform(Transform):
    """A transform whose kernel takes B samples at once; see :meth:`apply_batch`.

    Args:
        keys: Names of the values to act on. None: all that fit :attr:`needs`.
        schema: The union schema; a loader or config gives its own where this is None.

    Raises:
        ConfigError: If the schema is known and a key is not in it or does not fit.
    """

    needs: ClassVar[Needs] = Needs()
    random: ClassVar[bool] = True
    """Whether the kernel uses its keys at all."""
    refusal: ClassVar[type[OmniError] | None] = None
    """What a key that does not fit raises; None: ConfigError, or SampleError without a schema."""

    def __init__(
        self, keys: Sequence[str] | None = None, schema: UnifiedSchema | DatasetSchema | None = None
    ) -> None:
        self.keys = checked_keys(type(self).__name__, keys)
        self.schema: UnifiedSchema | None = None
        self._forms: tuple[Form, ...] | None = None
        if schema is not None:
            self._learn(schema if isinstance(schema, UnifiedSchema) else UnifiedSchema([schema]))

    @abstractmethod
    def apply_batch(self, stack: Stack, keys: Keys) -> None:
        """Transform B samples, in place.

        What comes out for a sample must not depend, bit for bit, on the samples beside it.

        Args:
            stack: The samples; belongs to this call.
            keys: One random key a sample, uint64 ``(B,)``.
        """

    def bind(self, schema: UnifiedSchema) -> Self:
        """This transform for samples of a schema, unless it has one already.

        Raises:
            ConfigError: If a key is not in the schema or does not fit.
        """
        bound = copy.copy(self)
        if bound.schema is None:
            bound._learn(schema)
        return bound

    def apply(self, sample: Sample, generator: torch.Generator) -> Sample:
        """Transform one sample, in place; draws one number from the generator."""
        return self._run_one(sample, _key_from(generator) if self.random else _no_keys(1))

    def forms(self, stack: Stack) -> tuple[Form, ...]:
        """The values to act on.

        Raises:
            SampleError: If a key is not there or does not fit.
        """
        if self._forms is None:
            return self._select(self.keys, forms_of_values(stack.values), "sample")
        if not all(form.name in stack.values for form in self._forms):
            names = tuple(form.name for form in self._forms)
            self._select(names, forms_of_values(stack.values), "sample")
        return self._forms

    def _select(
        self, keys: tuple[str, ...] | None, forms: dict[str, Form], known: str
    ) -> tuple[Form, ...]:
        return select(type(self).__name__, keys, forms, self.needs, known, self.refusal)

    def _learn(self, schema: UnifiedSchema) -> None:
        self._forms = self._select(self.keys, forms_of_schema(schema), "schema")
        self.schema = schema

    # How the ways in reach the kernel.

    def _call(self, sample: Sample, training: bool, generator: torch.Generator | None) -> Sample:
        if not self._active(training):
            return sample
        keys = _key_from(fresh_generator(generator)) if self.random else _no_keys(1)
        return self._run_one(sample, keys)

    def _sample(self, sample: Sample, draw: Draw, place: Place, training: bool) -> Sample:
        return self._run_one(sample, draw.keys(place) if self.random else _no_keys(1))

    def _batch(
        self, batch: UnifiedBatch, draw: Draw, place: Place, training: bool
    ) -> UnifiedBatch | list[Sample]:
        stack = Stack(len(batch), dict(batch.values), batch.metadata, batch.lengths)
        self.apply_batch(stack, draw.keys(place) if self.random else _no_keys(len(batch)))
        return batch.with_values(stack.values, stack.lengths)

    def _run_one(self, sample: Sample, keys: Keys) -> Sample:
        tensors = {k: v.unsqueeze(0) for k, v in sample.items() if isinstance(v, Tensor)}
        others = {k: [v] for k, v in sample.items() if not isinstance(v, Tensor)}
        stack = Stack(1, dict(tensors), others)
        self.apply_batch(stack, keys)
        for name, value in stack.values.items():
            if value is not tensors.get(name):
                sample[name] = value.squeeze(0)
        return sample

    def __repr__(self) -> str:
        options = ", ".join(
            f"{name}={value!r}"
            for name, value in vars(self).items()
            if not name.startswith("_") and name != "schema"
        )
        return f"{type(self).__name__}({options})"


def _key_from(generator: torch.Generator) -> Keys:
    word = int(torch.randint(-(2**63), 2**63 - 1, (), generator=generator))
    return np.array([word], dtype=np.int64).view(np.uint64)


def _no_keys(size: int) -> Keys:
    return np.zeros(size, dtype=np.uint64)
