"""Ragged sequences in a folder of npy files: lengths, buckets, reading, padding."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from harness import Row, compare
from memory_mix import assert_equal
from reference import PlainNpy, ReferenceLoader, ragged_collate
from torch.utils.data import DataLoader, RandomSampler
from workloads import ragged_npy

from omniloader import (
    DatasetSchema,
    DynamicCollator,
    LengthBucketBatchSampler,
    NpyFolderDataset,
    OmniLoader,
)

BATCH = 32


def batches(lengths: list[int]) -> list[list[int]]:
    """The plain way: sort by length, cut, shuffle."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    cut = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    generator = torch.Generator().manual_seed(0)
    return [cut[i] for i in torch.randperm(len(cut), generator=generator).tolist()]


def reading(root: Path) -> Callable[[], None]:
    """Open, read and close every file once, and the sequences once more for their heads."""
    files = sorted(str(file) for file in root.rglob("*.npy"))
    heads = [file for file in files if file.endswith("x.npy")]

    def read() -> None:
        for file in files:
            fd = os.open(file, os.O_RDONLY)
            os.read(fd, 1 << 20)
            os.close(fd)
        for file in heads:
            fd = os.open(file, os.O_RDONLY)
            os.read(fd, 128)
            os.close(fd)

    return read


def product_loader(root: Path, schema: DatasetSchema) -> DataLoader[Any]:
    omni = OmniLoader(
        [NpyFolderDataset(root, mmap=False)], [schema], names=["dataset_0"], pad_features=False
    )
    order = RandomSampler(omni, generator=torch.Generator().manual_seed(0))
    sampler = LengthBucketBatchSampler(order, omni.sequence_lengths("x"), BATCH)
    return DataLoader(omni, batch_sampler=sampler, collate_fn=DynamicCollator(omni.schema))


def rows() -> Iterator[Row]:
    """All rows of this workload."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        schema = ragged_npy(root)

        def product() -> None:
            for _ in product_loader(root, schema):
                pass

        def reference() -> None:
            source = PlainNpy(root)
            plain = ReferenceLoader([source], [schema], native=True)
            for rows in batches(source.lengths("x")):
                ragged_collate([plain[i] for i in rows], plain.specs)

        plain = ReferenceLoader([PlainNpy(root)], [schema], native=True)
        for batch in product_loader(root, schema):
            samples = [plain[i] for i in batch["index"].tolist()]
            assert_equal(batch, ragged_collate(samples, plain.specs))
        yield compare(
            "ragged npy folder, lengths included",
            reference,
            product,
            target=15.0,
            floor=reading(root),
        )
    torch.set_num_threads(threads)


def main() -> None:
    """Print the rows."""
    from run import print_rows

    print_rows(rows())


if __name__ == "__main__":
    main()
