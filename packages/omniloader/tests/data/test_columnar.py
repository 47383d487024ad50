from __future__ import annotations

import json
import pickle
import tempfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omniloader import DatasetSchema, OmniLoader, TensorSpec, unified_collate
from omniloader._types import Gather
from omniloader.data import ColumnarDataset, HDF5Dataset, build_dataset, to_columnar
from omniloader.errors import (
    ConfigError,
    MissingFileError,
    MissingGroupError,
    SampleError,
    SourceError,
)


class Listed(torch.utils.data.Dataset):
    """A source of given samples."""

    def __init__(self, samples: list[dict[str, Any]]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.samples[index]


SAMPLES = [
    {
        "image": torch.full((2, 3), i, dtype=torch.float16),
        "audio": np.full((i, 2), i, np.float32),
        "label": i,
        "speaker": f"né {i}",
        "words": ["a", "b"][:i],
        **({"score": np.float64(i)} if i % 2 else {}),
        **({"note": "x" * i} if i == 2 else {}),
    }
    for i in range(4)
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return to_columnar(Listed(SAMPLES), tmp_path / "store")


def same(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor):
        right = torch.as_tensor(right)
        return left.dtype == right.dtype and torch.equal(left, right)
    return bool(left == right)


def test_samples_come_back(store: Path) -> None:
    data = ColumnarDataset(store)
    assert len(data) == 4
    assert repr(data) == f"ColumnarDataset('{store}', samples=4)"
    assert (data.subset, data.name) == (None, None)
    assert data.sample_ids == ["0", "1", "2", "3"]
    for i, expected in enumerate(SAMPLES):
        sample = data[i]
        assert sample.keys() == expected.keys()
        assert all(same(sample[key], expected[key]) for key in expected)
    assert same(data[-1]["audio"], SAMPLES[3]["audio"])


def test_batches_equal_the_samples(store: Path) -> None:
    data = ColumnarDataset(store)
    at = [3, 1, 1, -2]
    batch = data.read_batch(at)
    assert isinstance(batch["image"], Gather)
    assert isinstance(batch["label"], Gather)
    assert batch["score"] == [3.0, 1.0, 1.0, None]
    assert batch["note"] == [None, None, None, "xx"]
    assert isinstance(data.read_batch([1, 3])["score"], Gather)
    for key, column in batch.items():
        rows = (
            list(column.table[torch.from_numpy(column.index)])
            if isinstance(column, Gather)
            else list(column)
        )
        for i, row in zip(at, rows, strict=True):
            assert row is None if key not in SAMPLES[i] else same(row, SAMPLES[i][key]), key


def test_only_what_is_wanted(store: Path) -> None:
    assert list(ColumnarDataset(store).read_batch([0], ["label", "gone"])) == ["label"]
    data = ColumnarDataset(store, keys=["words", "label"])
    assert list(data[1]) == ["words", "label"]
    assert data.sequence_lengths("audio").tolist() == [0, 0, 0, 0]
    with pytest.raises(MissingGroupError, match="no column 'gone'; known keys: image, audio"):
        ColumnarDataset(store, keys=["gone"])


def test_lengths(tmp_path: Path, store: Path) -> None:
    data = ColumnarDataset(store)
    assert data.sequence_lengths("audio").tolist() == [0, 1, 2, 3]
    assert data.sequence_lengths("image").tolist() == [2, 2, 2, 2]
    for key in ("label", "speaker", "words"):
        with pytest.raises(SampleError, match=f"'{key}' has no time axis"):
            data.sequence_lengths(key)
    some = [{"x": np.zeros((2, 1))}, {}, {"x": np.zeros((3, 1))}, {}]
    lengths = ColumnarDataset(to_columnar(Listed(some), tmp_path / "some")).sequence_lengths("x")
    assert lengths.tolist() == [2, 0, 3, 0]


def test_writing_into_a_value_changes_nothing_else(store: Path) -> None:
    data = ColumnarDataset(store)
    data[1]["image"].add_(1)
    data[1]["audio"].add_(1)
    data.read_batch([1])["audio"][0].add_(1)
    for other in (data, ColumnarDataset(store)):
        assert other[1]["image"].unique().tolist() == [1.0]
        assert other[1]["audio"].unique().tolist() == [1.0]


def test_names_and_subsets_of_the_source_go_along(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "voices.h5", "w") as file:
        for name in ("b", "a"):
            file[f"train/{name}/x"] = np.zeros(3)
    source = HDF5Dataset(tmp_path / "voices.h5", "train")
    assert to_columnar(source, tmp_path / "all") == tmp_path / "all"
    assert to_columnar(source, tmp_path / "parts", subset="valid") == tmp_path / "parts/valid"
    data = ColumnarDataset(tmp_path / "all", name="voices")
    assert (data.sample_ids, data.subset, data.name) == (["a", "b"], "train", "voices")
    assert ColumnarDataset(tmp_path / "parts", "valid").subset == "valid"
    built = build_dataset({"adapter": "columnar", "path": "parts", "subset": "valid"}, tmp_path)
    assert len(built) == 2


def test_only_some_keys(tmp_path: Path) -> None:
    data = ColumnarDataset(to_columnar(Listed(SAMPLES), tmp_path / "s", keys=["label", "note"]))
    assert list(data[2]) == ["label", "note"]


def test_pickling_maps_again(tmp_path: Path) -> None:
    large = Listed([{"x": np.full((100, 100), i, np.float32)} for i in range(20)])
    data = ColumnarDataset(to_columnar(large, tmp_path / "large"))
    raw = pickle.dumps(data)
    assert len(raw) < 5000
    copy = pickle.loads(raw)  # noqa: S301
    assert same(copy[7]["x"], data[7]["x"])


def test_the_loader_makes_the_same_batches(store: Path) -> None:
    schema = DatasetSchema(
        [
            TensorSpec("image", feature_dim=3, time_dim=4),
            TensorSpec("audio", feature_dim=2, time_dim=2),
        ],
        [TensorSpec("label", dtype=torch.int64), TensorSpec("score", placeholder=-1.0)],
    )
    for pad in (True, False):
        ours, theirs = (
            OmniLoader([source], [schema], names=["s"], pad_features=pad)
            for source in (ColumnarDataset(store), Listed(SAMPLES))
        )
        left, right = (
            unified_collate(omni.__getitems__([3, 2, 1]))
            if pad
            else omni.__getitems__([3, 2, 1])[0]
            for omni in (ours, theirs)
        )
        for key, value in left.items():
            assert same(value, right[key]), key


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [np.zeros((2, 3)), np.zeros((2, 4))],
            r"sample 1: 'x' must have the kind, .* got float64 of shape \(t, 4\) after float64 of "
            r"shape \(t, 3\); leave the key out",
        ),
        ([np.zeros(2), np.zeros(2, np.float32)], r"got float32 of shape \(t,\) after float64"),
        ([1, "one"], r"got text after int64 of shape \(\)"),
        ([object()], "sample 0: 'x' must be an array, a number, a text or a list .* got object"),
        (
            [torch.zeros(1, dtype=torch.bfloat16)],
            "must have a dtype that NumPy knows, got torch.bf",
        ),
        ([np.zeros(1, np.longdouble)], "values must be numbers, bool or text"),
    ],
)
def test_values_that_do_not_fit_leave_nothing_behind(
    tmp_path: Path, values: list[Any], message: str
) -> None:
    with pytest.raises(SampleError, match=message):
        to_columnar(Listed([{"x": value} for value in values]), tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


def test_what_exists_is_left_alone(tmp_path: Path, store: Path) -> None:
    with pytest.raises(ConfigError, match="store' exists already; remove it"):
        to_columnar(Listed(SAMPLES), store)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="file' exists already"):
        to_columnar(Listed(SAMPLES), tmp_path / "file")
    (tmp_path / "empty").mkdir()
    assert len(ColumnarDataset(to_columnar(Listed(SAMPLES), tmp_path / "empty"))) == 4


