"""One backbone for many corpora: a model and losses that read nothing but real values.

Nothing here knows a corpus. The model is made from the union schema, takes the plain batch dict
that omniloader gives, and consults ``<name>_mask`` (True = real) wherever it reads a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from omniloader import UnifiedSchema

Batch = Mapping[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One target and how it is learnt.

    Args:
        target: Name of the target in the schema.
        classes: Number of classes; 0 means regression, of a target in units of its spread.
        outputs: Number of values of a regression.
    """

    target: str
    classes: int = 0
    outputs: int = 1


class Backbone(nn.Module):
    """Dilated convolutions over time; a step's output depends on real steps only."""

    def __init__(
        self, width: int, dilations: Sequence[int] = (1, 2, 4), dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv1d(width, width, 5, padding=2 * d, dilation=d) for d in dilations
        )
        # Over channels of one step: a norm over time would mix padding in.
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in dilations)
        self.dropout = nn.Dropout(dropout)

    def forward(self, steps: Tensor, mask: Tensor) -> Tensor:
        """Map ``(B, T, width)`` to the same shape, 0 where the mask ``(B, T)`` is False."""
        real = mask[..., None].to(steps.dtype)
        steps = steps * real
        for conv, norm in zip(self.convs, self.norms, strict=True):
            mixed = conv(norm(steps).mul(real).transpose(1, 2)).transpose(1, 2)
            steps = (steps + self.dropout(functional.gelu(mixed))) * real
        return steps


class JointModel(nn.Module):
    """A linear stem a feature, one shared backbone, a linear head a task.

    Features of one ``time_dim`` share a timeline: their stems are added step by step, and the
    backbone runs over it for the samples that have any of them. A head of a sequence target reads
    the steps of its timeline, any other head the masked mean and maximum over all timelines.

    Args:
        schema: The union schema.
        tasks: What to predict.
        width: Channels of the backbone.
    """

    def __init__(self, schema: UnifiedSchema, tasks: Sequence[Task], width: int = 48) -> None:
        super().__init__()
        self.timelines: dict[int, list[str]] = {}
        for spec in schema.features:
            self.timelines.setdefault(int(spec.time_dim or 1), []).append(spec.name)
        self.stems = nn.ModuleDict(
            {spec.name: nn.Linear(spec.trailing_shape[0], width) for spec in schema.features}
        )
        self.backbone = Backbone(width)
        self.time_dims = {task.target: schema.spec(task.target).time_dim for task in tasks}
        self.heads = nn.ModuleDict(
            {
                task.target: nn.Linear(
                    width if self.time_dims[task.target] else 2 * width,
                    task.classes or task.outputs,
                )
                for task in tasks
            }
        )

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Predict every task for every sample.

        Returns:
            Per target ``(B, outputs)``, or ``(B, T, outputs)`` for a sequence target: the logits
            of classes, or values.
        """
        encoded = {
            time_dim: self._encode(batch, names) for time_dim, names in self.timelines.items()
        }
        pooled = torch.stack([masked_pool(*pair) for pair in encoded.values()]).sum(0)
        return {
            target: head(encoded[time_dim][0] if (time_dim := self.time_dims[target]) else pooled)
            for target, head in self.heads.items()
        }

    def _encode(self, batch: Batch, names: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Steps ``(B, T, width)`` and their mask, for the features of one timeline."""
        masks = torch.stack([batch[f"{name}_mask"] for name in names])
        mask = masks.any(0)
        rows = mask.any(1)  # the samples of the other corpora cost nothing
        stems = [
            self.stems[name](batch[name][rows]) * real[rows, :, None]
            for name, real in zip(names, masks, strict=True)
        ]
        steps = self.backbone(torch.stack(stems).sum(0), mask[rows])
        return steps.new_zeros((*mask.shape, steps.shape[-1])).index_put((rows,), steps), mask


def masked_pool(steps: Tensor, mask: Tensor) -> Tensor:
    """Mean and maximum over real steps, ``(B, 2 * width)``; 0 for a sample that has none."""
    real = mask[..., None]
    mean = (steps * real).sum(1) / real.sum(1).clamp(min=1)
    peak = steps.masked_fill(~real, -torch.inf).amax(1)
    return torch.cat([mean, peak.masked_fill(~real.any(1), 0.0)], dim=1)


def masked_loss(task: Task, prediction: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """Mean loss over the labels that exist.

    The denominator is the number of real labels (of real steps, for a sequence), not of samples:
    otherwise a task would weigh less the rarer its corpus is in the batch. Without any label the
    loss is exactly 0 and so are its gradients; a plain mean would be 0/0 = NaN.

    Args:
        task: The task.
        prediction: ``(B, outputs)`` or ``(B, T, outputs)``.
        target: The batch's target.
        mask: Its mask, ``(B,)`` or ``(B, T)``.
    """
    real = prediction[mask]  # selected, not multiplied: a placeholder may be NaN or -1
    if task.classes:
        losses = functional.cross_entropy(real, target[mask], reduction="none")
    else:
        losses = (real - target.reshape(prediction.shape)[mask]).square().mean(-1)
    return losses.sum() / max(len(losses), 1)


def joint_loss(tasks: Sequence[Task], predictions: Mapping[str, Tensor], batch: Batch) -> Tensor:
    """Sum of the tasks' losses over one batch."""
    return torch.stack(
        [
            masked_loss(t, predictions[t.target], batch[t.target], batch[f"{t.target}_mask"])
            for t in tasks
        ]
    ).sum()
