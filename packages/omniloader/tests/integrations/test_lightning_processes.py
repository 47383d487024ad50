"""OmniDataModule on two processes (gloo): shares, evaluation, resume on another number of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("lightning")

SCRIPT = Path(__file__).with_name("lightning_run.py")
Steps = list[tuple[int, list[int]]]


def run(folder: Path, processes: int, batch_size: int, checkpoint: Path | None = None) -> None:
    folder.mkdir()
    words = [sys.executable, str(SCRIPT), str(folder), str(processes), str(batch_size)]
    done = subprocess.run(
        [*words, *([str(checkpoint)] if checkpoint else [])],
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def steps(folder: Path, stage: str, rank: int) -> Steps:
    lines = (folder / f"{stage}-{rank}.jsonl").read_text().splitlines()
    return [(epoch, indices) for epoch, indices in map(json.loads, lines)]


def union(folder: Path, processes: int) -> list[tuple[int, list[int]]]:
    """Epoch and sorted indices of all ranks together, step by step."""
    ranks = [steps(folder, "train", rank) for rank in range(processes)]
    return [
        (own[0][0], sorted(i for _, indices in own for i in indices))
        for own in zip(*ranks, strict=True)
    ]


@pytest.mark.slow
def test_two_processes_share_what_one_would_read_and_resume_as_one(tmp_path: Path) -> None:
    run(tmp_path / "two", 2, 3)
    run(tmp_path / "one", 1, 6)
    checkpoint = tmp_path / "two" / "step.ckpt"
    assert union(tmp_path / "two", 2) == union(tmp_path / "one", 1)
    assert len(union(tmp_path / "one", 1)) == 3
    run(tmp_path / "two-on-two", 2, 3, checkpoint)
    run(tmp_path / "two-on-one", 1, 6, checkpoint)
    assert union(tmp_path / "two-on-two", 2) == union(tmp_path / "two-on-one", 1)
    valid = [steps(tmp_path / "two-on-two", "valid", rank) for rank in range(2)]
    met = [sorted(i for own in valid for e, x in own if e == epoch for i in x) for epoch in (0, 1)]
    assert met[1] == list(range(7))
    epochs = [epoch for epoch, _ in union(tmp_path / "two-on-two", 2)]
    assert epochs == [0] + [1] * 4
