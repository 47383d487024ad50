"""Nested groups of sources whose weights multiply."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

from omniloader.errors import PlanError


def group_weights(
    groups: Mapping[str, Any], names: Sequence[str], sizes: Sequence[int]
) -> list[float]:
    """One weight a source from nested groups.

    A member is a source with its weight, or a group: ``{"weight": w, "sources": members}``. A
    group shares its weight out among its members, so adding a source to a group takes from the
    group and not from the others. A member without samples leaves its share to its group::

        {"speech": {"weight": 3, "sources": {"a": 1, "b": 1}}, "video": 1}

    gives a 3/8, b 3/8, video 2/8.

    Args:
        groups: The members of the whole.
        names: Names of all sources.
        sizes: Their sizes.

    Returns:
        Weights that sum to 1, in the order of ``names``.

    Raises:
        PlanError: If a source is missing, named twice or not known, or a weight cannot be used.
    """
    size_of = dict(zip(names, sizes, strict=True))
    shares: dict[str, float] = {}
    _share_out(groups, 1.0, "groups", size_of, shares)
    missing = [name for name in names if name not in shares]
    if missing:
        raise PlanError(
            f"groups: every source must stand in a group, missing {', '.join(missing)}; give it "
            "weight 0 to leave it out"
        )
    return [shares[name] for name in names]


def _share_out(
    members: Mapping[str, Any],
    share: float,
    path: str,
    sizes: Mapping[str, int],
    shares: dict[str, float],
) -> None:
    weights = {name: _weight_of(entry, f"{path}.{name}") for name, entry in members.items()}
    alive = {n: w * _has_samples(n, members[n], sizes) for n, w in weights.items()}
    total = sum(alive.values())
    for name, entry in members.items():
        own = share * alive[name] / total if total else 0.0
        if isinstance(entry, Mapping):
            _share_out(entry["sources"], own, f"{path}.{name}", sizes, shares)
        elif name not in sizes:
            raise PlanError(
                f"{path}.{name}: there is no such source; sources are {', '.join(sizes)}"
            )
        elif name in shares:
            raise PlanError(f"{path}.{name}: the source stands in two groups; name it once")
        else:
            shares[name] = own


def _weight_of(entry: object, path: str) -> float:
    weight = entry
    if isinstance(entry, Mapping):
        if set(entry) != {"weight", "sources"} or not isinstance(entry["sources"], Mapping):
            raise PlanError(
                f"{path}: a group must be {{weight: number, sources: {{name: weight or group}}}}, "
                f"got {dict(entry)}"
            )
        weight = entry["weight"]
    real = isinstance(weight, numbers.Real) and not isinstance(weight, bool)
    if not real or not math.isfinite(weight) or weight < 0:  # type: ignore[arg-type, operator]
        raise PlanError(f"{path}: weight must be a finite number of at least 0, got {weight!r}")
    return float(weight)  # type: ignore[arg-type]


def _has_samples(name: str, entry: object, sizes: Mapping[str, int]) -> bool:
    if isinstance(entry, Mapping):
        return any(
            _has_samples(inner, part, sizes) and _weight_of(part, inner) > 0
            for inner, part in entry["sources"].items()
        )
    return sizes.get(name, 1) > 0
