"""Check that a collator keeps its contract: layout, both paths, replay, workers."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from omniloader._types import Sample
from omniloader.masks import mask_name
from omniloader.schema.batch import UnifiedBatch
from omniloader.schema.spec import (
    INDEX_KEYS,
    METADATA_KEYS,
    DatasetSchema,
    TensorSpec,
    UnifiedSchema,
)
from omniloader.testing.probes import bits_of, own_generators, pickled, refuse_rng, same
from omniloader.testing.samples import copied, native_batch, owned, placeholder_of, random_batch

Collate = Callable[[Sequence[Sample]], dict[str, Any]]

_INSTEAD = "make keys of the batch's index, epoch and visit with omniloader.utils.seeding"
_TIMEOUT_S = 60.0


def check_collator(
    collate: Collate,
    schema: UnifiedSchema | DatasetSchema,
    *,
    native: bool = False,
    mixes: bool = False,
    size: int = 8,
    seed: int = 0,
) -> None:
    """Collate random samples of a schema, and check all that a training loop relies on.

    Checked are:

    - every value of the schema is there with its mask: of its dtype and shape, masks bool; every
      tensor has leading dimension B, metadata are lists of length B, what else there is are
      numbers;
    - row i is sample i: its origin and metadata, and its values up to its own length, then padding;
    - a list of samples and a :class:`~omniloader.schema.batch.UnifiedBatch` give the same bits;
    - the samples of a list stay as they were (a ``UnifiedBatch`` is the collator's to keep);
    - the same samples give the same batch: again, after pickling, in a worker;
    - a batch of one sample works;
    - no generator is stored and global ones are left alone.

    Args:
        collate: Any ``collate_fn``, of your own too.
        schema: What the samples look like.
        native: The collator takes sequences of native length (``pad_features=False``) too.
        mixes: It changes values on purpose, such as mixup: values of rows are not compared.
        size: Number of samples.
        seed: Other samples for other seeds.

    Raises:
        AssertionError: If something does not hold, naming the value and the row.
    """
    union = schema if isinstance(schema, UnifiedSchema) else UnifiedSchema([schema])
    batch, lengths = random_batch(union, ("first", "second"), size, seed)
    batches = {"": batch}
    if native:
        batches[" of native lengths"] = native_batch(batch, lengths)
    for label, one in batches.items():
        case = _Case(collate, one, label, mixes)
        with own_generators(case.name, _INSTEAD):
            case.check_layout()
            case.check_rows()
            case.check_paths()
            case.check_single()
        case.check_pickled()
        case.check_workers()


class _Case:
    def __init__(self, collate: Collate, batch: UnifiedBatch, label: str, mixes: bool) -> None:
        kind = getattr(collate, "__name__", type(collate).__name__)
        self.name = f"{kind}, a batch{label}"
        self.collate = collate
        self.batch = batch
        self.mixes = mixes
        refuse_rng(self.name, collate, _INSTEAD)
        self.result = collate(self.samples())

    def samples(self) -> list[Sample]:
        """The samples one by one, with memory of their own."""
        return [owned(sample) for sample in self.batch]

    def check_layout(self) -> None:
        """Everything is there, of the right type and with a row a sample."""
        self._check_layout(self.result, len(self.batch))
        for spec in self.batch.schema.specs:
            self._check_value(spec)

    def _check_layout(self, result: dict[str, Any], rows: int) -> None:
        if not isinstance(result, dict):
            self._fail(f"must be a dict, got {type(result).__name__}")
        expected = [mask_name(key) for key in self.batch.schema.keys]
        expected += [*self.batch.schema.keys, *METADATA_KEYS, *INDEX_KEYS]
        missing = sorted(set(expected) - result.keys())
        if missing:
            self._fail(f"must hold {', '.join(missing)}")
        for name, value in result.items():
            if isinstance(value, Tensor | list):
                count = len(value) if isinstance(value, list) or value.ndim else None
                if count != rows:
                    self._fail(
                        f"'{name}' must have one row for each of {rows} samples, got {count}"
                    )
            elif not isinstance(value, int | float):
                self._fail(
                    f"'{name}' must be a tensor, a list or a number, got {type(value).__name__}"
                )

    def _check_value(self, spec: TensorSpec) -> None:
        value, mask = self.result[spec.name], self.result[mask_name(spec.name)]
        if value.dtype is not spec.dtype or mask.dtype is not torch.bool:
            self._fail(f"'{spec.name}' must be {spec.dtype} with a bool mask, got {value.dtype}")
        flags = (len(self.batch), value.shape[1]) if spec.is_sequence else (len(self.batch),)
        if value.shape != (*flags, *spec.trailing_shape) or mask.shape != flags:
            self._fail(
                f"'{spec.name}' must keep its step shape and a mask of one flag a step, got "
                f"{tuple(value.shape)} and {tuple(mask.shape)}"
            )

    def check_rows(self) -> None:
        """Rows are the samples, in order."""
        for i, sample in enumerate(self.samples()):
            for name in (*INDEX_KEYS, *METADATA_KEYS):
                if self.result[name][i] != sample[name]:
                    self._fail(f"row {i}: '{name}' must be that of sample {i}")
            if self.mixes:
                continue
            for spec in self.batch.schema.specs:
                for name, rest in (
                    (spec.name, placeholder_of(spec)),
                    (mask_name(spec.name), torch.zeros((), dtype=torch.bool)),
                ):
                    self._check_row(name, i, sample[name], rest)

    def _check_row(self, name: str, i: int, own: Tensor, rest: Tensor) -> None:
        row = self.result[name][i]
        if own.shape != row.shape:
            steps = len(own)
            row, tail = row[:steps], row[steps:]
            if bits_of(tail) != bits_of(rest.expand(tail.shape)):
                self._fail(f"row {i}: '{name}' must be padding after its {steps} steps")
        if not same(row, own):
            self._fail(f"row {i}: '{name}' must be that of sample {i}")

    def check_paths(self) -> None:
        """A stacked batch gives the same, and samples are left alone."""
        self._equal(self.collate(copied(self.batch)), self.result, "from a UnifiedBatch")
        samples = self.samples()
        self._equal(self.collate(samples), self.result, "collated again")
        for i, (after, before) in enumerate(zip(samples, self.batch, strict=True)):
            changed = [key for key in {**before, **after} if not _kept(after, before, key)]
            if changed:
                self._fail(f"must leave sample {i} as it was, '{changed[0]}' has changed")

    def check_single(self) -> None:
        """One sample is a batch too."""
        self._check_layout(self.collate(self.samples()[:1]), 1)

    def check_pickled(self) -> None:
        """It pickles, and does the same then."""
        copy = pickled(self.name, self.collate)
        self._equal(copy(self.samples()), self.result, "after pickling")

    def check_workers(self) -> None:
        """A worker makes the same batch."""
        if "fork" not in multiprocessing.get_all_start_methods():
            return
        loader: DataLoader[Any] = DataLoader(
            _Served(self.batch),
            batch_sampler=[list(range(len(self.batch)))],
            collate_fn=self.collate,
            num_workers=1,
            multiprocessing_context="fork",
            timeout=_TIMEOUT_S,
        )
        (result,) = loader
        self._equal(result, self.result, "in a worker")

    def _equal(self, found: Mapping[str, Any], expected: Mapping[str, Any], when: str) -> None:
        if list(found) != list(expected):
            self._fail(f"must hold the same names in the same order {when}, got {list(found)}")
        for name, value in expected.items():
            if not same(found[name], value):
                self._fail(f"'{name}' must be the same {when}")

    def _fail(self, problem: str) -> None:
        raise AssertionError(f"{self.name}: {problem}")


class _Served(Dataset[Sample]):
    """A batch, as a loader serves it."""

    def __init__(self, batch: UnifiedBatch) -> None:
        self._batch = batch

    def __getitems__(self, indices: list[int]) -> UnifiedBatch:
        return copied(self._batch)


def _kept(after: Sample, before: Sample, key: str) -> bool:
    return key in after and key in before and same(after[key], before[key])
