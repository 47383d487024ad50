"""Check that a dataset keeps the contract of a source: items, batches, processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from omniloader._types import MapDataset, Sample
from omniloader.errors import SampleError
from omniloader.masks import is_mask_name
from omniloader.schema.spec import DatasetSchema, UnifiedSchema
from omniloader.schema.unify import SampleUnifier
from omniloader.testing.batch_reads import check_read_batch
from omniloader.testing.probes import own_generators, pickled, refuse_rng
from omniloader.testing.raw import first_difference, overwrite, plain

_INSTEAD = "a dataset serves what it holds; draw in a transform"
_TIMEOUT_S = 60.0


def check_adapter(
    dataset: MapDataset,
    schema: DatasetSchema | None = None,
    *,
    max_samples: int = 12,
    seed: int = 0,
) -> None:
    """Read samples of a dataset in many ways, and check all that a loader relies on.

    Checked are:

    - it has a length; an item is a dict of named values, for a negative index counted from the
      end, and outside it raises ``IndexError``, so that a loop over it ends;
    - an item is the same when it is read again, and the caller's own: writing into it changes
      no later one;
    - with a schema: items fit it, and each declared value is in one of them;
    - ``read_batch`` gives what items give, in any order, of repeated and of no samples, and of
      the ``keys`` asked for alone;
    - ``sequence_lengths`` are those of the items, 0 where there is none, int64;
    - ``sample_ids`` are one name a sample, each once, those of the items' ``key``;
    - it reads the same after pickling, ``reset_for_worker`` and ``close``, and in a forked worker
      (where the system can fork);
    - no generator is stored and global ones are left alone.

    Args:
        dataset: A dataset with samples, of your own too. It is closed if it can be.
        schema: What it declares.
        max_samples: Read so many samples, spread over it; the first and the last among them.
        seed: Other samples for other seeds.

    Raises:
        AssertionError: If something does not hold, naming the value and the sample.
    """
    case = _Case(dataset, schema, max_samples, seed)
    case.check_storage()
    with own_generators(case.name, _INSTEAD):
        case.check_items()
        case.check_ends()
        case.check_schema()
        check_read_batch(case.name, dataset, case.samples, case.size)
        case.check_lengths()
        case.check_names()
    case.check_copies()


class _Case:
    def __init__(
        self, dataset: MapDataset, schema: DatasetSchema | None, max_samples: int, seed: int
    ) -> None:
        self.name = type(dataset).__name__
        self.dataset = dataset
        self.schema = schema
        self.size = len(dataset)
        if self.size < 1:
            raise AssertionError(
                f"{self.name}: it must hold samples to be checked, got {self.size}"
            )
        inner = np.random.default_rng(seed).permutation(self.size)[: max(max_samples - 2, 0)]
        self.indices = sorted({0, self.size - 1, *inner.tolist()})
        self.samples = {index: self._item(index) for index in self.indices}

    def _item(self, index: int, dataset: MapDataset | None = None) -> Sample:
        """A sample as values that can be compared, apart from the dataset's memory."""
        item = (self.dataset if dataset is None else dataset)[index]
        if not isinstance(item, Mapping) or not all(isinstance(key, str) for key in item):
            self._fail(index, f"must be a dict of named values, got {type(item).__name__}")
        return {key: plain(f"{self.name}, sample {index}: '{key}'", v) for key, v in item.items()}

    def check_storage(self) -> None:
        """No generator among what it stores."""
        for value in list(getattr(self.dataset, "__dict__", {}).values()):
            if not isinstance(value, list | tuple | dict):  # index tables can be long
                refuse_rng(self.name, value, _INSTEAD)

    def check_items(self) -> None:
        """Read again they are the same, whatever was done to the first ones."""
        for index in self.indices:
            for value in self.dataset[index].values():
                overwrite(value)
            self._same(index, self._item(index), "read again, after writing into what came first")

    def check_ends(self) -> None:
        """Negative indices count from the end; outside there is nothing."""
        self._same(self.size - 1, self._item(-1), "read as -1")
        for outside in (self.size, -self.size - 1):
            try:
                self.dataset[outside]
            except IndexError:
                continue
            self._fail(outside, f"must raise IndexError, there are {self.size} samples")

    def check_schema(self) -> None:
        """Items fit the declaration, and it declares nothing that never comes."""
        if self.schema is None:
            return
        unifier = SampleUnifier(UnifiedSchema([self.schema]))
        for index in self.indices:
            try:
                unifier(dict(self.dataset[index]))
            except SampleError as error:
                raise AssertionError(
                    f"{self.name}, sample {index}: must fit the schema: {error}"
                ) from error
        for key in sorted(self.schema.keys):
            if not any(sample.get(key) is not None for sample in self.samples.values()):
                raise AssertionError(
                    f"{self.name}: '{key}' is declared and in none of the samples "
                    f"{self.indices}; got {', '.join(self.samples[self.indices[0]])}"
                )

    def check_lengths(self) -> None:
        """Those of the items."""
        lengths_of: Any = getattr(self.dataset, "sequence_lengths", None)
        if not callable(lengths_of):
            return
        for key in self._sequences():
            expected = [_steps(self.samples[index].get(key)) for index in self.indices]
            found = lengths_of(key)
            self._check_array(key, found)
            if found[self.indices].tolist() != expected:
                raise AssertionError(
                    f"{self.name}: sequence_lengths('{key}') must be {expected} for samples "
                    f"{self.indices}, got {found[self.indices].tolist()}"
                )
        unknown = lengths_of("no such key")
        self._check_array("no such key", unknown)
        if unknown.any():
            raise AssertionError(f"{self.name}: sequence_lengths of a key nobody has must be 0")

    def _check_array(self, key: str, found: object) -> None:
        right = isinstance(found, np.ndarray) and found.dtype == np.int64
        if not right or found.shape != (self.size,):  # type: ignore[attr-defined]
            raise AssertionError(
                f"{self.name}: sequence_lengths('{key}') must be int64 of shape ({self.size},), "
                f"got {getattr(found, 'dtype', type(found).__name__)} of shape "
                f"{getattr(found, 'shape', 'none')}"
            )

    def _sequences(self) -> list[str]:
        if self.schema is not None:
            return [spec.name for spec in self.schema.specs if spec.is_sequence]
        keys = dict.fromkeys(key for sample in self.samples.values() for key in sample)
        # Nobody asks for the lengths of a mask: they are those of its value.
        return [key for key in keys if not is_mask_name(key) and self._always_has_steps(key)]

    def _always_has_steps(self, key: str) -> bool:
        held = [sample[key] for sample in self.samples.values() if key in sample]
        return all(isinstance(value, Tensor) and value.ndim for value in held)

    def check_names(self) -> None:
        """``sample_ids``, ``name`` and ``subset``."""
        for attribute in ("name", "subset"):
            value = getattr(self.dataset, attribute, None)
            if value is not None and not isinstance(value, str):
                raise AssertionError(
                    f"{self.name}: {attribute} must be text or None, got {value!r}"
                )
        ids: Any = getattr(self.dataset, "sample_ids", None)
        if ids is None:
            return
        names = list(ids)
        if len(names) != self.size or len(set(names)) != self.size:
            raise AssertionError(
                f"{self.name}: sample_ids must be {self.size} names, each once, got "
                f"{len(names)} with {len(set(names))} different ones"
            )
        for index in self.indices:
            own = self.samples[index].get("key", names[index])
            if not isinstance(names[index], str) or own != names[index]:
                self._fail(
                    index, f"sample_ids must give its name, got {names[index]!r}, it has {own!r}"
                )

    def check_copies(self) -> None:
        """Elsewhere and later it reads the same."""
        self._read_all(pickled(self.name, self.dataset), "after pickling")
        for method in ("reset_for_worker", "close", "close"):
            action = getattr(self.dataset, method, None)
            if callable(action):
                action()
                self._read_all(self.dataset, f"after {method}()")
        if "fork" in multiprocessing.get_all_start_methods():
            self._read_forked()
            self._read_all(self.dataset, "after a forked worker has read")

    def _read_all(self, dataset: MapDataset, when: str) -> None:
        for index in self.indices:
            self._same(index, self._item(index, dataset), when)
        check_read_batch(f"{self.name} {when}", dataset, self.samples, self.size)

    def _read_forked(self) -> None:
        """Handles of this process are open now, and must not be used by its child."""
        loader: DataLoader[str] = DataLoader(
            _Answers(lambda: self._read_all(self.dataset, "in a forked worker")),
            batch_size=None,
            num_workers=1,
            multiprocessing_context="fork",
            timeout=_TIMEOUT_S,
        )
        (problem,) = loader
        if problem:
            raise AssertionError(problem)

    def _same(self, index: int, found: Sample, when: str) -> None:
        difference = first_difference(found, self.samples[index])
        if difference:
            self._fail(index, f"must be the same {when}, {difference}")

    def _fail(self, index: int, problem: str) -> None:
        raise AssertionError(f"{self.name}, sample {index}: {problem}")


class _Answers(Dataset[str]):
    """One item: what a check says in the process that asks."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> str:
        try:
            self._check()
        except AssertionError as error:
            return str(error)
        return ""


def _steps(value: object) -> int:
    return 0 if value is None else len(value)  # type: ignore[arg-type]
