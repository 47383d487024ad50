from __future__ import annotations

import gc
import os
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
from hypothesis.extra import numpy as hnp

from omniloader._types import BatchReader, Gather
from omniloader.data.datasets import HDF5Dataset
from omniloader.errors import ConfigError, MissingGroupError, SampleError, SourceError

MODES: list[dict[str, Any]] = [{}, {"cache_size": 2}, {"preload": True}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three ragged samples, written in an order that is not that of their names."""
    path = tmp_path / "voices.h5"
    with h5py.File(path, "w", track_order=True) as file:
        for name, steps in (("c", 4), ("a", 2), ("b", 3)):
            group = file.create_group(f"train/{name}")
            group["audio"] = np.full((steps, 2), ord(name), np.float32)
            group["label"] = np.int64(steps)
            group["speaker"] = f"speaker {name}"
        file["train/a/note"] = "only here"
        file.create_group("valid")
    return path


def one_value(tmp_path: Path, **kwargs: Any) -> HDF5Dataset:
    path = tmp_path / "one.h5"
    with h5py.File(path, "w") as file:
        file.create_group("train/s").create_dataset("x", **kwargs)
    return HDF5Dataset(path, "train")


def same(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor):
        return left.dtype == right.dtype and torch.equal(left, right)
    return type(left) is type(right) and left == right


def rows_of(column: Any) -> list[Any]:
    if isinstance(column, Gather):
        return list(column.table[torch.from_numpy(column.index)])
    return list(column)


def assert_batch_equals_samples(data: HDF5Dataset, indices: list[int]) -> None:
    batch = {key: rows_of(column) for key, column in data.read_batch(indices).items()}
    samples = [data[i] for i in indices]
    assert {key for sample in samples for key in sample} <= set(batch)
    for key, rows in batch.items():
        assert len(rows) == len(indices)
        for row, sample in zip(rows, samples, strict=True):
            assert (key not in sample) if row is None else same(row, sample[key])


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_samples_come_in_order_of_their_names(path: Path, mode: dict) -> None:
    data = HDF5Dataset(path, "train", **mode)
    assert len(data) == 3
    assert data.sample_ids == ["a", "b", "c"]
    assert (data.subset, data.name) == ("train", None)
    sample = data[1]
    assert sample["audio"].tolist() == [[98.0, 98.0]] * 3
    assert sample["audio"].dtype == torch.float32
    assert (sample["label"].item(), sample["label"].dtype) == (3, torch.int64)
    assert sample["speaker"] == "speaker b"
    assert "note" not in sample
    assert data[0]["note"] == "only here"
    assert same(data[-1]["audio"], data[2]["audio"])
    assert isinstance(data, BatchReader)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_batch_equals_the_samples(path: Path, mode: dict) -> None:
    data = HDF5Dataset(path, "train", **mode)
    for indices in ([0, 1, 2], [2, 2], [-1], [1, 2, 1, 0]):
        assert_batch_equals_samples(data, indices)
    assert data.read_batch([1, 1])["audio"].shape == (2, 3, 2) if mode != MODES[2] else True
    assert data.read_batch([0, 1])["note"] == ["only here", None]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_writing_into_a_sample_changes_nothing_else(path: Path, mode: dict) -> None:
    data = HDF5Dataset(path, "train", **mode)
    for _ in range(2):
        data[0]["audio"].add_(1)
        data[0]["label"].add_(1)
        columns = data.read_batch([0, 1])
        columns["audio"][0].add_(1)
    assert data[0]["audio"].tolist() == [[97.0, 97.0]] * 2
    assert data[0]["label"].item() == 2


@pytest.mark.parametrize("index", [3, -4])
def test_index_outside_is_an_index_error(path: Path, index: int) -> None:
    data = HDF5Dataset(path, "train")
    with pytest.raises(IndexError, match=rf"group 'train': index {index} is out of range for 3"):
        data[index]
    with pytest.raises(IndexError, match=rf"index {index} is out of range for 3 samples"):
        data.read_batch([index])


def test_keys_choose_what_is_read(path: Path) -> None:
    data = HDF5Dataset(path, "train", keys=["note", "label"])
    assert list(data[0]) == ["note", "label"]
    assert list(data[1]) == ["label"]
    assert data.sequence_lengths("audio").tolist() == [0, 0, 0]


def test_a_key_that_no_sample_has_is_refused(path: Path) -> None:
    with pytest.raises(
        MissingGroupError,
        match="no sample has 'vide', 'x'; known keys: audio, label, note, speaker",
    ):
        HDF5Dataset(path, "train", keys=["x", "label", "vide"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keys": "audio"}, "keys must be a list of key names or None for all, got 'audio'"),
        ({"keys": [1]}, r"keys must be a list of key names or None for all, got \[1\]"),
        ({"keys": []}, "keys must name at least one key, each once"),
        ({"keys": ["a", "a"]}, "keys must name at least one key, each once"),
        ({"keys": ["../a"]}, "keys must be plain names without .* got '../a'"),
        ({"cache_size": -1}, "cache_size must be a whole number of at least 0, got -1"),
        ({"cache_size": True}, "cache_size must be a whole number of at least 0, got True"),
    ],
)
def test_impossible_options_are_refused(path: Path, options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        HDF5Dataset(path, "train", **options)


def test_an_empty_subset_has_no_samples(path: Path) -> None:
    data = HDF5Dataset(path, "valid", keys=["audio"])
    assert len(data) == 0
    assert data.read_batch([]) == {}
    assert data.sequence_lengths("audio").tolist() == []
    assert len(HDF5Dataset(path, "valid", preload=True)) == 0


def test_lengths_come_from_shapes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = HDF5Dataset(path, "train")
    monkeypatch.setattr("omniloader.data._hdf5_read.read_value", None)
    lengths = data.sequence_lengths("audio")
    assert (lengths.tolist(), lengths.dtype) == ([2, 3, 4], np.int64)
    lengths[0] = 99
    data.close()
    path.unlink()
    assert data.sequence_lengths("audio").tolist() == [2, 3, 4]


def test_lengths_of_missing_and_scalar_keys(path: Path) -> None:
    data = HDF5Dataset(path, "train")
    assert data.sequence_lengths("video").tolist() == [0, 0, 0]
    assert data.sequence_lengths("a/b").tolist() == [0, 0, 0]
    with pytest.raises(SampleError, match="sample 'train/a': 'label' has no time axis"):
        data.sequence_lengths("label")


# -- types ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "held"),
    [
        (">f4", torch.float32),
        ("<f2", torch.float16),
        (">f8", torch.float64),
        (">i2", torch.int16),
        ("u1", torch.uint8),
        (">u2", torch.int32),
        ("<u4", torch.int64),
        ("<u8", torch.int64),
        ("?", torch.bool),
        ("<c8", torch.complex64),
    ],
)
@pytest.mark.parametrize("shape", [(), (3,), (0, 2)])
def test_number_types(tmp_path: Path, stored: str, held: torch.dtype, shape: tuple) -> None:
    value = np.ones(shape, dtype=stored)
    tensor = one_value(tmp_path, data=value)[0]["x"]
    assert (tensor.dtype, tuple(tensor.shape)) == (held, shape)
    assert np.array_equal(tensor.numpy(), value)


def test_enumerations_are_their_numbers(tmp_path: Path) -> None:
    dtype = h5py.enum_dtype({"OPEN": 0, "CLOSED": 7}, basetype="i2")
    tensor = one_value(tmp_path, data=np.array([7, 0]), dtype=dtype)[0]["x"]
    assert (tensor.tolist(), tensor.dtype) == ([7, 0], torch.int16)


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"data": "né"}, "né"),
        ({"data": b"raw"}, "raw"),
        ({"data": np.bytes_(b"fixed")}, "fixed"),
        ({"data": "fix", "dtype": h5py.string_dtype("utf-8", 6)}, "fix"),
        ({"data": ""}, ""),
        ({"data": ["a", "é"]}, ["a", "é"]),
        ({"data": np.array([b"a", b"bc"])}, ["a", "bc"]),
        ({"data": [["a"], ["b"]]}, [["a"], ["b"]]),
        ({"shape": (0,), "dtype": h5py.string_dtype()}, []),
        ({"shape": (2,), "dtype": h5py.string_dtype()}, ["", ""]),
        ({"shape": (2, 0), "dtype": "S4"}, [[], []]),
    ],
)
@pytest.mark.parametrize("cache_size", [0, 1])
def test_text(tmp_path: Path, kwargs: dict, text: object, cache_size: int) -> None:
    one_value(tmp_path, **kwargs)
    data = HDF5Dataset(tmp_path / "one.h5", "train", cache_size=cache_size)
    assert data[0]["x"] == text
    assert type(data[0]["x"]) is type(text)
    assert data.read_batch([0, 0])["x"] == [text, text]


def test_null_counts_as_missing(tmp_path: Path) -> None:
    data = one_value(tmp_path, data=h5py.Empty("f4"))
    assert data[0] == {}
    assert data.sequence_lengths("x").tolist() == [0]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        (
            {"data": np.zeros(2, [("a", "i4")])},
            r"must be numbers, bool or text, got compound \('a',\)",
        ),
        ({"data": np.void(b"ab")}, "got opaque bytes"),
        ({"shape": (1,), "dtype": h5py.ref_dtype}, "got references"),
        ({"shape": (1,), "dtype": h5py.vlen_dtype("i4")}, "got arrays of varying length"),
        ({"shape": (1,), "dtype": np.dtype("(3,)f4")}, "got an array type"),
        ({"data": np.ones(1, np.longdouble)}, "values must be numbers, bool or text"),
        ({"data": np.array([2**63], np.uint64)}, "values must fit int64, got uint64 up to 9223372"),
        ({"data": np.bytes_(b"\xff")}, "text must be UTF-8"),
    ],
)
def test_other_types_are_refused_by_name(tmp_path: Path, kwargs: dict, message: str) -> None:
    data = one_value(tmp_path, **kwargs)
    with pytest.raises(SampleError, match=rf"one\.h5' sample 'train/s': 'x': .*{message}"):
        data[0]


def test_groups_beside_the_arrays_are_left_alone(path: Path) -> None:
    with h5py.File(path, "a") as file:
        file.create_group("train/a/extra")
    data = HDF5Dataset(path, "train")
    assert "extra" not in data[0]
    data = HDF5Dataset(path, "train", keys=["audio"])
    with h5py.File(path, "a") as file:
        del file["train/a/audio"]
        file.create_group("train/a/audio")
    with pytest.raises(
        SampleError, match="sample 'train/a': 'audio' must be an array, got a group"
    ):
        data[0]


# -- files that are not what they should be --------------------------------------------------


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"none\.h5' does not exist; check the path"
    ) as caught:
        HDF5Dataset(tmp_path / "none.h5", "train")
    assert isinstance(caught.value, SourceError)


def test_missing_subset_names_those_there_are(path: Path) -> None:
    with pytest.raises(KeyError, match=r"has no group 'test'; the file holds 'train', 'valid'"):
        HDF5Dataset(path, "test")
    with pytest.raises(MissingGroupError, match="has an array, not a group, at 'train/a/audio'"):
        HDF5Dataset(path, "train/a/audio")


@pytest.mark.parametrize("subset", ["", None, 3])
def test_subset_must_be_text(path: Path, subset: Any) -> None:
    with pytest.raises(ConfigError, match=f"subset must be the name of a group, got {subset!r}"):
        HDF5Dataset(path, subset)


def test_files_of_another_kind(path: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="must be an HDF5 file, got a folder"):
        HDF5Dataset(tmp_path, "train")
    (tmp_path / "text.h5").write_text("hello")
    with pytest.raises(SourceError, match=r"text\.h5' cannot be opened .* it is not an HDF5 file"):
        HDF5Dataset(tmp_path / "text.h5", "train")
    raw = path.read_bytes()
    (tmp_path / "cut.h5").write_bytes(raw[: len(raw) // 2])
    with pytest.raises(
        SourceError, match=r"cut\.h5' cannot be opened .* it is damaged, incomplete"
    ):
        HDF5Dataset(tmp_path / "cut.h5", "train")


def test_no_right_to_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(h5py, "File", refuse)
    with pytest.raises(SourceError, match=r"voices\.h5' must be readable, got: .*check its rights"):
        HDF5Dataset(path, "train")


def test_a_damaged_value_is_named(tmp_path: Path) -> None:
    data = one_value(tmp_path, data=np.arange(1000), compression="gzip")
    path = tmp_path / "one.h5"
    raw = bytearray(path.read_bytes())
    with h5py.File(path) as file:
        chunk = file["train/s/x"].id.get_chunk_info(0)
    raw[chunk.byte_offset : chunk.byte_offset + 20] = b"\0" * 20
    path.write_bytes(raw)
    with pytest.raises(
        SourceError, match=r"sample 'train/s': 'x': cannot be read .* damaged, or made"
    ):
        data[0]


def test_a_damaged_header_is_named(tmp_path: Path) -> None:
    data = one_value(tmp_path, data=np.arange(3))
    path = tmp_path / "one.h5"
    with h5py.File(path) as file:
        address = h5py.h5o.get_info(file["train/s/x"].id).addr
    raw = bytearray(path.read_bytes())
    raw[address : address + 4] = b"\xff" * 4
    path.write_bytes(raw)
    with pytest.raises(
        SourceError, match=r"sample 'train/s': 'x' stands there but .* it is damaged"
    ):
        data[0]


def test_links_that_lead_nowhere_are_named(path: Path) -> None:
    with h5py.File(path, "a") as file:
        file["train/b/audio_b"] = h5py.SoftLink("/gone")
        file["train/c/audio_c"] = h5py.ExternalLink("gone.h5", "/x")
    data = HDF5Dataset(path, "train")
    with pytest.raises(
        SourceError, match="sample 'train/b': 'audio_b' stands there but cannot be opened"
    ):
        data[1]
    with pytest.raises(SourceError, match=r"sample 'train/c': .*'audio_c'"):
        data[2]
    with pytest.raises(SourceError, match="'audio_b' stands there but"):
        HDF5Dataset(path, "train", keys=["audio", "audio_b"])[1]


def test_a_link_into_a_file_of_another_kind_is_named(path: Path) -> None:
    (path.parent / "text.h5").write_text("hello")
    with h5py.File(path, "a") as file:
        file["train/a/other"] = h5py.ExternalLink("text.h5", "/x")
    with pytest.raises(SourceError, match=r"sample 'train/a': .*'other'.*file signature not found"):
        HDF5Dataset(path, "train")


def test_arrays_in_place_of_sample_groups_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "columns.h5"
    with h5py.File(path, "w") as file:
        file["train/audio"] = np.zeros((4, 3))
    with pytest.raises(
        SourceError, match=r"sample 'train/audio': must be a group .* got an array; the layout is"
    ):
        HDF5Dataset(path, "train")


def test_a_sample_that_went_away_is_named(path: Path) -> None:
    data = HDF5Dataset(path, "train")
    with h5py.File(path, "a") as file:
        del file["train/b"]
    with pytest.raises(SourceError, match=r"sample 'train/b': must be a group .* got nothing"):
        data[1]


# -- handle, cache, preload ------------------------------------------------------------------


def open_files(path: Path) -> int:
    links = Path("/proc/self/fd").iterdir()
    return sum(os.path.realpath(link) == str(path) for link in links)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files by /proc")
def test_the_file_is_open_only_between_first_read_and_close(path: Path) -> None:
    data = HDF5Dataset(path, "train")
    assert open_files(path) == 0
    data[0]
    assert open_files(path) == 1
    data.close()
    data.close()
    assert open_files(path) == 0
    with data as same_data:
        assert same_data[1]["speaker"] == "speaker b"
    assert open_files(path) == 0
    data[0]
    del data, same_data
    gc.collect()
    assert open_files(path) == 0


def test_the_working_directory_may_change(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    data = HDF5Dataset(path.name, "train")
    monkeypatch.chdir("/")
    assert data[0]["speaker"] == "speaker a"


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_pickling_leaves_handle_and_cache_behind(path: Path, mode: dict) -> None:
    data = HDF5Dataset(path, "train", name="voices", **mode)
    data[0]
    copy = pickle.loads(pickle.dumps(data))  # noqa: S301
    assert (copy.sample_ids, copy.name, copy.cache_size) == (
        data.sample_ids,
        "voices",
        data.cache_size,
    )
    assert not copy._handle.is_open
    assert not copy._cache
    assert same(copy[2]["audio"], data[2]["audio"])
    assert repr(copy) == f"HDF5Dataset('{path}', subset='train', samples=3)"


def test_the_cache_keeps_the_last_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = HDF5Dataset(path, "train", cache_size=2)
    reads: list[int] = []
    read = data._read
    monkeypatch.setattr(data, "_read", lambda at, names: (reads.append(at), read(at, names))[1])
    for index in (0, 1, 0, 2, 0, 1, -1):
        data[index]
    assert reads == [0, 1, 2, 1, 2]
    data.reset_for_worker()
    assert not data._handle.is_open
    data.read_batch([2, 2])
    assert reads == [0, 1, 2, 1, 2, 2]


def test_preloaded_samples_need_no_file(path: Path) -> None:
    data = HDF5Dataset(path, "train", preload=True)
    path.unlink()
    data.reset_for_worker()
    assert data[0]["note"] == "only here"
    assert data[2]["audio"].tolist() == [[99.0, 99.0]] * 4
    label = data.read_batch([2, 0])["label"]
    assert isinstance(label, Gather)
    assert label.table.tolist() == [2, 3, 4]


# -- any layout ------------------------------------------------------------------------------

DTYPES = st.sampled_from([">f4", "<f8", "<f2", "?", "u1", ">u2", "<i8", "<u4"])


@st.composite
def layouts(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Samples of up to four keys: ragged or not, missing or not, plain or chunked and packed."""
    ragged = draw(st.booleans())
    forms = {
        key: (draw(DTYPES), draw(st.lists(st.integers(1, 3), max_size=2)))
        for key in draw(st.sets(st.sampled_from("wxyz"), max_size=4))
    }
    samples = []
    for _ in range(draw(st.integers(0, 5))):
        sample: dict[str, Any] = {}
        for key, (dtype, shape) in forms.items():
            if ragged and draw(st.booleans()):
                continue
            steps = [draw(st.integers(0, 3))] if ragged and shape else shape[:1]
            elements = {"allow_nan": False} if "f" in dtype else None
            array = draw(hnp.arrays(dtype, tuple(steps + shape[1:]), elements=elements))
            sample[key] = array
        if draw(st.booleans()):
            sample["text"] = draw(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
        samples.append(sample)
    return samples


PACKING = st.sampled_from([{}, {"chunks": True}, {"compression": "gzip", "shuffle": True}])


@settings(max_examples=60, deadline=None)
@given(layouts(), PACKING, st.sampled_from(MODES), st.data())
def test_any_layout_reads_back_by_both_paths(
    samples: list[dict], packing: dict, mode: dict, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any.h5"
        with h5py.File(path, "w") as file:
            parent = file.create_group("train")
            for number, sample in enumerate(samples):
                group = parent.create_group(f"{number:03}")
                for key, value in sample.items():
                    packed = isinstance(value, np.ndarray) and value.size and value.ndim
                    group.create_dataset(key, data=value, **(packing if packed else {}))
        dataset = HDF5Dataset(path, "train", **mode)
        for number, sample in enumerate(samples):
            read = dataset[number]
            assert set(read) == set(sample)
            for key, value in sample.items():
                if isinstance(value, str):
                    assert read[key] == value
                else:
                    assert np.array_equal(read[key].numpy(), value)
                    assert read[key].shape == value.shape
        if samples:
            picks = st.lists(st.integers(-len(samples), len(samples) - 1), max_size=6)
            assert_batch_equals_samples(dataset, data.draw(picks))
        dataset.close()
