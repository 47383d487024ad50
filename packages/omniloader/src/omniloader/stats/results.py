"""Figures as they are handed out: plain mappings that remember how they were found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor


class FeatureStats(dict[str, dict[str, Tensor]]):
    """``{key: {"mean": …, "std": …, "min": …, "max": …, "median": …, "iqr": …}}``, a plain dict.

    Attributes:
        info: For each key ``count`` (valid steps), ``skipped`` (steps left out because they were
            not finite), ``quantiles`` (``"exact"`` or ``"kll"``) and ``rank_error`` (how far the
            rank of a quartile may be off, as a share of ``count``, in 99 of 100 cases).
        fingerprint: Of the config or data the figures belong to, where one was given.
    """

    def __init__(
        self,
        figures: Mapping[str, dict[str, Tensor]],
        info: Mapping[str, dict[str, Any]] | None = None,
        fingerprint: str | None = None,
    ) -> None:
        super().__init__(figures)
        self.info: dict[str, dict[str, Any]] = dict(info or {})
        self.fingerprint = fingerprint
