"""Quartiles of columns in bounded memory: blocks thinned by rank, then Apache DataSketches' KLL."""

from __future__ import annotations

from typing import Any

import datasketches
import numpy as np
import numpy.typing as npt

from omniloader._types import FloatArray
from omniloader.utils.seeding import derive_keys, derive_seed

_QUARTILES = [0.25, 0.5, 0.75]
_MAX_K = 4096
_MIN_K = 8
_MAX_STEP = 64
# Two-sided 99 % point of the normal distribution: KLL states its error for 99 % too.
_Z99 = 2.576


class QuartileSketch:
    """Approximate quartiles of ``width`` columns, mergeable.

    KLL (Karnin, Lang & Liberty 2016) costs some 35 ns a value, which is more than all the rest
    of a pass. So rows are first collected in a block, each column is sorted, and one value of
    every ``step`` neighbours in rank, from a random start, stands for all of them. That is KLL's
    own compaction, several levels at once, and adds next to nothing to its error:
    ``step / sqrt(12 · n · block)`` is the standard deviation of the rank, against ``n``.

    Args:
        width: Number of columns F.
        dtype: float32 or float64.
        budget: Bytes that the sketches may use in all; sets their accuracy.

    DataSketches draws from a generator of its own that cannot be seeded: two runs may differ,
    within :meth:`rank_error`.
    """

    def __init__(self, width: int, dtype: npt.DTypeLike, budget: int) -> None:
        self.width = width
        self.dtype = np.dtype(dtype)
        affordable = budget // (4 * width * self.dtype.itemsize)
        self.k = max(_MIN_K, min(_MAX_K, affordable))
        rows = min((1 << 20) // width, budget // (width * self.dtype.itemsize))
        self.block = max(16, min(1 << 16, rows))
        self.step = max(1, min(_MAX_STEP, self.block // 128))
        self.count = 0
        self._columns = [self._fresh() for _ in range(width)]
        # Transposed, so that a column lies in one piece when it is sorted.
        self._rows = np.empty((width, self.block), dtype=self.dtype)
        self._fill = 0
        self._blocks = 0

    def _fresh(self) -> Any:
        kind = (
            datasketches.kll_floats_sketch
            if self.dtype == np.float32
            else datasketches.kll_doubles_sketch
        )
        return kind(self.k)

    def update(self, rows: npt.NDArray[Any]) -> None:
        """Add finite rows ``(n, F)``."""
        self.count += len(rows)
        done = 0
        while done < len(rows):
            take = min(self.block - self._fill, len(rows) - done)
            self._copy(rows[done : done + take])
            done += take
            if self._fill == self.block:
                self._absorb(self._columns)
                self._blocks += 1
                self._fill = 0

    def _copy(self, rows: npt.NDArray[Any]) -> None:
        # 64 rows at a time: a transposed copy of the whole would miss the cache on every value.
        for start in range(0, len(rows), 64):
            part = rows[start : start + 64].T
            at = self._fill + start
            self._rows[:, at : at + part.shape[1]] = part
        self._fill += len(rows)

    def _absorb(self, columns: list[Any]) -> None:
        """Feed one value of each ``step`` neighbours in rank to the columns' sketches."""
        filled = np.sort(self._rows[:, : self._fill], axis=1)
        key = derive_keys(derive_seed(0, "stats.sketch"), self._blocks)
        kept = np.ascontiguousarray(filled[:, int(key) % self.step :: self.step])
        if kept.shape[1]:
            for column, values in zip(columns, kept, strict=True):
                column.update(values)

    def merge(self, other: QuartileSketch) -> None:
        """Add what another sketch of the same width, dtype and budget has seen."""
        for column, theirs in zip(self._columns, other._columns, strict=True):
            column.merge(theirs)
        self.count += other.count - other._fill
        self._blocks += other._blocks
        self.update(other._rows[:, : other._fill].T)

    def quartiles(self) -> FloatArray:
        """The quartiles, ``(3, F)``; the sketch can be updated further."""
        columns = self._columns
        if self._fill:
            columns = [type(column).deserialize(column.serialize()) for column in columns]
            self._absorb(columns)
        figures = np.array([column.get_quantiles(_QUARTILES) for column in columns])
        return np.asarray(figures.T, dtype=np.float64)

    def rank_error(self) -> float:
        """How far a quartile's rank may be off, as a share of the rows, in 99 of 100 cases."""
        own = self._columns[0].get_normalized_rank_error(self.k, False)
        thinning = self.step / np.sqrt(12.0 * max(self.count, 1) * self.block)
        return float(own + _Z99 * thinning * (self.step > 1))

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_columns"] = [column.serialize() for column in self._columns]
        state["_rows"] = self._rows[:, : self._fill].copy()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        kind = type(self._fresh())
        self._columns = [kind.deserialize(raw) for raw in state["_columns"]]
        self._rows = np.empty((self.width, self.block), dtype=self.dtype)
        self._rows[:, : self._fill] = state["_rows"]
