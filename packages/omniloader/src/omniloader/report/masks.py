"""The masks of a batch as a picture: what a loss will see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from omniloader.introspection.describe import spread
from omniloader.masks import mask_name
from omniloader.report.canvas import Svg, bare, colour, figure, short

# More rows than this would be hairlines; the batch's own are spread over its sources.
MOST_ROWS = 64
# The picture's columns, at least, and how many of them lie between two keys.
_COLUMNS, _GAP = 300, 2

# Inches of a row, and of a name beside the rows.
_ROW, _NAME = 0.075, 0.17

BoolArray = npt.NDArray[np.bool_]


def batch_masks(batch: Mapping[str, Any], keys: Sequence[str], labels: Sequence[str]) -> Svg:
    """Rows are samples, by source; columns are the steps of every value; filled is real.

    Args:
        batch: A collated batch.
        keys: Values to show the masks of.
        labels: Of the sources, in their order.
    """
    owners = batch["dataset_index"].numpy()
    order = np.argsort(owners, kind="stable")
    order = order[spread(len(order), MOST_ROWS)]
    owners = owners[order]
    blocks = _widened([batch[mask_name(key)].numpy()[order] for key in keys])
    starts = np.cumsum([0, *(block.shape[1] + _GAP for block in blocks)])
    width = int(starts[-1]) - _GAP
    present, rows = np.unique(owners, return_counts=True)
    height = max(_ROW * len(order), _NAME * len(present), 1.0)
    middles = spaced(np.cumsum(rows) - rows / 2, _NAME / height * len(order), len(order))

    def draw(made: Figure) -> None:
        axes = made.add_subplot()
        axes.imshow(
            _tinted(blocks, starts, width, owners),
            aspect="auto",
            resample=False,
            interpolation="nearest",
            extent=(0, width, len(order), 0),
        )
        centres = [start + block.shape[1] / 2 for start, block in zip(starts, blocks, strict=False)]
        axes.set_xticks(centres, [short(key) for key in keys])
        for text in axes.get_xticklabels():
            text.set(rotation=40, ha="right", rotation_mode="anchor")
        axes.set_yticks(middles, [short(labels[own]) for own in present])
        bare(axes, keep="none")
        axes.tick_params(length=0)

    return figure(10.6, height + 1.2, draw, "What is real in one training batch")


def spaced(places: npt.NDArray[np.float64], least: float, end: float) -> npt.NDArray[np.float64]:
    """Rising places in ``[0, end]``, moved so that ``least`` lies between any two."""
    steps = least * np.arange(len(places))
    moved = np.maximum.accumulate(places - steps) + steps
    latest = end - least / 2 - steps[::-1]
    apart: npt.NDArray[np.float64] = np.minimum(moved, latest)
    return apart


def _widened(masks: Sequence[BoolArray]) -> list[BoolArray]:
    """Masks of (rows, columns), none too narrow to be seen, or to be named below."""
    flat = [mask[:, None] if mask.ndim == 1 else mask for mask in masks]
    total = sum(mask.shape[1] for mask in flat)
    every = max(1, -(-_COLUMNS // total)) if total else 1
    least = every * total // 24
    return [
        np.repeat(mask, max(every, -(-least // max(mask.shape[1], 1))), axis=1) for mask in flat
    ]


def _tinted(
    blocks: Sequence[BoolArray], starts: npt.NDArray[Any], width: int, owners: npt.NDArray[Any]
) -> npt.NDArray[np.float64]:
    """RGBA: a source's colour where real, faint grey where masked, nothing between keys."""
    image = np.zeros((len(owners), width, 4))
    hexed = [colour(number).lstrip("#") for number in owners.tolist()]
    tints = np.array([[*bytes.fromhex(own), 255] for own in hexed]) / 255
    for start, block in zip(starts, blocks, strict=False):
        part = np.where(block[:, :, None], tints[:, None], (0.5, 0.5, 0.5, 0.18))
        image[:, start : start + block.shape[1]] = part
    return image
