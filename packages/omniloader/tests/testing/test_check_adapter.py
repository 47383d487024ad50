"""Every clause of the contract of a source is broken once, and named."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch

from omniloader._types import Gather
from omniloader.schema.spec import DatasetSchema, TensorSpec
from omniloader.testing import check_adapter
from omniloader.testing.raw import alike, plain

DECLARED = DatasetSchema([TensorSpec("x", feature_dim=2, time_dim=4)], [TensorSpec("y")])


class Good:
    """Ragged sequences, a label that some lack, a text."""

    name = "good"
    subset = None

    def __init__(self, size: int = 6) -> None:
        rng = np.random.default_rng(0)
        self.size = size
        self.values = [rng.normal(size=(1 + i % 4, 2)).astype(np.float32) for i in range(size)]
        self.sample_ids = [f"s{i}" for i in range(size)]

    def __len__(self) -> int:
        return self.size

    def _at(self, index: int) -> int:
        if not -self.size <= index < self.size:
            raise IndexError(index)
        return index % self.size

    def __getitem__(self, index: int) -> Any:
        at = self._at(index)
        sample = {"x": self.values[at].copy(), "key": self.sample_ids[at]}
        return sample if at == 1 else {**sample, "y": float(at)}

    def read_batch(self, indices: Any, keys: Any = None) -> Any:
        samples = [self[int(i)] for i in indices]
        names = ("x", "y", "key") if keys is None else [k for k in keys if k in ("x", "y", "key")]
        return {name: [sample.get(name) for sample in samples] for name in names}

    def sequence_lengths(self, key: str) -> Any:
        if key != "x":
            return np.zeros(self.size, dtype=np.int64)
        return np.array([len(value) for value in self.values])

    def reset_for_worker(self) -> None:
        """Nothing is open."""


class Bare:
    """A length and items, nothing else."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Any:
        if index not in (0, -1):
            raise IndexError(index)
        flags = np.array([True, False])
        flags.flags.writeable = False
        return {"x": torch.ones(9), "words": ["a", "b"], "flags": flags, "ok": torch.tensor(True)}


def broken(**methods: Any) -> Good:
    return type("Broken", (Good,), methods)()


def test_a_source_of_ones_own_passes() -> None:
    check_adapter(Good(), DECLARED)
    check_adapter(Good(), max_samples=2)
    check_adapter(Bare())


def wrap(self: Good, index: int) -> Any:
    return Good.__getitem__(self, index % self.size)


def late(self: Good, index: int) -> Any:
    return Good.__getitem__(self, index) if index >= 0 else Good.__getitem__(self, 0)


def shared(self: Good, index: int) -> Any:
    return {**Good.__getitem__(self, index), "x": self.values[self._at(index)]}


def wide(self: Good, index: int) -> Any:
    sample = Good.__getitem__(self, index)
    return {**sample, "x": np.repeat(sample["x"], 2, axis=1)}


def unlabelled(self: Good, index: int) -> Any:
    return {"x": Good.__getitem__(self, index)["x"]}


def moody(self: Good, index: int) -> Any:
    self.asked = getattr(self, "asked", 0) + 1
    return {**Good.__getitem__(self, index), "y": self.asked}


def drawing(self: Good, index: int) -> Any:
    torch.rand(())
    return Good.__getitem__(self, index)


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"__getitem__": wrap}, r"sample 6: must raise IndexError, there are 6 samples"),
        ({"__getitem__": late}, r"sample 5: must be the same read as -1, but 'x' is"),
        (
            {"__getitem__": shared},
            r"sample 0: must be the same read again, after writing into what",
        ),
        ({"__getitem__": moody}, r"must be the same read again, .* but 'y' is"),
        ({"__getitem__": wide}, r"sample 0: must fit the schema: .*'x'"),
        ({"__getitem__": unlabelled}, r"'y' is declared and in none of the samples .*; got x"),
        ({"__getitem__": drawing}, r"Broken draws from a global generator; a dataset serves what"),
        ({"__getitem__": lambda self, index: [1]}, r"must be a dict of named values, got list"),
        ({"__getitem__": lambda self, index: {1: 1}}, r"must be a dict of named values, got dict"),
        ({"__len__": lambda self: 0}, r"it must hold samples to be checked, got 0"),
        ({"name": 3}, r"name must be text or None, got 3"),
    ],
)
def test_items_that_break_the_contract(methods: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_adapter(broken(**methods), DECLARED)


def test_a_stored_generator_is_found() -> None:
    source = Good()
    source.rng = np.random.default_rng(0)  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match="Good stores a Generator, which every worker would"):
        check_adapter(source)


def unordered(self: Good, indices: Any, keys: Any = None) -> Any:
    return Good.read_batch(self, np.sort(indices), keys)


def all_keys(self: Good, indices: Any, keys: Any = None) -> Any:
    return Good.read_batch(self, indices)


