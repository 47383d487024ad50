from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from omniloader.cli import main

CONFIG = Path(__file__).parents[4] / "examples" / "joint_training.yaml"


def test_lengths_of_each_source_are_shown_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lengths.npy"
    assert main(["lengths", str(CONFIG), "--key", "cepstrum", "-o", str(file)]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("Lengths of 'cepstrum'")
    assert [row.split()[:3] for row in shown.out.splitlines()[4:6]] == [
        ["japanese_vowels", "198", "0"],
        ["basic_motions", "28", "28"],
    ]
    assert f"written to {file}" in shown.err
    lengths = np.load(file)
    assert lengths.dtype == np.int64
    assert len(lengths) == 198 + 28 + 57 + 60
    assert (lengths[:198].min(), lengths[:198].max(), lengths[198:].max()) == (7, 26, 0)


def test_lengths_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["lengths", str(CONFIG), "--key", "acceleration", "--eval", "--json"]
    assert main([*argv, "--workers", "1"]) == 0
    sources = json.loads(capsys.readouterr().out)["sources"]
    assert sources["daphnet"]["median"] == 100
    assert sources["japanese_vowels"]["without"] == sources["japanese_vowels"]["samples"]


def test_a_key_that_is_no_sequence_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lengths", str(CONFIG), "--key", "speaker"]) == 2
    assert "key must be a sequence of the schema, got 'speaker'" in capsys.readouterr().err
