"""Split samples into train, valid and test: reproducible, stratified, with groups kept whole."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from omniloader._types import FloatArray, IntArray
from omniloader.data.splitfile import SplitInfo, load_split_info, save_split_info
from omniloader.errors import ConfigError
from omniloader.utils.seeding import derive_seed

__all__ = ["SplitInfo", "load_split_info", "save_split_info", "split_indices"]


def split_indices(
    n: int,
    ratios: Sequence[float] = (0.8, 0.1, 0.1),
    seed: int = 0,
    stratify: Sequence[Any] | npt.NDArray[Any] | torch.Tensor | None = None,
    names: Sequence[str] = ("train", "valid", "test"),
    groups: Sequence[Any] | npt.NDArray[Any] | torch.Tensor | None = None,
) -> dict[str, list[int]]:
    """Split ``range(n)`` at random; the same arguments give the same split everywhere.

    Sizes are exact: ``n * ratio`` rounded by largest remainder. With ``stratify``, each class is
    split by the ratios too, every count rounded up or down such that the totals stay exact; a
    class with fewer samples than there are splits goes to the first split, with a warning.

    With ``groups``, all samples of a group (a speaker, a recording) go to one split. Groups are
    placed from the largest down, each where most samples are still wanted, so sizes, and class
    shares with ``stratify``, are as near as that gets, not exact.

    Args:
        n: Number of samples.
        ratios: Share of each split; they sum to 1.
        seed: Any int.
        stratify: Class of each sample, length n.
        names: Names of the splits.
        groups: Group of each sample, length n.

    Returns:
        Name to sorted indices.

    Raises:
        ConfigError: If an argument does not fit. A ``ValueError``.
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise ConfigError(f"split: n must be a whole number of at least 0, got {n!r}")
    shares = _shares(ratios, names)
    classes = _codes(stratify, n, "stratify")
    if groups is not None:
        assignment = _by_group(_codes(groups, n, "groups"), classes, shares, seed, names)
    elif stratify is None:
        assignment = np.empty(n, dtype=np.int64)
        _deal(assignment, np.arange(n), apportion(n, shares), derive_seed(seed, "split"))
    else:
        assignment = _by_class(classes, np.asarray(stratify), shares, seed, names)
    return {name: np.flatnonzero(assignment == s).tolist() for s, name in enumerate(names)}


def apportion(total: int, shares: FloatArray) -> IntArray:
    """Whole counts that sum to ``total``, by largest remainder; ties go to the earlier split."""
    exact = total * shares
    counts = np.floor(exact + 1e-9).astype(np.int64)
    # Rounded, so that float noise does not decide a tie.
    order = np.argsort(-np.round(exact - counts, 9), kind="stable")
    counts[order[: total - counts.sum()]] += 1
    return counts


def _shares(ratios: Sequence[float], names: Sequence[str]) -> FloatArray:
    shares = np.asarray(ratios, dtype=np.float64)
    if isinstance(names, str) or len(set(names)) != len(names) or shares.shape != (len(names),):
        raise ConfigError(
            f"split: every ratio needs a name of its own, got ratios={ratios!r} and names={names!r}"
        )
    if not np.isfinite(shares).all() or (shares < 0).any():
        raise ConfigError(f"split: ratios must be at least 0, got {ratios!r}")
    total = math.fsum(shares)
    if abs(total - 1) > 1e-6:
        raise ConfigError(f"split: ratios must sum to 1, got {ratios!r} with sum {total:g}")
    return np.asarray(shares / total)


def _codes(labels: Any, n: int, what: str) -> IntArray:
    """Number the different labels 0, 1, … in sorted order; None is one class for all."""
    if labels is None:
        return np.zeros(n, dtype=np.int64)
    values = np.asarray(labels)
    if values.shape != (n,):
        raise ConfigError(f"split: {what} must have one label a sample ({n}), got {values.shape}")
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise ConfigError(f"split: {what} must have a label for every sample, got NaN")
    if values.dtype.kind == "O":
        raise ConfigError(f"split: {what} must be labels of one kind, texts or numbers")
    return np.unique(values, return_inverse=True)[1].astype(np.int64).reshape(-1)


def _deal(assignment: IntArray, members: IntArray, counts: IntArray, seed: int) -> None:
    """Give a random ``counts[s]`` of the members to each split s."""
    order = np.random.default_rng(seed).permutation(members)
    assignment[order] = np.repeat(np.arange(len(counts)), counts)


def _by_class(
    classes: IntArray, labels: npt.NDArray[Any], shares: FloatArray, seed: int, names: Sequence[str]
) -> IntArray:
    assignment = np.zeros(len(classes), dtype=np.int64)
    values, sizes = np.unique(labels, return_counts=True)
    small = sizes < np.count_nonzero(shares)
    if small.any():
        warnings.warn(
            f"split: {np.count_nonzero(small)} classes have too few samples for every split and go "
            f"to '{names[0]}' whole: {', '.join(map(str, values[small][:10]))}",
            stacklevel=3,
        )
    table = _class_counts(np.where(small, 0, sizes), shares)
    for c in np.flatnonzero(~small):
        _deal(
            assignment,
            np.flatnonzero(classes == c),
            table[c],
            derive_seed(seed, "split", "class", int(c)),
        )
    return assignment


def _class_counts(sizes: IntArray, shares: FloatArray) -> IntArray:
    """Counts ``(classes, splits)``: rows sum to the sizes, columns to the apportioned total.

    The floors leave each class a few samples and each split a few places. Classes take the splits
    with most places left, which for 0/1 tables of given sums always works out (Gale and Ryser).
    """
    exact = sizes[:, None] * shares
    table = np.floor(exact + 1e-9).astype(np.int64)
    places = apportion(int(sizes.sum()), shares) - table.sum(axis=0)
    left = np.round(exact - table, 9)
    for c, extra in enumerate(sizes - table.sum(axis=1)):
        order = np.lexsort((np.arange(len(shares)), -left[c], -places))[:extra]
        table[c, order] += 1
        places[order] -= 1
    return table


def _by_group(
    groups: IntArray, classes: IntArray, shares: FloatArray, seed: int, names: Sequence[str]
) -> IntArray:
    """Place groups from the largest down, each where its classes are wanted most."""
    held = np.zeros((groups.max(initial=-1) + 1, classes.max(initial=0) + 1))
    np.add.at(held, (groups, classes), 1)
    totals = np.maximum(held.sum(axis=0), 1)
    wanted = shares[:, None] * held.sum(axis=0)
    shuffled = np.random.default_rng(derive_seed(seed, "split", "groups")).permutation(len(held))
    order = shuffled[np.argsort(-held[shuffled].sum(axis=1), kind="stable")]
    placed = np.zeros(len(held), dtype=np.int64)
    open_splits = np.flatnonzero(shares > 0)
    for group in order:
        need = (wanted[open_splits] / totals) @ held[group]
        placed[group] = open_splits[np.argmax(np.round(need, 9))]
        wanted[placed[group]] -= held[group]
    empty = [names[int(s)] for s in open_splits if not (placed == s).any()]
    if empty and len(groups):
        warnings.warn(
            f"split: {', '.join(map(repr, empty))} is empty: {len(held)} groups do not reach for "
            "all splits; take smaller groups or other ratios",
            stacklevel=3,
        )
    return placed[groups]
