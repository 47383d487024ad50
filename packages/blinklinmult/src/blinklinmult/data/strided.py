"""An evenly spaced share of a split, which may shift with the epoch."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from blinklinmult.data.columns import lengths_of, read_columns
from blinklinmult.data.wrapper import SourceWrapper, TakenNames
from blinklinmult.errors import DataModuleError
from omniloader._types import Column, IntArray


class StridedSubset(SourceWrapper):
    """An evenly-spaced share of a split, optionally shifting each epoch.

    Sample ids are sorted by recording and frame, so a stride keeps some windows of every
    recording, where a prefix would keep whole recordings and drop others. For training the stride
    starts one sample later each epoch and wraps, so that enough epochs meet every sample at the
    same cost an epoch::

        10 samples, keep 3:  epoch 0: 0 3 6   epoch 1: 1 4 7   epoch 2: 2 5 8   epoch 3: 3 6 9

    Validation and test do not shift: scores of two epochs are compared with each other.

    Args:
        dataset: The split to thin.
        keep: Samples to retain per epoch, from 1 to all.
        shifting: Advance each epoch; for training only.

    Raises:
        DataModuleError: If the split is empty, or has not ``keep`` samples.
    """

    epoch: int
    """Current epoch, set by :meth:`set_epoch`."""

    def __init__(self, dataset: Any, keep: int, shifting: bool) -> None:
        super().__init__(dataset)
        size = len(dataset)
        whose = f"corpus '{self.name}', {self.subset}" if self.name else "stride"
        if size == 0:
            raise DataModuleError(
                f"{whose}: a share of an empty split cannot be taken; leave the corpus out of "
                "fit_fractions, or build the split"
            )
        if isinstance(keep, bool) or not isinstance(keep, int) or not 1 <= keep <= size:
            raise DataModuleError(
                f"{whose}: keep must be a whole number from 1 to {size}, the samples of the "
                f"split, got {keep!r}; set fit_fractions within (0, 1]"
            )
        self.keep = keep
        self.shifting = shifting
        self.epoch = 0
        self._base = np.arange(keep, dtype=np.int64) * size // keep
        # The widest gap: after this many epochs every sample has been met.
        self.period = -(-size // keep)

    def set_epoch(self, epoch: int) -> None:
        """Advance the stride's offset.

        Args:
            epoch: The upcoming epoch.
        """
        self.epoch = epoch
        super().set_epoch(epoch)

    def positions(self) -> IntArray:
        """Positions in the wrapped split of this epoch's samples, int64 ``(keep,)``."""
        return self._at(np.arange(self.keep))

    def __len__(self) -> int:
        """Windows retained per epoch, the same in every epoch."""
        return self.keep

    def __getitem__(self, index: int) -> Any:
        """One window from this epoch's slice.

        Args:
            index: Position within the retained subset.

        Raises:
            IndexError: If there is no such window.
        """
        at = operator.index(index)
        if not -self.keep <= at < self.keep:
            raise IndexError(f"the subset holds {self.keep} samples, asked for index {at}")
        return self.dataset[int(self._at(np.array([at % self.keep]))[0])]

    def read_batch(self, indices: IntArray | Sequence[int]) -> dict[str, Column]:
        """Columns of many windows from this epoch's slice."""
        return read_columns(self.dataset, self._at(np.asarray(indices, dtype=np.int64)))

    def sequence_lengths(self, key: str) -> IntArray:
        """Native lengths of a sequence in this epoch's slice."""
        lengths: IntArray = lengths_of(self.dataset, key)[self.positions()]
        return lengths

    @property
    def sample_ids(self) -> Sequence[str] | None:
        """Names of this epoch's samples."""
        names = getattr(self.dataset, "sample_ids", None)
        return None if names is None else TakenNames(names, self.positions())

    def _at(self, rows: IntArray) -> IntArray:
        shift = self.epoch % self.period if self.shifting else 0
        positions: IntArray = (self._base[rows] + shift) % len(self.dataset)
        return positions