def as_doubles(self: Good, indices: Any) -> Any:
    columns = Good.read_batch(self, indices)
    return {**columns, "x": [value.astype(np.float64) for value in columns["x"]]}


def off_by_one(self: Good, indices: Any) -> Any:
    columns = Good.read_batch(self, indices)
    rows = np.asarray(indices, dtype=np.int64)
    return {**columns, "y": Gather(torch.arange(7.0), rows + 1)}


def short(self: Good, indices: Any) -> Any:
    return {**Good.read_batch(self, indices), "key": ["s0"]}


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (unordered, r"read_batch in another order must give what the item gives, but 'x' is"),
        (all_keys, r"read_batch with keys=\[\] must give what the item gives, but 'x' is"),
        (as_doubles, r"sample 0: read_batch in order must give what the item gives, but 'x' is"),
        (
            off_by_one,
            r"read_batch in order must give what the item gives, but 'y' is tensor.1.., was 0.0",
        ),
        (short, r"read_batch must give 6 rows for 'key', got 1"),
        (lambda self, indices: [1], r"read_batch must give a dict, got list"),
        (lambda self, indices: {"x": "text"}, r"a tensor, a Gather or a list for 'x', got str"),
    ],
)
def test_batches_that_are_not_the_items(read: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_adapter(broken(read_batch=read), DECLARED)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (lambda self, key: Good.sequence_lengths(self, key) + 1, r"\('x'\) must be \[1, 2, .*got"),
        (lambda self, key: [1] * 6, r"must be int64 of shape \(6,\), got list of shape none"),
        (lambda self, key: np.zeros(5, dtype=np.int64), r"got int64 of shape \(5,\)"),
        (
            lambda self, key: np.array([len(value) for value in self.values]),
            "sequence_lengths of a key nobody has must be 0",
        ),
    ],
)
def test_lengths_that_are_not_those_of_the_items(lengths: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_adapter(broken(sequence_lengths=lengths), DECLARED)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["s0"] * 6, "sample_ids must be 6 names, each once, got 6 with 1 different"),
        (["a", "b"], "sample_ids must be 6 names, each once, got 2 with 2 different"),
        ([f"s{5 - i}" for i in range(6)], "sample 0: sample_ids must give its name, got 's5', it"),
        (list(range(6)), "sample 0: sample_ids must give its name, got 0, it has 's0'"),
    ],
)
def test_names_that_are_not_those_of_the_items(ids: list[Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_adapter(broken_names(ids))


def broken_names(ids: list[Any]) -> Good:
    class Named(Good):
        def __getitem__(self, index: int) -> Any:
            at = self._at(index)
            return {"x": self.values[at].copy(), "key": f"s{at}"}

        def read_batch(self, indices: Any, keys: Any = None) -> Any:
            samples = [self[int(i)] for i in indices]
            names = [name for name in ("x", "key") if keys is None or name in keys]
            return {name: [sample[name] for sample in samples] for name in names}

    source = Named()
    source.sample_ids = ids
    return source


class Forgets(Good):
    """Loses its values on the way to another process."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "values": [value * 0 for value in self.values]}


class ClosesForGood(Good):
    def close(self) -> None:
        self.values = [value * 0 for value in self.values]


class OpenHandle(Good):
    """Reads by a handle that only works in the process that made it."""

    def __init__(self) -> None:
        super().__init__()
        self.owner = os.getpid()

    def __getitem__(self, index: int) -> Any:
        sample = super().__getitem__(index)
        return sample if os.getpid() == self.owner else {**sample, "x": sample["x"] * 0}


def test_other_processes_and_later_reads() -> None:
    with pytest.raises(AssertionError, match="sample 0: must be the same after pickling, but 'x'"):
        check_adapter(Forgets())
    with pytest.raises(AssertionError, match=r"must be the same after close\(\), but 'x'"):
        check_adapter(ClosesForGood())
    with pytest.raises(AssertionError, match="must be the same in a forked worker, but 'x'"):
        check_adapter(OpenHandle())
    source = Good()
    source.read = lambda: None  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match="Good must pickle, for workers that are spawned, got"):
        check_adapter(source)


def test_raw_values_are_brought_to_one_form() -> None:
    assert alike(plain("x", np.float64("nan")), float("nan"))
    assert alike(plain("x", np.array([1, 2], dtype=">i4")), torch.tensor([1, 2], dtype=torch.int32))
    assert plain("x", np.array(["a", "b"])) == ["a", "b"]
    assert not alike(torch.zeros(2), torch.zeros(3))
    assert not alike(torch.zeros(1), 0.0)
    assert alike(torch.tensor(True), True)
    assert not alike("a", None)
    with pytest.raises(AssertionError, match="x must have a dtype that a tensor can have"):
        plain("x", np.zeros(2, dtype="datetime64[s]"))
    with pytest.raises(AssertionError, match="x must be a tensor, array, number or text, got set"):
        plain("x", {1})
