"""Corpora as sources: checked, thinned, served frame by frame, with cached embeddings."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from blinkdata import CEW, HUST, MRL, RN15, window, write_corpus
from hypothesis import given, settings
from hypothesis import strategies as st

from blinklinmult.data.corpus import CorpusDataset, check_file, open_corpus
from blinklinmult.data.embeddings import (
    CachedEmbeddingDataset,
    CacheKey,
    encoder_digest,
    find_key,
    manifest_path,
    read_shard,
    shard_path,
    write_shard,
)
from blinklinmult.data.omni import build_schemas
from blinklinmult.data.presets import build_hint, corpus_path
from blinklinmult.data.schema import SchemaError
from blinklinmult.data.stills import StillConfig, StillFramesDataset, frame_group_at
from blinklinmult.data.strided import StridedSubset
from blinklinmult.data.writer import H5Writer
from blinklinmult.errors import ConfigError, DataModuleError, EmbeddingCacheError
from omniloader import DictTensorDataset, HDF5Dataset, OmniLoader, unified_collate
from omniloader._types import Gather
from omniloader.errors import SampleError
from omniloader.utils.seeding import seed_worker

HINT = "build it"


def equal_batches(datasets: Sequence[Any], specs: Sequence[Any], **options: Any) -> None:
    """One by one and all at once must agree, through the loader that unifies them."""
    schemas = build_schemas(list(specs), **options).schemas
    omni = OmniLoader(datasets, schemas, metadata=("video_id", "frame_group", "eye_side"))
    order = list(range(len(omni)))[::-1]
    one = unified_collate([omni[i] for i in order])
    many = unified_collate(omni.__getitems__(order))
    assert one.keys() == many.keys()
    for name, value in one.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, many[name]), name
        else:
            assert value == many[name], name


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    for spec in (CEW, RN15, HUST):
        write_corpus(tmp_path, spec, {"train": 10, "valid": 4, "test": 0})
    return tmp_path


def corpus(root: Path, spec: Any, subset: str = "train", **options: Any) -> CorpusDataset:
    return open_corpus(spec, corpus_path(root, spec.name), subset, **options)


# -- corpora ---------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"preload": True}, {"cache_size": 4}], ids=str)
def test_a_corpus_serves_what_it_declares_and_the_parts_of_the_key(
    corpora: Path, options: dict[str, Any]
) -> None:
    data = corpus(corpora, RN15, **options)
    sample = data[3]
    assert sample["key"] == data.sample_ids[3] == "train-0|000006|right"
    assert (sample["video_id"], sample["frame_group"], sample["eye_side"]) == (
        "train-0",
        "000006",
        "right",
    )
    assert set(RN15.feature_keys) | set(RN15.target_keys) < sample.keys()
    assert int(sample["blink_id"]) == -1
    assert data.sequence_lengths("eye_image").tolist() == [6] * 10
    equal_batches([data, corpus(corpora, CEW), corpus(corpora, HUST)], [RN15, CEW, HUST])
    data.reset_for_worker()
    data.close()


def test_a_narrowed_corpus_reads_only_some_values(corpora: Path) -> None:
    narrow = corpus(corpora, HUST).with_keys(["blink_presence", "eye_state"])
    assert set(narrow[0]) == {"blink_presence", "key", "video_id", "frame_group", "eye_side"}


def spoil(root: Path, spec: Any, change: Any, subset: str = "train") -> Path:
    path = corpus_path(root, spec.name)
    with h5py.File(path, "r+") as file:
        change(file, file[subset])
    return path


def test_a_label_outside_its_range_names_corpus_and_sample(corpora: Path) -> None:
    def change(file: Any, group: Any) -> None:
        sample = group["train-0|000006|left"]
        sample["eye_state"][2] = 7.0
        sample["eye_state_mask"][2] = True
        sample["blink_presence"][0] = np.nan
        sample["blink_presence_mask"][0] = False

    spoil(corpora, RN15, change)
    data = corpus(corpora, RN15)
    text = (
        r"corpus 'rn15', train sample 'train-0\|000006\|left': 'eye_state' must be in \[0, 1\] "
        r"where 'eye_state_mask' is True, got 7; build the file again"
    )
    with pytest.raises(SampleError, match=text):
        data[2]
    with pytest.raises(SampleError, match=text):
        data.read_batch(np.arange(10))
    omni = OmniLoader([data], build_schemas([RN15]).schemas)
    with pytest.raises(SampleError, match=text):
        omni.__getitems__([0, 1, 2])


def test_labels_of_windows_of_several_lengths_are_checked_too(corpora: Path) -> None:
    def change(file: Any, group: Any) -> None:
        sample = group["train-0|000006|left"]
        for name in ("eye_state", "eye_state_mask"):
            del sample[name]
        sample["eye_state"] = np.array([2.0, 0.0], dtype=np.float32)
        sample["eye_state_mask"] = np.array([True, True])

    spoil(corpora, RN15, change)
    with pytest.raises(SampleError, match=r"'train-0\|000006\|left': 'eye_state' must be"):
        corpus(corpora, RN15).read_batch(np.arange(4))


def test_a_mask_of_another_length_is_an_error_of_its_sample(corpora: Path) -> None:
    def change(file: Any, group: Any) -> None:
        sample = group["train-0|000006|left"]
        del sample["eye_state_mask"]
        sample["eye_state_mask"] = np.ones(5, dtype=bool)

    spoil(corpora, RN15, change)
    omni = OmniLoader([corpus(corpora, RN15)], build_schemas([RN15]).schemas)
    with pytest.raises(SampleError, match=r"sample 2 .*, 'eye_state': mask must have shape \(6,\)"):
        omni.__getitems__([0, 2])


def test_labels_without_a_mask_are_all_real(corpora: Path) -> None:
    def change(file: Any, group: Any) -> None:
        sample = group["train-0|000006|left"]
        del sample["eye_state_mask"]
        sample["eye_state"][0] = 2.0

    spoil(corpora, RN15, change)
    with pytest.raises(SampleError, match=r"'eye_state' must be in \[0, 1\]"):
        corpus(corpora, RN15)[2]


def test_a_key_without_three_parts_names_corpus_and_file(corpora: Path) -> None:
    spoil(corpora, CEW, lambda file, group: group.copy("train-0|000000|left", "stray"))
    with pytest.raises(SchemaError, match=r"corpus 'cew', train in '.*cew.h5': sample key 'stray'"):
        corpus(corpora, CEW)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("schema_version", 2, r"must be of schema version 3, got 2; build it"),
        ("fps", 30.0, r"is not what its spec declares: fps is 30.0 in the file, 4.0 in the spec"),
        ("window_seconds", 1.0, r"window_seconds is 1.0 in the file, 1.5 in the spec"),
        ("image_size", 64, r"image_size is 64 in the file, 8 in the spec"),
        ("feature_dim", 160, r"feature_dim is 160 in the file, 5 in the spec"),
        ("time_dim", 7, r"time_dim is 7 in the file, 6 in the spec"),
        ("has_head_pose", False, r"has_head_pose is False in the file, True in the spec"),
        ("dataset", "rn30", r"dataset is 'rn30' in the file, 'rn15' in the spec"),
    ],
)
def test_a_file_that_disagrees_with_its_spec_is_refused(
    corpora: Path, name: str, value: Any, text: str
) -> None:
    path = spoil(corpora, RN15, lambda file, group: file.attrs.__setitem__(name, value))
    with pytest.raises(DataModuleError, match=rf"corpus 'rn15': .*{text}"):
        check_file(RN15, path, HINT)


def test_a_file_with_more_than_the_spec_uses_is_fine(corpora: Path) -> None:
    path = spoil(corpora, CEW, lambda file, group: file.attrs.__setitem__("has_head_pose", True))
    assert check_file(CEW, path, HINT) == ("train", "valid")


def test_missing_truncated_and_foreign_files_are_refused(corpora: Path) -> None:
    path = corpus_path(corpora, "cew")
    hint = build_hint("cew", corpora, path)
    with pytest.raises(DataModuleError, match=r"corpus 'mrl': its file '.*mrl.h5' is not built; "):
        check_file(MRL, corpus_path(corpora, "mrl"), hint)
    assert "blinklinmult synth --root" in hint
    assert "build-talkingface --video VIDEO" in build_hint("talkingface", corpora, path)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"no hdf5"):
        path.write_bytes(content)
        with pytest.raises(DataModuleError, match=r"corpus 'cew': '.*' is damaged or not HDF5"):
            check_file(CEW, path, HINT)


def test_a_split_without_a_declared_value_is_refused(corpora: Path) -> None:
    def change(file: Any, group: Any) -> None:
        for sample in group.values():
            del sample["head_pose"]

    spoil(corpora, RN15, change)
    with pytest.raises(DataModuleError, match=r"corpus 'rn15', train: .*'head_pose'"):
        corpus(corpora, RN15)


# -- strides ---------------------------------------------------------------------------------


class Numbers:
    """A source that gives its index, and nothing else."""

    name = "numbers"

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": torch.tensor(float(index))}


def test_a_stride_is_even_and_shifts_by_one_each_epoch() -> None:
    subset, seen = StridedSubset(Numbers(10), keep=3, shifting=True), []
    for epoch in range(5):
        subset.set_epoch(epoch)
        seen.append(subset.positions().tolist())
    assert seen == [[0, 3, 6], [1, 4, 7], [2, 5, 8], [3, 6, 9], [0, 3, 6]]
    fixed = StridedSubset(Numbers(10), keep=3, shifting=False)
    fixed.set_epoch(2)
    assert (fixed.epoch, fixed.positions().tolist()) == (2, [0, 3, 6])


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_enough_epochs_meet_every_sample_and_none_twice_in_one(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 60))
    keep = data.draw(st.integers(1, size))
    subset, met = StridedSubset(Numbers(size), keep, shifting=True), set()
    for epoch in range(subset.period):
        subset.set_epoch(epoch)
        positions = subset.positions().tolist()
        assert len(set(positions)) == keep == len(subset)
        assert [int(subset[i]["x"]) for i in range(keep)] == positions
        met.update(positions)
    assert met == set(range(size))


def test_a_stride_passes_on_what_its_split_offers(corpora: Path) -> None:
    data = corpus(corpora, RN15)
    subset = StridedSubset(data, keep=4, shifting=True)
    subset.set_epoch(1)
    assert (subset.name, subset.subset) == ("rn15", "train")
    assert list(subset.sample_ids or ()) == [data.sample_ids[i] for i in (1, 3, 6, 8)]
    assert (subset.sample_ids or ())[1:3] == [data.sample_ids[3], data.sample_ids[6]]
    assert subset.sequence_lengths("eye_image").tolist() == [6] * 4
    assert subset[-1]["key"] == data.sample_ids[8]
    with pytest.raises(IndexError, match="the subset holds 4 samples, asked for index 4"):
        subset[4]
    assert StridedSubset(Numbers(3), 1, shifting=False).sample_ids is None
    equal_batches([subset], [RN15])
    subset.reset_for_worker()
    subset.close()


@pytest.mark.parametrize("keep", [0, 11, 2.0, True])
def test_impossible_strides_are_refused(keep: Any) -> None:
    with pytest.raises(DataModuleError, match=r"corpus 'numbers', None: keep must be a whole num"):
        StridedSubset(Numbers(10), keep, shifting=False)
    with pytest.raises(DataModuleError, match="a share of an empty split cannot be taken"):
        StridedSubset(Numbers(0), 1, shifting=False)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stride_shifts_in_persistent_workers_too(corpora: Path, workers: int) -> None:
    subset = StridedSubset(corpus(corpora, CEW), keep=5, shifting=True)
    omni = OmniLoader([subset], build_schemas([CEW]).schemas)
    loader = torch.utils.data.DataLoader(
        omni,
        batch_size=2,
        collate_fn=unified_collate,
        num_workers=workers,
        persistent_workers=workers > 0,
        worker_init_fn=seed_worker,
    )
    keys = []
    for epoch in range(3):
        omni.set_epoch(epoch)
        keys.append([key for batch in loader for key in batch["key"]])
    ids = corpus(corpora, CEW).sample_ids
    assert keys == [list(ids[0::2]), list(ids[1::2]), list(ids[0::2])]


# -- stills ----------------------------------------------------------------------------------


def labelled(root: Path, states: Sequence[Sequence[float]], **masks: Any) -> CorpusDataset:
    """Windows of RN15 with these eye states, all else real."""
    with H5Writer(RN15, corpus_path(root, "rn15")) as writer:
        for i, state in enumerate(states):
            values = {k: v for k, v in window(RN15, i).items() if not k.endswith("_mask")}
            own = {name: mask[i] for name, mask in masks.items()}
            values.update(eye_state=state, **own)
            writer.add("train", "v", f"{100 * i:06d}", "left", **values)
    return corpus(root, RN15)


def frames(data: StillFramesDataset) -> list[tuple[int, float]]:
    found = [data[i] for i in range(len(data))]
    return [(int(s["frame_group"]), float(s["eye_state"][0])) for s in found]


def test_closed_frames_are_kept_and_open_ones_strided(tmp_path: Path) -> None:
    windows = labelled(tmp_path, [[0, 0, 0, 1, 0, 0], [1, 0, 0, 0, 0, 0]])
    stills = StillFramesDataset(windows, StillConfig(stride=2), "rn15", balance=False)
    assert frames(stills) == [(0, 0), (2, 0), (3, 1), (4, 0), (100, 1), (102, 0), (104, 0)]
    sample = stills[2]
    assert sample["key"] == "v|000003|left" == stills.sample_ids[2]
    assert sample["eye_image"].shape == (1, 3, 8, 8)
    assert sample["head_pose"].shape == (1, 3)
    assert torch.equal(sample["eye_image"][0], windows[0]["eye_image"][3])
    assert stills.sequence_lengths("eye_image").tolist() == [1] * 7
    assert (stills.name, stills.subset) == ("rn15", "train")
    assert stills.sample_ids[-2:] == ["v|000102|left", "v|000104|left"]
    with pytest.raises(IndexError, match="the corpus holds 7 frames, asked for index 7"):
        stills[7]
    equal_batches([stills], [RN15], stills=True)


def test_balancing_thins_open_frames_to_the_ratio(tmp_path: Path) -> None:
    windows = labelled(tmp_path, [[0] * 6, [1, 1, 0, 0, 0, 0], [0] * 6])
    for ratio, expected in ((1.0, 2), (2.0, 4), (0.5, 1), (100.0, 16)):
        config = StillConfig(stride=1, open_to_closed=ratio)
        found = frames(StillFramesDataset(windows, config, "rn15"))
        assert [state for _, state in found].count(1.0) == 2
        assert [state for _, state in found].count(0.0) == expected
        assert found == sorted(found)
        assert found == frames(StillFramesDataset(windows, config, "rn15"))
    other = StillConfig(stride=1, seed=1)
    picks = {tuple(frames(StillFramesDataset(windows, c, "rn15"))) for c in (StillConfig(1), other)}
    assert len(picks) == 2


def test_masked_frames_are_left_out(tmp_path: Path) -> None:
    real, half = [True] * 6, [True, False, True, True, True, True]
    windows = labelled(
        tmp_path,
        [[1] * 6, [1] * 6],
        eye_image_mask=[half, real],
        eye_state_mask=[[True] * 4 + [False] * 2, real],
    )
    stills = StillFramesDataset(windows, StillConfig(), "rn15")
    assert [frame for frame, _ in frames(stills)] == [0, 2, 3, *range(100, 106)]


def test_a_corpus_without_eye_state_is_strided_or_refused(corpora: Path) -> None:
    windows = corpus(corpora, HUST)
    with pytest.raises(DataModuleError, match=r"corpus 'hust_lebw': cannot be balanced, it has no"):
        StillFramesDataset(windows, StillConfig(), "hust_lebw")
    stills = StillFramesDataset(windows, StillConfig(stride=6), "hust_lebw", balance=False)
    masks = [windows[i]["eye_image_mask"] & windows[i]["blink_presence_mask"] for i in range(10)]
    assert len(stills) == sum(int(mask[0]) + int(mask[6]) for mask in masks)


def test_the_label_pass_reads_no_image(corpora: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    plain = CorpusDataset.with_keys

    def with_keys(self: CorpusDataset, names: Sequence[str]) -> CorpusDataset:
        asked.append(list(names))
        return plain(self, names)

    monkeypatch.setattr(CorpusDataset, "with_keys", with_keys)
    monkeypatch.setattr(CorpusDataset, "read_batch", _without_images(CorpusDataset.read_batch))
    StillFramesDataset(corpus(corpora, RN15), StillConfig(), "rn15")
    assert asked == [["eye_state", "eye_image_mask", "eye_state_mask", "blink_presence_mask"]]


def _without_images(read: Any) -> Any:
    def checked(self: CorpusDataset, indices: Any) -> Any:
        columns = read(self, indices)
        assert "eye_image" not in columns
        return columns

    return checked


def test_stills_of_a_plain_dataset_and_of_an_empty_one() -> None:
    class Windows:
        def __init__(self, states: list[list[float]]) -> None:
            self.states = states

        def __len__(self) -> int:
            return len(self.states)

        def __getitem__(self, index: int) -> dict[str, Any]:
            return {"eye_state": torch.tensor(self.states[index]), "other": index}

    stills = StillFramesDataset(Windows([[0, 1], [1]]), StillConfig(stride=1), "cew")
    assert [float(stills[i]["eye_state"]) for i in range(len(stills))] == [0.0, 1.0, 1.0]
    columns = stills.read_batch([0, 2])
    assert [value.tolist() for value in columns["eye_state"]] == [[0.0], [1.0]]
    assert columns["other"] == [0, 1]
    assert list(stills.sample_ids) == ["0", "1", "2"]
    assert len(StillFramesDataset(Windows([]), StillConfig(), "cew")) == 0

    class Bare(Windows):
        def __getitem__(self, index: int) -> dict[str, Any]:
            return {}

    with pytest.raises(DataModuleError, match=r"corpus 'cew', window '0': must have 'eye_im"):
        StillFramesDataset(Bare([[0.0]]), StillConfig(), "cew", balance=False)


@pytest.mark.parametrize("count", [4, 1], ids=["one length", "several lengths"])
def test_a_value_shorter_than_its_window_is_refused_in_stills(corpora: Path, count: int) -> None:
    """And no frame of the next sample is served in its place."""

    def change(file: Any, group: Any) -> None:
        for sample_id in sorted(group)[:count]:
            del group[sample_id]["blink_ids"]
            group[sample_id]["blink_ids"] = np.zeros(2, dtype=np.int32)

    spoil(corpora, RN15, change)
    stills = StillFramesDataset(corpus(corpora, RN15), StillConfig(stride=1), "rn15", balance=False)
    late = next(i for i, name in enumerate(stills.sample_ids) if int(name.split("|")[1]) >= 2)
    text = r"'blink_ids' must have as many frames .*got 2 where frame \d is wanted"
    with pytest.raises(SampleError, match=text):
        stills[late]
    with pytest.raises(SampleError, match=text):
        stills.read_batch(np.arange(late + 1))
    omni = OmniLoader([stills], build_schemas([RN15], stills=True).schemas)
    with pytest.raises(SampleError, match=rf"source 'rn15', sample {late} \(key .*{text}"):
        omni.__getitems__([late])


def test_labels_and_masks_of_several_lengths_name_the_window(corpora: Path) -> None:
    def change(file: Any, group: Any) -> None:
        del group["train-0|000006|left"]["eye_image_mask"]
        group["train-0|000006|left"]["eye_image_mask"] = np.array([True])

    spoil(corpora, RN15, change)
    text = (
        r"corpus 'rn15', window 'train-0\|000006\|left': labels and masks must have one entry a "
        r"frame, got .*'eye_image_mask': 1"
    )
    with pytest.raises(DataModuleError, match=text):
        StillFramesDataset(corpus(corpora, RN15), StillConfig(), "rn15")


@pytest.mark.parametrize("as_array", [False, True])
def test_wrappers_take_windows_in_memory_too(as_array: bool) -> None:
    """Rows of a table that are not copied yet, and stacked tensors."""

    class Stacked(DictTensorDataset):
        def read_batch(self, indices: Any) -> Any:
            columns = super().read_batch(indices)
            if not as_array:
                return columns
            return {
                name: c.table[torch.from_numpy(c.index)] if isinstance(c, Gather) else c
                for name, c in columns.items()
            }

    states = torch.tensor([[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    tensors = {
        "eye_state": states,
        "eye_image": torch.rand(2, 4, 3, 8, 8),
        "weight": torch.tensor([5.0, 6.0]),
    }
    keys = ["v|000000|left", "v|000004|left"]
    windows = Stacked(tensors, {"key": keys})
    cached = CachedEmbeddingDataset(windows, shard_of(keys, 4), "cew")
    stills = StillFramesDataset(cached, StillConfig(stride=2), "cew", balance=False)
    columns = stills.read_batch(np.array([4, 0, 1]))
    assert columns["key"] == ["v|000006|left", "v|000000|left", "v|000001|left"]
    weights = columns["weight"]
    assert isinstance(weights, Gather)
    assert weights.table[torch.from_numpy(weights.index)].tolist() == [6.0, 5.0, 5.0]
    equal_batches([StridedSubset(stills, 4, shifting=True)], [CEW], stills=True, embedding_dim=4)
    assert stills.sequence_lengths("eye_image").tolist() == [1] * len(stills)


def test_lengths_are_read_where_a_dataset_does_not_know_them() -> None:
    class Plain(Numbers):
        def __getitem__(self, index: int) -> dict[str, Any]:
            return {"eye_state": torch.zeros(index)} if index else {}

    subset = StridedSubset(Plain(6), 3, shifting=False)
    assert subset.sequence_lengths("eye_state").tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    ("group", "offset", "name"),
    [("000010", 3, "000013"), ("7", 0, "000007"), ("clip", 0, "clip"), ("clip", 2, "clip+000002")],
)
def test_frame_groups_become_frame_numbers(group: str, offset: int, name: str) -> None:
    assert frame_group_at(group, offset) == name


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"stride": 0}, "stride must be a whole number of at least 1, got 0"),
        ({"stride": True}, "stride must be a whole number"),
        ({"open_to_closed": 0.0}, "open_to_closed must be over 0, got 0.0"),
        ({"open_to_closed": float("nan")}, "open_to_closed must be over 0, got nan"),
    ],
)
def test_impossible_still_options_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        StillConfig(**options)


# -- embeddings ------------------------------------------------------------------------------

KEY = CacheKey("0123456789abcdef" * 4, "tiny", 4, 8)


def shard_of(keys: Sequence[str], steps: int = 6) -> dict[str, Any]:
    rng = np.random.default_rng(len(keys))
    return {
        "embedding": rng.normal(size=(len(keys), steps, 4)).astype(np.float16),
        "mask": rng.random((len(keys), steps)) < 0.7,
        "keys": np.array(list(keys)),
    }


def test_a_shard_comes_back_as_it_was_written(tmp_path: Path) -> None:
    shard = shard_of(["b|1|left", "a|1|left"])
    path = write_shard(tmp_path, KEY, "cew", "train", **shard)
    assert path == shard_path(tmp_path, KEY, "cew", "train")
    assert path.relative_to(tmp_path) == Path("0123456789ab/cew/train.h5")
    assert manifest_path(path).name == "train.manifest.json"
    back = read_shard(tmp_path, KEY, "cew", "train")
    assert back["embedding"].dtype == np.float16
    for name, value in shard.items():
        np.testing.assert_array_equal(back[name], value)
    assert find_key(tmp_path) == KEY


def test_a_digest_depends_on_names_and_values_alone() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 2)
    digest = encoder_digest(layer)
    assert len(digest) == 64
    assert encoder_digest(layer.double()) == digest
    with torch.no_grad():
        layer.weight[0, 0] += 1
    assert encoder_digest(layer) != digest


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"backbone": "other"}, r"backbone must be 'other', got 'tiny'; encode the split again"),
        ({"output_dim": 5}, r"output_dim must be 5, got 4"),
        ({"image_size": 64}, r"image_size must be 64, got 8"),
        ({"encoder_digest": KEY.encoder_digest[:12] + "f" * 52}, r"encoder_digest must be"),
    ],
)
def test_a_shard_of_another_encoder_is_refused(
    tmp_path: Path, changes: dict[str, Any], text: str
) -> None:
    import dataclasses

    write_shard(tmp_path, KEY, "cew", "train", **shard_of(["a|1|left"]))
    with pytest.raises(EmbeddingCacheError, match=rf"embeddings of 'cew', train: .*{text}"):
        read_shard(tmp_path, dataclasses.replace(KEY, **changes), "cew", "train")


def test_unfinished_damaged_and_ambiguous_caches_are_refused(tmp_path: Path) -> None:
    import dataclasses

    with pytest.raises(EmbeddingCacheError, match="must hold embeddings of one encoder, holds no"):
        find_key(tmp_path)
    path = write_shard(tmp_path, KEY, "cew", "train", **shard_of(["a|1|left"]))
    manifest = manifest_path(path)
    text = manifest.read_text()
    for content, match in (
        ("{", "is no manifest"),
        ("[]", "it must hold a mapping"),
        (json.dumps({"backbone": "x"}), "lacks encoder_digest, output_dim, image_size"),
    ):
        manifest.write_text(content)
        with pytest.raises(EmbeddingCacheError, match=match):
            read_shard(tmp_path, KEY, "cew", "train")
    manifest.unlink()
    with pytest.raises(EmbeddingCacheError, match="there is no finished shard"):
        read_shard(tmp_path, KEY, "cew", "train")
    manifest.write_text(text)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(EmbeddingCacheError, match="is damaged"):
        read_shard(tmp_path, KEY, "cew", "train")
    other = dataclasses.replace(KEY, encoder_digest="f" * 64)
    write_shard(tmp_path, other, "cew", "train", **shard_of(["a|1|left"]))
    with pytest.raises(EmbeddingCacheError, match="holds 0123456789ab, ffffffffffff"):
        find_key(tmp_path)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"embedding": np.zeros((1, 6, 3))}, r"must have shape \(N=1, T, D=4\), got \(1, 6, 3\)"),
        ({"mask": np.zeros((1, 5))}, r"mask must have shape \(1, 6\), got \(1, 5\)"),
        ({"keys": ["a", "a"], "embedding": np.zeros((2, 6, 4))}, "mask must have shape"),
        (
            {"keys": ["a", "a"], "embedding": np.zeros((2, 6, 4)), "mask": np.zeros((2, 6))},
            "keys must be unique",
        ),
        ({"embedding": np.full((1, 6, 4), 1e9), "mask": np.ones((1, 6))}, "finite in float16"),
    ],
)
def test_malformed_embeddings_are_not_written(
    tmp_path: Path, changes: dict[str, Any], text: str
) -> None:
    with pytest.raises(EmbeddingCacheError, match=text):
        write_shard(tmp_path, KEY, "cew", "train", **{**shard_of(["a|1|left"]), **changes})
    assert not list(tmp_path.rglob("*.h5"))


def test_embeddings_are_paired_by_key_in_any_order(corpora: Path) -> None:
    data = corpus(corpora, RN15)
    shard = shard_of([*reversed(data.sample_ids), "zz|0|left"])
    cached = CachedEmbeddingDataset(data, shard, "rn15")
    for i in (0, 7):
        row = shard["keys"].tolist().index(data.sample_ids[i])
        np.testing.assert_array_equal(cached[i]["eye_embedding"].numpy(), shard["embedding"][row])
        assert cached[i]["eye_embedding_mask"].tolist() == shard["mask"][row].tolist()
        assert torch.equal(cached[i]["eye_image"], data[i]["eye_image"])
    assert cached.sequence_lengths("eye_embedding").tolist() == [6] * 10
    assert cached.sequence_lengths("eye_state").tolist() == [6] * 10
    assert (len(cached), cached.name, cached.sample_ids) == (10, "rn15", data.sample_ids)
    equal_batches([cached], [RN15], embedding_dim=4)
    stills = StillFramesDataset(cached, StillConfig(), "rn15", balance=False)
    equal_batches([StridedSubset(stills, 3, shifting=True)], [RN15], stills=True, embedding_dim=4)


def test_a_sample_without_an_embedding_is_an_error_that_keeps_its_class(corpora: Path) -> None:
    data = corpus(corpora, RN15)
    with pytest.raises(EmbeddingCacheError, match=r"corpus 'rn15': 2 of 10 samples have no cached"):
        CachedEmbeddingDataset(data, shard_of(data.sample_ids[2:]), "rn15")
    with pytest.raises(EmbeddingCacheError, match=r"10 of 10 samples have no cached"):
        CachedEmbeddingDataset(data, shard_of([]), "rn15")

    class Nameless(Numbers):
        def __getitem__(self, index: int) -> dict[str, Any]:
            return {"key": f"v|{index}|left", "eye_state": torch.zeros(1)}

    shard = shard_of(["v|0|left", "v|1|left", "v|7|left"])
    cached = CachedEmbeddingDataset(Nameless(3), shard, "cew")
    assert cached[1]["eye_embedding"].shape == (6, 4)
    assert cached.sample_ids is None
    assert isinstance(cached.with_keys(["eye_state"]), Nameless)
    with pytest.raises(EmbeddingCacheError, match=r"1 of 1 samples have .*, the first is 'v\|2"):
        cached[2]
    omni = OmniLoader([cached], build_schemas([CEW], time_dim=6, embedding_dim=4).schemas)
    with pytest.raises(EmbeddingCacheError, match=r"the first is 'v\|2\|left'; encode the split"):
        omni.__getitems__([0, 2])
    bare = CachedEmbeddingDataset(Numbers(1), shard_of(["v|0|left"]), "cew")
    with pytest.raises(EmbeddingCacheError, match="samples must carry 'key' to be paired"):
        bare[0]


def test_a_dataset_that_names_its_samples_need_not_carry_keys(corpora: Path) -> None:
    plain = HDF5Dataset(corpus_path(corpora, "cew"), "train", keys=["eye_state"])
    shard = shard_of(plain.sample_ids, steps=1)
    cached = CachedEmbeddingDataset(plain, shard, "cew")
    assert "key" not in cached[3]
    rows = cached.read_batch([3, 1])["eye_embedding"]
    assert isinstance(rows, Gather)
    assert rows.index.tolist() == [3, 1]
    np.testing.assert_array_equal(cached[3]["eye_embedding"].numpy(), shard["embedding"][3])
    as_bytes = {**shard, "keys": np.array([key.encode() for key in shard["keys"]])}
    assert len(CachedEmbeddingDataset(plain, as_bytes, "cew")) == 10
    empty = CachedEmbeddingDataset(Numbers(0), shard, "cew")
    empty.reset_for_worker()
    empty.close()
    assert len(empty.read_batch([])["eye_embedding"].index) == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"mask": np.zeros((1, 2))}, r"the shard must hold embedding \(N, T, D\), mask"),
        ({"keys": None}, "the shard lacks keys"),
    ],
)
def test_malformed_shards_are_refused(changes: dict[str, Any], text: str) -> None:
    shard = {k: v for k, v in {**shard_of(["a|1|left"]), **changes}.items() if v is not None}
    with pytest.raises(EmbeddingCacheError, match=rf"corpus 'cew': {text}"):
        CachedEmbeddingDataset(Numbers(1), shard, "cew")


def test_shards_with_too_many_or_too_few_rows_are_refused() -> None:
    with pytest.raises(EmbeddingCacheError, match=r"one row a key, got two of 'a\|1\|left'"):
        CachedEmbeddingDataset(Numbers(1), shard_of(["a|1|left", "b", "a|1|left"]), "cew")
    with pytest.raises(EmbeddingCacheError, match="must cover all 3 samples, got 1 rows"):
        CachedEmbeddingDataset(Numbers(3), shard_of(["a|1|left"]), "cew")


def test_a_corpus_built_in_another_order_keeps_its_embeddings(tmp_path: Path) -> None:
    write_corpus(tmp_path, CEW, {"train": 6}, seed=1)
    data = corpus(tmp_path, CEW)
    shard = shard_of(data.sample_ids, steps=1)
    before = {
        s["key"]: s["eye_embedding"]
        for s in map(CachedEmbeddingDataset(data, shard, "cew").__getitem__, range(6))
    }
    shuffled = {name: value[::-1] for name, value in shard.items()}
    cached = CachedEmbeddingDataset(data, {k: v.copy() for k, v in shuffled.items()}, "cew")
    for i in range(6):
        assert torch.equal(cached[i]["eye_embedding"], before[cached[i]["key"]])
    shutil.rmtree(tmp_path / "data")
