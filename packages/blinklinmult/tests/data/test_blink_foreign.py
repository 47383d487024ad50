"""Corpus files that somebody else wrote to the format: read as they are, or refused by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from blinkdata import RN15, SIZE, write_corpus

from blinklinmult.data.corpus import check_file, open_corpus
from blinklinmult.data.datamodule import BlinkDataModule
from blinklinmult.data.presets import corpus_path
from blinklinmult.data.spec import DatasetSpec
from blinklinmult.data.stills import StillConfig, StillFramesDataset
from blinklinmult.data.summary import summarise
from blinklinmult.errors import DataModuleError
from blinklinmult.train.config import DataConfig
from omniloader.errors import SourceError

HINT = "build it"
T = 6

PLAIN = DatasetSpec("hust_lebw", fps=4, image_size=SIZE, has_blink_presence=True)
STILL = DatasetSpec("mrl", image_size=SIZE, has_eye_state=True, has_eye_side=False)
SPECS = {spec.name: spec for spec in (RN15, PLAIN, STILL)}


def pack(group: h5py.Group, name: str, value: Any) -> None:
    """Arrays as the format has them, chunked as h5py likes."""
    group.create_dataset(
        name, data=value, compression="gzip", compression_opts=4, shuffle=True, chunks=True
    )


def foreign_sample(group: h5py.Group, spec: DatasetSpec, rng: Any, extras: bool) -> dict[str, Any]:
    t = spec.time_dim
    values: dict[str, Any] = {
        "eye_image": rng.random((t, 3, SIZE, SIZE)).astype(np.float16),
        "eye_image_mask": np.arange(t) != 2,
    }
    for target in spec.target_keys:
        values[target] = (rng.random(t) < 0.5).astype(np.float32)
        values[f"{target}_mask"] = np.arange(t) != 1
    if spec.feature_dim:
        values["eye_feature"] = rng.normal(size=(t, spec.feature_dim)).astype(np.float16)
        values["eye_feature_mask"] = np.arange(t) != 3
    if spec.has_head_pose:
        values["head_pose"] = rng.normal(size=(t, 3)).astype(np.float32)
    for signal in spec.quality_signals:
        values[signal] = rng.random(t).astype(np.float32)
    if spec.has_blink_ids:
        values["blink_ids"] = np.array([-1, -2, 20_000_001, 4, 4, -1], dtype=np.int32)[:t]
    for name, value in values.items():
        pack(group, name, value)
    if extras:
        pack(group, "face_box", np.zeros((t, 4), dtype=np.int32))
        pack(group, "box_shifted", np.zeros(t, dtype=np.bool_))
        pack(group, "eye_aspect", rng.random(t).astype(np.float32))
        pack(group, "blink_category", np.zeros(t, dtype=np.int32))
        group["confidence"] = np.float32(0.7)
        group["eye_span"] = np.float32(21)
        group["eye_on_screen"] = np.bool_(True)
        group["landmark_source"] = "mesh"
    return values


def foreign_file(
    root: Path, spec: DatasetSpec, extras: bool = True, side: str = "unknown"
) -> dict[str, dict[str, Any]]:
    """A file to the letter of the format by plain h5py; the values of its training split."""
    rng = np.random.default_rng(7)
    path = corpus_path(root, spec.name)
    path.parent.mkdir(parents=True)
    written: dict[str, dict[str, Any]] = {}
    with h5py.File(path, "w") as file:
        file.attrs["schema_version"] = 3
        file.attrs["dataset"] = spec.name
        file.attrs["created_utc"] = "2024-05-01T10:00:00+00:00"
        file.attrs["git_sha"] = "0" * 40
        file.attrs["builder_config_yaml"] = "name: it\n"
        file.attrs["time_dim"] = spec.time_dim
        file.attrs["image_size"] = SIZE
        file.attrs["image_channels"] = 3
        file.attrs["feature_dim"] = spec.feature_dim or -1
        file.attrs["fps"] = float(spec.fps or -1)
        file.attrs["window_seconds"] = 1.5 if spec.is_video else -1.0
        for name in ("blink_presence", "eye_state", "head_pose", "blink_ids"):
            file.attrs[f"has_{name}"] = getattr(spec, f"has_{name}")
        file.attrs["quality_signals"] = list(spec.quality_signals)
        for subset, count in (("train", 4), ("valid", 2), ("test", 2)):
            for i in range(count):
                key = f"clip-{subset}|{i * T:06d}|{side}"
                group = file.create_group(f"{subset}/{key}")
                parts = dict(
                    zip(("video_id", "frame_group", "eye_side"), key.split("|"), strict=True)
                )
                for name, text in {"key": key, "dataset": spec.name, **parts}.items():
                    group[name] = text
                if extras:
                    group["blink_id"] = np.int64(i - 1)
                values = foreign_sample(group, spec, rng, extras)
                if subset == "train":
                    written[key] = values
    return written


@pytest.mark.parametrize("extras", [True, False], ids=["all fields", "required fields"])
@pytest.mark.parametrize("name", SPECS)
def test_a_foreign_file_is_read_as_it_is(name: str, extras: bool, tmp_path: Path) -> None:
    spec = SPECS[name]
    written = foreign_file(tmp_path, spec, extras)
    path = corpus_path(tmp_path, name)
    assert check_file(spec, path, HINT) == ("train", "valid", "test")
    data = open_corpus(spec, path, "train")
    assert list(data.sample_ids) == sorted(written)
    columns = data.read_batch(np.arange(4))
    for i, key in enumerate(data.sample_ids):
        sample = data[i]
        for value_name, value in written[key].items():
            np.testing.assert_array_equal(sample[value_name], value)
            np.testing.assert_array_equal(columns[value_name][i], value)  # type: ignore[index]
    blinks = [-1, 0, 1, 2] if extras else [-1] * 4
    assert [int(data[i]["blink_id"]) for i in range(4)] == blinks
    assert [int(blink) for blink in columns["blink_id"]] == blinks  # type: ignore[union-attr]
    assert not {"face_box", "confidence", "landmark_source"} & {*columns, *data[0]}


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("stills", [False, True], ids=["windows", "stills"])
def test_foreign_files_make_a_run(workers: int, stills: bool, tmp_path: Path) -> None:
    for spec in SPECS.values():
        foreign_file(tmp_path, spec)
    config = DataConfig(
        datasets=list(SPECS), batch_size=4, num_workers=0, stills=stills, still_stride=1
    )
    data = BlinkDataModule(config, list(SPECS.values()), tmp_path)
    data.config = data.config.replace(num_workers=workers)
    data.setup()
    for epoch in (0, 1):
        data.set_epoch(epoch)
        for loader in (data.train_dataloader(), data.val_dataloader(), data.test_dataloader()):
            for batch in loader:
                steps = 1 if stills else T
                assert batch["eye_image"].shape[1:] == (steps, 3, SIZE, SIZE)
                assert batch["blink_ids"].dtype == torch.int64
                ids = batch["blink_ids"][~batch["blink_ids_mask"]]
                assert (ids == -1).all()
                assert {type(blink) for blink in batch["blink_id"]} == {int}


def test_a_sample_that_names_no_blink_has_none(tmp_path: Path) -> None:
    keys = sorted(foreign_file(tmp_path, RN15))
    path = corpus_path(tmp_path, "rn15")
    with h5py.File(path, "r+") as file:
        del file["train"][keys[2]]["blink_id"]
    data = open_corpus(RN15, path, "train")
    assert [int(blink) for blink in data.read_batch(np.arange(4))["blink_id"]] == [-1, 0, -1, 2]  # type: ignore[union-attr]
    assert [int(data[i]["blink_id"]) for i in range(4)] == [-1, 0, -1, 2]


def test_stills_of_samples_that_lack_a_value_lack_it_too(tmp_path: Path) -> None:
    keys = sorted(foreign_file(tmp_path, RN15))
    path = corpus_path(tmp_path, "rn15")
    with h5py.File(path, "r+") as file:
        del file["train"][keys[2]]["head_pose"]
    options = StillConfig(stride=1)
    stills = StillFramesDataset(open_corpus(RN15, path, "train"), options, "rn15", balance=False)
    found = stills.read_batch(np.arange(len(stills)))["head_pose"]
    lacking = [
        value is None
        for value in found  # type: ignore[union-attr]
    ]
    numbers = [int(key.split("|")[1]) for key in stills.sample_ids]
    assert lacking == [12 <= number < 18 for number in numbers]


# -- damage ----------------------------------------------------------------------------------


def change_file(root: Path, change: Callable[[h5py.File], None]) -> Path:
    write_corpus(root, RN15, {"train": 4, "valid": 2, "test": 2})
    path = corpus_path(root, "rn15")
    with h5py.File(path, "r+") as file:
        change(file)
    return path


def test_other_things_at_the_root_are_passed_over(tmp_path: Path) -> None:
    def change(file: h5py.File) -> None:
        file["version_note"] = 3
        file["attic/old"] = np.zeros(2)
        del file["test"]

    path = change_file(tmp_path, change)
    assert check_file(RN15, path, HINT) == ("train", "valid")


def test_no_signals_may_be_written_as_null(tmp_path: Path) -> None:
    foreign_file(tmp_path, PLAIN)
    path = corpus_path(tmp_path, PLAIN.name)
    with h5py.File(path, "r+") as file:
        file.attrs["quality_signals"] = h5py.Empty("S1")
    assert check_file(PLAIN, path, HINT) == ("train", "valid", "test")


def damage(path: Path, what: bytes, nth: int) -> None:
    """Overwrite the nth of the structures of HDF5 that begin with a mark."""
    raw = path.read_bytes()
    at = -1
    for _ in range(nth):
        at = raw.index(what, at + 1)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"\xff" * 8)


def test_a_damaged_tree_is_refused_at_any_place(tmp_path: Path) -> None:
    """Whatever group is hit, the error says which file, on opening or on reading."""
    path = change_file(tmp_path, lambda file: None)
    whole = path.read_bytes()
    refused = set()
    for nth in range(1, whole.count(b"SNOD") + 1):
        path.write_bytes(whole)
        damage(path, b"SNOD", nth)
        os.utime(path, (nth, nth))
        with pytest.raises((DataModuleError, SourceError), match=r"rn15\.h5") as error:
            read_all(path)
        refused.add(error.type)
    assert refused == {DataModuleError, SourceError}


def read_all(path: Path) -> None:
    for subset in check_file(RN15, path, HINT):
        data = open_corpus(RN15, path, subset)
        for i in range(len(data)):
            data[i]


def test_inspecting_odd_files_reports_or_refuses(tmp_path: Path) -> None:
    def change(file: h5py.File) -> None:
        del file["valid"]
        file["valid"] = np.zeros(3)
        key = sorted(file["train"])[0]
        del file["train"][key]["eye_state_mask"]
        file["train"][key]["eye_state_mask"] = np.array([True])
        file["train"]["a|000000|left"] = np.zeros(2)

    path = change_file(tmp_path, change)
    summary = summarise(path)
    assert set(summary.splits) == {"train", "test"}
    assert summary.findings == [
        "train sample 'a|000000|left' must be a group of arrays",
        "train sample 'train-0|000000|left': 'eye_state_mask' must have an entry for each frame",
    ]
    while b"SNOD" in path.read_bytes():
        damage(path, b"SNOD", 1)
    with pytest.raises(
        DataModuleError, match=r"rn15\.h5': is damaged or not HDF5 .*build it again"
    ):
        summarise(path)
