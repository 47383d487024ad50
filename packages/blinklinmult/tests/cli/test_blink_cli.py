"""The blinklinmult command."""

from __future__ import annotations

import json
import runpy
import sys
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from blinkdata import CEW, RN15, write_configs, write_corpus

from blinklinmult.cli import main, run
from blinklinmult.cli.sheet import png_bytes
from blinklinmult.data.presets import corpus_path

SCRIPT = Path(__file__).parents[2] / "scripts" / "bench_workers.py"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for spec in (CEW, RN15):
        write_corpus(tmp_path, spec, {"train": 12, "valid": 4})
    folder = write_configs(tmp_path, [CEW, RN15])
    (folder / "data.yaml").write_text("datasets: [cew, rn15]\nbatch_size: 4\n")
    return tmp_path


def test_synth_writes_corpora_and_says_what(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["synth", "--root", str(tmp_path), "--corpora", "cew, mrl", "--seconds", "5"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "closed frames" in out
    assert sorted(path.name for path in tmp_path.rglob("*.h5")) == ["cew.h5", "mrl.h5"]


def test_user_errors_are_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["synth", "--root", str(tmp_path), "--corpora", "cev"]) == 2
    assert main(["inspect", str(tmp_path / "none.h5")]) == 2
    (tmp_path / "bad.h5").write_bytes(b"x")
    assert main(["inspect", str(tmp_path / "bad.h5")]) == 2
    err = capsys.readouterr().err
    assert "error: unknown corpus 'cev', did you mean 'cew'?" in err
    assert "none.h5': there is no such file" in err
    assert "bad.h5': is damaged or not HDF5" in err
    assert main(["nonsense"]) == 2


def test_inspect_counts_samples_labels_masks_and_lengths(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = corpus_path(root, "rn15")
    with h5py.File(path, "r+") as file:
        for i, sample in enumerate(file["train"].values()):
            sample["confidence"] = np.float32(i % 2)
    assert main(["inspect", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    train = found["splits"]["train"]
    assert (train["samples"], train["frames"], train["confidence"]) == (12, 72, 0.5)
    assert 0 < train["positive_fraction"] <= 1
    image = train["values"]["eye_image"]
    assert (image["samples"], image["shortest"], image["longest"]) == (12, 6, 6)
    assert 0.5 < image["real"] < 1
    assert train["values"]["eye_state"]["mean"] is not None
    assert found["splits"]["test"]["samples"] == 0
    assert found["attributes"]["schema_version"] == 3
    assert main(["inspect", str(path)]) == 0
    out = capsys.readouterr().out
    assert "real frames" in out
    assert "blink_ids" in out


def test_inspect_reports_findings_with_status_1(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = corpus_path(root, "cew")
    with h5py.File(path, "r+") as file:
        file.attrs["schema_version"] = 2
        group = file["train"]["train-0|000000|left"]
        group["eye_state"][0], group["eye_state_mask"][0] = 3.0, True
        file["train"].copy(group, "stray")
    assert main(["inspect", str(path)]) == 1
    out = capsys.readouterr().out
    assert "warning: schema_version must be 3, got 2" in out
    assert "warning: train sample 'train-0|000000|left': 'eye_state' has real labels outside" in out
    assert "warning: train: sample key 'stray' must be" in out


def test_a_contact_sheet_shows_windows_and_their_labels(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from matplotlib.image import imread

    path, png = corpus_path(root, "rn15"), root / "sheet.png"
    assert main(["inspect", str(path), "--sheet", str(png), "--windows", "3", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["sheet"]
    picture = (imread(png)[..., :3] * 255).round().astype(np.uint8)
    height = 8 + 5 + 5 + 2
    assert picture.shape == (3 * height, 6 * 8, 3)
    with h5py.File(path) as file:
        for i, name in enumerate(rows):
            sample = file[name]
            image = sample["eye_image"][()].astype(np.float32)
            for t in range(6):
                frame = (image[t] * 255).round().astype(np.uint8).transpose(1, 2, 0)
                if not sample["eye_image_mask"][t]:
                    frame = frame // 3
                shown = picture[i * height : i * height + 8, t * 8 : t * 8 + 8]
                np.testing.assert_array_equal(shown, frame)
                bar = picture[i * height + 8, t * 8].tolist()
                blink = bool(sample["blink_presence"][t] > 0.5)
                if sample["blink_presence_mask"][t]:
                    assert bar == ([220, 40, 40] if blink else [235] * 3)
                else:
                    assert bar == [140] * 3
    assert main(["inspect", str(path), "--sheet", str(png), "--windows", "2"]) == 0
    assert "from top to bottom:" in capsys.readouterr().out


def test_a_sheet_of_nothing_is_refused(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_corpus(root, CEW, {})
    path = corpus_path(root, "cew")
    assert main(["inspect", str(path), "--sheet", str(root / "s.png")]) == 2
    assert "has no sample to draw" in capsys.readouterr().err


def test_a_png_has_valid_checksums() -> None:
    data = png_bytes(np.zeros((2, 3, 3), dtype=np.uint8))
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(data[29:33], "big") == zlib.crc32(data[12:29])


def test_bench_prints_the_table_and_json(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--root", str(root), "--config", str(root / "configs" / "data.yaml")]
    assert main(["bench", *arguments, "--workers", "0,1", "--batches", "3"]) == 0
    out = capsys.readouterr().out
    assert "batches/s" in out
    assert "1.00x" in out
    assert main(["bench", *arguments, "--workers", "0", "--batches", "2", "--json"]) == 0
    (speed,) = json.loads(capsys.readouterr().out)
    assert (speed["num_workers"], speed["vs_in_process"]) == (0, 1.0)
    assert speed["batches_per_s"] > 0
    assert main(["bench", *arguments, "--workers", "two"]) == 2
    assert "--workers must be whole numbers such as 0,2,4, got 'two'" in capsys.readouterr().err


def test_the_script_is_the_same_command(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = root / "configs" / "data.yaml"
    arguments: list[Any] = [SCRIPT, "--root", root, "--config", config]
    monkeypatch.setattr(
        sys, "argv", [str(a) for a in [*arguments, "--workers", "0", "--batches", 1]]
    )
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert end.value.code == 0
    assert "batches/s" in capsys.readouterr().out


def test_the_entry_point_exits_with_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["blinklinmult", "nonsense"])
    with pytest.raises(SystemExit) as end:
        run()
    assert end.value.code == 2
