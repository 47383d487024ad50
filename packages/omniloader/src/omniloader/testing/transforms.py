"""Check that a transform keeps its contract: masks, both paths, padding, replay, workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from omniloader._types import Sample
from omniloader.masks import mask_name
from omniloader.schema.spec import DatasetSchema, TensorSpec, UnifiedSchema
from omniloader.testing.probes import bits_of, own_generators, pickled, refuse_rng, same
from omniloader.testing.samples import (
    copied,
    native_batch,
    owned,
    padded_batch,
    placeholder_of,
    random_batch,
)
from omniloader.transforms.base import Draw, Transform

_INSTEAD = "draw from the generator given"


def check_transform(
    transform: Transform,
    schema: UnifiedSchema | DatasetSchema,
    *,
    moves_time: bool = False,
    datasets: Sequence[str] = ("first", "second"),
    size: int = 8,
    seed: int = 0,
) -> None:
    """Run a transform over random samples of a schema, and check all that a loader relies on.

    The samples have real steps of every number from none to all, holes with values in them, and
    missing values. Checked are:

    - masked steps stay bit for bit, and a step that becomes masked gets the placeholder;
    - dtypes stay, masks stay bool and match their values, finite values stay finite;
    - the batched path equals the per-sample path bit for bit, in native-length mode too;
    - more padding changes nothing but the padding;
    - the same draw gives the same result, also after pickling, and no generator is stored;
    - torch's, NumPy's and Python's global generators are left alone;
    - ``train_only`` holds, and a direct call leaves its argument as it was.

    Args:
        transform: Any transform, of your own too; a ``Compose`` as well.
        schema: What the samples look like; choose it so that the transform has work to do.
        moves_time: The transform may move steps or change their number (a crop, a warp). Then a
            masked step of the result must be the placeholder or a masked step of the input.
        datasets: Names the samples' ``dataset`` takes in turn.
        size: Number of samples.
        seed: Other samples and draws for other seeds.

    Raises:
        AssertionError: If something does not hold, naming the value and the sample.
    """
    union = schema if isinstance(schema, UnifiedSchema) else UnifiedSchema([schema])
    case = _Case(transform, union, moves_time, datasets, size, seed)
    case.check_storage()
    case.check_samples()
    case.check_batches()
    case.check_padding()
    case.check_gate()
    case.check_call()


class _Case:
    """One transform over one set of samples."""

    def __init__(
        self,
        transform: Transform,
        schema: UnifiedSchema,
        moves_time: bool,
        datasets: Sequence[str],
        size: int,
        seed: int,
    ) -> None:
        self.name = type(transform).__name__
        refuse_rng(self.name, transform, _INSTEAD)
        self.unbound = transform
        self.schema = schema
        self.transform = transform.bind(schema)
        self.moves_time = moves_time
        self.batch, self.lengths = random_batch(schema, datasets, size, seed)
        rng = np.random.default_rng([seed, 1])
        self.draw = Draw(seed, *rng.integers(0, 1000, (3, size)))
        self.samples = [self.run(self.sample(i), i) for i in range(size)]

    def sample(self, i: int) -> Sample:
        """Sample i, with memory of its own."""
        return owned(self.batch[i])

    def run(self, sample: Sample, i: int, transform: Transform | None = None) -> Sample:
        """Transform a sample with draw i."""
        used = transform or self.transform
        return used.transform_sample(sample, self.draw.row(i), training=True)

    def check_storage(self) -> None:
        """It pickles, and does the same then."""
        copy = pickled(self.name, self.transform)
        for i, expected in enumerate(self.samples):
            self._equal(self.run(self.sample(i), i, copy), expected, i, "after pickling")

    def check_samples(self) -> None:
        """Masks, dtypes, finiteness, replay, and the global generators."""
        with own_generators(self.name, _INSTEAD):
            for i, result in enumerate(self.samples):
                self._equal(self.run(self.sample(i), i), result, i, "drawn again")
                for spec in self.schema.specs:
                    self._check_value(spec, self.batch[i], result, i)

    def check_batches(self) -> None:
        """The batched path equals the per-sample path."""
        native = native_batch(self.batch, self.lengths)
        singles = [self.run(owned(native[i]), i) for i in range(len(native))]
        for batch, expected, mode in (
            (copied(self.batch), self.samples, "in a batch"),
            (copied(native), singles, "in a batch of native lengths"),
        ):
            results = self.transform.transform_batch(batch, self.draw, training=True)
            for i, result in enumerate(results):
                self._equal(result, expected[i], i, mode)

    def check_padding(self) -> None:
        """More padding changes nothing but the padding."""
        padded, schema = padded_batch(self.batch, self.schema)
        transform = self.unbound.bind(schema)
        for i, expected in enumerate(self.samples):
            result = self.run(owned(padded[i]), i, transform)
            for spec in self.schema.specs:
                if spec.is_sequence:
                    self._check_tail(spec, result, expected[spec.name].shape[0], i)
            self._equal(result, expected, i, "with more padding")

    def check_gate(self) -> None:
        """``train_only`` transforms do nothing when not training."""
        if not self.transform.train_only:
            return
        for i in range(len(self.batch)):
            sample = self.sample(i)
            result = self.transform.transform_sample(sample, self.draw.row(i), training=False)
            self._equal(result, self.batch[i], i, "when not training")

    def check_call(self) -> None:
        """A direct call leaves its argument alone, and repeats with its generator."""
        for i in range(len(self.batch)):
            sample = self.sample(i)
            calls = [
                self.transform(sample, generator=torch.Generator().manual_seed(i)) for _ in range(2)
            ]
            self._equal(sample, self.batch[i], i, "after a direct call, the argument")
            self._equal(calls[0], calls[1], i, "called again")

    # -- findings --------------------------------------------------------------------------

    def _check_value(self, spec: TensorSpec, before: Sample, after: Sample, i: int) -> None:
        value, mask = after[spec.name], after[mask_name(spec.name)]
        old, old_mask = before[spec.name], before[mask_name(spec.name)]
        if value.dtype is not old.dtype or mask.dtype is not torch.bool:
            self._fail(spec.name, i, f"must keep its dtype {old.dtype} and a bool mask")
        if (
            value.shape[: mask.ndim] != mask.shape
            or value.shape[mask.ndim :] != spec.trailing_shape
        ):
            self._fail(spec.name, i, "must keep its step shape and a mask of one flag a step")
        real = value[mask] if mask.ndim else value[None][mask[None]]
        if value.is_floating_point() and not bool(real.isfinite().all()):
            self._fail(spec.name, i, "must stay finite")
        masked = ~mask
        if self.moves_time and spec.is_sequence:
            allowed = {bits_of(step) for step in old[~old_mask]} | {bits_of(placeholder_of(spec))}
            if not all(bits_of(step) in allowed for step in value[masked]):
                self._fail(spec.name, i, "must hold placeholders or masked steps where masked")
            return
        if value.shape != old.shape:
            self._fail(spec.name, i, "must keep its number of steps (or pass moves_time=True)")
        if bool((mask & ~old_mask).any()):
            self._fail(spec.name, i, "must not become real where it was masked")
        if bits_of(value[~old_mask]) != bits_of(old[~old_mask]):
            self._fail(spec.name, i, "must stay bit for bit where it is masked")
        lost = value[old_mask & masked]
        if bits_of(lost) != bits_of(placeholder_of(spec).expand(lost.shape)):
            self._fail(spec.name, i, "must be the placeholder where it becomes masked")

    def _check_tail(self, spec: TensorSpec, result: Sample, steps: int, i: int) -> None:
        """Cut what more padding has appended, once it is known to be padding."""
        name, flags = spec.name, mask_name(spec.name)
        tail = result[name][steps:]
        untouched = bits_of(tail) == bits_of(placeholder_of(spec).expand(tail.shape))
        if bool(result[flags][steps:].any()) or not untouched:
            self._fail(name, i, "must leave padding alone")
        result[name], result[flags] = result[name][:steps], result[flags][:steps]

    def _equal(self, result: Mapping[str, Any], expected: Sample, i: int, when: str) -> None:
        if result.keys() != expected.keys():
            odd = ", ".join(sorted(result.keys() ^ expected.keys()))
            raise AssertionError(f"{self.name}, sample {i}: other names {when}: {odd}")
        for name, value in expected.items():
            if not same(result[name], value):
                self._fail(name, i, f"must be the same {when}")

    def _fail(self, name: str, i: int, problem: str) -> None:
        raise AssertionError(f"{self.name}, sample {i}: '{name}' {problem}")
