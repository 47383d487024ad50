"""Two small blink detectors for ``blink_train.py``, their masked loss, and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import lightning
import torch
from torch import Tensor, nn
from torch.nn import functional

from omniloader.masks import mask_name

TASKS = ("blink_presence", "eye_state")
Batch = dict[str, Any]


class FrameModel(nn.Module):
    """Each frame for itself: a small CNN over the crop, one logit a task."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        channels = (3, width, 2 * width, 4 * width)
        blocks: list[nn.Module] = [nn.AvgPool2d(2)]
        for before, after in pairwise(channels):
            blocks += [nn.Conv2d(before, after, 3, 2, 1), nn.BatchNorm2d(after), nn.ReLU()]
        self.encoder = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.width = 16 * width
        self.head = nn.Linear(self.width, len(TASKS))

    def encode(self, images: Tensor, real: Tensor) -> Tensor:
        """Codes ``(B, T, width)`` of images ``(B, T, 3, H, W)``; zeros where there is none."""
        # Only real frames go through the network: padding would spoil the batch statistics.
        codes = images.new_zeros(*images.shape[:2], self.width)
        codes[real] = self.encoder(images[real] - 0.5)
        return codes

    def forward(self, batch: Batch) -> Tensor:
        """Logits ``(B, T, tasks)``."""
        return self.head(self.encode(batch["eye_image"], batch["eye_image_mask"]))


class SequenceModel(FrameModel):
    """The same codes, and a GRU in both directions that sees the frames around each."""

    def __init__(self, width: int = 16, state: int = 48) -> None:
        super().__init__(width)
        self.gru = nn.GRU(self.width, state, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * state, len(TASKS))

    def forward(self, batch: Batch) -> Tensor:
        """Logits ``(B, T, tasks)``."""
        codes = self.encode(batch["eye_image"], batch["eye_image_mask"])
        return self.head(self.gru(codes)[0])


def masked_loss(logits: Tensor, batch: Batch) -> Tensor:
    """Binary cross-entropy over the frames each task really labels, the tasks averaged."""
    losses = []
    for i, task in enumerate(TASKS):
        # A label counts where it is real and its frame can be seen.
        real = batch[mask_name(task)] & batch["eye_image_mask"]
        if real.any():
            losses.append(
                functional.binary_cross_entropy_with_logits(logits[..., i][real], batch[task][real])
            )
    return torch.stack(losses).mean() if losses else logits.sum() * 0


class Counts:
    """True positives, false positives and false negatives of each task."""

    def __init__(self) -> None:
        self.frames = torch.zeros(len(TASKS), 3)
        self.windows = torch.zeros(len(TASKS), 3)

    def add(self, logits: Tensor, batch: Batch) -> None:
        """Count a batch, by frame and by window (positive: any real frame is)."""
        for i, task in enumerate(TASKS):
            real = batch[mask_name(task)] & batch["eye_image_mask"]
            said, true = (logits[..., i] > 0) & real, (batch[task] > 0.5) & real
            self.frames[i] += _outcomes(said[real], true[real])
            labelled = real.any(1)
            self.windows[i] += _outcomes(said.any(1)[labelled], true.any(1)[labelled])

    def f1(self, outcomes: Tensor) -> list[float]:
        """2·TP / (2·TP + FP + FN), for each task; 0 where there is nothing."""
        hit, false, missed = outcomes.unbind(1)
        return (2 * hit / (2 * hit + false + missed).clamp(min=1)).tolist()


def _outcomes(said: Tensor, true: Tensor) -> Tensor:
    return torch.stack([(said & true).sum(), (said & ~true).sum(), (~said & true).sum()])


class Detector(lightning.LightningModule):
    """Trains one of the models on both tasks, and counts on the test split.

    Args:
        model: Makes logits ``(B, T, tasks)`` of a batch.
        steps: Optimiser steps of the whole run, for the learning rate's schedule.
    """

    def __init__(self, model: nn.Module, steps: int) -> None:
        super().__init__()
        self.model = model
        self.steps = steps
        self.losses: list[float] = []
        self.counts = Counts()

    def training_step(self, batch: Batch, index: int) -> Tensor:
        """Masked loss of both tasks."""
        loss = masked_loss(self.model(batch), batch)
        self.losses.append(float(loss.detach()))
        return loss

    def on_test_start(self) -> None:
        """Begin to count."""
        self.counts = Counts()

    def test_step(self, batch: Batch, index: int) -> None:
        """Count what is found."""
        self.counts.add(self.model(batch), batch)

    def configure_optimizers(self) -> Any:
        """AdamW, one cycle."""
        optimiser = torch.optim.AdamW(self.parameters(), weight_decay=1e-3)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 5e-3, total_steps=self.steps)
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def mean(values: Sequence[float]) -> float:
    """Their mean."""
    return sum(values) / len(values)
