"""Read the figures of statistics, and make shifts and scales of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omniloader.errors import StatsError

# Shift and scale of float32 differ from those of float64 by less than this share of the scale,
# or the calculation is done in float64 (a mean of 1e6 with a deviation of 1).
_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Affine:
    """``(x - shift) / scale``, figures of one key in float64.

    Args:
        shift: Shape of the figures: ``()``, ``(C,)`` or the trailing shape.
        scale: Positive, the same shape.
    """

    shift: Tensor
    scale: Tensor

    def inverse(self, values: Tensor, trailing: tuple[int, ...], name: str, owner: str) -> Tensor:
        """Bring normalised values ``(..., *trailing)`` back to units, in a fresh tensor."""
        shift, scale = self.fitted(trailing, values.dtype, name, owner)
        shift, scale = shift.to(values.device), scale.to(values.device)
        return values.to(shift.dtype).mul(scale).add(shift).to(values.dtype)

    def fitted(
        self, trailing: tuple[int, ...], dtype: torch.dtype, name: str, owner: str
    ) -> tuple[Tensor, Tensor]:
        """Shift and scale for values of a trailing shape and dtype.

        Raises:
            StatsError: If the figures have another width.
        """
        shift = _broadcast(self.shift, trailing, name, owner)
        scale = _broadcast(self.scale, trailing, name, owner)
        if dtype is torch.float64 or _inexact(shift, scale):
            return shift, scale
        return shift.to(torch.float32), scale.to(torch.float32)


def standardise(shift: Tensor, scale: Tensor, steps: Tensor) -> Tensor:
    """Normalise steps ``(n, *trailing)`` with figures from :meth:`Affine.fitted`.

    Works in the figures' dtype; writes into the steps where that is theirs.
    """
    work = steps if steps.dtype is shift.dtype else steps.to(shift.dtype)
    return work.sub_(shift).div_(scale)


def _inexact(shift: Tensor, scale: Tensor) -> bool:
    lost = (shift - shift.to(torch.float32).to(torch.float64)).abs() / scale
    return bool((lost > _TOLERANCE).any())


def _broadcast(figure: Tensor, trailing: tuple[int, ...], name: str, owner: str) -> Tensor:
    """View a figure so that it broadcasts over steps of a trailing shape."""
    shape = tuple(figure.shape)
    if figure.numel() == 1:
        return figure.reshape(())
    if shape == trailing:
        return figure
    if len(shape) == 1 and trailing and shape[0] == trailing[0]:
        return figure.reshape(shape + (1,) * (len(trailing) - 1))  # one figure a channel
    fits = len(shape) == len(trailing) and all(
        own in (1, axis) for own, axis in zip(shape, trailing, strict=True)
    )
    if fits:
        return figure
    channels = f", ({trailing[0]},) by channel" if len(trailing) > 1 else ""
    raise StatsError(
        f"{owner}: figures of '{name}' must have the shape of a step, {trailing}{channels}, or be "
        f"one number, got {shape}; compute them from the same data layout"
    )


def read_figures(owner: str, name: str, entry: Any, wanted: Sequence[str]) -> dict[str, Tensor]:
    """The wanted figures of a key, in float64.

    Args:
        owner: Name of the transform, for messages.
        name: The key, or "source/key".
        entry: A mapping such as ``{"mean": …, "std": …}`` with numbers, lists, arrays or
            tensors; the pair ``(mean, std)`` too, where these two are wanted.
        wanted: Names of the figures.

    Raises:
        StatsError: If one is missing, is not numeric, or is not finite.
    """
    if isinstance(entry, tuple | list) and len(entry) == 2 and tuple(wanted) == ("mean", "std"):
        entry = dict(zip(wanted, entry, strict=True))
    if not isinstance(entry, Mapping):
        raise StatsError(
            f"{owner}: stats of '{name}' must be a mapping with {', '.join(wanted)}, got "
            f"{type(entry).__name__}; pass what compute_stats or load_stats returns"
        )
    missing = [figure for figure in wanted if figure not in entry]
    if missing:
        per_dataset = any(isinstance(value, Mapping) for value in entry.values())
        hint = (
            "these look like stats per dataset, which PerDatasetNormalize takes"
            if per_dataset
            else "compute them with compute_stats"
        )
        raise StatsError(
            f"{owner}: stats of '{name}' must hold {', '.join(wanted)}, got "
            f"{', '.join(map(str, entry)) or 'nothing'}; {hint}"
        )
    figures = {figure: _as_figure(owner, name, figure, entry[figure]) for figure in wanted}
    shapes = {tuple(tensor.shape) for tensor in figures.values() if tensor.numel() != 1}
    if len(shapes) > 1:
        raise StatsError(
            f"{owner}: figures of '{name}' must have one shape, got "
            f"{', '.join(f'{k} {tuple(v.shape)}' for k, v in figures.items())}; compute them again"
        )
    return figures


def _as_figure(owner: str, name: str, figure: str, value: Any) -> Tensor:
    try:
        # The dtype at once: a Python float would pass through float32.
        tensor = torch.as_tensor(value, dtype=torch.float64).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise StatsError(
            f"{owner}: {figure} of '{name}' must be numbers, got {value!r}; compute them again"
        ) from error
    if not bool(torch.isfinite(tensor).all()):
        raise StatsError(
            f"{owner}: {figure} of '{name}' must be finite, got {value!r}; look for NaN or "
            "infinities in the data, or mask them with nonfinite='mask'"
        )
    return tensor


def spread(owner: str, name: str, width: Tensor, eps: float) -> Tensor:
    """A scale from a width: where it is ``eps`` or less the value is constant, and scale is 1.

    Raises:
        StatsError: If a width is negative.
    """
    if bool((width < 0).any()):
        raise StatsError(
            f"{owner}: the spread of '{name}' must not be negative, got {float(width.min()):g}; "
            "compute the figures again"
        )
    return torch.where(width > eps, width, torch.ones_like(width))


def chosen_stats(
    owner: str, stats: Mapping[str, Any], keys: Sequence[str] | None
) -> dict[str, Any]:
    """The entries of stats for some keys, or all of them.

    Raises:
        StatsError: If stats is empty, is not a mapping, or lacks a key.
    """
    if not isinstance(stats, Mapping) or not stats:
        raise StatsError(
            f"{owner}: stats must be a mapping from keys to figures, got {stats!r}; pass what "
            "compute_stats or load_stats returns"
        )
    if keys is None:
        return dict(stats)
    missing = [key for key in keys if key not in stats]
    if missing:
        raise StatsError(
            f"{owner}: stats must hold the key '{missing[0]}', which holds: {', '.join(stats)}; "
            "compute stats for it, or leave it out of keys"
        )
    return {key: stats[key] for key in keys}
