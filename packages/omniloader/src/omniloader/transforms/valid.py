"""Read and write the real steps of stacked values, and nothing else.

Only real steps are gathered, changed and put back: a mix holds mostly placeholders, and what is
not touched stays bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from omniloader.errors import SampleError
from omniloader.transforms.batched import Stack


def valid_index(mask: Tensor, rows: Tensor | None = None) -> Tensor:
    """Flat positions of the real steps, in order.

    Args:
        mask: Bool ``(B,)`` or ``(B, T)``.
        rows: Bool ``(B,)``: samples to look at; None: all.

    Returns:
        Int64 ``(n,)`` into the mask's flattened axes.
    """
    flags = mask.numpy()
    if rows is not None:
        flags = flags & rows.numpy().reshape(-1, *(1,) * (mask.ndim - 1))
    return torch.from_numpy(np.flatnonzero(flags))


def steps_of(mask: Tensor) -> int:
    """Steps a sample has room for: T of ``(B, T)``, 1 of ``(B,)``."""
    return mask.shape[1] if mask.ndim > 1 else 1


def flat_steps(stack: Stack, name: str) -> Tensor:
    """A value as ``(B·T, *trailing)``, a view of the stack's own tensor."""
    value, mask = stack.pair(name)
    if not value.is_contiguous():
        value = stack.values[name] = value.contiguous()
    return value.flatten(0, mask.ndim - 1)


def change_steps(
    stack: Stack, name: str, index: Tensor, change: Callable[[Tensor], Tensor]
) -> None:
    """Replace some steps of a value by a function of them.

    Args:
        stack: The samples.
        name: The value.
        index: Flat positions of the steps, int64 ``(n,)``.
        change: Takes ``(n, *trailing)``, which it may write, gives the same shape, in the same
            or a wider dtype.

    Raises:
        SampleError: If float16 cannot hold a result.
    """
    if not index.numel():
        return
    steps = flat_steps(stack, name)
    if index.numel() == steps.shape[0]:
        result = change(steps)
        if result is not steps:
            steps.copy_(narrowed(result, steps.dtype, name))
        return
    put_steps(steps, index, narrowed(change(steps.index_select(0, index)), steps.dtype, name))


def put_steps(steps: Tensor, index: Tensor, rows: Tensor) -> None:
    """Write rows ``(n, *trailing)`` to positions of ``(N, *trailing)``.

    Through NumPy, which takes a third of the time of ``index_copy_``.
    """
    if steps.dtype is torch.bfloat16:  # unknown to NumPy: move its bits
        steps, rows = steps.view(torch.int16), rows.contiguous().view(torch.int16)
    steps.numpy()[index.numpy()] = rows.numpy()


def take_steps(value: Tensor, rows: Tensor, at: Tensor) -> Tensor:
    """Steps of samples, copied.

    Args:
        value: Shape ``(B, T, *trailing)``.
        rows: Samples, int64 ``(n,)``.
        at: Steps of each, int64 ``(n, L)``, in ``[0, T)``.

    Returns:
        Shape ``(n, L, *trailing)``.
    """
    index = (rows[:, None] * value.shape[1] + at).reshape(-1)
    taken = value.reshape(-1, *value.shape[2:]).index_select(0, index)
    return taken.reshape(*at.shape, *value.shape[2:])


def narrowed(result: Tensor, dtype: torch.dtype, name: str) -> Tensor:
    """Cast a result to the dtype of its value.

    Raises:
        SampleError: If a finite number becomes infinite in float16.
    """
    if result.dtype is dtype:
        return result
    cast = result.to(dtype)
    # Only float16 has so small a range that ordinary data leaves it.
    if dtype is torch.float16 and bool((cast.isinf() & result.isfinite()).any()):
        largest = float(result[result.isfinite()].abs().max())
        raise SampleError(
            f"'{name}': transformed values must stay within float16 (±65504), got {largest:g}; "
            "declare float32 for it"
        )
    return cast


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype to calculate in: float32 for the half formats, else their own."""
    return dtype if dtype in (torch.float32, torch.float64) else torch.float32
