"""Whole numbers of draws from shares of sources."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omniloader._types import FloatArray, IntArray


def largest_remainder(weights: FloatArray | Sequence[float], total: int) -> IntArray:
    """Split ``total`` in proportion to ``weights``, exactly (Hamilton's method).

    Everyone gets the whole part of their share; what is left goes to the largest remainders, the
    earlier of equal ones first::

        >>> largest_remainder([5, 3, 1], 10).tolist()
        [6, 3, 1]

    Args:
        weights: Non-negative ``(n,)``, not all zero.
        total: What to split, at least 0.

    Returns:
        int64 ``(n,)`` that sums to ``total``; a weight of 0 gets 0.
    """
    shares = np.asarray(weights, dtype=np.float64)
    # Scaled first: a sum of huge weights must not overflow.
    shares = shares / shares.max()
    quotas = shares * (total / shares.sum())
    # Rounding must not cost a whole quota its last unit (2.9999999 for 3).
    nearest = np.rint(quotas)
    near = np.abs(quotas - nearest) <= 1e-12 * np.maximum(nearest, 1.0)
    quotas = np.where(near, nearest, quotas)
    counts = np.floor(quotas).astype(np.int64)
    missing = total - int(counts.sum())
    order = np.argsort(-(quotas - counts), kind="stable")
    order = order[shares[order] > 0]
    if missing >= 0:
        counts += missing // len(order) * (shares > 0)
        counts[order[: missing % len(order)]] += 1
    else:  # only where floats cannot tell the quotas of a huge total apart
        counts[int(np.argmax(counts))] += missing
    return np.asarray(counts, dtype=np.int64)


def tempered(sizes: Sequence[int], temperature: float, cap: int | None = None) -> FloatArray:
    """``size ** (1 / temperature)``, scaled so that the largest is 1; 0 stays 0.

    In log space, so that a small temperature does not overflow.
    """
    values = np.asarray(sizes, dtype=np.float64)
    if cap is not None:
        values = np.minimum(values, cap)
    with np.errstate(divide="ignore"):
        logs = np.log(values) - np.log(values.max())
    return np.where(values > 0, np.exp(np.where(values > 0, logs, 0.0) / temperature), 0.0)
