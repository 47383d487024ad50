from __future__ import annotations

import os
import pickle
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch.utils.data import DataLoader

from omniloader._types import BatchReader
from omniloader.data import _npy_file
from omniloader.data.npy import NpyFolderDataset
from omniloader.errors import ConfigError, MissingGroupError, SampleError, SourceError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two ragged samples, one text, and what has to be left alone."""
    root = tmp_path / "voices"
    for name, steps in (("b", 3), ("a", 2)):
        folder = root / name
        folder.mkdir(parents=True)
        np.save(folder / "audio.npy", np.full((steps, 2), ord(name), np.float32))
        np.save(folder / "speaker.npy", np.array(f"speaker {name}"))
        (folder / "notes.txt").write_text("not a value")
        (folder / ".hidden.npy").write_bytes(b"junk")
    np.save(root / "a" / "label.npy", np.int64(7))
    (root / ".cache").mkdir()
    (root / "README.md").write_text("about")
    return root


def one_value(tmp_path: Path, value: Any, mmap: bool = True) -> NpyFolderDataset:
    folder = tmp_path / "one" / "s"
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "x.npy", value, allow_pickle=True)
    return NpyFolderDataset(tmp_path / "one", mmap=mmap)


def test_samples_come_in_order_of_their_names(root: Path) -> None:
    data = NpyFolderDataset(root, name="voices")
    assert len(data) == 2
    assert data.sample_ids == ["a", "b"]
    assert (data.name, data.subset) == ("voices", None)
    sample = data[0]
    assert sorted(sample) == ["audio", "label", "speaker"]
    assert sample["audio"].tolist() == [[97.0, 97.0]] * 2
    assert (sample["label"].item(), sample["label"].shape) == (7, ())
    assert sample["speaker"] == "speaker a"
    assert sorted(data[-1]) == ["audio", "speaker"]
    assert isinstance(data, BatchReader)
    assert repr(data) == f"NpyFolderDataset('{root}', samples=2)"


def test_batch_equals_the_samples(root: Path) -> None:
    data = NpyFolderDataset(root)
    batch = data.read_batch([1, 0, -1])
    assert [len(row) for row in batch["audio"]] == [3, 2, 3]
    assert batch["speaker"] == ["speaker b", "speaker a", "speaker b"]
    assert [row if row is None else row.item() for row in batch["label"]] == [None, 7, None]
    stacked = data.read_batch(np.array([1, 1]))["audio"]
    assert isinstance(stacked, torch.Tensor)
    assert torch.equal(stacked[1], data[1]["audio"])


@pytest.mark.parametrize("index", [2, -3])
def test_index_outside_is_an_index_error(root: Path, index: int) -> None:
    with pytest.raises(IndexError, match=rf"voices': index {index} is out of range for 2 samples"):
        NpyFolderDataset(root)[index]
    with pytest.raises(IndexError, match=rf"index {index} is out of range"):
        NpyFolderDataset(root).read_batch([index])


def test_keys_choose_what_is_read(root: Path) -> None:
    data = NpyFolderDataset(root, keys=("label", "audio"))
    assert list(data[0]) == ["label", "audio"]
    assert list(data[1]) == ["audio"]
    assert data.sequence_lengths("speaker").tolist() == [0, 0]
    with pytest.raises(
        MissingGroupError, match="no sample has 'x'; known keys: audio, label, speaker"
    ):
        NpyFolderDataset(root, keys=["x", "audio"])
    with pytest.raises(ConfigError, match="keys must be a list of key names or None for all"):
        NpyFolderDataset(root, keys="audio")
    with pytest.raises(ConfigError, match="keys must be plain names without"):
        NpyFolderDataset(root, keys=["../a/audio"])


def test_subset_is_a_folder_below_the_root(root: Path) -> None:
    data = NpyFolderDataset(root.parent, subset="voices")
    assert (data.subset, len(data)) == ("voices", 2)
    with pytest.raises(KeyError, match="has no folder 'test'; it holds 'voices'"):
        NpyFolderDataset(root.parent, subset="test")
    with pytest.raises(ConfigError, match="subset must be the name of a folder, got ''"):
        NpyFolderDataset(root, subset="")


def test_lengths_come_from_headers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omniloader.data.npy.read_value", None)
    data = NpyFolderDataset(root)
    lengths = data.sequence_lengths("audio")
    assert (lengths.tolist(), lengths.dtype) == ([2, 3], np.int64)
    lengths[0] = 99
    monkeypatch.setattr("omniloader.data.npy.read_header", None)
    assert data.sequence_lengths("audio").tolist() == [2, 3]
    assert data.sequence_lengths("../a/audio").tolist() == [0, 0]


def test_lengths_of_missing_and_scalar_keys(root: Path) -> None:
    data = NpyFolderDataset(root)
    assert data.sequence_lengths("video").tolist() == [0, 0]
    with pytest.raises(SampleError, match=r"a/label\.npy' has no time axis"):
        data.sequence_lengths("label")


def test_headers_longer_than_the_first_read(tmp_path: Path) -> None:
    shape = (1,) * 60 + (3,)
    folder = tmp_path / "one" / "s"
    folder.mkdir(parents=True)
    array = np.arange(3.0).reshape(shape)
    with (folder / "x.npy").open("wb") as file:
        np.lib.format.write_array(file, array, version=(2, 0))
    raw = (folder / "x.npy").read_bytes()
    # A header may be padded to any length.
    size = struct.unpack("<I", raw[8:12])[0]
    padded = raw[:8] + struct.pack("<I", size + 512) + b" " * 512 + raw[12:]
    (folder / "y.npy").write_bytes(padded)
    data = NpyFolderDataset(tmp_path / "one")
    assert data.sequence_lengths("y").tolist() == [1]
    assert np.array_equal(data[0]["x"].numpy(), array)
    assert np.array_equal(data[0]["y"].numpy(), array)


@pytest.mark.parametrize("mmap", [False, True])
def test_writing_into_a_value_never_reaches_the_file(
    tmp_path: Path, mmap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_npy_file, "MAP_FROM_BYTES", 1)
    data = one_value(tmp_path, np.zeros((4, 5), np.float32), mmap)
    first = data[0]["x"]
    first.add_(1)
    assert data[0]["x"].sum() == 0
    assert data.read_batch([0, 0])["x"].sum() == 0
    assert np.load(tmp_path / "one/s/x.npy").sum() == 0
    assert first.sum() == 20


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files by /proc")
def test_values_that_are_kept_hold_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_npy_file, "MAP_FROM_BYTES", 1)
    data = one_value(tmp_path, np.arange(1000))
    before = len(list(Path("/proc/self/fd").iterdir()))
    kept = [data[0]["x"] for _ in range(20)]
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert all(torch.equal(x, torch.arange(1000)) for x in kept)


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("size", [0, 1, 3])
def test_types_and_layouts(
    tmp_path: Path, mmap: bool, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_npy_file, "MAP_FROM_BYTES", 1)
    for dtype, held in ((">f4", torch.float32), ("<f2", torch.float16), ("?", torch.bool)):
        value = np.ones((size, 2), dtype)
        tensor = one_value(tmp_path, value, mmap)[0]["x"]
        assert (tensor.dtype, tuple(tensor.shape)) == (held, (size, 2))
        assert np.array_equal(tensor.numpy(), value)
    fortran = np.asfortranarray(np.arange(size * 2.0).reshape(size, 2))
    assert np.array_equal(one_value(tmp_path, fortran, mmap)[0]["x"].numpy(), fortran)


@pytest.mark.parametrize(
    ("value", "text"), [("né", "né"), (b"raw", "raw"), (["a", "bc"], ["a", "bc"]), ("", "")]
)
def test_text(tmp_path: Path, value: object, text: object) -> None:
    assert one_value(tmp_path, np.array(value))[0]["x"] == text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([object()]), "holds Python objects, which are pickles and never loaded"),
        (np.array({"a": 1}), "holds Python objects"),
        (np.zeros(2, [("a", "i4")]), "values must be numbers, bool or text"),
        (np.array([2**63], np.uint64), "values must fit int64"),
        (np.array(b"\xff"), "text must be UTF-8"),
    ],
)
def test_other_types_are_refused_by_name(tmp_path: Path, value: object, message: str) -> None:
    data = one_value(tmp_path, value)
    with pytest.raises(SampleError, match=rf"s/x\.npy'.* ?{message}"):
        data[0]


def header_with(text: str, version: int = 1) -> bytes:
    body = text.encode("latin-1")
    return b"\x93NUMPY" + bytes([version, 0]) + len(body).to_bytes(2, "little") + body


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04 a zip file", "is not an npy file, or is cut off in its header"),
        (header_with("{")[:11], "is not an npy file, or is cut off"),
        (header_with("{'descr'"), r"has a broken header"),
        (header_with("{'descr': '<f4'}"), r"has a broken header"),
        (header_with("[1, 2, 3]"), r"has a broken header"),
        (
            header_with("{'descr': 'zz', 'fortran_order': False, 'shape': (1,)}"),
            "has a broken header",
        ),
        (
            header_with("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"),
            r"has a broken header \(shape is \(-1,\)\)",
        ),
        (header_with("{'descr': '<f4'", 9), "has a header of version 9"),
        (header_with("x" * 20_000), "has a header of version 1 with 20000 bytes"),
        (header_with("x" * 300)[:200], r"has a broken header \(it is cut off\)"),
    ],
)
def test_files_of_another_kind_are_named(tmp_path: Path, raw: bytes, message: str) -> None:
    data = one_value(tmp_path, np.ones(3))
    (tmp_path / "one/s/x.npy").write_bytes(raw)
    with pytest.raises(SourceError, match=rf"s/x\.npy' {message}"):
        data[0]
    with pytest.raises(SourceError, match=rf"s/x\.npy' {message}"):
        data.sequence_lengths("x")


@pytest.mark.parametrize("threshold", [1, 1 << 18])
def test_a_file_that_is_cut_off_is_named(
    tmp_path: Path, threshold: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_npy_file, "MAP_FROM_BYTES", threshold)
    data = one_value(tmp_path, np.ones((10, 4), np.float32))
    path = tmp_path / "one/s/x.npy"
    os.truncate(path, 200)
    text = r"x\.npy' is cut off: float32 \(10, 4\) needs 288 bytes, the file has 200"
    with pytest.raises(SourceError, match=text):
        data[0]
    with pytest.raises(SourceError, match=text):
        data.sequence_lengths("x")


def test_a_folder_in_place_of_a_file_is_named(root: Path) -> None:
    data = NpyFolderDataset(root)
    (root / "a" / "x.npy").mkdir()
    with pytest.raises(SourceError, match=r"x\.npy' cannot be read .*directory"):
        data[0]


def test_a_sample_folder_that_went_away_is_named(root: Path) -> None:
    data = NpyFolderDataset(root)
    (root / "a").rename(root / "z")
    with pytest.raises(SourceError, match=r"voices' sample 'a': its folder cannot be read"):
        data[0]


def test_roots_of_another_layout_are_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none' does not exist"):
        NpyFolderDataset(tmp_path / "none")
    with pytest.raises(SourceError, match=r"README\.md' must be a folder .* got a file"):
        NpyFolderDataset(root / "README.md")
    with pytest.raises(SourceError, match="a' holds npy files, not one folder a sample"):
        NpyFolderDataset(root / "a")
    with pytest.raises(
        SourceError, match=r"no folder in it holds an npy file, got folders 'voices';"
    ):
        NpyFolderDataset(tmp_path)


def test_an_empty_folder_has_no_samples(tmp_path: Path) -> None:
    data = NpyFolderDataset(tmp_path)
    assert len(data) == 0
    assert data.read_batch([]) == {}


def test_it_survives_pickling_and_a_change_of_folder(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root.parent)
    data = pickle.loads(pickle.dumps(NpyFolderDataset("voices")))  # noqa: S301
    monkeypatch.chdir("/")
    assert data[1]["speaker"] == "speaker b"


def test_workers_read_the_same(root: Path) -> None:
    data = NpyFolderDataset(root)
    loader = DataLoader(data, batch_size=1, num_workers=2, collate_fn=list, timeout=60)
    assert [batch[0]["speaker"] for batch in loader] == ["speaker a", "speaker b"]


FORMS = hnp.arrays(
    st.sampled_from([">f4", "<f8", "<f2", "?", ">u2", "<i8"]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.dictionaries(st.sampled_from("xyz"), FORMS, max_size=3), min_size=1, max_size=5),
    st.booleans(),
    st.data(),
)
def test_any_folder_reads_back_by_both_paths(
    samples: list[dict[str, np.ndarray]], mmap: bool, data: st.DataObject
) -> None:
    samples[0]["always"] = np.ones(2)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(_npy_file, "MAP_FROM_BYTES", 160)
        for number, sample in enumerate(samples):
            (Path(folder) / f"{number:03}").mkdir()
            for key, value in sample.items():
                np.save(Path(folder) / f"{number:03}" / key, value)
        dataset = NpyFolderDataset(folder, mmap=mmap)
        for number, sample in enumerate(samples):
            read = dataset[number]
            assert set(read) == set(sample)
            for key, value in sample.items():
                np.testing.assert_array_equal(read[key].numpy(), value)
                assert read[key].shape == value.shape
        picks = data.draw(st.lists(st.integers(0, len(samples) - 1), max_size=6))
        for key, column in dataset.read_batch(picks).items():
            for row, pick in zip(column, picks, strict=True):
                if key in samples[pick]:
                    np.testing.assert_array_equal(row.numpy(), dataset[pick][key].numpy())
                else:
                    assert row is None
