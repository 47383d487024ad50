"""The batched path writes what the per-sample path would, bit for bit."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mixes import RawDataset, assert_same_batch, schema_lists

from omniloader._types import Column, Gather
from omniloader.errors import SampleError
from omniloader.masks import mask_name
from omniloader.schema.assemble import SourceRows, assemble
from omniloader.schema.spec import DatasetSchema, TensorSpec, UnifiedSchema
from omniloader.schema.unify import SampleUnifier


def refuse(i: int, name: str, problem: str) -> None:
    raise SampleError(f"row {i}, '{name}': {problem}")


def columns_of(samples: list[dict[str, Any]], schema: DatasetSchema) -> dict[str, Column]:
    names = [n for spec in schema.specs for n in (spec.name, mask_name(spec.name))]
    columns = {name: [sample.get(name) for sample in samples] for name in names}
    return {n: c for n, c in columns.items() if any(v is not None for v in c)}


@settings(max_examples=100, deadline=None)
@given(schemas=schema_lists(), pad=st.booleans(), seed=st.integers(0, 999), size=st.integers(1, 9))
def test_many_at_once_equal_one_by_one(
    schemas: list[DatasetSchema], pad: bool, seed: int, size: int
) -> None:
    union = UnifiedSchema(schemas)
    rng = np.random.default_rng(seed)
    owners = rng.integers(0, len(schemas), size)
    sources = [RawDataset(schema, size, seed + k) for k, schema in enumerate(schemas)]
    contributions = []
    for number, schema in enumerate(schemas):
        rows = np.flatnonzero(owners == number)
        samples = [sources[number][i] for i in rows]
        declared = {spec.name: spec for spec in schema.specs}
        contributions.append(SourceRows(rows, columns_of(samples, schema), declared, refuse))
    values, lengths = assemble(union, size, contributions, pad)

    singles = [
        SampleUnifier(union, pad, declared=schemas[owners[i]])(sources[owners[i]][i])
        for i in range(size)
    ]
    for spec in union.specs:
        for name in (spec.name, mask_name(spec.name)):
            for i, single in enumerate(singles):
                row = values[name][i]
                if lengths is not None and spec.is_sequence:
                    assert lengths[spec.name][i] == len(single[name])
                    row = row[: len(single[name])]
                assert_same_batch({name: row}, {name: single[name]})


@pytest.mark.parametrize("width", [3, 1000])
@pytest.mark.parametrize("steps", [2, 4, 6])
@pytest.mark.parametrize("masked", [False, True])
def test_stacked_gathered_and_listed_columns_are_the_same(
    width: int, steps: int, masked: bool
) -> None:
    spec = TensorSpec("x", feature_dim=width, time_dim=4, placeholder=-1.0)
    union = UnifiedSchema([DatasetSchema([spec])])
    table = torch.randn(7, steps, width, generator=torch.Generator().manual_seed(0))
    flags = torch.rand(7, steps, generator=torch.Generator().manual_seed(1)) > 0.5
    index, rows = np.array([6, 0, 6]), np.array([3, 1, 0])
    forms: list[dict[str, Column]] = [
        {"x": Gather(table, index), "x_mask": Gather(flags, index)},
        {"x": table[index], "x_mask": flags[index]},
        {"x": [table[i] for i in index], "x_mask": [flags[i] for i in index]},
        {"x": [table[i].numpy() for i in index], "x_mask": [flags[i].numpy() for i in index]},
        {"x": table[index].double(), "x_mask": flags[index].int()},
        {"x": Gather(table, index), "x_mask": [flags[i].tolist() for i in index]},
    ]
    results = []
    for form in forms:
        if not masked:
            form.pop("x_mask")
        results.append(assemble(union, 4, [SourceRows(rows, form, {"x": spec}, refuse)], True)[0])
    kept = min(steps, 4)
    for i, row in zip(index, rows, strict=True):
        assert torch.equal(results[0]["x"][row, :kept], table[i, :kept])
        assert bool((results[0]["x"][row, kept:] == -1.0).all())
        expected = flags[i, :kept] if masked else torch.ones(kept, dtype=torch.bool)
        assert torch.equal(results[0]["x_mask"][row, :kept], expected)
        assert not results[0]["x_mask"][row, kept:].any()
    assert bool((results[0]["x"][2] == -1.0).all())
    assert not results[0]["x_mask"][2].any()
    for other in results[1:]:
        assert_same_batch(results[0], other)


def test_bfloat16_takes_the_torch_way() -> None:
    spec = TensorSpec("x", feature_dim=2, time_dim=3, dtype=torch.bfloat16, placeholder=-1.0)
    table = torch.arange(8.0).reshape(2, 2, 2).bfloat16()
    union = UnifiedSchema([DatasetSchema([spec])])
    source = SourceRows(
        np.array([2, 0]), {"x": Gather(table, np.array([1, 0]))}, {"x": spec}, refuse
    )
    values, _ = assemble(union, 3, [source], True)
    assert values["x"][2].tolist() == [[4.0, 5.0], [6.0, 7.0], [-1.0, -1.0]]
    assert values["x"][1].tolist() == [[-1.0, -1.0]] * 3


def test_the_batch_never_shares_memory_with_a_source() -> None:
    spec = TensorSpec("x", time_dim=3)
    union = UnifiedSchema([DatasetSchema([spec])])
    stacked = torch.zeros(2, 3)
    source = SourceRows(np.array([0, 1]), {"x": stacked}, {"x": spec}, refuse)
    values, _ = assemble(union, 2, [source], True)
    values["x"].fill_(9.0)
    assert stacked.sum() == 0.0


def test_a_bad_row_of_a_stacked_column_is_named() -> None:
    spec = TensorSpec("y", dtype=torch.int64)
    union = UnifiedSchema([DatasetSchema(targets=[spec])])
    source = SourceRows(np.array([0, 1]), {"y": torch.tensor([1.0, 2.5])}, {"y": spec}, refuse)
    with pytest.raises(SampleError, match=r"row 1, 'y': must hold numbers that torch.int64 can"):
        assemble(union, 2, [source], True)


def test_a_refused_value_may_be_masked_instead() -> None:
    spec = TensorSpec("y", dtype=torch.int64, placeholder=-1)
    union = UnifiedSchema([DatasetSchema(targets=[spec])])
    seen = []
    source = SourceRows(
        np.array([0, 1]),
        {"y": torch.tensor([1.0, 2.5])},
        {"y": spec},
        lambda i, name, problem: seen.append((i, name)),
    )
    values, _ = assemble(union, 2, [source], True)
    assert seen == [(1, "y")]
    assert values["y"].tolist() == [1, -1]
    assert values["y_mask"].tolist() == [True, False]


def test_undeclared_columns_never_reach_a_batch() -> None:
    x, y = TensorSpec("x"), TensorSpec("y")
    union = UnifiedSchema([DatasetSchema([x]), DatasetSchema([y])])
    columns: dict[str, Column] = {"x": torch.ones(1), "y": torch.ones(1)}
    values, _ = assemble(union, 1, [SourceRows(np.array([0]), columns, {"x": x}, refuse)], True)
    assert values["x_mask"].tolist() == [True]
    assert values["y_mask"].tolist() == [False]
