"""HDF5 batches past HDF5: the same bits and errors for every layout, and the sidecar."""

from __future__ import annotations

import json
import os
import pickle
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from omniloader.data import _hdf5_chunks, _hdf5_fast, hdf5
from omniloader.data._hdf5_chunks import read_dataset
from omniloader.data._hdf5_form import Form
from omniloader.data.datasets import HDF5Dataset
from omniloader.errors import SampleError, SourceError

KEYS = ("image", "label", "text", "odd", "absent")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OMNILOADER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OMNILOADER_FAST", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Four samples: a large packed array, a number, a text, and what only HDF5 reads."""
    path = tmp_path / "eyes.h5"
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        for i in range(4):
            group = file.create_group(f"train/{i}")
            image = rng.integers(0, 9, (15, 8, 8)).astype(np.float16)
            group.create_dataset("image", data=image, compression="gzip", shuffle=True)
            group["label"] = np.int32(i)
            group["text"] = f"sample né {i}"
            if i % 2:
                group.create_dataset("odd", data=np.arange(200.0), compression="lzf")
    return path


def as_values(column: Any) -> list[Any]:
    return list(column)


def assert_same(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert left.keys() == right.keys()
    for key in left:
        assert isinstance(left[key], torch.Tensor) == isinstance(right[key], torch.Tensor), key
        for a, b in zip(as_values(left[key]), as_values(right[key]), strict=True):
            if isinstance(a, torch.Tensor):
                assert (a.dtype, a.shape) == (b.dtype, b.shape), key
                assert a.numpy().tobytes() == b.numpy().tobytes(), key
            else:
                assert a == b, key


def plain(path: Path, **options: Any) -> HDF5Dataset:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMNILOADER_FAST", "0")
        data = HDF5Dataset(path, "train", **options)
    assert data._fast is None
    return data


def no_hdf5(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("HDF5 was asked")

    monkeypatch.setattr("omniloader.data._hdf5_file.h5py.File", refuse)


@pytest.mark.parametrize("threads", [0, 2])
def test_the_same_as_by_hdf5(path: Path, threads: int) -> None:
    data, expected = HDF5Dataset(path, "train", threads=threads), plain(path)
    for at in ([0, 1, 2, 3], [3, 3, 0], [-1], [1, 3]):
        for _ in range(2):
            assert_same(data.read_batch(at, KEYS), expected.read_batch(at, KEYS))
    assert isinstance(data.read_batch([0, 2], KEYS)["image"], torch.Tensor)
    assert "absent" not in data.read_batch([0], KEYS)
    data.close()
    assert_same(data.read_batch([2, 1], KEYS), expected.read_batch([2, 1], KEYS))


def test_what_is_known_needs_no_hdf5(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["image", "label", "text"]
    data, expected = HDF5Dataset(path, "train"), plain(path).read_batch([0, 1, 2, 3], names)
    data.read_batch([0, 1, 2, 3], names)
    data._handle.close()
    no_hdf5(monkeypatch)
    assert_same(data.read_batch([0, 1, 2, 3], names), expected)


def test_the_sidecar_serves_the_next_process(
    path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["image", "label", "text"]
    with HDF5Dataset(path, "train") as first:
        expected = first.read_batch([0, 1, 2, 3], names)
    assert [file.suffix for file in cache.iterdir()] == [".npz"]
    again = pickle.loads(pickle.dumps(HDF5Dataset(path, "train")))  # noqa: S301
    no_hdf5(monkeypatch)
    assert_same(again.read_batch([0, 1, 2, 3], names), expected)


def test_what_two_datasets_learn_is_joined(
    path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["image", "text", "label"]
    one, two = HDF5Dataset(path, "train"), HDF5Dataset(path, "train")
    one.read_batch([0, 1], names)
    two.read_batch([2], ["text", "image"])
    two.read_batch([3], names)
    one.close()
    two.close()
    third, expected = HDF5Dataset(path, "train"), plain(path)
    expected_batch = expected.read_batch([3, 0, 1], names)
    no_hdf5(monkeypatch)
    assert_same(third.read_batch([3, 0, 1], names), expected_batch)
    assert third._fast is not None
    assert third._fast._index is not None
    assert third._fast._index.known == 11


def test_a_changed_file_is_learnt_anew(path: Path) -> None:
    with HDF5Dataset(path, "train") as data:
        data.read_batch([0, 1], ["image", "label"])
        data.close()
        with h5py.File(path, "a") as file:
            del file["train/0/image"]
            file["train/0/padding"] = np.zeros(5000)
            file["train/0/image"] = np.ones((15, 8, 8), np.float16)
        os.utime(path, ns=(1, 1))
        assert data.read_batch([0], ["image"])["image"].sum() == 15 * 64
    with HDF5Dataset(path, "train") as data:
        assert data.read_batch([0], ["image"])["image"].sum() == 15 * 64


def test_a_file_that_changes_while_it_is_open_is_left_to_hdf5(path: Path) -> None:
    data = HDF5Dataset(path, "train")
    data.read_batch([0], ["label"])
    data._handle.close()
    os.utime(path, ns=(1, 1))
    assert data.read_batch([1], ["label"])["label"].tolist() == [1]
    assert data._fast is not None
    assert data._fast._index is not None
    assert data._fast._index.known == 1


@pytest.mark.parametrize("spoil", ["cut", "other", "shape", "missing"])
def test_a_sidecar_that_is_no_good_is_made_again(path: Path, cache: Path, spoil: str) -> None:
    names = ["image", "label"]
    with HDF5Dataset(path, "train") as data:
        expected = data.read_batch([0, 1, 2, 3], names)
    (file,) = cache.iterdir()
    if spoil == "cut":
        file.write_bytes(file.read_bytes()[:100])
    else:
        with np.load(file) as stored:
            arrays = dict(stored)
        meta = json.loads(arrays["meta"].tobytes())
        if spoil == "other":
            meta["about"][0] = -1
        elif spoil == "missing":
            del meta["forms"]
        else:
            arrays["form"] = arrays["form"][:, :2]
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
        np.savez(file, **arrays)
    again = HDF5Dataset(path, "train")
    assert_same(again.read_batch([0, 1, 2, 3], names), expected)
    again.close()
    assert again._fast is not None
    with HDF5Dataset(path, "train") as third:
        third.read_batch([0], names)
        assert third._fast is not None
        assert third._fast._known == 8


def test_a_cache_that_cannot_be_written_is_no_error(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("OMNILOADER_CACHE", str(tmp_path / "file" / "cache"))
    caplog.set_level("DEBUG", "omniloader")
    with HDF5Dataset(path, "train") as data:
        assert data.read_batch([0, 1], ["label"])["label"].tolist() == [0, 1]
    assert "is not kept" in caplog.text


def test_a_full_disk_leaves_no_draft(
    path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with HDF5Dataset(path, "train") as data:
        data.read_batch([0, 1], ["label"])
    assert list(cache.iterdir()) == []


def test_a_damaged_chunk_names_file_sample_and_key(path: Path) -> None:
    with HDF5Dataset(path, "train") as data:
        data.read_batch([0, 1], ["image"])
        status = path.stat()
        raw = bytearray(path.read_bytes())
        with h5py.File(path) as file:
            chunk = file["train/1/image"].id.get_chunk_info(0)
        raw[chunk.byte_offset + 5 : chunk.byte_offset + 25] = b"\xff" * 20
        path.write_bytes(raw)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        data.close()
        assert data.read_batch([0], ["image"])["image"].shape == (1, 15, 8, 8)
        with pytest.raises(SourceError, match=r"eyes\.h5' sample 'train/1': 'image': cannot be"):
            data.read_batch([0, 1], ["image"])


def test_a_file_cut_off_meanwhile_is_an_error(path: Path) -> None:
    with HDF5Dataset(path, "train") as data:
        data.read_batch([0, 1, 2, 3], ["image"])
        os.truncate(path, 3000)
        with pytest.raises(OSError, match="train/3"):
            data.read_batch([3], ["image"])


def test_a_value_of_another_type_is_the_same_error(path: Path) -> None:
    with h5py.File(path, "a") as file:
        file["train/1/pair"] = np.zeros(2, [("a", "i4")])
    message = "sample 'train/1': 'pair': values must be numbers, bool or text, got compound"
    for data in (HDF5Dataset(path, "train"), plain(path)):
        with pytest.raises(SampleError, match=message):
            data.read_batch([0, 1], ["label", "pair"])


def test_without_deflate(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deflate", None)
    _hdf5_chunks._deflate.cache_clear()
    data, expected = HDF5Dataset(path, "train"), plain(path)
    assert_same(data.read_batch([0, 1], KEYS), expected.read_batch([0, 1], KEYS))
    with pytest.raises(ValueError, match="a chunk cannot be inflated"):
        _hdf5_chunks._inflated(b"nothing", 4)
    assert _hdf5_chunks._inflated(zlib.compress(b"abcd"), 4) == b"abcd"
    _hdf5_chunks._deflate.cache_clear()


def test_many_small_values_leave_memory_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_hdf5_fast, "KEPT_TOTAL", 10)
    data, expected = HDF5Dataset(path, "train"), plain(path)
    for at in ([0], [1, 2, 3], [3, 2, 1, 0]):
        assert_same(data.read_batch(at, KEYS), expected.read_batch(at, KEYS))
    assert data._fast is not None
    assert data._fast._index is not None
    assert data._fast._index.kept_bytes < 40


def test_links_into_other_files_and_user_blocks(tmp_path: Path) -> None:
    values = np.arange(500.0)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = values
    with h5py.File(tmp_path / "block.h5", "w", userblock_size=1024) as file:
        file["train/a/linked"] = h5py.ExternalLink("other.h5", "/x")
        file["train/a/own"] = values + 1
    data = HDF5Dataset(tmp_path / "block.h5", "train")
    for _ in range(2):
        batch = data.read_batch([0], ["linked", "own"])
        assert np.array_equal(batch["linked"][0], values)
        assert np.array_equal(batch["own"][0], values + 1)


def test_layouts_of_other_kinds(tmp_path: Path) -> None:
    values = np.arange(600, dtype="<i4").reshape(20, 30)
    path = tmp_path / "kinds.h5"
    with h5py.File(path, "w") as file:
        group = file.create_group("train/a")
        for name, options in {
            "sum": {"fletcher32": True},
            "scale": {"scaleoffset": 0},
            "lzf": {"compression": "lzf"},
            "grows": {"maxshape": (None, 30), "chunks": (7, 30)},
            "shuffled": {"shuffle": True, "chunks": (7, 11)},
            "external": {"external": [(str(tmp_path / "raw"), 0, 2400)]},
        }.items():
            group.create_dataset(name, data=values, **options)
        group.create_dataset("hole", shape=(20, 30), dtype="i4", chunks=(5, 30), fillvalue=7)
        group["hole"][:5] = values[:5]
        group.create_dataset("unwritten", shape=(20, 30), dtype="i4", fillvalue=3)
        layout = h5py.VirtualLayout((20, 30), "i4")
        layout[:] = h5py.VirtualSource(group["grows"])
        group.create_virtual_dataset("virtual", layout)
        group.create_dataset("bits", data=values, dtype=h5py.h5t.STD_I16BE)
    names = list(h5py.File(path)["train/a"])
    data, expected = HDF5Dataset(path, "train"), plain(path)
    for _ in range(2):
        assert_same(data.read_batch([0, 0], names), expected.read_batch([0, 0], names))


def test_odd_number_types_are_converted_by_hdf5(tmp_path: Path) -> None:
    path = tmp_path / "bfloat.h5"
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_size(2)
    with h5py.File(path, "w") as file:
        group = file.create_group("train/a").id
        space = h5py.h5s.create_simple((300,))
        node = h5py.h5d.create(group, b"x", kind, space)
        node.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(300, dtype=np.float32))
    batch = HDF5Dataset(path, "train").read_batch([0], ["x"])
    assert_same(batch, plain(path).read_batch([0], ["x"]))
    assert batch["x"][0, 255] == 255


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_fork_opens_its_own_file(path: Path) -> None:
    data = HDF5Dataset(path, "train", threads=2)
    expected = data.read_batch([0, 1, 2, 3], ["image"])
    assert data._fast is not None
    inherited = data._fast._fd
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert_same(data.read_batch([0, 1, 2, 3], ["image"]), expected)
            data.close()
            status = 0 if data._fast._fd < 0 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert data._fast._fd == inherited
    assert_same(data.read_batch([0, 1, 2, 3], ["image"]), expected)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files by /proc")
def test_nothing_stays_open(path: Path) -> None:
    def count() -> int:
        links = Path("/proc/self/fd").iterdir()
        return sum(os.path.realpath(link) == str(path) for link in links)

    data = HDF5Dataset(path, "train")
    data.read_batch([0], ["image"])
    assert count() == 2
    data.close()
    assert count() == 0
    data.read_batch([0], ["image"])
    del data
    assert count() == 0


# -- any layout ------------------------------------------------------------------------------

DTYPES = ["<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "?", "i1", "u1", ">u2", "<i4", ">i8", "<c8"]


@st.composite
def files(draw: st.DrawFn) -> list[dict[str, tuple[np.ndarray, dict[str, Any]]]]:
    """Samples of a few keys, each with a way of storing it."""
    forms = {
        key: (
            draw(st.sampled_from(DTYPES)),
            draw(hnp.array_shapes(min_dims=0, max_dims=3, max_side=9)),
        )
        for key in draw(st.sets(st.sampled_from("abc"), min_size=1))
    }
    samples = []
    for _ in range(draw(st.integers(1, 3))):
        sample = {}
        for key, (dtype, shape) in forms.items():
            if draw(st.integers(0, 5)) == 0:
                continue
            own = (draw(st.integers(0, 40)), *shape[1:]) if shape and draw(st.booleans()) else shape
            rng = np.random.default_rng(draw(st.integers(0, 99)))
            array = rng.integers(0, 2 if dtype == "?" else 100, own).astype(dtype)
            sample[key] = (array, draw(ways(own)))
        samples.append(sample)
    return samples


@st.composite
def ways(draw: st.DrawFn, shape: tuple[int, ...]) -> dict[str, Any]:
    if not shape or 0 in shape or draw(st.integers(0, 3)) == 0:
        return {}
    whole = draw(st.booleans())
    chunks = shape if whole else tuple(draw(st.integers(1, side)) for side in shape)
    packing = draw(st.sampled_from([None, "gzip", "gzip", "lzf"]))
    return {
        "chunks": chunks,
        "compression": packing,
        "shuffle": draw(st.booleans()),
        "fletcher32": draw(st.integers(0, 4)) == 0,
    }


def fail(*text: object) -> None:
    raise AssertionError(f"not read past HDF5: {text}")


@settings(max_examples=100, deadline=None)
@given(files(), st.sampled_from([0, 2]), st.booleans(), st.data())
def test_any_layout_reads_the_same(
    samples: list[dict], threads: int, small: bool, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMNILOADER_CACHE", folder)
        patch.setattr(hdf5._log, "debug", fail)
        if not small:
            patch.setattr(_hdf5_fast, "KEPT_TOTAL", -1)
        path = Path(folder) / "any.h5"
        with h5py.File(path, "w") as file:
            for number, sample in enumerate(samples):
                group = file.create_group(f"train/{number}")
                for key, (value, way) in sample.items():
                    group.create_dataset(key, data=value, **way)
        expected = plain(path)
        for _ in range(2):
            with HDF5Dataset(path, "train", threads=threads) as fast:
                for _ in range(2):
                    at = data.draw(
                        st.lists(st.integers(0, len(samples) - 1), min_size=1, max_size=5)
                    )
                    assert_same(fast.read_batch(at, "abcd"), expected.read_batch(at, "abcd"))
                assert fast._fast is not None
                assert fast._fast._index is not None
        expected.close()


def test_chunks_far_apart_and_files_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "grown.h5"
    with h5py.File(path, "w") as file:
        node = file.create_dataset(
            "train/a/x", shape=(100, 10), maxshape=(None, 10), chunks=(100, 10), dtype="f8"
        )
        node[:] = np.arange(1000.0).reshape(100, 10)
        file["train/b/x"] = np.arange(20_000.0)
        node.resize((150, 10))
        node[100:] = 1.0
        file["train/z/x"] = np.arange(2000.0)
    data, expected = HDF5Dataset(path, "train"), plain(path)
    for _ in range(2):
        assert_same(data.read_batch([0, 0], ["x"]), expected.read_batch([0, 0], ["x"]))
    assert_same(data.read_batch([2, 1], ["x"]), expected.read_batch([2, 1], ["x"]))
    form = Form("<f8", (), True)
    chunks, out = np.array([[0, 10**9, 0]]), np.empty(10**6)
    fd = os.open(path, os.O_RDONLY)
    with pytest.raises(ValueError, match="the file ends before byte 1000000000"):
        read_dataset(fd, form, 10**6, chunks, out)
    os.close(fd)


def test_a_chunk_of_another_size_is_refused(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(zlib.compress(b"\0" * 8))
    size = (tmp_path / "raw").stat().st_size
    form = Form("<f8", (), True, (3,), deflate=True)
    fd = os.open(tmp_path / "raw", os.O_RDONLY)
    with pytest.raises(ValueError, match="a chunk must have 24 bytes, got 8"):
        read_dataset(fd, form, 3, np.array([[0, size, 0]]), np.empty(3))
    os.close(fd)


def test_types_that_numpy_lacks_are_left_to_hdf5(tmp_path: Path) -> None:
    path = tmp_path / "time.h5"
    with h5py.File(path, "w") as file:
        group = file.create_group("train/a").id
        for name, size in ((b"long", 900), (b"short", 2)):
            space = h5py.h5s.create_simple((size,))
            h5py.h5d.create(group, name, h5py.h5t.UNIX_D32LE, space)
    for name in ("long", "short"):
        messages = []
        for data in (HDF5Dataset(path, "train"), plain(path)):
            with pytest.raises((SampleError, SourceError), match=f"'train/a': '{name}'") as caught:
                data.read_batch([0], [name])
            messages.append(str(caught.value))
        assert messages[0] == messages[1]
