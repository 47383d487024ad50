"""All six figures of one key, from blocks of samples with masks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from omniloader.errors import StatsError
from omniloader.masks import mask_name
from omniloader.stats.blocks import Column
from omniloader.stats.columnwise import reduce_columns
from omniloader.stats.moments import Moments
from omniloader.stats.quantiles import Quartiles

NONFINITE = ("raise", "skip")
_CHUNK = 1 << 18  # values worked on at once: 1 MiB of float32, within the cache
_MAX_WAITING = 1024  # an array is a hundred bytes, however few its numbers
_BUDGETS = 3  # with 64 MiB each, a pass over any number of keys stays below 300 MB
_NARROW = (torch.float16, torch.bfloat16, torch.float32)


@dataclass(frozen=True, kw_only=True)
class FeatureOptions:
    """How the figures of a key are taken.

    Args:
        memory_budget: Bytes of valid values a key may keep for exact quartiles; more than three
            keys share three budgets.
        quartiles: Whether median and IQR are wanted.
        channelwise: Reduce a structured value ``(C, …)`` to its first axis, shape ``(C, 1, …)``,
            instead of figures for every element.
        nonfinite: What NaN or ±inf under a True mask means: ``"raise"``, or ``"skip"`` the step
            (the whole value of a vector) and count it.

    Raises:
        StatsError: If an option is not known or the budget is not positive.
    """

    memory_budget: int = 64 << 20
    quartiles: bool = True
    channelwise: bool = False
    nonfinite: Literal["raise", "skip"] = "raise"

    def __post_init__(self) -> None:
        """Check the options."""
        if self.nonfinite not in NONFINITE:
            raise StatsError(
                f"nonfinite must be one of {', '.join(NONFINITE)}, got {self.nonfinite!r}"
            )
        if self.memory_budget < 1:
            raise StatsError(
                f"memory_budget must be a positive number of bytes, got {self.memory_budget}"
            )

    def shared_by(self, keys: int) -> FeatureOptions:
        """The options of each of several keys, so that many of them stay within bounds too."""
        share = _BUDGETS * self.memory_budget // max(keys, 1)
        return replace(self, memory_budget=max(1, min(self.memory_budget, share)))


class FeatureAccumulator:
    """Running figures of one key; mergeable and picklable.

    Integers, bools and float64 are worked on in float64; narrower floats in float32 with float64
    sums, so float16 does not overflow.

    Args:
        key: Name of the value, for messages.
        options: How the figures are taken.
    """

    def __init__(self, key: str, options: FeatureOptions) -> None:
        self.key = key
        self.options = options
        self.shape: tuple[int, ...] | None = None
        self.count = 0
        self.skipped = 0
        self._moments = Moments(0)
        self._quartiles = Quartiles(0, options.memory_budget)
        # Rows of small samples wait here, by copy, until they are worth a pass.
        self._waiting: list[npt.NDArray[Any]] = []
        self._values_waiting = 0

    def add(self, column: Column) -> None:
        """Add the valid steps of n samples.

        Raises:
            StatsError: If the shape of a step changes, or a valid value is not finite (with
                ``nonfinite="raise"``), naming the key and the sample.
        """
        self._start(column.trailing_shape, column.where(0))
        steps = column.steps()
        per_chunk = max(1, _CHUNK // max(1, steps[:1].numel()))
        for start in range(0, len(steps), per_chunk):
            self._add_steps(steps[start : start + per_chunk], start, column)

    def _start(self, shape: tuple[int, ...], where: str) -> None:
        """Take the shape of a step from the first block; later ones must agree."""
        if self.shape is None:
            if 0 in shape:
                raise StatsError(f"{where}: '{self.key}' must have elements, got shape {shape}")
            self.shape = shape
            self._moments = Moments(self._width)
            self._quartiles = Quartiles(self._width, self.options.memory_budget)
        elif shape != self.shape:
            raise StatsError(
                f"{where}: one step of '{self.key}' must have shape {self.shape} as before, got "
                f"{shape}; a sequence of numbers without a mask is known as one by schema="
            )

    @property
    def _by_channel(self) -> bool:
        return self.options.channelwise and len(self.shape or ()) > 1

    @property
    def _width(self) -> int:
        shape = self.shape or ()
        return shape[0] if self._by_channel else int(np.prod(shape, dtype=np.int64))

    def _add_steps(self, steps: Tensor, start: int, column: Column) -> None:
        rows = self._as_rows(steps)
        low, high = _bounds(rows)
        # A minimum or maximum is NaN or infinite exactly when a value is: no pass of its own.
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            steps = self._finite(steps, start, column)
            if not len(steps):
                return
            rows = self._as_rows(steps)
            low, high = _bounds(rows)
        self.count += len(steps)
        if rows.size >= _CHUNK // 8:
            self._take(rows, low, high)
            return
        self._waiting.append(rows.copy())
        self._values_waiting += rows.size
        if self._values_waiting >= _CHUNK or len(self._waiting) >= _MAX_WAITING:
            self._flush()

    def _as_rows(self, steps: Tensor) -> npt.NDArray[Any]:
        """Steps as rows ``(n, F)`` of float32 or float64."""
        wide = steps.to(torch.float32 if steps.dtype in _NARROW else torch.float64)
        if self._by_channel:
            wide = wide.movedim(1, -1)
        return wide.reshape(-1, self._width).contiguous().numpy()

    def _finite(self, steps: Tensor, start: int, column: Column) -> Tensor:
        good = torch.isfinite(steps).flatten(1).all(1) if steps.ndim > 1 else torch.isfinite(steps)
        bad = (~good).nonzero()[:, 0]
        if self.options.nonfinite == "raise":
            raise column.error(
                column.sample_of(start + int(bad[0])),
                "must be finite where its mask is True, got NaN or infinity; mask such steps, "
                "clean the source, or count without them by nonfinite='skip'",
            )
        self.skipped += len(bad)
        return steps[good]

    def _take(self, rows: npt.NDArray[Any], low: npt.NDArray[Any], high: npt.NDArray[Any]) -> None:
        self._moments.update(rows, low, high)
        if self.options.quartiles:
            try:
                self._quartiles.update(rows)
            except StatsError as problem:
                raise StatsError(f"'{self.key}': {problem}") from None

    def _flush(self) -> None:
        if self._waiting:
            # Joining float32 with float64 widens.
            rows = np.concatenate(self._waiting)
            self._waiting, self._values_waiting = [], 0
            self._take(rows, *_bounds(rows))

    def merge(self, other: FeatureAccumulator) -> None:
        """Add what another accumulator of the same key and options has seen.

        Raises:
            StatsError: If the shape of a step differs.
        """
        if other.shape is None:
            return
        self._start(other.shape, "another part of the data")
        other._flush()
        self._flush()
        self.count += other.count
        self.skipped += other.skipped
        self._moments.merge(other._moments)
        try:
            self._quartiles.merge(other._quartiles)
        except StatsError as problem:
            raise StatsError(f"'{self.key}': {problem}") from None

    def figures(self, eps: float) -> dict[str, Tensor]:
        """The figures, float64 of the shape of a step.

        Args:
            eps: The least ``std`` that is reported.

        Raises:
            StatsError: If no valid value was seen, or a figure overflows float64.
        """
        self._flush()
        if not self.count:
            raise StatsError(
                f"'{self.key}' has no valid value: every '{mask_name(self.key)}' is False or its "
                "steps were skipped; leave the key out, or check the source"
            )
        moments = self._moments
        found = {
            "mean": moments.mean,
            "std": np.maximum(moments.std(), eps),
            "min": moments.low,
            "max": moments.high,
        }
        if self.options.quartiles:
            first, median, third = self._quartiles.figures()
            found |= {"median": median, "iqr": third - first}
        for name, figure in found.items():
            if not np.isfinite(figure).all():
                raise StatsError(
                    f"'{self.key}': {name} overflows float64, the values reach "
                    f"{np.abs([moments.low, moments.high]).max():g}; rescale them in the source"
                )
        return {
            name: torch.from_numpy(figure).reshape(self._out_shape())
            for name, figure in found.items()
        }

    def _out_shape(self) -> tuple[int, ...]:
        shape = self.shape or ()
        return (shape[0], *(1 for _ in shape[1:])) if self._by_channel else shape

    def info(self) -> dict[str, Any]:
        """How the figures were found: ``count``, ``skipped``, ``quantiles``, ``rank_error``."""
        self._flush()
        return {
            "count": self.count,
            "skipped": self.skipped,
            "quantiles": self._quartiles.method if self.options.quartiles else None,
            "rank_error": self._quartiles.rank_error(),
        }


def _bounds(rows: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Minimum and maximum of each column."""
    return reduce_columns(np.minimum, rows), reduce_columns(np.maximum, rows)
