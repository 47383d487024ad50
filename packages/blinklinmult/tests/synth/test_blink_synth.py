"""Synthetic corpora: real shapes, dtypes and masks, lids that move, the same each time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from blinklinmult.data.corpus import check_file, open_corpus
from blinklinmult.data.presets import PRESETS, corpus_path
from blinklinmult.data.schema import DATASETS, SUBSETS, SchemaError
from blinklinmult.data.tracks import EyeTrack, add_recording, main_blink, window_starts
from blinklinmult.data.writer import H5Writer
from blinklinmult.errors import WriterError
from blinklinmult.synth import synth_root
from blinklinmult.synth.lids import lid_track
from blinklinmult.synth.render import Face, draw_eyes
from blinklinmult.train.config import DataConfig


def test_all_corpora_are_declared() -> None:
    assert tuple(PRESETS) == DATASETS
    events_only = [name for name, spec in PRESETS.items() if not spec.has_eye_state]
    assert events_only == ["hust_lebw", "mpeblink"]
    assert not PRESETS["mrl"].has_eye_side


def test_a_root_is_ready_to_read_and_the_same_each_time(tmp_path: Path) -> None:
    names = ["rn15", "mpeblink", "mrl"]
    for folder in (tmp_path / "a", tmp_path / "b"):
        tallies = synth_root(folder, names, seconds=6)
        assert {name: set(found) for name, found in tallies.items()} == {
            name: set(SUBSETS) for name in names
        }
    config = DataConfig.from_file(tmp_path / "a" / "configs" / "data.yaml")
    specs = config.resolve_specs(tmp_path / "a" / "configs")
    assert specs == [PRESETS[name] for name in names]
    for spec in specs:
        paths = [corpus_path(tmp_path / folder, spec.name) for folder in ("a", "b")]
        assert check_file(spec, paths[0], "") == ("train", "valid", "test")
        one, two = (open_corpus(spec, path, "train") for path in paths)
        for key in set(one[0]) - {"key"}:
            if hasattr(one[0][key], "numpy"):
                np.testing.assert_array_equal(one[0][key].numpy(), two[0][key].numpy())
    sample = open_corpus(specs[0], corpus_path(tmp_path / "a", "rn15"), "train")[0]
    assert sample["eye_image"].shape == (23, 3, 64, 64)
    assert sample["eye_feature"].shape == (23, 160)
    sides = {k.split("|")[2] for k in open_corpus(specs[2], paths[0], "train").sample_ids}
    assert sides == {"unknown"}


def test_closed_lids_hide_the_eye() -> None:
    rng = np.random.default_rng(0)
    face = Face.draw(rng)
    images = draw_eyes(face, np.array([1.0, 0.0], dtype=np.float32), 32, rng)
    assert images.shape == (2, 3, 32, 32)
    assert ((images >= 0) & (images <= 1)).all()
    white = (images.min(axis=1) > 0.6 * face.light).reshape(2, -1).sum(axis=1)
    assert white[0] > 20
    assert white[1] < 5


def test_labels_follow_the_lids() -> None:
    track = lid_track(600, 30.0, np.random.default_rng(3))
    assert 5 <= track.ids.max() + 1 <= 15
    assert 0.05 < track.presence.mean() < 0.3
    assert (track.openness[track.closed == 1] < 0.3).all()
    assert (track.presence[track.closed == 1] == 1).all()
    assert (track.ids[~track.readable] == -2).all()


def test_windows_cover_a_recording_and_overlap_in_training_alone(tmp_path: Path) -> None:
    assert list(window_starts(10, 4, 4)) == [0, 4, 8]
    assert list(window_starts(10, 4, 2)) == [0, 2, 4, 6]
    assert list(window_starts(3, 4, 2)) == [0]
    spec = PRESETS["hust_lebw"].with_window(4 / 30)
    eye = EyeTrack(
        eye_images=np.zeros((10, 3, 64, 64)),
        arrays={"blink_presence": np.zeros(10)},
        blink_ids=np.array([-1, 5, 5, 6, -1, -1, -2, 6, 6, 6], dtype=np.int32),
    )
    with H5Writer(spec, tmp_path / "x.h5") as writer:
        assert add_recording(writer, "train", "a", {"left": eye, "right": eye}) == 8
        assert add_recording(writer, "test", "b", {"left": eye}, first_frame=100) == 3
    keys = list(open_corpus(spec, tmp_path / "x.h5", "test").sample_ids)
    assert keys == ["b|000100|left", "b|000104|left", "b|000108|left"]
    short = EyeTrack(eye_images=np.zeros((9, 3, 64, 64)))
    with (
        pytest.raises(WriterError, match=r"recording 'a': all eyes must have one number of fr"),
        H5Writer(spec, tmp_path / "y.h5") as writer,
    ):
        add_recording(writer, "train", "a", {"left": eye, "right": short})


def test_a_window_belongs_to_its_longest_blink() -> None:
    assert main_blink(np.array([-1, 3, 4, 4, -2])) == 4
    assert main_blink(np.array([7, 3])) == 3
    assert main_blink(np.array([-1, -2])) == -1


def test_unknown_corpora_and_no_time_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"unknown corpus 'rn13', did you mean"):
        synth_root(tmp_path, ["rn13"], 3)
    with pytest.raises(SchemaError, match=r"seconds must be a positive number, got 0"):
        synth_root(tmp_path, ["cew"], 0)
