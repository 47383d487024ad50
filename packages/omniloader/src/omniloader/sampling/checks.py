"""Checks of the numbers that plans are made of; every error names whose number it is."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from omniloader.errors import PlanError

T = TypeVar("T")


def checked_whole(value: object, what: str, least: int) -> int:
    """A whole number of at least ``least`` as an int."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
        raise PlanError(f"{what} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def checked_epoch(epoch: object) -> int:
    """An epoch as an int."""
    return checked_whole(epoch, "epoch", 0)


def checked_names(sizes: Sequence[int], names: Sequence[str] | None) -> list[str]:
    """The names of the sources, one a size, no two alike."""
    if len(sizes) == 0:
        raise PlanError("strategy: sizes must hold at least one source, got none")
    if names is None:
        return [f"dataset_{number}" for number in range(len(sizes))]
    labels = list(names)
    if len(labels) != len(sizes):
        raise PlanError(
            f"strategy: names must hold one name for each of {len(sizes)} sizes, got {labels}"
        )
    double = sorted({name for name in labels if labels.count(name) > 1})
    if double:
        raise PlanError(f"strategy: names must differ, got {', '.join(double)} more than once")
    return labels


def per_source(
    given: Sequence[T] | Mapping[str, T], names: Sequence[str], what: str
) -> list[T | None]:
    """One value a source, from a list or from a dict by name (None where it has no entry)."""
    if isinstance(given, Mapping):
        unknown = [str(name) for name in given if name not in names]
        if unknown:
            raise PlanError(
                f"strategy: {what} names no such source: {', '.join(unknown)}; "
                f"sources are {', '.join(names)}"
            )
        return [given.get(name) for name in names]
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise PlanError(
            f"strategy: {what} must be one for all, a list, or a dict by source, got {given!r}"
        )
    if len(given) != len(names):
        raise PlanError(
            f"strategy: {what} must hold one entry for each of {len(names)} sources "
            f"({', '.join(names)}), got {len(given)}"
        )
    return list(given)


def checked_source_weights(
    weights: Sequence[float] | Mapping[str, float] | None,
    names: Sequence[str],
    sizes: Sequence[int],
) -> list[float]:
    """One weight a source; None gives 1 to each."""
    if weights is None:
        return [1.0] * len(names)
    values = per_source(weights, names, "weights")
    for name, value in zip(names, values, strict=True):
        if value is None:
            raise PlanError(
                f"source '{name}': has no weight; give one for each source (0 means never)"
            )
        real = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not real or not math.isfinite(value) or value < 0:
            raise PlanError(
                f"source '{name}': weight must be a finite number of at least 0, got {value!r}"
            )
    floats = [float(value) for value in values if value is not None]
    if not any(value and size for value, size in zip(floats, sizes, strict=True)):
        raise PlanError(
            "strategy: at least one source with samples must have a weight above 0, got "
            f"{dict(zip(names, floats, strict=True))}"
        )
    return floats


def checked_cap(value: int | None) -> int | None:
    """A cap on the size that a source counts as."""
    return None if value is None else checked_whole(value, "strategy: size_cap", 1)


def checked_temperature(value: float, what: str) -> float:
    """A temperature as a float above 0; infinity makes all sources alike."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not value > 0:
        raise PlanError(f"strategy: {what} must be a number above 0, got {value!r}")
    return float(value)
