"""Shared by the transform tests: a schema with every kind of value, figures for it, batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from omniloader.masks import mask_name
from omniloader.schema.batch import UnifiedBatch
from omniloader.schema.spec import DatasetSchema, TensorSpec, UnifiedSchema
from omniloader.transforms import Draw

SCHEMA = UnifiedSchema(
    [
        DatasetSchema(
            features=[
                TensorSpec("audio", feature_dim=5, time_dim=7),
                TensorSpec("profile", feature_dim=3, placeholder=-2.0),
                TensorSpec("eye", shape=(2, 6, 5), time_dim=7, placeholder=float("nan")),
                TensorSpec("tokens", time_dim=6, dtype=torch.int64, placeholder=-1),
                TensorSpec("wide", feature_dim=2, time_dim=9, dtype=torch.float64),
                TensorSpec("half", feature_dim=2, time_dim=9, dtype=torch.float16),
                TensorSpec("brain", feature_dim=2, time_dim=9, dtype=torch.bfloat16),
            ],
            targets=[
                TensorSpec("valence", time_dim=7, placeholder=-5.0),
                TensorSpec("label", dtype=torch.int64),
            ],
        )
    ]
)


def figures(mean: Any, std: Any) -> dict[str, Any]:
    """All six figures of one key, from two."""
    return {"mean": mean, "std": std, "min": mean, "max": std, "median": mean, "iqr": std}


STATS = {
    "audio": figures([0.0, -1, -2, 0, 0], [1.0, 2, 3, 0, 4]),
    "profile": figures(0.5, 2.0),
    "eye": figures(torch.tensor([1.0, -2.0]), torch.tensor([1.5, 2.0])),
    "half": figures([0.25, -1.0], [0.5, 1.0]),
    "valence": figures(1.0, 3.0),
}


def batch_of(
    values: dict[str, tuple[Any, Any]], schema: UnifiedSchema, **more: Any
) -> UnifiedBatch:
    """A batch from values and masks, any metadata besides."""
    stacked: dict[str, Tensor] = {}
    for name, (value, mask) in values.items():
        stacked[name] = torch.tensor(np.asarray(value), dtype=schema.spec(name).dtype)
        stacked[mask_name(name)] = torch.tensor(np.asarray(mask), dtype=torch.bool)
    size = next(iter(stacked.values())).shape[0]
    origin = {key: torch.arange(size) for key in ("index", "dataset_index", "epoch", "visit")}
    metadata = {"dataset": ["a"] * size, "subset": [None] * size, "key": ["k"] * size, **more}
    return UnifiedBatch(schema, stacked, metadata, origin)


def sequence_batch(size: int, steps: int, *, lengths: Any = None, width: int = 1) -> UnifiedBatch:
    """A batch of one feature ``x`` and one target ``y`` whose values tell row and step."""
    schema = UnifiedSchema(
        [
            DatasetSchema(
                [TensorSpec("x", feature_dim=width, time_dim=steps, placeholder=-9.0)],
                [TensorSpec("y", time_dim=steps, dtype=torch.int64, placeholder=-1)],
            )
        ]
    )
    number = 100 * np.arange(size)[:, None] + np.arange(steps) + 1
    real = np.arange(steps) < np.asarray(steps if lengths is None else lengths).reshape(-1, 1)
    real = np.broadcast_to(real, number.shape)
    x = np.where(real, number, -9)[..., None].repeat(width, -1)
    return batch_of({"x": (x, real), "y": (np.where(real, number, -1), real)}, schema)


def draw_for(size: int, seed: int = 0) -> Draw:
    """A draw for samples 0, 1, …"""
    numbers = np.arange(size)
    return Draw(seed, np.zeros(size, dtype=np.int64), numbers, np.zeros(size, dtype=np.int64))
