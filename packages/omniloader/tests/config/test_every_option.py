"""Every key of the sections that have no registry of their own has an effect on the loader."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pytest

from omniloader.config import OmniConfig
from omniloader.config.families import bucketing_model, subsample_model
from omniloader.config.model import SchemaFields, SpecFields
from omniloader.errors import SampleError

Batches = list[dict[str, Any]]


class Row(NamedTuple):
    """One key: what it is set to instead of what, and what must be seen then."""

    value: Any
    instead: Any  # None: the key is left out
    seen: Any
    probe: Callable[[Batches], Any]


def shape(key: str) -> Callable[[Batches], Any]:
    return lambda batches: tuple(batches[0][key].shape[1:]) if batches else None


def dtype(batches: Batches) -> str:
    return str(batches[0]["x"].dtype)


def lowest(batches: Batches) -> float:
    """The lowest number among steps that are padding."""
    return min(float(batch["x"][~batch["x_mask"]].min()) for batch in batches)


def real(key: str) -> Callable[[Batches], int]:
    return lambda batches: sum(int(batch[f"{key}_mask"].sum()) for batch in batches)


def names(batches: Batches) -> set[str]:
    return {"x", "x2", "y"} & set(batches[0])


def draws(batches: Batches) -> list[int]:
    return sorted(index for batch in batches for index in batch["index"].tolist())


def order(batches: Batches) -> list[list[int]]:
    return [batch["index"].tolist() for batch in batches]


def padded(batches: Batches) -> int:
    return sum(batch["x"][..., 0].numel() for batch in batches)


@pytest.fixture
def entry(tmp_path: Path) -> dict[str, Any]:
    """Eight samples: ragged steps of ones, one label, and values for some of the rows."""
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        for number in range(8):
            steps = np.ones((2 + number % 3, 4), dtype=np.float32)
            for key, value in (
                ("x", steps),
                ("x2", steps),
                ("nan", steps * np.nan),
                ("square", steps.reshape(-1, 2, 2)),
                ("late", np.ones((1 + number // 2, 4))),
                ("y", float(number)),
            ):
                file[f"train/s{number}/{key}"] = value
    return {"adapter": "hdf5", "path": str(path), "subset": "train"}


def run(entry: dict[str, Any], features: list[dict[str, Any]], **fields: Any) -> Batches | str:
    schema = {"features": features, "targets": [{"name": "y"}]}
    config = OmniConfig.from_dict(
        {"batch_size": 2, "datasets": [{**entry, "schema": schema}], **fields}
    )
    try:
        return list(config.build_dataloader())
    except SampleError:
        return "refused"


def seen(row: Row, batches: Batches | str) -> Any:
    return batches if isinstance(batches, str) else row.probe(batches)


SPEC_ROWS = {
    "name": Row("x2", "x", {"x2", "y"}, names),
    "feature_dim": Row(3, 4, "refused", shape("x")),
    "shape": Row([2, 2], [4], (5, 2, 2), shape("square")),
    "time_dim": Row(3, 5, (3, 4), shape("x")),
    "dtype": Row("float64", None, "torch.float64", dtype),
    "placeholder": Row(-7.0, None, -7.0, lowest),
    "nonfinite": Row("mask", None, 0, real("nan")),
    "sentinel": Row(1.0, None, 0, real("x")),
}
READS = {"shape": "square", "nonfinite": "nan"}


@pytest.mark.parametrize("key", SPEC_ROWS)
def test_a_key_of_a_spec(key: str, entry: dict[str, Any]) -> None:
    row = SPEC_ROWS[key]
    base: dict[str, Any] = {"name": READS.get(key, "x"), "time_dim": 5}
    if key != "shape":
        base["feature_dim"] = 4
    instead = {} if row.instead is None else {key: row.instead}
    before, after = (
        seen(row, run(entry, [{**base, **given}])) for given in (instead, {key: row.value})
    )
    assert after == row.seen
    assert before != row.seen


def both_epochs(epochs: list[list[int]]) -> bool:
    return sorted(epochs[0] + epochs[1]) == list(range(8))


SUBSAMPLE_ROWS = {
    "replacement": Row(True, None, True, lambda epochs: len(set(epochs[0])) < len(epochs[0])),
    "policy": Row("exhaust", None, True, both_epochs),
    "effective_size": Row(6, None, 6, lambda epochs: len(epochs[0])),
    "sample_weights": Row([1] + [0] * 7, None, {0}, lambda epochs: set(epochs[0])),
}


@pytest.mark.parametrize("key", SUBSAMPLE_ROWS)
def test_a_key_of_subsample(key: str, entry: dict[str, Any]) -> None:
    row = SUBSAMPLE_ROWS[key]
    half = {} if key == "effective_size" else {"strategy_kwargs": {"epoch_size": 4}}
    found = []
    for subsample in (None, {key: row.value}):
        values = {**entry, "features": [{"name": "x", "time_dim": 5, "feature_dim": 4}]}
        loader = OmniConfig(datasets=[values], subsample=subsample, **half).build_dataloader()
        epochs = []
        for epoch in (0, 1):
            loader.set_epoch(epoch)
            epochs.append(draws(list(loader)))
        found.append(row.probe(epochs))
    assert found[1] == row.seen
    assert found[0] != row.seen


BUCKET_ROWS = {
    "key": Row("late", None, [[0, 1], [7, 6], [4, 5], [3, 2]], order),
    "bucket_multiplier": Row(1, None, 28, padded),
    "shuffle": Row(False, None, [[2, 5], [4, 7], [1, 3], [0, 6]], order),
    "max_tokens": Row(4, None, 7, len),
}


@pytest.mark.parametrize("key", BUCKET_ROWS)
def test_a_key_of_bucketing(key: str, entry: dict[str, Any]) -> None:
    row = BUCKET_ROWS[key]
    features = [{"name": name, "time_dim": 5, "feature_dim": 4} for name in ("x", "late")]
    before, after = (
        seen(
            row,
            run(
                entry,
                features,
                pad_features=False,
                collate="dynamic",
                bucketing={"key": "x", **given},
            ),
        )
        for given in ({}, {key: row.value})
    )
    assert after == row.seen
    assert before != row.seen


def test_every_key_has_a_row() -> None:
    assert SPEC_ROWS.keys() == SpecFields.model_fields.keys()
    for rows, model in ((SUBSAMPLE_ROWS, subsample_model()), (BUCKET_ROWS, bucketing_model())):
        fields = {str(info.alias or name) for name, info in model.model_fields.items()}
        assert rows.keys() == fields
    assert set(SchemaFields.model_fields) == {"features", "targets"}


@pytest.mark.parametrize("role", SchemaFields.model_fields)
def test_both_roles_of_a_schema(role: str, entry: dict[str, Any]) -> None:
    spec = {"name": "x", "time_dim": 5, "feature_dim": 4}
    config = OmniConfig(datasets=[{**entry, "schema": {role: [spec]}}])
    assert [one.name for one in getattr(config.build_loader().schema, role)] == ["x"]
