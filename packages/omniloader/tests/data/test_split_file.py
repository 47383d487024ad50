from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from omniloader.data.splits import load_split_info, save_split_info, split_indices
from omniloader.errors import ConfigError, SourceError


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    splits = split_indices(20)
    save_split_info(splits, tmp_path / "split.json", {"seed": 0})
    info = load_split_info(tmp_path / "split.json")
    assert info == splits
    assert info.meta == {"seed": 0}
    assert list(tmp_path.iterdir()) == [tmp_path / "split.json"]


def test_numpy_indices_are_taken_and_sorted(tmp_path: Path) -> None:
    save_split_info({"a": np.array([3, 1]), "b": []}, tmp_path / "s.json")  # type: ignore[dict-item]
    info = load_split_info(tmp_path / "s.json")
    assert info == {"a": [1, 3], "b": []}
    assert info.meta == {}


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"a": [1, 2], "b": [2]}, "2 stands in 'a' and in 'b'"),
        ({"a": [1, 1]}, "1 stands in 'a' and in 'a'"),
        ({"a": [-1]}, "'a' must hold indices of at least 0, got -1"),
        ({"a": [1.5]}, "'a' must hold indices of at least 0, got 1.5"),
        ({"a": [True]}, "'a' must hold indices of at least 0, got True"),
        ({"a": "12"}, "'a' must be a list of indices, got '12'"),
        ({"a": 3}, "'a' must be a list of indices, got 3"),
    ],
)
def test_bad_splits_are_neither_written_nor_read(
    tmp_path: Path, splits: dict, message: str
) -> None:
    path = tmp_path / "s.json"
    with pytest.raises(ConfigError, match=message):
        save_split_info(splits, path)
    assert not path.exists()
    path.write_text(json.dumps({"version": 1, "splits": splits}))
    with pytest.raises(ConfigError, match=rf"s\.json'.*{message}"):
        load_split_info(path)


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.json"
    save_split_info({"a": [1]}, path)

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(SourceError, match=r"s\.json' cannot be written \(disk full\)"):
        save_split_info({"a": [2]}, path)
    assert load_split_info(path) == {"a": [1]}
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"none/s\.json' cannot be written"):
        save_split_info({"a": [1]}, tmp_path / "none" / "s.json")


def test_meta_must_fit_json(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"meta must fit JSON: .*set"):
        save_split_info({"a": [1]}, tmp_path / "s.json", {"x": {1}})
    with pytest.raises(ConfigError, match=r"meta must fit JSON: .*not JSON compliant"):
        save_split_info({"a": [1]}, tmp_path / "s.json", {"x": float("nan")})


def test_missing_and_broken_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    with pytest.raises(FileNotFoundError, match=r"s\.json' does not exist"):
        load_split_info(path)
    path.write_text('{"splits": ')
    with pytest.raises(SourceError, match=r"s\.json' cannot be read as JSON"):
        load_split_info(path)
    path.write_text("[]")
    with pytest.raises(ConfigError, match="holds no splits"):
        load_split_info(path)
    path.write_text('{"splits": {}, "version": 9}')
    with pytest.raises(ConfigError, match="has version 9, this package reads 1"):
        load_split_info(path)