def test_no_samples(tmp_path: Path) -> None:
    data = ColumnarDataset(to_columnar(Listed([]), tmp_path / "none"))
    assert len(data) == 0
    assert data.read_batch([]) == {}
    with pytest.raises(IndexError, match="index 0 is out of range for 0 samples"):
        data[0]


def test_stores_that_are_no_good(tmp_path: Path, store: Path) -> None:
    with pytest.raises(
        MissingFileError, match=r"is no columnar store, 'columns\.json' is not there"
    ):
        ColumnarDataset(tmp_path)
    index = json.loads((store / "columns.json").read_text())
    for change, message in (
        ({"format": 9}, "its format is 9, known is 1"),
        ({"columns": [{**index["columns"][0], "file": "../x"}]}, "has a name that no store gives"),
        ({"columns": [{"name": "x"}]}, "cannot be used"),
        ({"samples": 9, "sample_ids": None}, "'image' must hold 9 values, got 4"),
    ):
        (store / "columns.json").write_text(json.dumps({**index, **change}))
        with pytest.raises(SourceError, match=message):
            ColumnarDataset(store)
    (store / "columns.json").write_text(json.dumps(index))
    (store / "001.starts.npy").unlink()
    with pytest.raises(MissingFileError, match=r"001\.starts\.npy' does not exist"):
        ColumnarDataset(store)
    (store / "000.npy").write_bytes((store / "000.npy").read_bytes()[:260])
    with pytest.raises(SourceError, match=r"000\.npy' is cut off"):
        ColumnarDataset(store)


VALUES = {
    "rows": st.integers(0, 9).map(lambda n: np.full((2, 2), n, np.int16)),
    "ragged": st.integers(0, 5).map(lambda n: np.arange(2.0 * n).reshape(n, 2)),
    "number": st.integers(-5, 5).map(np.int64),
    "text": st.text(max_size=5),
    "list": st.lists(st.text(max_size=3), max_size=3),
}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.fixed_dictionaries({}, optional=VALUES), max_size=6), st.data())
def test_any_samples_come_back(samples: list[dict], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        read = ColumnarDataset(to_columnar(Listed(samples), Path(folder) / "store"))
        assert len(read) == len(samples)
        for own, expected in zip((read[i] for i in range(len(read))), samples, strict=True):
            assert own.keys() == expected.keys()
            assert all(same(own[key], expected[key]) for key in expected)
        for key in ("rows", "ragged") if any("ragged" in s for s in samples) else ():
            lengths = [len(s[key]) if key in s else 0 for s in samples]
            assert read.sequence_lengths(key).tolist() == lengths
