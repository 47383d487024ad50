"""Check that a transform keeps its contract: masks, both paths, padding, replay, workers."""

from __future__ import annotations

import pickle
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omniloader._types import IntArray, Sample
from omniloader.masks import mask_name
from omniloader.schema.batch import UnifiedBatch
from omniloader.schema.spec import DatasetSchema, TensorSpec, UnifiedSchema
from omniloader.transforms.base import Draw, Transform

_RNG = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
_EXTRA = 3


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
        _refuse_rng(self.name, transform, set())
        self.unbound = transform
        self.schema = schema
        self.transform = transform.bind(schema)
        self.moves_time = moves_time
        self.batch, self.lengths = _random_batch(schema, datasets, size, seed)
        rng = np.random.default_rng([seed, 1])
        self.draw = Draw(seed, *rng.integers(0, 1000, (3, size)))
        self.samples = [self.run(self.sample(i), i) for i in range(size)]

    def sample(self, i: int) -> Sample:
        """Sample i, with memory of its own."""
        return _owned(self.batch[i])

    def run(self, sample: Sample, i: int, transform: Transform | None = None) -> Sample:
        """Transform a sample with draw i."""
        used = transform or self.transform
        return used.transform_sample(sample, self.draw.row(i), training=True)

    def check_storage(self) -> None:
        """It pickles, and does the same then."""
        try:
            copy = pickle.loads(pickle.dumps(self.transform))  # noqa: S301 - our own bytes
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise AssertionError(
                f"{self.name} must pickle, for workers that are spawned, got: {error}; define it "
                "at the top of a module, and keep lambdas and open files out of it"
            ) from error
        for i, expected in enumerate(self.samples):
            self._equal(self.run(self.sample(i), i, copy), expected, i, "after pickling")

    def check_samples(self) -> None:
        """Masks, dtypes, finiteness, replay, and the global generators."""
        before = _global_state()
        for i, result in enumerate(self.samples):
            self._equal(self.run(self.sample(i), i), result, i, "drawn again")
            for spec in self.schema.specs:
                self._check_value(spec, self.batch[i], result, i)
        if _global_state() != before:
            raise AssertionError(
                f"{self.name} draws from a global generator; draw from the generator given"
            )

    def check_batches(self) -> None:
        """The batched path equals the per-sample path."""
        native = _native(self.batch, self.lengths)
        singles = [self.run(_owned(native[i]), i) for i in range(len(native))]
        for batch, expected, mode in (
            (_copied(self.batch), self.samples, "in a batch"),
            (_copied(native), singles, "in a batch of native lengths"),
        ):
            results = self.transform.transform_batch(batch, self.draw, training=True)
            for i, result in enumerate(results):
                self._equal(result, expected[i], i, mode)

    def check_padding(self) -> None:
        """More padding changes nothing but the padding."""
        padded, schema = _padded(self.batch, self.schema)
        transform = self.unbound.bind(schema)
        for i, expected in enumerate(self.samples):
            result = self.run(_owned(padded[i]), i, transform)
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
            allowed = {_bits(step) for step in old[~old_mask]} | {_bits(_placeholder(spec))}
            if not all(_bits(step) in allowed for step in value[masked]):
                self._fail(spec.name, i, "must hold placeholders or masked steps where masked")
            return
        if value.shape != old.shape:
            self._fail(spec.name, i, "must keep its number of steps (or pass moves_time=True)")
        if bool((mask & ~old_mask).any()):
            self._fail(spec.name, i, "must not become real where it was masked")
        if _bits(value[~old_mask]) != _bits(old[~old_mask]):
            self._fail(spec.name, i, "must stay bit for bit where it is masked")
        lost = value[old_mask & masked]
        if _bits(lost) != _bits(_placeholder(spec).expand(lost.shape)):
            self._fail(spec.name, i, "must be the placeholder where it becomes masked")

    def _check_tail(self, spec: TensorSpec, result: Sample, steps: int, i: int) -> None:
        """Cut what more padding has appended, once it is known to be padding."""
        name, flags = spec.name, mask_name(spec.name)
        tail = result[name][steps:]
        untouched = _bits(tail) == _bits(_placeholder(spec).expand(tail.shape))
        if bool(result[flags][steps:].any()) or not untouched:
            self._fail(name, i, "must leave padding alone")
        result[name], result[flags] = result[name][:steps], result[flags][:steps]

    def _equal(self, result: Mapping[str, Any], expected: Sample, i: int, when: str) -> None:
        if result.keys() != expected.keys():
            odd = ", ".join(sorted(result.keys() ^ expected.keys()))
            raise AssertionError(f"{self.name}, sample {i}: other names {when}: {odd}")
        for name, value in expected.items():
            other = result[name]
            if isinstance(value, Tensor) and isinstance(other, Tensor):
                same = value.shape == other.shape and value.dtype is other.dtype
                same = same and _bits(value) == _bits(other)
            else:
                same = type(value) is type(other) and bool(value == other)
            if not same:
                self._fail(name, i, f"must be the same {when}")

    def _fail(self, name: str, i: int, problem: str) -> None:
        raise AssertionError(f"{self.name}, sample {i}: '{name}' {problem}")


def _random_batch(
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
            inside = (
                torch.arange(spec.time_dim) < torch.from_numpy(rng.permutation(lengths))[:, None]
            )
            mask &= inside
            value[~inside] = _placeholder(spec)
        else:
            value[~mask] = _placeholder(spec)
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


def _native(batch: UnifiedBatch, lengths: dict[str, IntArray]) -> UnifiedBatch:
    """The same samples at native length."""
    values = dict(batch.values)
    for key, own in lengths.items():
        for name in (key, mask_name(key)):
            values[name] = values[name][:, : int(own.max())].contiguous()
    return batch.with_values(values, dict(lengths))


def _padded(batch: UnifiedBatch, schema: UnifiedSchema) -> tuple[UnifiedBatch, UnifiedSchema]:
    """The same samples with more padding after every sequence."""
    values = dict(batch.values)
    for spec in schema.specs:
        if spec.is_sequence:
            value, flags = values[spec.name], values[mask_name(spec.name)]
            tail = _placeholder(spec).expand(len(batch), _EXTRA, *spec.trailing_shape)
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


def _placeholder(spec: TensorSpec) -> Tensor:
    return torch.full(spec.trailing_shape, spec.placeholder, dtype=spec.dtype)


def _owned(sample: Sample) -> Sample:
    return {name: v.clone() if isinstance(v, Tensor) else v for name, v in sample.items()}


def _copied(batch: UnifiedBatch) -> UnifiedBatch:
    return batch.with_values({name: value.clone() for name, value in batch.values.items()})


def _bits(value: Tensor) -> bytes:
    """The bytes of a tensor: NaN equals itself, and 0 is not -0."""
    flat = value.clone(memory_format=torch.contiguous_format).reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()


def _global_state() -> tuple[Any, ...]:
    legacy = np.random.get_state(legacy=False)
    return _bits(torch.get_rng_state()), repr(legacy), random.getstate()


def _refuse_rng(name: str, value: object, seen: set[int]) -> None:
    """Refuse a generator anywhere in what an object stores."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, _RNG):
        raise AssertionError(
            f"{name} stores a {type(value).__name__}, which every worker would clone; draw from "
            "the generator given"
        )
    if isinstance(value, Mapping):
        inner: Sequence[object] = list(value.values())
    elif isinstance(value, list | tuple | set):
        inner = list(value)
    else:
        inner = list(getattr(value, "__dict__", {}).values())
    for part in inner:
        _refuse_rng(name, part, seen)
