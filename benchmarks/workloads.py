"""The data that the benchmarks run on."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from omniloader import DatasetSchema, DictTensorDataset, TensorSpec

_FEATURES = [(32, 32), (32, 64), (48, 32), (48, 96), (64, 32), (64, 64), (64, 128), (48, 128)]


def memory_mix(
    rows: int = 400, scale: int = 1
) -> tuple[list[DictTensorDataset], list[DatasetSchema]]:
    """Six sources in memory; a union of 8 features and 6 targets of which each has a third.

    Args:
        rows: Samples a source.
        scale: Divides the widths: 1 for T 32-64 and F 32-128, 16 for small rows.
    """
    generator = torch.Generator().manual_seed(0)
    features = [
        TensorSpec(f"f{i}", feature_dim=max(width // scale, 1), time_dim=max(steps // scale, 1))
        for i, (steps, width) in enumerate(_FEATURES)
    ]
    targets = [
        TensorSpec(f"t{i}", time_dim=max(48 // scale, 1) if i % 2 else None, placeholder=-5.0)
        for i in range(6)
    ]
    datasets, schemas = [], []
    for source in range(6):
        own_features = [features[(source + k) % 8] for k in (0, 3, 6)]
        own_targets = [targets[(source + k) % 6] for k in (0, 3)]
        specs = [*own_features, *own_targets]
        datasets.append(
            DictTensorDataset(
                {s.name: torch.randn(rows, *s.value_shape, generator=generator) for s in specs}
            )
        )
        schemas.append(DatasetSchema(own_features, own_targets))
    return datasets, schemas


class ItemOnly:
    """A source that only has ``ds[i]``, as most users' datasets do."""

    def __init__(self, inner: DictTensorDataset) -> None:
        columns = inner.read_batch(np.arange(len(inner)))
        self.tables = {name: column.table for name, column in columns.items()}
        self.size = len(inner)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {name: table[index] for name, table in self.tables.items()}
