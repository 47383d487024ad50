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


BoolArray = npt.NDArray[np.bool_]


def batch_masks(batch: Mapping[str, Any], keys: Sequence[str]) -> tuple[Svg, list[int]]:
    """Rows are samples, by source; columns are the steps of every value; filled is real.

    Args:
        batch: A collated batch.
        keys: Values to show the masks of.

    Returns:
        The picture, and the numbers of the sources that it shows, from top to bottom.
    """
    owners = batch["dataset_index"].numpy()
    order = np.argsort(owners, kind="stable")
    order = order[spread(len(order), MOST_ROWS)]
    owners = owners[order]
    blocks = _widened([batch[mask_name(key)].numpy()[order] for key in keys])
    starts = np.cumsum([0, *(block.shape[1] + _GAP for block in blocks)])
    width = int(starts[-1]) - _GAP

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
        axes.set_yticks([])
        bare(axes, keep="none")
        axes.tick_params(length=0)

    height = max(0.075 * len(order), 1.0) + 0.8
    drawn = figure(10.6, height, draw, "What is real in one training batch")
    return drawn, np.unique(owners).tolist()


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
