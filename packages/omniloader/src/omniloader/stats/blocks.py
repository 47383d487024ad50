"""One key of n samples with its mask, and how a message names one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from omniloader.errors import StatsError
from omniloader.masks import mask_name
from omniloader.schema.values import Misfit, as_tensor

Where: TypeAlias = Callable[[int], str]
"""How a message names row i of a block: ``sample 12 of 'faces'``."""


@dataclass(frozen=True, slots=True)
class Column:
    """One key of n samples.

    Args:
        key: Name of the value.
        value: ``(n, *trailing)`` or, for sequences, ``(n, T, *trailing)``.
        mask: Bool over the leading axes, True = real; None where every value is.
        lead: Number of leading axes: 1, or 2 for sequences.
        where: Names a sample.
    """

    key: str
    value: Tensor
    mask: Tensor | None
    lead: int
    where: Where

    @property
    def trailing_shape(self) -> tuple[int, ...]:
        """Shape of one step."""
        return tuple(self.value.shape[self.lead :])

    def steps(self) -> Tensor:
        """The real steps ``(m, *trailing)``, in order; a view where all are real."""
        if self.mask is None or bool(self.mask.all()):
            return self.value.flatten(0, self.lead - 1)
        return self.value[self.mask]

    def sample_of(self, step: int) -> int:
        """Which of the n samples the ``step``-th real step belongs to."""
        if self.mask is None:
            return step // (1 if self.lead == 1 else self.value.shape[1])
        return int(self.mask.nonzero()[step, 0])

    def samples_of_steps(self) -> Tensor:
        """For every real step the sample it belongs to, int64 ``(m,)``."""
        if self.mask is None:
            per_sample = 1 if self.lead == 1 else self.value.shape[1]
            return torch.arange(len(self.value)).repeat_interleave(per_sample)
        return self.mask.nonzero()[:, 0]

    def rows(self, selected: Tensor) -> Column:
        """The same key of some of the samples, for int64 row numbers ``(m,)``."""
        mask = None if self.mask is None else self.mask[selected]
        numbers = selected.tolist()
        return Column(
            self.key, self.value[selected], mask, self.lead, lambda row: self.where(numbers[row])
        )

    def error(self, row: int, problem: str) -> StatsError:
        """The error for one of the samples."""
        return StatsError(f"{self.where(row)}: '{self.key}' {problem}")


def make_column(
    key: str, value: Any, mask: Any, where: Where, *, is_sequence: bool | None = None
) -> Column:
    """Pair a stacked value with its mask.

    Args:
        key: Name of the value.
        value: Array-like ``(n, …)``.
        mask: Array-like over its leading axes, or None where the source gives none.
        where: Names a sample.
        is_sequence: Whether a sample has a time axis, if a schema says so. Else the mask tells;
            without one, a sample ``(T, F)`` is read as a sequence and ``(F,)`` as a vector.

    Raises:
        StatsError: If they do not fit each other, naming the key and a sample.
    """
    try:
        tensor = as_tensor(value)
        flags = None if mask is None else as_tensor(mask)
    except Misfit as problem:
        raise StatsError(f"{where(0)}: '{key}' {problem}") from None
    if tensor.dtype.is_complex:
        raise StatsError(f"{where(0)}: '{key}' must be real, got {tensor.dtype}; take abs or parts")
    if flags is not None:
        _check_mask(key, tensor, flags, where)
        return Column(key, tensor, flags.to(torch.bool), flags.ndim, where)
    return Column(key, tensor, None, _lead(key, tensor, is_sequence, where), where)


def _check_mask(key: str, value: Tensor, mask: Tensor, where: Where) -> None:
    if mask.shape != value.shape[: mask.ndim] or mask.ndim > 2:
        raise StatsError(
            f"{where(0)}: '{mask_name(key)}' must hold one flag a step of '{key}', whose shape is "
            f"{tuple(value.shape[1:])}, got shape {tuple(mask.shape[1:])}"
        )
    if mask.dtype is not torch.bool and bool(((mask != 0) & (mask != 1)).any()):
        raise StatsError(f"{where(0)}: '{mask_name(key)}' must hold only 0 and 1 (True = real)")


def _lead(key: str, value: Tensor, is_sequence: bool | None, where: Where) -> int:
    """How many leading axes count samples and steps, where no mask tells."""
    ndim = value.ndim - 1
    if is_sequence is None and ndim > 2:
        raise StatsError(
            f"{where(0)}: '{key}' of shape {tuple(value.shape[1:])} has no mask, so its first axis "
            f"may be time or not; pass schema=, or read it through an OmniLoader"
        )
    sequence = ndim == 2 if is_sequence is None else is_sequence
    if sequence and ndim < 1:
        raise StatsError(f"{where(0)}: '{key}' must have a time axis as its schema says, got none")
    return 1 + sequence
