"""Figures of several keys at once, pooled or for each dataset apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from omniloader.errors import StatsError
from omniloader.stats.feature import FeatureAccumulator, FeatureOptions
from omniloader.stats.seen import Seen
from omniloader.stats.stream import Block

POOLED = ""


class FeatureTable:
    """Running figures of keys, by dataset if ``dataset_key`` is given; mergeable and picklable.

    Args:
        keys: Names of the values.
        options: How the figures are taken.
        dataset_key: Name of the metadata that tells datasets apart; None pools all.
    """

    def __init__(
        self, keys: Sequence[str], options: FeatureOptions, dataset_key: str | None = None
    ) -> None:
        self.keys = tuple(keys)
        self.options = options.shared_by(len(self.keys))
        self.dataset_key = dataset_key
        self.tables: dict[str, dict[str, FeatureAccumulator]] = {}
        self.seen = Seen()

    def add(self, block: Block) -> None:
        """Add n samples.

        Raises:
            StatsError: If a sample does not say which dataset it is of.
        """
        self.seen.add(block)
        if self.dataset_key is None:
            self._add(POOLED, block, None)
            return
        for name, rows in self._groups(block):
            self._add(name, block, rows if len(rows) < block.size else None)

    def _add(self, group: str, block: Block, rows: Tensor | None) -> None:
        table = self.tables.setdefault(group, {})
        for key, column in block.columns.items():
            accumulator = table.get(key)
            if accumulator is None:
                accumulator = table[key] = FeatureAccumulator(key, self.options)
            accumulator.add(column if rows is None else column.rows(rows))

    def _groups(self, block: Block) -> list[tuple[str, Tensor]]:
        """Which rows of the block are of which dataset."""
        given = block.metadata.get(str(self.dataset_key))
        names = [None] * block.size if given is None else list(given)
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(names):
            if not isinstance(name, str):
                raise StatsError(
                    f"{block.where(row)} must name its dataset as text in '{self.dataset_key}', "
                    f"got {name!r}; read the sources through an OmniLoader, which adds it, or set "
                    "dataset_key="
                )
            rows.setdefault(name, []).append(row)
        return [(name, torch.tensor(numbers)) for name, numbers in rows.items()]

    def merge(self, other: FeatureTable) -> None:
        """Add what another table of the same keys and options has seen."""
        self.seen.merge(other.seen)
        for group, theirs in other.tables.items():
            table = self.tables.setdefault(group, {})
            for key, accumulator in theirs.items():
                if key in table:
                    table[key].merge(accumulator)
                else:
                    table[key] = accumulator

    def check_seen(self) -> None:
        """Refuse keys that no sample had.

        Raises:
            StatsError: Naming the key and what the samples hold.
        """
        for key in self.keys:
            self.seen.check(key)

    def figures(self, group: str, eps: float) -> tuple[dict[str, Any], dict[str, Any]]:
        """Figures and how they were found, for every key; of a dataset, those with valid values.

        Raises:
            StatsError: If a key has no valid value at all.
        """
        table = self.tables[group]
        keys = [key for key in self.keys if key in table]
        if self.dataset_key is not None:
            keys = [key for key in keys if table[key].count or not self._anywhere(key)]
        figures = {key: table[key].figures(eps) for key in keys}
        return figures, {key: table[key].info() for key in keys}

    def _anywhere(self, key: str) -> bool:
        return any(key in table and table[key].count for table in self.tables.values())
