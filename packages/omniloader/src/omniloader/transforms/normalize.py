"""Bring values to a common scale, by figures of the data or of the sample itself.

Structured values take figures of one number, one a channel (the first axis of a step), or one an
element. Where a spread is ``eps`` or less, the value is constant and its scale is 1, so results
stay finite. A NaN or infinity that the mask calls real stays what it is.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from omniloader.errors import StatsError
from omniloader.masks import broadcast_mask, mask_name
from omniloader.schema.spec import DatasetSchema, UnifiedSchema
from omniloader.transforms.batched import BatchTransform, Keys, Stack
from omniloader.transforms.figures import Affine, chosen_stats, read_figures, spread, standardise
from omniloader.transforms.instance import InstanceNormalize
from omniloader.transforms.options import number
from omniloader.transforms.per_dataset import PerDatasetNormalize
from omniloader.transforms.select import Needs
from omniloader.transforms.valid import change_steps, valid_index

__all__ = [
    "InstanceNormalize",
    "MinMaxNormalize",
    "Normalize",
    "PerDatasetNormalize",
    "RobustNormalize",
    "StatsNormalize",
]


class StatsNormalize(BatchTransform):
    """Base of those that take figures of the whole data; see its subclasses."""

    needs = Needs(floating=True, features_only=False)
    random = False
    refusal = StatsError
    figures: ClassVar[tuple[str, str]]

    def __init__(
        self,
        stats: Mapping[str, Any],
        eps: float = 1e-6,
        keys: Sequence[str] | None = None,
        schema: UnifiedSchema | DatasetSchema | None = None,
    ) -> None:
        owner = type(self).__name__
        self.eps = number(owner, "eps", eps, 0.0)
        chosen = chosen_stats(owner, stats, keys)
        self._affine = {
            name: self._affine_of(name, read_figures(owner, name, entry, self.figures))
            for name, entry in chosen.items()
        }
        self._ready: dict[tuple[Any, ...], tuple[Tensor, Tensor]] = {}
        super().__init__(tuple(chosen), schema)

    @classmethod
    @abstractmethod
    def shift_and_width(cls, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Shift and spread from the two figures of :attr:`figures`."""

    def apply_batch(self, stack: Stack, keys: Keys) -> None:
        """Normalise the real steps of every key."""
        for form in self.forms(stack):
            value, mask = stack.pair(form.name)
            fitted = self._fitted(form.name, tuple(value.shape[mask.ndim :]), value.dtype)
            change_steps(stack, form.name, valid_index(mask), partial(standardise, *fitted))

    def inverse(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Bring normalised values back to units: a sample, a batch, or a model's predictions.

        Args:
            values: Names to tensors with any leading axes, on any device. Keys without figures
                pass through; where a mask stands beside a value, only real steps change.

        Returns:
            A new dict with fresh tensors.

        Raises:
            StatsError: If a value has another width than its figures.
        """
        result = dict(values)
        owner = type(self).__name__
        for name, affine in self._affine.items():
            value = values.get(name)
            if not isinstance(value, Tensor):
                continue
            mask = values.get(mask_name(name))
            axes = mask.ndim if isinstance(mask, Tensor) else None
            trailing = self._trailing(name, value, axes)
            units = affine.inverse(value, trailing, name, owner)
            if axes is not None:
                units = torch.where(broadcast_mask(mask, value), units, value)  # type: ignore[arg-type]
            result[name] = units
        return result

    def _affine_of(self, name: str, figures: dict[str, Tensor]) -> Affine:
        shift, width = self.shift_and_width(*(figures[figure] for figure in self.figures))
        return Affine(shift, spread(type(self).__name__, name, width, self.eps))

    def _fitted(
        self, name: str, trailing: tuple[int, ...], dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Figures ready for a value, made once."""
        ready = self._ready.get((name, trailing, dtype))
        if ready is None:
            ready = self._affine[name].fitted(trailing, dtype, name, type(self).__name__)
            self._ready[name, trailing, dtype] = ready
        return ready

    def _trailing(self, name: str, value: Tensor, leading: int | None) -> tuple[int, ...]:
        """Shape of a step of a prediction: by its mask, else the schema, else the figures."""
        if leading is not None:
            return tuple(value.shape[leading:])
        if self.schema is not None:
            return self.schema.spec(name).trailing_shape
        axes = self._affine[name].shift.ndim
        return tuple(value.shape[value.ndim - axes :])


class Normalize(StatsNormalize):
    """``(x - mean) / std``, with figures from ``compute_stats`` or ``compute_feature_stats``.

    Args:
        stats: Keys to mappings with ``mean`` and ``std``, or to pairs ``(mean, std)``.
        eps: A ``std`` of this or less counts as 0: the value is only shifted.
        keys: Which of the keys to normalise; default all in ``stats``.
        schema: The union schema, to refuse keys that do not fit when the transform is made.

    Raises:
        StatsError: If figures are missing, not finite, or of another width; a key is not in the
            schema or not floating.
    """

    figures = ("mean", "std")

    @classmethod
    def shift_and_width(cls, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation as they are."""
        return first, second


class MinMaxNormalize(StatsNormalize):
    """``(x - min) / (max - min)``: data within the figures' range comes to [0, 1], unclipped.

    Args:
        stats: Keys to mappings with ``min`` and ``max``.
        eps: A range of this or less counts as 0: the value is only shifted.
        keys: Which of the keys to normalise; default all in ``stats``.
        schema: The union schema, to refuse keys that do not fit when the transform is made.

    Raises:
        StatsError: See :class:`Normalize`.
    """

    figures = ("min", "max")

    @classmethod
    def shift_and_width(cls, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Minimum and range."""
        return first, second - first


class RobustNormalize(StatsNormalize):
    """``(x - median) / iqr``: outliers do not move the scale.

    Args:
        stats: Keys to mappings with ``median`` and ``iqr``.
        eps: An interquartile range of this or less counts as 0: the value is only shifted.
        keys: Which of the keys to normalise; default all in ``stats``.
        schema: The union schema, to refuse keys that do not fit when the transform is made.

    Raises:
        StatsError: See :class:`Normalize`.
    """

    figures = ("median", "iqr")

    @classmethod
    def shift_and_width(cls, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Median and interquartile range as they are."""
        return first, second
