"""Files of the format: what is in them, that they are whole, and what is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from blinkdata import CEW, HUST, MRL, RN15, window

from blinklinmult.data.attributes import mismatches, read_attributes
from blinklinmult.data.shards import ShardedBuild
from blinklinmult.data.spec import DatasetSpec
from blinklinmult.data.writer import H5Writer
from blinklinmult.errors import WriterError
from omniloader import HDF5Dataset

ATTRIBUTES = {
    *("schema_version", "dataset", "created_utc", "git_sha", "builder_config_yaml", "time_dim"),
    *("image_size", "image_channels", "feature_dim", "fps", "window_seconds"),
    *("has_blink_presence", "has_eye_state", "has_head_pose", "has_blink_ids", "quality_signals"),
}


def test_a_file_has_the_layout_dtypes_filters_and_attributes_of_the_format(tmp_path: Path) -> None:
    values, path = window(RN15, 3), tmp_path / "sub" / "rn15.h5"
    quality = {
        "face_box": np.zeros((6, 4)),
        "confidence": 0.5,
        "landmark_source": "mesh",
        "box_shifted": np.zeros(6, dtype=bool),
    }
    with H5Writer(RN15, path, "a: 1", "abc", {"camera": "left"}) as writer:
        key = writer.add("train", "v1", "000012", "left", blink_id=7, quality=quality, **values)
    assert key == "v1|000012|left"
    with h5py.File(path) as file:
        attributes = read_attributes(file)
        sample = file["train"][key]
        dtypes = {name: node.dtype for name, node in sample.items()}
        for node in sample.values():
            if node.ndim:
                assert (node.compression, node.compression_opts, node.shuffle) == ("gzip", 4, True)
        texts = {n: sample[n].asstr()[()] for n in ("key", "dataset", "video_id", "eye_side")}
        assert int(sample["blink_id"][()]) == 7
        np.testing.assert_array_equal(
            sample["eye_image"][()], values["eye_images"].astype(np.float16)
        )
        np.testing.assert_array_equal(sample["blink_ids"][()], values["blink_ids"])
        assert sorted(file) == ["test", "train", "valid"]
    assert set(attributes) >= ATTRIBUTES
    assert attributes["schema_version"] == 3
    assert (attributes["git_sha"], attributes["builder_config_yaml"]) == ("abc", "a: 1")
    assert (attributes["fps"], attributes["time_dim"], attributes["feature_dim"]) == (4.0, 6, 5)
    assert attributes["camera"] == "left"
    assert texts == {"key": key, "dataset": "rn15", "video_id": "v1", "eye_side": "left"}
    expected = {
        "eye_image": "float16",
        "eye_image_mask": "bool",
        "eye_feature": "float16",
        "head_pose": "float32",
        "eye_blur": "float32",
        "blink_ids": "int32",
        "blink_presence": "float32",
        "eye_state_mask": "bool",
        "face_box": "int32",
        "box_shifted": "bool",
    }
    assert {name: str(dtypes[name]) for name in expected} == expected


def test_texts_of_frames_are_fitted_and_packed_like_numbers(tmp_path: Path) -> None:
    path, quality = tmp_path / "rn15.h5", {"landmark_source": ["mesh", "", "häarcascade"]}
    with H5Writer(RN15, path) as writer:
        key = writer.add("test", "v", "0", "left", quality=quality, **window(RN15, steps=3))
    with h5py.File(path) as file:
        node = file["test"][key]["landmark_source"]
        assert node.asstr()[()].tolist() == ["mesh", "", "häarcascade", "", "", ""]
        assert (node.compression, node.compression_opts, node.shuffle) == ("gzip", 4, True)


def test_stills_have_no_rate_and_no_window(tmp_path: Path) -> None:
    path = tmp_path / "mrl.h5"
    with H5Writer(MRL, path) as writer:
        writer.add("train", "v", "0", "unknown", **window(MRL))
    with h5py.File(path) as file:
        found = read_attributes(file)
    assert (found["fps"], found["window_seconds"], found["feature_dim"]) == (-1.0, -1.0, -1)
    assert found["git_sha"] == "unknown"


def test_a_window_is_fitted_to_the_length_of_the_corpus(tmp_path: Path) -> None:
    path = tmp_path / "rn15.h5"
    short, long = window(RN15, 1, steps=4), window(RN15, 2, steps=9)
    with H5Writer(RN15, path) as writer:
        writer.add("train", "v", "short", "left", **short)
        writer.add("train", "v", "long", "left", **long)
    padded, cropped = (HDF5Dataset(path, "train")[i] for i in (1, 0))
    assert padded["eye_image_mask"].tolist() == [*short["eye_image_mask"], False, False]
    assert padded["eye_state"].tolist()[-2:] == [-1.0, -1.0]
    assert padded["blink_ids"].tolist()[-2:] == [-1, -1]
    assert padded["head_pose"].shape == (6, 3)
    assert cropped["eye_state_mask"].tolist() == long["eye_state_mask"][:6].tolist()


def test_labels_under_a_false_mask_may_be_anything_and_bytes_become_fractions(
    tmp_path: Path,
) -> None:
    path = tmp_path / "cew.h5"
    images = np.full((1, 3, 8, 8), 255, dtype=np.uint8)
    with H5Writer(CEW, path) as writer:
        writer.add("train", "v", "0", "left", images, eye_state=[np.nan], eye_state_mask=[0])
    sample = HDF5Dataset(path, "train")[0]
    assert sample["eye_state"].tolist() == [-1.0]
    assert sample["eye_image"].float().unique().tolist() == [1.0]
    assert sample["eye_image_mask"].tolist() == [True]


def test_the_positive_fraction_is_counted_by_split(tmp_path: Path) -> None:
    with H5Writer(CEW, tmp_path / "cew.h5") as writer:
        for i, closed in enumerate([1.0, 0.0, 0.0, 1.0]):
            values = {**window(CEW, i), "eye_state": [closed], "eye_state_mask": [i != 3]}
            writer.add("valid" if i == 2 else "train", "v", f"{i}", "left", **values)
    train = writer.statistics["train"]
    assert (train.samples, train.positive_fraction) == (3, pytest.approx(1 / 3))
    assert train.frame_fraction("eye_state") == 0.5
    assert writer.statistics["valid"].positive_fraction == 0.0
    assert writer.statistics["test"].samples == 0
    assert writer.statistics["test"].frame_fraction("eye_state") == 0.0


BAD: list[tuple[DatasetSpec, dict[str, Any], str]] = [
    (CEW, {"eye_images": np.zeros((1, 3, 8, 9))}, r"'eye_image' must have shape \(1, 3, 8, 8\)"),
    (CEW, {"eye_images": np.zeros((3, 8, 8))}, r"'eye_image' must have shape \(t, 3, 8, 8\)"),
    (CEW, {"eye_images": np.zeros((2, 3, 8, 8))}, r"stills has one frame a sample, got 2"),
    (CEW, {"eye_images": np.full((1, 3, 8, 8), 2.0)}, r"'eye_image' must be in \[0, 1\]"),
    (CEW, {"eye_images": np.full((1, 3, 8, 8), np.nan)}, r"'eye_image' must be finite"),
    (CEW, {"eye_images": np.full((1, 3, 8, 8), "x")}, r"'eye_image' must be numbers"),
    (CEW, {"eye_state": None}, r"'eye_state' is declared by the corpus and must be given"),
    (CEW, {"eye_state": [1.5], "eye_state_mask": [1]}, r"'eye_state' must be in \[0, 1\].*1\.5"),
    (CEW, {"eye_state_mask": [2]}, r"'eye_state_mask' must be bool or 0 and 1"),
    (CEW, {"eye_state_mask": [True, True]}, r"'eye_state_mask' must have shape \(1,\)"),
    (CEW, {"head_pose": np.zeros((1, 3))}, r"'head_pose' is not declared by the corpus"),
    (CEW, {"quality": {"mood": 1}}, r"'quality' may hold face_box, .*, got 'mood'"),
    (CEW, {"quality": {"confidence": [None]}}, r"'confidence' must be numbers, bool or text"),
    (RN15, {"blink_ids": np.full(6, 2**40)}, r"'blink_ids' must be whole numbers that int32"),
    (RN15, {"blink_ids": np.zeros(6)}, r"'blink_ids' must be whole numbers that int32"),
    (RN15, {"eye_features": np.full((6, 5), 1e9)}, r"'eye_feature' must be finite numbers that"),
    (RN15, {"quality_signals": {"blur": 1}}, r"'quality_signals' may hold eye_blur"),
    (RN15, {"quality_signals": {}}, r"'eye_blur' is declared by the corpus and must be given"),
]


@pytest.mark.parametrize(("spec", "changes", "text"), BAD)
def test_a_window_that_does_not_fit_is_refused_and_leaves_no_file(
    tmp_path: Path, spec: DatasetSpec, changes: dict[str, Any], text: str
) -> None:
    path = tmp_path / "x.h5"
    values = {**window(spec), **changes}
    with (
        pytest.raises(WriterError, match=rf"corpus '{spec.name}', train sample 'v.*{text}"),
        H5Writer(spec, path) as writer,
    ):
        writer.add("train", "v", "0", "left", **values)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("spec", "where", "text"),
    [
        (CEW, ("val", "v", "0", "left"), r"subset must be one of train, valid, test, got 'val'"),
        (CEW, ("train", "a|b", "0", "left"), r"corpus 'cew', train: sample key: video_id"),
        (MRL, ("train", "v", "0", "left"), r"eye_side must be 'unknown' in a corpus"),
    ],
)
def test_a_sample_without_a_proper_place_is_refused(
    tmp_path: Path, spec: DatasetSpec, where: tuple[str, str, str, str], text: str
) -> None:
    with pytest.raises(WriterError, match=text), H5Writer(spec, tmp_path / "x.h5") as writer:
        writer.add(*where, **window(spec))


def test_duplicates_closed_writers_and_reserved_attributes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "cew.h5"
    with H5Writer(CEW, path) as writer:
        writer.add("train", "v", "0", "left", **window(CEW))
        writer.add("valid", "v", "0", "left", **window(CEW))
        with pytest.raises(WriterError, match=r"sample 'v\|0\|left' is already there; give each"):
            writer.add("train", "v", "0", "left", **window(CEW))
    with pytest.raises(WriterError, match="the writer is not open; use it in a with block"):
        writer.add("train", "v", "1", "left", **window(CEW))
    with pytest.raises(WriterError, match="extra_attrs must not hold 'fps'"):
        H5Writer(CEW, path, extra_attrs={"fps": 3})


def test_an_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "cew.h5"
    with H5Writer(CEW, path) as writer:
        writer.add("train", "v", "0", "left", **window(CEW))
    before = path.read_bytes()
    with pytest.raises(RuntimeError, match="stop"), H5Writer(CEW, path):
        raise RuntimeError("stop")
    assert path.read_bytes() == before
    assert path.stat().st_mode & 0o077 != 0 or os.umask(0o022) == 0o077


def test_a_killed_build_leaves_no_corpus_file(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from blinklinmult.data.writer import H5Writer;"
        "from blinklinmult.data.spec import DatasetSpec;"
        "import numpy as np;"
        "w = H5Writer(DatasetSpec('cew', image_size=8, has_eye_state=True), sys.argv[1]);"
        "w.__enter__();"
        "w.add('train', 'v', '0', 'left', np.zeros((1, 3, 8, 8)), eye_state=[1.0]);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "cew.h5")], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not list(tmp_path.glob("*.h5"))


def test_a_build_clip_by_clip_resumes_and_merges_without_encoding_anew(tmp_path: Path) -> None:
    path = tmp_path / "rn15.h5"
    build = ShardedBuild(RN15, path, config_yaml="a: 1")
    written = 0
    for clip in ("b", "a", "b"):
        if not build.is_done(clip):
            with build.writer(clip) as writer:
                writer.add("train", clip, "0", "left", **window(RN15, len(clip)))
            written += 1
    assert written == 2
    with pytest.raises(WriterError, match="1 of 3 shards are missing, the first is 'c'; run"):
        build.merge(["a", "b", "c"])
    assert not path.exists()
    tallies = build.merge(["a", "b"])
    assert tallies["train"].samples == 2
    whole = tmp_path / "whole.h5"
    with H5Writer(RN15, whole) as writer:
        for clip in ("a", "b"):
            writer.add("train", clip, "0", "left", **window(RN15, 1))
    with h5py.File(path) as merged, h5py.File(whole) as direct:
        for key in direct["train"]:
            for name, node in direct["train"][key].items():
                other = merged["train"][key][name]
                if node.ndim:
                    raw = [n.id.read_direct_chunk((0,) * n.ndim) for n in (node, other)]
                    assert raw[0] == raw[1]
    assert writer.statistics == tallies


def test_shards_of_another_build_and_bad_names_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "cew.h5"
    build = ShardedBuild(CEW, path, config_yaml="a: 1")
    for clip in ("a", "b"):
        with build.writer(clip) as writer:
            writer.add("train", "v", "0", "left", **window(CEW))
    with pytest.raises(WriterError, match=r"sample 'v\|0\|left' is already there"):
        build.merge(["a", "b"])
    other = ShardedBuild(CEW, path, config_yaml="a: 2", git_sha="new")
    with pytest.raises(WriterError, match=r"is of another build: builder_config_yaml must be 'a"):
        other.is_done("a")
    for name in ("", "../a", "a/b", ".a"):
        with pytest.raises(WriterError, match="a clip's name must be a plain file name"):
            build.shard_path(name)


def test_attributes_are_compared_as_the_reader_needs(tmp_path: Path) -> None:
    path = tmp_path / "rn15.h5"
    with H5Writer(RN15, path):
        pass
    with h5py.File(path, "r+") as file:
        file.attrs["quality_signals"] = [
            "eye_blur",
            "eye_jitter",
            "eye_exposure",
            "eye_contour_fit",
        ]
        assert mismatches(read_attributes(file), RN15) == []
        file.attrs["quality_signals"] = '["eye_blur"]'
        assert mismatches(read_attributes(file), RN15) == [
            "quality_signals is '[\"eye_blur\"]' in the file, "
            "'eye_blur,eye_exposure,eye_contour_fit,eye_jitter' in the spec"
        ]
        file.attrs["quality_signals"], file.attrs["fps"] = "[", "fast"
        assert [
            finding.split(" is ")[0] for finding in mismatches(read_attributes(file), RN15)
        ] == [
            "fps",
            "quality_signals",
        ]
        file.attrs["dataset"] = np.bytes_(b"rn30")
        del file.attrs["fps"]
        found = mismatches(read_attributes(file), HUST)
    assert "dataset is 'rn30' in the file, 'hust_lebw' in the spec" in found
    assert "the file lacks the attribute 'fps'" in found
