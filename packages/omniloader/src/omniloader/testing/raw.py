"""Raw values of a source, brought to one form so that they can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omniloader.testing.probes import same


def plain(where: str, value: Any) -> Any:
    """A copy of a raw value: arrays and NumPy numbers as tensors, the rest as it is.

    Args:
        where: Whose value it is, for messages.
        value: A tensor, array, number, text, list of texts, or None.

    Raises:
        AssertionError: If a loader could not take the value.
    """
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, np.ndarray | np.generic):
        array = np.array(value)
        if array.dtype.kind in "OSUV":
            return array.tolist()
        try:
            return torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))
        except TypeError as error:
            raise AssertionError(
                f"{where} must have a dtype that a tensor can have: {error}"
            ) from error
    if value is None or isinstance(value, bool | int | float | str | list | tuple | dict):
        return value
    raise AssertionError(
        f"{where} must be a tensor, array, number or text, got {type(value).__name__}"
    )


def overwrite(value: Any) -> None:
    """Change a value in place, where it can be written at all."""
    if isinstance(value, np.ndarray) and value.flags.writeable and value.dtype.kind in "biuf":
        value[...] = ~value if value.dtype.kind == "b" else value + 1
    elif isinstance(value, Tensor):
        value.copy_(~value if value.dtype is torch.bool else value + 1)
    elif isinstance(value, list):
        value.append(None)


def alike(left: Any, right: Any) -> bool:
    """Whether two plain values are one; a number equals a tensor of that number."""
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return same(left, right)
    left, right = _number(left), _number(right)
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right or (left != left and right != right)
    return same(left, right)


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) and not value.ndim else value


def first_difference(found: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Which value differs first and how, as text; empty if none does. None is as good as absent."""
    for key in dict.fromkeys([*expected, *found]):
        left, right = found.get(key), expected.get(key)
        if not alike(left, right):
            return f"but '{key}' is {_shown(left)}, was {_shown(right)}"
    return ""


def _shown(value: Any) -> str:
    if isinstance(value, Tensor) and value.numel() > 8:
        return f"a {value.dtype} tensor of shape {tuple(value.shape)}"
    return str(value)
