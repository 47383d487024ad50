"""Workers keep to one thread, and none outlives its trainer."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("training_process.py")

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="processes are looked up in /proc"
)


def children(pid: int) -> list[int]:
    """Processes that a process has started."""
    found: list[int] = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        found += map(int, tasks.read_text().split())
    return found


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_its_trainer(number: signal.Signals) -> None:
    trainer = subprocess.Popen(
        [sys.executable, str(SCRIPT), "wait"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert trainer.stdout is not None
    threads = json.loads(trainer.stdout.readline())
    assert trainer.stdout.readline() == "in the middle of an epoch\n"
    workers = children(trainer.pid)
    assert len(workers) >= 2
    trainer.send_signal(number)
    assert trainer.wait(timeout=30) != 0
    trainer.stdout.close()
    while any(map(lives, workers)):  # the limit is that of the test
        time.sleep(0.05)
    assert {count for batch in threads for count in batch} == {1}


def test_a_loader_that_is_left_alone_leaves_nothing() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0
    assert done.stderr == ""
