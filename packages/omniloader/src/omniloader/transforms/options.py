"""Checks of options that several transforms share."""

from __future__ import annotations

import math

from omniloader.errors import ConfigError


def number(
    owner: str, name: str, value: float, low: float, high: float = math.inf, *, above: bool = False
) -> float:
    """A finite number of at least ``low`` (over it, with ``above``) and at most ``high``.

    Raises:
        ConfigError: If it is something else.
    """
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if fits and low <= value <= high and not (above and value == low):
        return float(value)
    least = f"over {low:g}" if above else f"at least {low:g}"
    most = "" if high == math.inf else f" and at most {high:g}"
    raise ConfigError(f"{owner}: {name} must be a number {least}{most}, got {value!r}; correct it")


def whole(owner: str, name: str, value: int, low: int) -> int:
    """A whole number of at least ``low``.

    Raises:
        ConfigError: If it is something else.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= low:
        return int(value)
    raise ConfigError(
        f"{owner}: {name} must be a whole number of at least {low}, got {value!r}; correct it"
    )


def probability(owner: str, name: str, value: float) -> float:
    """A number in [0, 1].

    Raises:
        ConfigError: If it is something else.
    """
    return number(owner, name, value, 0.0, 1.0)
