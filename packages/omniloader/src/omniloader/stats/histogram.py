"""Counts of class ids and of positive labels, whole columns at once and mergeable."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from omniloader._types import FloatArray, IntArray
from omniloader.stats.blocks import Column
from omniloader.stats.seen import Seen
from omniloader.stats.stream import Block

MAX_INFERRED = 1 << 24
"""Most classes that are inferred: an id beyond is rather a mistake than a class."""

NO_CLASS = -1


def class_ids(column: Column, num_classes: int | None) -> IntArray:
    """The class id of every valid position, in order.

    Args:
        column: A categorical target, one whole number a step; floats without a fraction pass.
        num_classes: Ids must be below; None accepts any up to :data:`MAX_INFERRED`.

    Raises:
        StatsError: If an id is no whole number, negative or too large, naming key and sample.
    """
    if math.prod(column.trailing_shape) != 1:
        raise column.error(
            0,
            f"must be one class id a step, got shape {column.trailing_shape}; for multi-label "
            "targets use positive_weights_for_loss",
        )
    steps = column.steps().reshape(-1)
    ids = steps.to(torch.int64)
    if steps.dtype.is_floating_point:
        _refuse(column, steps, ids != steps, "must hold whole class ids")
    found = ids.numpy()
    limit = MAX_INFERRED if num_classes is None else num_classes
    if len(found) and not 0 <= found.min() <= found.max() < limit:
        _refuse(column, ids, ids < 0, "must hold class ids from 0 where its mask is True")
        hint = "; give num_classes= if it is right" if num_classes is None else ""
        _refuse(column, ids, ids >= limit, f"must hold class ids below num_classes={limit}{hint}")
    return found


def _refuse(column: Column, steps: Tensor, wrong: Tensor, rule: str) -> None:
    if bool(wrong.any()):
        step = int(wrong.nonzero()[0, 0])
        raise column.error(column.sample_of(step), f"{rule}, got {steps[step].item()!r}")


class ClassCounts:
    """Valid positions of each class; mergeable and picklable.

    Args:
        key: The target.
        num_classes: Number of classes; None grows with the largest id.
    """

    def __init__(self, key: str, num_classes: int | None = None) -> None:
        self.key = key
        self.num_classes = num_classes
        self.counts: IntArray = np.zeros(num_classes or 0, dtype=np.int64)
        self.seen = Seen()

    def add(self, block: Block) -> None:
        """Count n samples.

        Raises:
            StatsError: If a class id is impossible, naming key and sample.
        """
        self.seen.add(block)
        column = block.columns.get(self.key)
        if column is not None:
            self._join(np.bincount(class_ids(column, self.num_classes)))

    def merge(self, other: ClassCounts) -> None:
        """Add another's counts."""
        self.seen.merge(other.seen)
        self._join(other.counts)

    def _join(self, counts: IntArray) -> None:
        if len(counts) > len(self.counts):
            self.counts = np.concatenate(
                [self.counts, np.zeros(len(counts) - len(self.counts), dtype=np.int64)]
            )
        self.counts[: len(counts)] += counts


class SampleClasses:
    """The class of each sample, in order; mergeable and picklable.

    A framewise sample is of the class that most of its valid steps have, the smallest id among
    equals.

    Args:
        key: The target.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.seen = Seen()
        self._parts: list[IntArray] = []

    def add(self, block: Block) -> None:
        """Take in n samples.

        Raises:
            StatsError: If a class id is impossible, naming key and sample.
        """
        self.seen.add(block)
        classes = np.full(block.size, NO_CLASS, dtype=np.int64)
        column = block.columns.get(self.key)
        if column is not None:
            ids = class_ids(column, None)
            owners = column.samples_of_steps().numpy()
            if column.lead == 1:
                classes[owners] = ids
            elif len(ids):
                sample, majority = _majority(owners, ids)
                classes[sample] = majority
        self._parts.append(classes)

    def merge(self, other: SampleClasses) -> None:
        """Append another's samples."""
        self.seen.merge(other.seen)
        self._parts += other._parts

    def classes(self) -> IntArray:
        """The class of each sample, int64 ``(N,)``; :data:`NO_CLASS` where no step is valid."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *self._parts])


def _majority(owners: IntArray, ids: IntArray) -> tuple[IntArray, IntArray]:
    """Each owner and its most frequent id."""
    pairs, counts = np.unique(np.stack([owners, ids]), axis=1, return_counts=True)
    # Last of each owner in this order: most frequent, and the smallest id of those.
    order = np.lexsort((-pairs[1], counts, pairs[0]))
    owner, best = pairs[0][order], pairs[1][order]
    last = np.flatnonzero(np.append(owner[1:] != owner[:-1], True))
    return owner[last], best[last]


class PositiveCounts:
    """Positive and all valid entries of each label of a multi-label target; mergeable.

    Args:
        key: The target, 0 or 1 for each label.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.seen = Seen()
        self.total = 0
        self.positives: FloatArray | None = None

    def add(self, block: Block) -> None:
        """Count n samples.

        Raises:
            StatsError: If a valid entry is neither 0 nor 1, or the labels change, naming the
                sample.
        """
        self.seen.add(block)
        column = block.columns.get(self.key)
        if column is None:
            return
        steps = column.steps()
        flat = steps.reshape(len(steps), math.prod(column.trailing_shape))
        wrong = ((flat != 0) & (flat != 1)).any(1)
        if bool(wrong.any()):
            step = int(wrong.nonzero()[0, 0])
            bad = flat[step][(flat[step] != 0) & (flat[step] != 1)][0].item()
            raise column.error(column.sample_of(step), f"must hold labels 0 and 1, got {bad!r}")
        self._join(column, len(steps), flat.sum(0, dtype=torch.float64).numpy())

    def _join(self, column: Column, total: int, positives: FloatArray) -> None:
        positives = positives.reshape(column.trailing_shape)
        if self.positives is not None and positives.shape != self.positives.shape:
            raise column.error(
                0, f"must have labels {self.positives.shape} as before, got {positives.shape}"
            )
        self.positives = positives if self.positives is None else self.positives + positives
        self.total += total

    def merge(self, other: PositiveCounts) -> None:
        """Add another's counts."""
        self.seen.merge(other.seen)
        if other.positives is not None:
            mine = 0.0 if self.positives is None else self.positives
            self.positives = np.asarray(mine + other.positives)
            self.total += other.total
