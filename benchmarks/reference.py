"""The plainest correct way to do each thing, to measure the product against. Nothing else uses it.

One dict a sample, one placeholder tensor a missing key, ``torch.cat`` to pad, ``torch.stack`` to
batch, a Python list of indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch.utils.data import Dataset

from omniloader import DatasetSchema, TensorSpec, UnifiedSchema

Sample = dict[str, Any]


class ReferenceLoader(Dataset[Sample]):
    """Concatenates datasets and brings each sample to the union, one at a time."""

    def __init__(
        self, datasets: Sequence[Any], schemas: Sequence[DatasetSchema], native: bool = False
    ) -> None:
        self.native = native
        self.datasets, self.schemas = list(datasets), list(schemas)
        self.specs = UnifiedSchema(self.schemas).specs
        self.sizes = [len(dataset) for dataset in self.datasets]

    def __len__(self) -> int:
        return sum(self.sizes)

    def __getitem__(self, index: int) -> Sample:
        number, local = 0, int(index)
        while local >= self.sizes[number]:
            local -= self.sizes[number]
            number += 1
        raw, declared = self.datasets[number][local], self.schemas[number].keys
        sample: Sample = {}
        for spec in self.specs:
            value = raw.get(spec.name) if spec.name in declared else None
            if value is None:
                sample[spec.name] = torch.full(spec.value_shape, spec.placeholder, dtype=spec.dtype)
                sample[f"{spec.name}_mask"] = torch.zeros(spec.mask_shape, dtype=torch.bool)
            else:
                flags = raw.get(f"{spec.name}_mask")
                value = torch.as_tensor(value)
                steps = len(value) if self.native and spec.is_sequence else spec.time_dim
                pair = padded(spec, value, flags, steps)
                sample[spec.name], sample[f"{spec.name}_mask"] = pair
        sample["dataset"] = raw.get("dataset") or f"dataset_{number}"
        sample["subset"] = raw.get("subset")
        sample["key"] = raw.get("key") or str(local)
        position = {"index": int(index), "dataset_index": number, "epoch": 0, "visit": 0}
        return {**sample, **position}


class PlainHdf5:
    """Opens every value of a sample by its name."""

    def __init__(self, path: Path, subset: str, keys: Sequence[str]) -> None:
        self.path, self.subset, self.keys = path, subset, keys
        with h5py.File(path, "r") as file:
            self.ids = sorted(file[subset])
        self.file: h5py.File | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Sample:
        if self.file is None:
            self.file = h5py.File(self.path, "r")
        group = self.file[self.subset][self.ids[index]]
        sample = {name: group[name][()] for name in self.keys if name in group}
        texts = {name: value.decode() for name, value in sample.items() if type(value) is bytes}
        return {**sample, "subset": self.subset, **texts}


class PlainNpy:
    """Reads every file of a sample, and all of them for their lengths."""

    def __init__(self, root: Path) -> None:
        self.folders = sorted(root.iterdir())

    def __len__(self) -> int:
        return len(self.folders)

    def __getitem__(self, index: int) -> Sample:
        folder = self.folders[index]
        sample = {file.stem: np.load(file) for file in sorted(folder.iterdir())}
        return {**sample, "key": folder.name}

    def lengths(self, key: str) -> list[int]:
        """Steps of a sequence in all samples."""
        return [len(self[index][key]) for index in range(len(self))]


def padded(
    spec: TensorSpec, value: torch.Tensor, flags: Any, total: int | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cast one value and bring it to ``total`` steps."""
    value = value.to(spec.dtype).clone()
    flags = None if flags is None else torch.as_tensor(flags)
    if not spec.is_sequence:
        return value, torch.tensor(True) if flags is None else flags.bool()
    steps = value.shape[0]
    mask = torch.ones(steps, dtype=torch.bool) if flags is None else flags.bool()
    if steps < total:
        missing = total - steps
        tail = torch.full((missing, *value.shape[1:]), spec.placeholder, dtype=spec.dtype)
        value = torch.cat([value, tail])
        mask = torch.cat([mask, torch.zeros(missing, dtype=torch.bool)])
    return value[:total], mask[:total]


def ragged_collate(samples: Sequence[Sample], specs: Sequence[TensorSpec]) -> Sample:
    """Pad every sequence to the longest of the batch, then stack."""
    brought = [dict(sample) for sample in samples]
    for spec in specs:
        if spec.is_sequence:
            longest = max(len(sample[spec.name]) for sample in samples)
            for sample in brought:
                value, mask = sample[spec.name], sample[f"{spec.name}_mask"]
                sample[spec.name], sample[f"{spec.name}_mask"] = padded(spec, value, mask, longest)
    return collate(brought)


def collate(samples: Sequence[Sample]) -> Sample:
    """Stack tensors, list texts, turn positions into int64 tensors."""
    batch: Sample = {}
    for name in samples[0]:
        column = [sample[name] for sample in samples]
        if isinstance(column[0], torch.Tensor):
            batch[name] = torch.stack(column)
        else:
            batch[name] = torch.tensor(column) if isinstance(column[0], int) else column
    return batch


def mixed_order(sizes: Sequence[int], weights: Sequence[float], total: int, seed: int) -> list[int]:
    """An epoch of a mix as a list: draw per source, concatenate, shuffle."""
    generator = torch.Generator().manual_seed(seed)
    scale = total / sum(weights)
    order: list[int] = []
    start = 0
    for size, weight in zip(sizes, weights, strict=True):
        count = round(weight * scale)
        drawn: list[int] = []
        while len(drawn) < count:
            drawn += torch.randperm(size, generator=generator).tolist()
        order += [start + i for i in drawn[:count]]
        start += size
    return [order[i] for i in torch.randperm(len(order), generator=generator).tolist()]
