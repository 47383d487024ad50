"""What a transform is: one way in for a sample, one for a batch, one train gate, no stored RNG.

A user writes ``apply(sample, generator)`` and nothing else. The same transform then works on one
sample, under a ``DataLoader`` and on whole batches, with the same numbers on each way, because its
randomness comes from *which* sample it sees (:class:`Draw`), not from how often it ran before.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from omniloader._types import IntArray, Sample
from omniloader.errors import ConfigError, SampleError
from omniloader.schema.batch import UnifiedBatch
from omniloader.schema.spec import UnifiedSchema
from omniloader.transforms.rows import merge_rows
from omniloader.utils.seeding import derive_keys, derive_seed, generator_of

Place = tuple[int, ...]
"""Where a transform stands in a pipeline: one position a level of nested ``Compose``."""


@dataclass(frozen=True, eq=False)
class Draw:
    """All that the randomness of B samples may depend on, besides the place of a transform.

    Args:
        seed: Seed of the run.
        epoch: Int64 ``(B,)``.
        index: Global indices, int64 ``(B,)``.
        visit: How often each had already been drawn in its epoch, int64 ``(B,)``.
    """

    seed: int
    epoch: IntArray
    index: IntArray
    visit: IntArray

    def keys(self, place: Place, purpose: str = "") -> npt.NDArray[np.uint64]:
        """One key a sample for a place in the pipeline, uint64 ``(B,)``."""
        return derive_keys(derive_seed(self.seed, "transform", purpose, *place), self._samples)

    @cached_property
    def _samples(self) -> IntArray:
        """Epoch, index and visit hashed into one id a sample, for all places."""
        return derive_keys(0, self.epoch, self.index, self.visit).view(np.int64)

    def row(self, i: int) -> Draw:
        """The draw of sample i alone, B = 1."""
        one = slice(i, i + 1)
        return Draw(self.seed, self.epoch[one], self.index[one], self.visit[one])


class Transform(ABC):
    """Changes unified samples.

    Subclass it and write :meth:`apply`::

        class Louder(Transform):
            train_only = True

            def apply(self, sample, generator):
                gain = 1 + torch.rand((), generator=generator)
                sample["audio"][sample["audio_mask"]] *= gain
                return sample

    Draw from ``generator`` only, keep no generator as an attribute, and change values only where
    their mask is True.
    """

    train_only: ClassVar[bool] = False
    """Skip this transform when not training."""

    @abstractmethod
    def apply(self, sample: Sample, generator: torch.Generator) -> Sample:
        """Transform one sample.

        Args:
            sample: A unified sample that belongs to this call: its tensors may be written in
                place. On the batched path they are views of the batch.
            generator: The only source of randomness, seeded for this sample and place.

        Returns:
            The same dict or another one.
        """

    @final
    def __call__(
        self,
        sample: Sample,
        *,
        training: bool = True,
        generator: torch.Generator | None = None,
    ) -> Sample:
        """Transform one sample that belongs to the caller, outside of a loader.

        Args:
            sample: Left as it is: the result holds copies.
            training: False skips transforms that are ``train_only``.
            generator: Randomness. None: seeded by one number of torch's default generator, so
                ``torch.manual_seed`` repeats a run and two calls differ. (A loader never comes
                here and never touches that generator.)

        Returns:
            A new dict.
        """
        owned = {
            name: value.clone() if isinstance(value, Tensor) else value
            for name, value in sample.items()
        }
        return self._call(owned, training, generator)

    def bind(self, schema: UnifiedSchema) -> Self:
        """This transform for samples of a schema; a loader binds what it is given.

        Built-in transforms learn from it which values are features, their placeholders, and
        refuse keys that do not fit. One that already has a schema keeps it.

        Args:
            schema: The union schema of the samples.

        Returns:
            A transform; this one is not changed.
        """
        return copy.copy(self)

    def transform_sample(
        self, sample: Sample, draw: Draw, *, training: bool, place: Place = ()
    ) -> Sample:
        """Transform one sample that belongs to the callee (written in place).

        Args:
            sample: A unified sample.
            draw: Its randomness, B = 1.
            training: False skips transforms that are ``train_only``.
            place: Where this transform stands in the pipeline.
        """
        return self._sample(sample, draw, place, training) if self._active(training) else sample

    def transform_batch(
        self, batch: UnifiedBatch, draw: Draw, *, training: bool, place: Place = ()
    ) -> UnifiedBatch | list[Sample]:
        """Transform a batch that belongs to the callee (written in place).

        Args:
            batch: B unified samples.
            draw: Their randomness.
            training: False skips transforms that are ``train_only``.
            place: Where this transform stands in the pipeline.

        Returns:
            A batch; or a list of B samples, where they no longer stack into the batch's tensors.
            The values are those of :meth:`transform_sample` for each sample, bit for bit.
        """
        return self._batch(batch, draw, place, training) if self._active(training) else batch

    @final
    def _active(self, training: bool) -> bool:
        """The train gate: all ways in pass here."""
        return training or not self.train_only

    # What the ways in do once past the gate.

    def _call(self, sample: Sample, training: bool, generator: torch.Generator | None) -> Sample:
        if not self._active(training):
            return sample
        return self._checked(self.apply(sample, fresh_generator(generator)))

    def _sample(self, sample: Sample, draw: Draw, place: Place, training: bool) -> Sample:
        return self._applied(sample, generator_of(int(draw.keys(place)[0])))

    def _batch(
        self, batch: UnifiedBatch, draw: Draw, place: Place, training: bool
    ) -> UnifiedBatch | list[Sample]:
        keys = draw.keys(place).tolist()
        views = list(batch)
        rows = [
            self._applied(dict(view), generator_of(key))
            for view, key in zip(views, keys, strict=True)
        ]
        return merge_rows(batch, views, rows)

    def _applied(self, sample: Sample, generator: torch.Generator) -> Sample:
        where = f"source '{sample.get('dataset')}', key '{sample.get('key')}'"
        try:
            return self._checked(self.apply(sample, generator))
        except Exception as error:
            error.add_note(f"while {type(self).__name__} transformed a sample ({where})")
            raise

    def _checked(self, result: Any) -> Sample:
        if isinstance(result, dict):
            return result
        raise SampleError(
            f"{type(self).__name__}.apply must return the sample as a dict, got "
            f"{type(result).__name__}; end it with 'return sample'"
        )


class Compose(Transform):
    """Runs transforms one after another; pipelines may be nested.

    Each child draws for its own place, so the same transform twice draws different numbers, and
    each decides for itself whether it runs when not training.

    Args:
        transforms: The children, first to last.

    Raises:
        ConfigError: If one of them is not a :class:`Transform`.
    """

    def __init__(self, transforms: Sequence[Transform]) -> None:
        self.transforms = tuple(transforms)
        for i, child in enumerate(self.transforms):
            if not isinstance(child, Transform):
                raise ConfigError(
                    f"Compose: transforms[{i}] must be a Transform, got {type(child).__name__}; "
                    "subclass Transform and write its apply(sample, generator)"
                )

    def bind(self, schema: UnifiedSchema) -> Self:
        """This pipeline with every child bound; see :meth:`Transform.bind`."""
        bound = copy.copy(self)
        bound.transforms = tuple(child.bind(schema) for child in self.transforms)
        return bound

    def apply(self, sample: Sample, generator: torch.Generator) -> Sample:
        """Run all children as in training, drawing from one generator in turn."""
        return self._call(sample, True, generator)

    def _call(self, sample: Sample, training: bool, generator: torch.Generator | None) -> Sample:
        for child in self.transforms:
            sample = child._call(sample, training, generator)
        return sample

    def _sample(self, sample: Sample, draw: Draw, place: Place, training: bool) -> Sample:
        for i, child in enumerate(self.transforms):
            sample = child.transform_sample(sample, draw, training=training, place=(*place, i))
        return sample

    def _batch(
        self, batch: UnifiedBatch, draw: Draw, place: Place, training: bool
    ) -> UnifiedBatch | list[Sample]:
        for i, child in enumerate(self.transforms):
            here = (*place, i)
            result = child.transform_batch(batch, draw, training=training, place=here)
            if not isinstance(result, UnifiedBatch):
                return self._rest(result, draw, place, training, i + 1)
            batch = result
        return batch

    def _rest(
        self, samples: list[Sample], draw: Draw, place: Place, training: bool, start: int
    ) -> list[Sample]:
        """The children from ``start`` on, sample by sample: the batch no longer stacks."""
        for i, child in enumerate(self.transforms[start:], start):
            samples = [
                child.transform_sample(sample, draw.row(n), training=training, place=(*place, i))
                for n, sample in enumerate(samples)
            ]
        return samples

    def __len__(self) -> int:
        return len(self.transforms)

    def __repr__(self) -> str:
        return f"Compose([{', '.join(map(repr, self.transforms))}])"


def fresh_generator(given: torch.Generator | None = None) -> torch.Generator:
    """The generator given, or one seeded by a number of torch's default generator."""
    return given or generator_of(int(torch.randint(2**63 - 1, ())))
