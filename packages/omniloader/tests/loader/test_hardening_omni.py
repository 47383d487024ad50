"""Sources and arguments that once went through, or failed, in silence or without a name."""

from typing import Any

import numpy as np
import pytest
import torch
from mixes import assert_same_batch

from omniloader.collate import unified_collate
from omniloader.errors import ConfigError, PlanError, SampleError, SchemaError
from omniloader.loader import OmniLoader
from omniloader.schema.spec import DatasetSchema, TensorSpec

SCHEMA = DatasetSchema(
    [TensorSpec("x", feature_dim=2), TensorSpec("s", time_dim=4)], [TensorSpec("y")]
)
NAN = float("nan")


class Reusing:
    """Hands out the same memory for every sample, as readers with a buffer of their own do."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.sample: dict[str, Any] = {}
        self.reads = 0
        self.tensor, self.mask = torch.zeros(2), torch.ones(2, dtype=torch.bool)
        self.array, self.numbers = np.zeros(2, dtype=np.float32), [0.0, NAN]

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> dict[str, Any]:
        self.reads += 1
        if self.kind == "dict":
            self.sample.update(x=torch.tensor([index, NAN]), y=float(index))
            return self.sample
        if self.kind == "tensor":
            self.tensor.copy_(torch.tensor([index, NAN]))
            return {"x": self.tensor, "y": index}
        if self.kind == "array":
            self.array[:] = index
            return {"x": self.array, "s": self.array, "y": index}
        if self.kind == "list":
            self.numbers[0] = index
            return {"x": self.numbers}
        self.mask[0] = index % 2
        return {"s": torch.ones(2), "s_mask": self.mask}


@pytest.mark.parametrize("kind", ["dict", "tensor", "array", "list", "mask"])
@pytest.mark.parametrize("indices", [[1, 2, 3], [4, 4, 5], [5, 4, 5], [6], [2, 2]])
def test_memory_that_a_source_uses_again_reaches_no_other_sample(
    kind: str, indices: list[int]
) -> None:
    omni = OmniLoader([Reusing(kind)], [SCHEMA])
    for chosen in (indices, indices[::-1]):
        one_by_one = unified_collate([omni[i] for i in chosen])
        assert_same_batch(unified_collate(omni.__getitems__(chosen)), one_by_one)


class Fresh(Reusing):
    def __getitem__(self, index: int) -> dict[str, Any]:
        self.reads += 1
        return {
            "x": torch.tensor([NAN, float(index)]),
            "s": np.array([NAN, 1.0]),
            "y": NAN,
            "more": object(),
        }


def test_a_source_with_fresh_samples_is_read_once() -> None:
    source = Fresh("")
    OmniLoader([source], [SCHEMA], metadata=("more",)).__getitems__([1, 2, 3])
    assert source.reads == 3


class Following:
    epoch = -1

    def __len__(self) -> int:
        return 4

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"y": self.epoch}


def test_two_loaders_that_share_a_dataset_each_read_their_own_epoch() -> None:
    shared = Following()
    train, valid = OmniLoader([shared], [SCHEMA]), OmniLoader([shared], [SCHEMA])
    train.set_epoch(5)
    assert [omni[0]["y"].item() for omni in (train, valid, train)] == [5, 0, 5]
    assert train.__getitems__([0]).values["y"].tolist() == [5]
    assert valid.__getitems__([0]).values["y"].tolist() == [0]


class Returning(Following):
    def __init__(self, columns: Any) -> None:
        self.columns = columns

    def read_batch(self, indices: Any) -> Any:
        return self.columns


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ([1, 2], "source 'a': read_batch must return a dict of columns, got list; mend"),
        ({"y": 3.0}, "source 'a', 'y': read_batch must return .* got one float for 2 indices"),
        ({"y": None}, "got one NoneType for 2 indices"),
        ({"y": torch.ones(())}, "got one Tensor for 2 indices"),
        ({"y": "ab"}, "got one str for 2 indices"),
        ({"y": np.ones(3)}, "got 3 rows for 2 indices"),
    ],
)
def test_what_read_batch_returns_instead_of_columns_is_named(columns: Any, text: str) -> None:
    omni = OmniLoader([Returning(columns)], [SCHEMA], names=["a"])
    with pytest.raises(SampleError, match=text):
        omni.__getitems__([0, 1])


class Truncated(Following):
    def __getitem__(self, index: int) -> dict[str, Any]:
        if index == 1:
            raise EOFError("Compressed file ended before the end-of-stream marker")
        return {"y": index}


def test_a_truncated_file_is_a_sample_that_cannot_be_read() -> None:
    with pytest.raises(SampleError, match=r"source 'a', sample 1 \(key '1'\): must be readable"):
        OmniLoader([Truncated()], [SCHEMA], names=["a"])[1]
    omni = OmniLoader([Truncated()], [SCHEMA], names=["a"], on_error="mask")
    with pytest.warns(RuntimeWarning, match="raised EOFError: Compressed file ended"):
        batch = omni.__getitems__([0, 1])
    assert batch.values["y_mask"].tolist() == [True, False]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"seed": 1.5}, ConfigError, "seed must be a whole number, got 1.5"),
        ({"seed": None}, ConfigError, "seed must be a whole number, got None"),
        ({"error_budget": 0.5}, ConfigError, "error_budget must be a whole number, got 0.5"),
        ({"schema": SCHEMA}, SchemaError, "must be a UnifiedSchema, got DatasetSchema; make one"),
        ({"metadata": ("x_mask",)}, SchemaError, "metadata 'x_mask' is the name of a mask"),
        ({"metadata": (3,)}, SchemaError, "metadata must be a list of names, got 3 among them"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        OmniLoader([Following()], [SCHEMA], **options)


def test_epochs_are_whole_numbers_that_fit() -> None:
    omni = OmniLoader([Following()], [SCHEMA], seed=np.int32(3))
    assert type(omni.seed) is int
    omni.set_epoch(np.int64(2**62))
    assert omni.epoch == 2**62
    with pytest.raises(ConfigError, match=r"epoch must be a whole number, got 1\.5"):
        omni.set_epoch(1.5)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="at least 0 and fit int64, got 9223372036854775808"):
        omni.set_epoch(2**63)


def test_ragged_rows_of_one_source_do_not_show_in_the_padding_of_another() -> None:
    schema = DatasetSchema([TensorSpec("s", time_dim=4, placeholder=-1.0)])
    sources = [[{"s": torch.full((n,), fill)} for n in (4, 1)] for fill in (7.0, 8.0)]
    omni = OmniLoader(sources, [schema, schema])  # type: ignore[arg-type]
    batch = omni.__getitems__([0, 1, 2, 3]).values
    assert batch["s"].tolist() == [[7.0] * 4, [7.0, -1, -1, -1], [8.0] * 4, [8.0, -1, -1, -1]]
    assert batch["s_mask"].sum(1).tolist() == [4, 1, 4, 1]
