"""``read_batch(indices, keys)``: only what is asked for is read, and the loader asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from omniloader import DatasetSchema, DictTensorDataset, OmniLoader, TensorSpec
from omniloader.data import HDF5Dataset, NpyFolderDataset
from omniloader.errors import SampleError

ADAPTERS = ["memory", "hdf5", "hdf5 cached", "hdf5 preloaded", "npy"]


def dataset(kind: str, folder: Path, keys: list[str] | None = None) -> Any:
    """Three samples with ``x``, ``y`` and, but for the last, ``z``."""
    values = {"x": np.arange(6.0).reshape(3, 2), "y": np.arange(3)}
    if kind == "memory":
        return DictTensorDataset({**values, "z": np.ones(3)}, {"speaker": ["a", "b", "c"]})
    samples = [{key: array[i] for key, array in values.items()} for i in range(3)]
    samples = [{**s, **({"z": np.float64(1)} if i < 2 else {})} for i, s in enumerate(samples)]
    if kind == "npy":
        for i, sample in enumerate(samples):
            (folder / str(i)).mkdir()
            for key, value in {**sample, "speaker": "abc"[i]}.items():
                np.save(folder / str(i) / f"{key}.npy", value)
        return NpyFolderDataset(folder, keys)
    with h5py.File(folder / "s.h5", "w") as file:
        for i, sample in enumerate(samples):
            for key, value in {**sample, "speaker": "abc"[i]}.items():
                file[f"train/{i}/{key}"] = value
            file[f"train/{i}/more/x"] = 1.0
    options = {"hdf5 cached": {"cache_size": 2}, "hdf5 preloaded": {"preload": True}}.get(kind, {})
    return HDF5Dataset(folder / "s.h5", "train", keys, **options)


@pytest.mark.parametrize("fast", ["0", "1"])
@pytest.mark.parametrize("kind", ADAPTERS)
def test_only_what_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, fast: str
) -> None:
    monkeypatch.setenv("OMNILOADER_FAST", fast)
    data = dataset(kind, tmp_path)
    everything = data.read_batch([0, 1])
    assert set(everything) == {"x", "y", "z", "speaker"}
    # No path leads out of the sample, and groups in it are no values.
    names = ["y", "gone", "more", "more/x", "../0/x", ".", "..", "", "y\0", "speaker"]
    batch = data.read_batch([2, 0], keys=names)
    assert set(batch) == {"y", "speaker"}
    assert list(batch["speaker"]) == ["c", "a"]
    assert data.read_batch([1], keys=[]) == {}
    assert set(data.read_batch([2, 1], keys={"z"})) == {"z"}


@pytest.mark.parametrize("kind", ["hdf5", "npy"])
def test_what_the_dataset_does_not_serve_is_left_out(tmp_path: Path, kind: str) -> None:
    data = dataset(kind, tmp_path, keys=["x", "z"])
    assert set(data.read_batch([0, 2], keys=["x", "y"])) == {"x"}
    assert set(data.read_batch([0, 2])) == {"x", "z"}
    assert set(data.read_batch([2], keys=["x", "y", "z"])) == {"x"}


def test_a_group_under_a_key_of_the_dataset_is_an_error(tmp_path: Path) -> None:
    data = dataset("hdf5", tmp_path, keys=["x"])
    with h5py.File(tmp_path / "s.h5", "a") as file:
        del file["train/1/x"]
        file["train/1/x/deep"] = 1.0
    with pytest.raises(SampleError, match="sample 'train/1': 'x' must be an array, got a group"):
        data.read_batch([0, 1])
    assert len(data.read_batch([0, 1], keys=["x"])["x"]) == 2


SCHEMA = DatasetSchema([TensorSpec("x", feature_dim=2)], [TensorSpec("y", dtype=torch.int64)])
WANTED = ("x", "y", "x_mask", "y_mask", "dataset", "subset", "key", "speaker")


class Reader(DictTensorDataset):
    """Notes what it is asked for."""

    asked: tuple[str, ...] | None = None

    def read_batch(self, indices: Any, keys: Any = None) -> Any:
        self.asked = keys
        return super().read_batch(indices, keys)


class PlainReader(Reader):
    """Takes no keys."""

    def read_batch(self, indices: Any) -> Any:  # type: ignore[override]
        return super().read_batch(indices)


@pytest.mark.parametrize(("kind", "asked"), [(Reader, WANTED), (PlainReader, None)])
def test_the_loader_asks_for_what_is_declared(kind: Any, asked: Any) -> None:
    source = kind({"x": torch.ones(4, 2), "y": torch.arange(4), "z": torch.ones(4)})
    omni = OmniLoader([source], [SCHEMA], metadata=["speaker"])
    batch = omni.__getitems__([3, 1])
    assert [sample["y"].item() for sample in batch] == [3, 1]
    assert source.asked == asked


def test_a_reader_whose_parameters_cannot_be_seen_gets_no_keys() -> None:
    class Opaque:
        __signature__ = "none"
        calls = 0

        def __call__(self, indices: Any) -> dict[str, Any]:
            self.calls += 1
            return {"x": torch.ones(len(indices), 2), "y": torch.from_numpy(indices)}

    source: Any = DictTensorDataset({"x": torch.ones(4, 2), "y": torch.arange(4)})
    source.read_batch = Opaque()
    assert OmniLoader([source], [SCHEMA]).__getitems__([2])[0]["y"] == 2
    assert source.read_batch.calls == 1


def test_a_damaged_value_that_nobody_wants_does_no_harm(tmp_path: Path) -> None:
    source = dataset("npy", tmp_path)
    (tmp_path / "1" / "z.npy").write_bytes(b"broken")
    assert OmniLoader([source], [SCHEMA]).__getitems__([1])[0]["y"] == 1
