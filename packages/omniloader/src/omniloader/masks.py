"""The contract of ``<name>_mask``: its suffix, its polarity, how it broadcasts.

A mask is bool and **True means real**. It has shape ``()`` for a vector and ``(T,)`` for a
sequence, whatever the trailing shape of the value is. The suffix stands nowhere else.
"""

from __future__ import annotations

import torch
from torch import Tensor

MASK_SUFFIX = "_mask"


def mask_name(name: str) -> str:
    """Name of the mask that belongs to the value ``name``."""
    return name + MASK_SUFFIX


def is_mask_name(name: str) -> bool:
    """Whether ``name`` is that of a mask."""
    return name.endswith(MASK_SUFFIX)


def masked_name(name: str) -> str:
    """Name of the value whose mask is ``name``: the inverse of :func:`mask_name`."""
    return name.removesuffix(MASK_SUFFIX)


def broadcast_mask(mask: Tensor, value: Tensor) -> Tensor:
    """View ``mask`` with trailing axes of 1, so that it broadcasts over ``value``.

    Args:
        mask: Shape ``(...)``, a prefix of the value's shape.
        value: Shape ``(..., *trailing)``.

    Returns:
        A view of shape ``(..., 1, …, 1)`` with as many axes as ``value``.
    """
    return mask.reshape(mask.shape + (1,) * (value.ndim - mask.ndim))


def valid_rows(value: Tensor, mask: Tensor) -> Tensor:
    """The real rows of a value, in order.

    Args:
        value: Shape ``(*mask.shape, *trailing)``.
        mask: Bool, True = real.

    Returns:
        Shape ``(n, *trailing)`` with n the number of True positions; always a copy.
    """
    if mask.ndim == 0:
        return value[None][mask[None]]
    return value[mask]


def key_padding_mask(mask: Tensor) -> Tensor:
    """Turn a mask into the ``key_padding_mask`` of ``torch.nn.MultiheadAttention``.

    PyTorch's attention uses the opposite polarity: there True means *ignore*.

    Args:
        mask: Bool ``(B, T)``, True = real.

    Returns:
        Bool ``(B, T)``, True = ignore.
    """
    return torch.logical_not(mask)
