from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
import torch

from omniloader.data import DictTensorDataset, Source, make_sources
from omniloader.errors import SchemaError
from omniloader.schema.spec import DatasetSchema, TensorSpec

SCHEMA = DatasetSchema([TensorSpec("x")])


def data(name: str | None = None) -> DictTensorDataset:
    return DictTensorDataset({"x": torch.zeros(3)}, name=name)


def test_a_source_is_frozen() -> None:
    source = Source("a", data(), SCHEMA)
    assert len(source) == 3
    with pytest.raises(FrozenInstanceError):
        source.name = "b"  # type: ignore[misc]


def test_names_come_from_the_list_then_the_dataset_then_the_position() -> None:
    sources = make_sources([data("own"), data("own"), data()], [SCHEMA] * 3, ["given", None, None])
    assert [source.name for source in sources] == ["given", "own", "dataset_2"]
    assert [s.name for s in make_sources([[{}], [{}]], [SCHEMA] * 2)] == ["dataset_0", "dataset_1"]
    assert make_sources([], []) == ()


@pytest.mark.parametrize(
    ("datasets", "schemas", "names", "message"),
    [
        ([data()], [], None, "needs one schema .* got 1 datasets and 0 schemas$"),
        ([data()], [SCHEMA], ["a", "b"], r"got 1 datasets and 1 schemas, names=\['a', 'b'\]"),
        ([data()], [SCHEMA], "a", "got 1 datasets and 1 schemas, names='a'"),
        ([data(), data()], [SCHEMA] * 2, ["a", "a"], r"'a' stands 2 times in \['a', 'a'\]"),
        ([data("a"), data("a")], [SCHEMA] * 2, None, "names must differ, 'a' stands 2 times"),
        ([data(), data("dataset_0")], [SCHEMA] * 2, None, "'dataset_0' stands 2 times"),
        ([data()], [SCHEMA], [""], "name must be a non-empty text, got ''"),
        ([data()], [SCHEMA], [3], "name must be a non-empty text, got 3"),
        (
            [iter([])],
            [SCHEMA],
            ["a"],
            "source 'a': dataset must have a length .* lacks __len__ and",
        ),
        ([data()], [{"x": 1}], ["a"], "source 'a': schema must be a DatasetSchema, got dict"),
    ],
)
def test_lists_that_do_not_fit_are_refused(
    datasets: list, schemas: list, names: list, message: str
) -> None:
    with pytest.raises(SchemaError, match=message):
        make_sources(datasets, schemas, names)
