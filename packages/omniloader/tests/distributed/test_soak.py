"""The soak script finds no difference, and would find one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[4] / "benchmarks"))  # scripts, not a package

import soak_resume


def test_a_few_runs_show_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    assert soak_resume.soak(8, seed=5, in_processes=False) == 0
    assert "no difference" in capsys.readouterr().out


def test_a_state_that_is_off_by_one_step_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    honest = soak_resume.leg_here

    def shifted(*task: Any) -> Any:
        ranks, state = honest(*task)
        batch = soak_resume.GLOBAL_BATCH
        return ranks, {**state, "position": max(state["position"] - batch, 0)}

    monkeypatch.setattr(soak_resume, "leg_here", shifted)
    monkeypatch.setattr(soak_resume, "WORKERS", (0,))
    monkeypatch.setattr(soak_resume, "VARIANTS", {"mixed": {}})
    assert soak_resume.soak(20, seed=0, in_processes=False) == 1
    assert "DIFFERENCE in run" in capsys.readouterr().out
