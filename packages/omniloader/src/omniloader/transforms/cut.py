"""Where CutMix cuts: windows of time, boxes of images."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def windows(mask: Tensor, share: float, place: float) -> Tensor:
    """A window of time in each sample, the same share of each one's real extent.

    Args:
        mask: Bool ``(B, T)``.
        share: Length of the window over that of the extent (steps up to the last real one).
        place: Where it lies, 0 first to 1 last.

    Returns:
        Bool ``(B, T)``.
    """
    steps = torch.arange(mask.shape[1])
    extent = (mask * (steps + 1)).amax(1).to(torch.float64)
    length = (extent * share).round()
    start = (place * (extent - length + 1)).floor().minimum(extent - length)[:, None]
    return (steps >= start) & (steps < start + length[:, None])


def box(
    value: Tensor, rows: Tensor, order: Tensor, share: float, place: Sequence[float]
) -> tuple[float, float]:
    """Paste a box of the partner's image into some rows, in place.

    Args:
        value: Shape ``(B, …, H, W)``.
        rows: Bool ``(B,)``: images to change.
        order: Row of each one's partner, int64 ``(B,)``.
        share: Area of the box over that of the image.
        place: Where it lies, per axis, 0 first to 1 last.

    Returns:
        Pixels pasted, and pixels of the rows.
    """
    side = math.sqrt(share)
    cuts = []
    for size, at in zip(value.shape[-2:], place, strict=True):
        length = round(size * side)
        start = min(int(at * (size - length + 1)), size - length)
        cuts.append(slice(start, start + length))
    index = rows.nonzero().squeeze(1)
    theirs = value[order[index]][..., cuts[0], cuts[1]]
    images = value[index]
    images[..., cuts[0], cuts[1]] = theirs
    value[index] = images
    count, whole = len(index), value.shape[-1] * value.shape[-2]
    area = (cuts[0].stop - cuts[0].start) * (cuts[1].stop - cuts[1].start)
    return float(area * count), float(whole * count)
