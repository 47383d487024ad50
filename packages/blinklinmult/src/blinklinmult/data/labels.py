"""Labels among the columns that were read, and the first of them that is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from blinklinmult.data.names import TARGETS
from omniloader._types import Gather
from omniloader.masks import mask_name


def first_wrong(values: Any, masks: Any) -> tuple[int, float] | None:
    """Row and value of the first label outside [0, 1] under a True mask."""
    if isinstance(values, torch.Tensor) and (masks is None or isinstance(masks, torch.Tensor)):
        wrong = ~((values >= 0) & (values <= 1))
        if masks is not None:
            if masks.shape != values.shape:
                return None  # unifying the sample refuses it, naming the mask
            wrong &= masks.bool()
        if not wrong.any():
            return None
        row = int(wrong.flatten(1).any(1).nonzero()[0])
        return row, float(values[row][wrong[row]][0])
    for row, value in enumerate(values):  # windows of several lengths
        mask = None if masks is None or masks[row] is None else masks[row][None]
        found = None if value is None else first_wrong(value[None], mask)
        if found is not None:
            return row, found[1]
    return None


def labels_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Targets and their masks, with rows of a table looked up."""
    names = [name for target in TARGETS for name in (target, mask_name(target))]
    return {name: _rows(values[name]) for name in names if values.get(name) is not None}


def _rows(column: Any) -> Any:
    if isinstance(column, Gather):
        return column.table[torch.from_numpy(column.index)]
    return column
