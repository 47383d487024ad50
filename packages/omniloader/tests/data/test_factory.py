from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from omniloader.data import factory
from omniloader.data.datasets import DictTensorDataset, HDF5Dataset, NpyFolderDataset
from omniloader.data.declare import DTYPES
from omniloader.data.factory import (
    ADAPTERS,
    build_dataset,
    build_datasets,
    build_sources,
    register_adapter,
    schema_from_dict,
)
from omniloader.errors import ConfigError, SchemaError, SourceError
from omniloader.schema.spec import DatasetSchema, TensorSpec

SCHEMA = {
    "features": [{"name": "audio", "feature_dim": 2, "time_dim": 3}],
    "targets": [{"name": "label", "dtype": "int64", "placeholder": -1}],
}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "voices.h5", "w") as file:
        file["train/s0/audio"] = np.ones((3, 2), np.float32)
    (tmp_path / "motions/train/s0").mkdir(parents=True)
    np.save(tmp_path / "motions/train/s0/audio.npy", np.zeros((3, 2), np.float32))
    return tmp_path


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factory, "ADAPTERS", dict(ADAPTERS))


def entry(**changes: Any) -> dict[str, Any]:
    return {
        "name": "voices",
        "adapter": "hdf5",
        "path": "voices.h5",
        "subset": "train",
        "schema": SCHEMA,
        **changes,
    }


def test_entries_become_datasets_and_schemas(base: Path) -> None:
    motions = {"adapter": "npy", "path": base / "motions", "subset": "train", **SCHEMA}
    datasets, schemas = build_datasets([entry(cache_size=4, keys=["audio"]), motions], base)
    voices, other = datasets
    assert isinstance(voices, HDF5Dataset)
    assert isinstance(other, NpyFolderDataset)
    assert (voices.name, voices.cache_size, voices.keys) == ("voices", 4, ("audio",))
    assert other[0]["audio"].sum() == 0
    expected = DatasetSchema(
        [TensorSpec("audio", feature_dim=2, time_dim=3)],
        [TensorSpec("label", dtype=torch.int64, placeholder=-1)],
    )
    assert schemas == [expected, expected]


def test_sources_are_named(base: Path) -> None:
    sources = build_sources([entry(), entry(name=None), entry(name="third")], base)
    assert [source.name for source in sources] == ["voices", "dataset_1", "third"]
    with pytest.raises(SchemaError, match="names must differ, 'voices' stands 2 times"):
        build_sources([entry(), entry()], base)
    assert build_sources([], base) == ()


def test_paths_start_at_the_base(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(build_dataset(entry(), base)) == 1
    assert len(build_dataset(entry(path=str(base / "voices.h5")), "/nowhere")) == 1
    monkeypatch.chdir(base)
    assert len(build_dataset(entry())) == 1
    monkeypatch.setenv("HOME", str(base))
    assert len(build_dataset(entry(path="~/voices.h5"), "/nowhere")) == 1
    with pytest.raises(SourceError, match=r"'/nowhere/voices\.h5' does not exist"):
        build_dataset(entry(), "/nowhere")


def test_keys_of_the_user_are_left_alone(base: Path) -> None:
    schema = {**SCHEMA, "x-note": 1, "features": [{"name": "audio", "x-unit": "dB"}]}
    sources = build_sources([entry(**{"x-origin": "lab", "schema": schema})], base)
    assert sources[0].schema.features[0].name == "audio"


def test_a_schema_object_is_taken(base: Path) -> None:
    schema = DatasetSchema([TensorSpec("audio")])
    assert build_sources([entry(schema=schema)], base)[0].schema is schema


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cach_size": 1}, r"datasets\[0\]\.cach_size: unknown key, did you mean 'cache_size'\?"),
        ({"h5_path": "a"}, r"datasets\[0\]\.h5_path: unknown key, did you mean 'path'\?"),
        ({"qqq": 1}, r"datasets\[0\]\.qqq: unknown key; known: path, subset, keys"),
        ({"adapter": "hdf"}, r"datasets\[0\]\.adapter: unknown adapter 'hdf'; known: hdf5, npy"),
        ({"adapter": ["hdf5"]}, r"datasets\[0\]\.adapter: unknown adapter \['hdf5'\]"),
        ({"cache_size": "many"}, r"datasets\[0\]: cache_size must be a whole number"),
        ({"path": 3}, r"datasets\[0\]\.path must be a path, got 3"),
        ({"path": ""}, r"datasets\[0\]\.path must be a path, got ''"),
        ({"features": []}, r"datasets\[0\] has schema and features side by side"),
    ],
)
def test_what_an_adapter_does_not_take_is_named(base: Path, changes: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_sources([entry(**changes)], base)


@pytest.mark.parametrize("key", ["adapter", "path", "subset", "schema"])
def test_what_is_required_is_named(base: Path, key: str) -> None:
    lacking = entry()
    del lacking[key]
    with pytest.raises(ConfigError, match=rf"datasets\[0\]\.{key} is required"):
        build_sources([lacking], base)


def test_entries_must_be_a_list_of_mappings(base: Path) -> None:
    with pytest.raises(ConfigError, match="datasets must be a list of entries, got dict"):
        build_sources(entry(), base)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"datasets\[1\] must be a mapping .* got 'voices'"):
        build_sources([entry(), "voices"], base)  # type: ignore[list-item]


