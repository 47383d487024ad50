"""The example runs, its loss looks at real frames only, and its scores are right."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[3] / "examples"
sys.path.append(str(EXAMPLES))  # scripts, not a package

import blink_train  # noqa: E402
from blink_models import Counts, FrameModel, SequenceModel, masked_loss  # noqa: E402


def batch(steps: int = 3) -> dict[str, torch.Tensor]:
    labels = torch.tensor([[1.0, 0.0, 0.0][:steps], [0.0, 1.0, 1.0][:steps]])
    real = torch.ones(2, steps, dtype=torch.bool)
    return {
        "eye_image": torch.rand(2, steps, 3, 32, 32),
        "eye_image_mask": real.clone(),
        "blink_presence": labels,
        "blink_presence_mask": real.clone(),
        "eye_state": labels.clone(),
        "eye_state_mask": torch.zeros_like(real),
    }


def test_a_masked_label_does_not_change_the_loss() -> None:
    logits, given = torch.randn(2, 3, 2), batch()
    loss = masked_loss(logits, given)
    given["eye_state"] = torch.full_like(given["eye_state"], -1.0)
    assert masked_loss(logits, given) == loss
    given["blink_presence_mask"][:] = False
    assert masked_loss(logits, given) == 0


def test_scores_count_frames_and_windows() -> None:
    given, counts = batch(), Counts()
    logits = torch.full((2, 3, 2), -1.0)
    logits[0, :2, 0] = 1.0  # one hit, one false alarm; both hits of the second window are missed
    counts.add(logits, given)
    assert counts.f1(counts.frames) == [pytest.approx(2 / (2 + 1 + 2)), 0.0]
    assert counts.f1(counts.windows) == [pytest.approx(2 / 3), 0.0]


@pytest.mark.parametrize("kind", [FrameModel, SequenceModel])
def test_padding_changes_no_logit_of_a_frame_alone(kind: type[FrameModel]) -> None:
    torch.manual_seed(0)
    model, given = kind(4).eval(), batch()
    given["eye_image_mask"][0, 2] = False
    before = model(given)
    given["eye_image"][0, 2] = 9.0
    assert torch.equal(model(given), before)


@pytest.mark.filterwarnings(
    "ignore:.*does not have many workers.*",
    "ignore:.*no `validation_step`.*",
    "ignore:.*LeafSpec.*",
)
def test_the_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--root", str(tmp_path), "--seconds", "24", "--scale", "0.1"]
    assert blink_train.main(arguments) == 0
    out = capsys.readouterr().out
    assert "frame by frame" in out
    assert "sequence" in out
