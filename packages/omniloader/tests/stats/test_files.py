from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from omniloader.errors import StatsError
from omniloader.stats.files import load_stats, save_stats
from omniloader.stats.results import FeatureStats

FIGURES = {"x": {"mean": torch.tensor([0.1, 1 / 3], dtype=torch.float64), "std": torch.ones(2)}}
INFO = {"x": {"count": 7, "skipped": 0, "quantiles": "kll", "rank_error": 0.001}}


def test_flat_figures_come_back_bit_for_bit_with_how_they_were_found(tmp_path: Path) -> None:
    path = tmp_path / "new" / "stats.json"
    save_stats(FeatureStats(FIGURES, INFO), path, fingerprint="abc")
    loaded = load_stats(path, expected_fingerprint="abc")
    assert isinstance(loaded, FeatureStats)
    assert torch.equal(loaded["x"]["mean"], FIGURES["x"]["mean"])
    assert loaded["x"]["std"].dtype is torch.float64
    assert (loaded.info, loaded.fingerprint) == (INFO, "abc")
    document = json.loads(path.read_text())
    assert (document["format"], document["version"]) == ("omniloader.stats", 1)
    assert document["info"]["x"]["rank_error"] == 0.001
    save_stats(loaded, path)
    assert load_stats(path, expected_fingerprint="abc").keys() == {"x"}


def test_figures_per_dataset_come_back_per_dataset(tmp_path: Path) -> None:
    path = tmp_path / "stats.json"
    save_stats({"a": FeatureStats(FIGURES, INFO), "b": FeatureStats({})}, path)
    loaded = load_stats(path)
    assert list(loaded) == ["a", "b"]
    assert torch.equal(loaded["a"]["x"]["mean"], FIGURES["x"]["mean"])  # type: ignore[index]
    assert loaded["a"].info == INFO  # type: ignore[union-attr]
    assert loaded["b"] == {}


def test_plain_mappings_of_arrays_and_numbers_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "stats.json"
    save_stats({"x": {"mean": np.float32(0.5), "std": [1.0, 2.0]}}, path)
    loaded = load_stats(path)
    assert loaded["x"]["mean"].item() == 0.5
    assert loaded["x"]["std"].tolist() == [1.0, 2.0]  # type: ignore[union-attr]
    save_stats({"a": {"x": {"mean": torch.tensor(2.0)}}}, path)
    assert load_stats(path)["a"]["x"]["mean"].item() == 2.0  # type: ignore[index]


@pytest.mark.parametrize(
    ("stats", "text"),
    [
        ({}, "stats must be a non-empty mapping"),
        ([1], "stats must be a non-empty mapping"),
        ({"x": (1.0, 2.0)}, "'x' must map figures to arrays, got tuple"),
        ({"x": {"mean": 1.0, "a": {"mean": 1.0}}}, "mix figures of keys with datasets"),
        ({"x": {"mean": "high"}}, "mean of 'x' must be an array of numbers, got 'high'"),
        ({"a": {"x": {"std": float("nan")}}}, "std of 'x' of 'a' must be finite"),
    ],
)
def test_what_is_no_stats_is_refused_and_leaves_the_old_file(
    tmp_path: Path, stats: Any, text: str
) -> None:
    path = tmp_path / "stats.json"
    save_stats(FIGURES, path)
    before = path.read_bytes()
    with pytest.raises(StatsError, match=text):
        save_stats(stats, path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["stats.json"]


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "stats.json").mkdir()
    with pytest.raises(OSError, match=r"stats\.json"):
        save_stats(FIGURES, tmp_path / "stats.json")
    assert [entry.name for entry in tmp_path.iterdir()] == ["stats.json"]


def test_figures_of_another_config_are_refused_with_both_fingerprints(tmp_path: Path) -> None:
    path = tmp_path / "stats.json"
    save_stats(FIGURES, path, fingerprint="old")
    with pytest.raises(StatsError, match=r"belong to another config: .* is 'old', expected 'new'"):
        load_stats(path, expected_fingerprint="new")
    save_stats(FIGURES, path)
    with pytest.raises(StatsError, match="fingerprint is None, expected 'new'"):
        load_stats(path, expected_fingerprint="new")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"format": "other"}, 'lacks "format": "omniloader.stats"'),
        ({"version": 2}, "must have version 1, got 2"),
        ({"layout": "round"}, "must be laid out flat or per_dataset"),
        ({"layout": "per_dataset"}, "must be laid out flat or per_dataset"),
        ({"layout": "per_dataset", "datasets": {"a": 1}}, "lacks the mapping 'stats'"),
        ({"stats": [1]}, "lacks the mapping 'stats'"),
        ({"stats": {"x": 1}}, "must hold numbers for every figure"),
        ({"stats": {"x": {"mean": "a"}}}, "must hold numbers for every figure"),
    ],
)
def test_a_file_that_is_not_ours_is_refused_by_name(
    tmp_path: Path, change: dict[str, Any], text: str
) -> None:
    path = tmp_path / "stats.json"
    save_stats(FIGURES, path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(StatsError, match=f"stats.json: the statistics file {text}"):
        load_stats(path)


def test_figures_written_by_hand_are_read(tmp_path: Path) -> None:
    path = tmp_path / "stats.json"
    path.write_text('{"x": {"mean": [1, 2], "std": 0.5}}')
    flat = load_stats(path)
    assert flat["x"]["mean"].tolist() == [1.0, 2.0]  # type: ignore[union-attr]
    assert (flat.info, flat.fingerprint) == ({}, None)  # type: ignore[union-attr]
    path.write_text('{"a": {"x": {"mean": [1, 2]}}, "b": {}}')
    nested = load_stats(path)
    assert nested["a"]["x"]["mean"].tolist() == [1.0, 2.0]  # type: ignore[union-attr]
    assert nested["b"] == {}
    path.write_text('{"x": {"mean": [[1, 2], [3]]}}')
    with pytest.raises(StatsError, match="must hold numbers for every figure"):
        load_stats(path)
    path.write_text('{"x": {"std": 1e999}}')
    with pytest.raises(StatsError, match="must hold finite numbers, got std of 'x' beyond float64"):
        load_stats(path)
    path.write_text("{}")
    with pytest.raises(StatsError, match='lacks "format"'):
        load_stats(path)
    path.write_text("[1]")
    with pytest.raises(StatsError, match="must hold a mapping"):
        load_stats(path)


def test_a_broken_or_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "stats.json"
    with pytest.raises(StatsError, match=r"stats.json: no such statistics file; .*compute-stats"):
        load_stats(path)
    with pytest.raises(StatsError, match="statistics cannot be read"):
        load_stats(tmp_path)
    path.write_text('{"mean": NaN}')
    with pytest.raises(StatsError, match="holds NaN"):
        load_stats(path)
    path.write_text('{\n"mean": ')
    with pytest.raises(StatsError, match=r"is no JSON \(line 2: Expecting value\)"):
        load_stats(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(StatsError, match="statistics cannot be read"):
        load_stats(path)