def noise(path: str, width: int = 2, *, scale: float = 1.0) -> DictTensorDataset:
    assert str(path).startswith("/base/")
    return DictTensorDataset({"audio": torch.full((3, width), scale)})


def test_an_adapter_of_the_user() -> None:
    register_adapter("noise", noise)
    register_adapter("noise", noise)
    given = {"name": "n", "adapter": "noise", "path": "a", "scale": 2.0, **SCHEMA}
    (source,) = build_sources([given], "/base")
    assert (source.name, source.dataset[0]["audio"].tolist()) == ("n", [2.0, 2.0])
    register_adapter("toy", lambda width: [{"audio": torch.zeros(3, width)}])
    assert build_dataset({"adapter": "toy", "width": 4})[0]["audio"].shape == (3, 4)
    with pytest.raises(ConfigError, match=r"dataset\.scal: unknown key, did you mean 'scale'\?"):
        build_dataset({"adapter": "noise", "path": "a", "scal": 1})


def test_an_adapter_that_takes_anything() -> None:
    register_adapter("any", lambda **options: [options])
    given = {"adapter": "any", "path": "p", "whatever": 1}
    assert build_dataset(given, "/base")[0] == {"path": Path("/base/p"), "whatever": 1}


@pytest.mark.parametrize(
    ("name", "adapter", "message"),
    [
        ("hdf5", noise, "adapter 'hdf5' is registered already; known: hdf5, npy"),
        ("", noise, "an adapter needs a name and something to call"),
        ("x", None, "an adapter needs a name and something to call"),
    ],
)
def test_adapters_that_cannot_be_registered(name: str, adapter: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        register_adapter(name, adapter)


# -- schema_from_dict ------------------------------------------------------------------------


def test_every_argument_of_a_spec_can_be_given() -> None:
    given = {
        "name": "eye",
        "shape": [3, 8, 8],
        "time_dim": 15,
        "dtype": "torch.float16",
        "placeholder": 0.5,
        "nonfinite": "mask",
        "sentinel": -1,
    }
    schema = schema_from_dict({"features": [given, {"name": "f", "feature_dim": None}]})
    assert schema.features[0] == TensorSpec(
        "eye",
        shape=(3, 8, 8),
        time_dim=15,
        dtype=torch.float16,
        placeholder=0.5,
        nonfinite="mask",
        sentinel=-1,
    )
    assert schema.features[1] == TensorSpec("f")
    assert schema_from_dict({}) == DatasetSchema()
    assert schema_from_dict({"targets": None}) == DatasetSchema()


@pytest.mark.parametrize("name", list(DTYPES))
def test_dtypes_have_names(name: str) -> None:
    (spec,) = schema_from_dict({"features": [{"name": "x", "dtype": name}]}).features
    assert spec.dtype is getattr(torch, name)
    given = {"features": [{"name": "x", "dtype": spec.dtype}]}
    assert schema_from_dict(given).features == (spec,)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ([], ConfigError, r"^schema must be a mapping with features and targets, got \[\]"),
        ({"feature": []}, ConfigError, r"schema\.feature: unknown key, did you mean 'features'\?"),
        ({"features": {}}, ConfigError, r"schema\.features must be a list of declarations, got {}"),
        ({"targets": ["y"]}, ConfigError, r"schema\.targets\[0\] must be a mapping .* got 'y'"),
        (
            {"targets": [{"dtype": "bool"}]},
            ConfigError,
            r"targets\[0\]\.name is required, got only dt",
        ),
        (
            {"features": [{"name": "x"}, {"name": "y", "time_dims": 3}]},
            ConfigError,
            r"schema\.features\[1\]\.time_dims: unknown key, did you mean 'time_dim'\?",
        ),
        (
            {"features": [{"name": "x", "dtype": "float"}]},
            ConfigError,
            r"features\[0\]\.dtype must be one of float32, .*, bool, got 'float'",
        ),
        (
            {"features": [{"name": "x", "shape": 3}]},
            ConfigError,
            r"features\[0\]\.shape must be a list of sizes such as \[3, 64, 64\], got 3",
        ),
        (
            {"features": [{"name": "x", "dtype": "uint8", "placeholder": -1}]},
            SchemaError,
            r"schema\.features\[0\]: spec 'x': placeholder -1 does not fit torch\.uint8",
        ),
        (
            {"features": [{"name": "x"}], "targets": [{"name": "x"}]},
            SchemaError,
            "schema: schema: 'x' is declared twice",
        ),
    ],
)
def test_declarations_that_cannot_be_are_named(
    data: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        schema_from_dict(data)
