"""The training examples as users start them: killed, resumed, on another number of processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from omniloader import OmniConfig

EXAMPLES = Path(__file__).parents[4] / "examples"
QUIET = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
        env=QUIET,
    )
    # Gloo's own threads can abort a process that has finished, on a loaded machine; what the run
    # wrote is compared afterwards all the same.
    aborted_at_exit = "terminate called without an active exception" in done.stderr
    assert done.returncode == 0 or aborted_at_exit, done.stderr[-3000:]
    return done


def steps(record: Path) -> list[tuple[int, list[int]]]:
    """Epoch and sorted indices of all ranks together, step by step."""
    ranks: dict[int, list[dict[str, Any]]] = {}
    for line in record.read_text().splitlines():
        entry = json.loads(line)
        ranks.setdefault(entry["rank"], []).append(entry)
    return [
        (own[0]["epoch"], sorted(index for entry in own for index in entry["index"]))
        for own in zip(*ranks.values(), strict=True)
    ]


@pytest.fixture(scope="module")
def expected() -> list[tuple[int, list[int]]]:
    """Two epochs of the example's mix, read by nobody but this process."""
    loader = OmniConfig.from_file(EXAMPLES / "joint_training.yaml").build_dataloader()
    found = []
    for epoch in range(2):
        loader.set_epoch(epoch)
        found += [(epoch, sorted(map(int, batch))) for batch in loader.index_batches()]
    return found


def same(found: list[tuple[int, list[int]]], expected: list[tuple[int, list[int]]]) -> bool:
    """Equal steps, but for draws that a last batch repeats to give all ranks as many."""
    return len(found) == len(expected) and all(
        mine == theirs
        or (mine[0] == theirs[0] and set(theirs[1]) <= set(mine[1]) and len(theirs[1]) < 32)
        for mine, theirs in zip(found, expected, strict=True)
    )


@pytest.mark.slow
def test_a_killed_trainer_goes_on_from_its_checkpoint(
    tmp_path: Path, expected: list[tuple[int, list[int]]]
) -> None:
    script = str(EXAMPLES / "torchrun_train.py")
    whole, first, rest, shared = (tmp_path / name for name in ("whole", "first", "rest", "shared"))
    checkpoint = tmp_path / "run.pt"
    run(script, "--record", str(whole))
    assert steps(whole) == expected
    options = ("--record", str(first), "--checkpoint", str(checkpoint), "--every", "5")
    killed = subprocess.Popen(
        [sys.executable, script, *options, "--workers", "1"],
        env=QUIET,
        stdout=subprocess.DEVNULL,
    )
    # Past a checkpoint in the second epoch, and not at the next one.
    while not first.exists() or first.read_text().count("\n") < 17:
        assert killed.poll() is None
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    other = tmp_path / "other.pt"
    shutil.copy(checkpoint, other)
    run(script, "--record", str(rest), "--checkpoint", str(checkpoint))
    lines = [json.loads(line) for line in whole.read_text().splitlines()]
    again = [json.loads(line) for line in rest.read_text().splitlines()]
    assert again == lines[again[0]["step"] - 1 :]  # indices and losses, bit for bit
    assert 10 < again[0]["step"] <= 21
    runner = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    run(*runner, script, "--record", str(shared), "--checkpoint", str(other))
    assert same(steps(shared), expected[again[0]["step"] - 1 :])


@pytest.mark.slow
def test_accelerate_reads_every_draw_once_and_resumes(
    tmp_path: Path, expected: list[tuple[int, list[int]]]
) -> None:
    pytest.importorskip("accelerate")
    folder = str(tmp_path / "run")
    launch = ("-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2")
    script = (*launch, str(EXAMPLES / "accelerate_train.py"), "--checkpoint", folder)
    run(*script, "--stop-after", "4", "--record", str(tmp_path / "first"))
    run(*script, "--epochs", "1", "--record", str(tmp_path / "rest"))
    one_epoch = [step for step in expected if step[0] == 0]
    found = steps(tmp_path / "first") + steps(tmp_path / "rest")
    assert same(found, one_epoch)
    assert len(steps(tmp_path / "first")) == 4


@pytest.mark.slow
def test_ray_train_reads_its_share() -> None:
    pytest.importorskip("ray")
    pytest.importorskip("pandas", reason="Ray Train needs the extras of ray[train]")
    pytest.importorskip("pyarrow", reason="Ray Train needs the extras of ray[train]")
    done = run(str(EXAMPLES / "ray_train.py"), "--workers", "2")
    # 343 draws an epoch, on two ranks.
    assert "{'epoch': 0, 'samples': 172}" in done.stdout
