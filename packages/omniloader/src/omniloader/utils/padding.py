"""Bring sequences to a length along their leading time axis."""

from __future__ import annotations

import torch
from torch import Tensor


def pad_or_crop_time_dim(
    value: Tensor, time_dim: int, placeholder: float = 0.0, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Keep the first ``time_dim`` steps, or pad the tail with a placeholder.

    ::

        >>> pad_or_crop_time_dim(torch.tensor([5., 6.]), 4, placeholder=-1.0)
        (tensor([ 5.,  6., -1., -1.]), tensor([ True,  True, False, False]))

    Args:
        value: Shape ``(t, *trailing)``.
        time_dim: Number of steps T of the result.
        placeholder: Fills the padded steps.
        mask: Bool ``(t,)``, True = real; None means all real.

    Returns:
        A fresh value ``(T, *trailing)`` and mask ``(T,)``, sharing no memory with the input.

    Raises:
        ValueError: If the value has no time axis, or the mask another length.
    """
    steps = _steps(value)
    if mask is not None and mask.shape != (steps,):
        raise ValueError(f"mask must have shape ({steps},) like the value, got {tuple(mask.shape)}")
    kept = min(steps, time_dim)
    out = value.new_full((time_dim, *value.shape[1:]), placeholder)
    out[:kept] = value[:kept]
    out_mask = torch.zeros(time_dim, dtype=torch.bool)
    out_mask[:kept] = True if mask is None else mask[:kept]
    return out, out_mask


def repeat_pad_time_dim(value: Tensor, time_dim: int) -> Tensor:
    """Keep the first ``time_dim`` steps, or repeat the last step until there are enough.

    Args:
        value: Shape ``(t, *trailing)`` with t ≥ 1.
        time_dim: Number of steps T of the result.

    Returns:
        A fresh tensor ``(T, *trailing)``.

    Raises:
        ValueError: If the value has no step to repeat.
    """
    steps = _steps(value)
    if steps == 0 and time_dim > 0:
        raise ValueError("value must have at least one step to repeat, got a sequence of length 0")
    index = torch.arange(time_dim).clamp(max=max(steps - 1, 0))
    return value[index]


def fill_gaps_with_repeat(value: Tensor, mask: Tensor) -> Tensor:
    """Replace steps that are not real by the last real step before them.

    Steps before the first real one take that first one; with no real step at all the value comes
    back as it was. The mask itself still says which steps are real::

        >>> fill_gaps_with_repeat(torch.tensor([0., 7., 0., 9.]), torch.tensor([0, 1, 0, 1]).bool())
        tensor([7., 7., 7., 9.])

    Args:
        value: Shape ``(T, *trailing)``.
        mask: Bool ``(T,)``, True = real.

    Returns:
        A fresh tensor of the value's shape.

    Raises:
        ValueError: If the mask has another length.
    """
    steps = _steps(value)
    if mask.shape != (steps,):
        raise ValueError(f"mask must have shape ({steps},) like the value, got {tuple(mask.shape)}")
    if not bool(mask.any()):
        return value.clone()
    positions = torch.where(mask, torch.arange(steps), torch.full((steps,), -1))
    last = positions.cummax(0).values
    first = int(torch.argmax(mask.to(torch.uint8)))
    return value[torch.where(last < 0, first, last)]


def _steps(value: Tensor) -> int:
    if value.ndim == 0:
        raise ValueError("value must have a leading time axis, got a scalar")
    return value.shape[0]
