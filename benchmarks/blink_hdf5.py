"""Eye windows in HDF5: values by name against chunks, packed groups against columns."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deflate
import numpy as np
import torch
from harness import Row, compare
from memory_mix import assert_equal, copy_floor
from reference import PlainHdf5, ReferenceLoader
from reference import collate as reference_collate
from torch.utils.data import DataLoader
from workloads import blink_hdf5

from omniloader import DatasetSchema, HDF5Dataset, OmniLoader, seed_worker, unified_collate
from omniloader.data import ColumnarDataset, to_columnar
from omniloader.masks import mask_name

BATCH = 32
TEXTS = ("key", "dataset")


def names(schema: DatasetSchema) -> list[str]:
    """What a training run reads of a sample."""
    keys = [spec.name for spec in schema.specs]
    return [*keys, *map(mask_name, keys), *TEXTS]


def mix(datasets: list[Any], schemas: list[DatasetSchema]) -> OmniLoader:
    return OmniLoader(datasets, schemas, names=[f"dataset_{i}" for i in range(len(datasets))])


def in_process(run: Path, paths: list[Path], schemas: list[DatasetSchema]) -> Iterator[Row]:
    """Workers 0: the first epoch, later ones, later ones with two threads."""
    plain = ReferenceLoader(
        [PlainHdf5(p, "train", names(s)) for p, s in zip(paths, schemas, strict=True)], schemas
    )
    order = np.random.default_rng(0).permutation(len(plain)).reshape(-1, BATCH).tolist()
    part = max(1, len(order) // 4)

    def opened(threads: int) -> OmniLoader:
        return mix([HDF5Dataset(path, "train", threads=threads) for path in paths], schemas)

    def epoch(omni: OmniLoader) -> None:
        for rows in order:
            unified_collate(omni.__getitems__(rows))

    def first() -> None:
        shutil.rmtree(run / "cache", ignore_errors=True)
        epoch(opened(0))

    def reference() -> None:
        for rows in order[:part]:
            reference_collate([plain[i] for i in rows])

    known, threaded = opened(0), opened(2)
    for omni in (known, threaded):
        for rows in order[:2]:
            batch = unified_collate(omni.__getitems__(rows))
            assert_equal(batch, reference_collate([plain[i] for i in rows]))
        epoch(omni)
    scale, floor = len(order) / part, inflation(paths)
    label = "blink HDF5, workers 0"
    yield compare(f"{label}, first epoch", reference, first, target=2.5, floor=floor, scale=scale)
    for omni, target, note in ((known, 4.0, "later"), (threaded, 6.0, "later, 2 threads")):
        yield compare(
            f"{label}, {note}",
            reference,
            lambda omni=omni: epoch(omni),
            target=target,
            floor=floor,
            scale=scale,
        )


def inflation(paths: list[Path]) -> Callable[[], None]:
    """Read and inflate every window once, in one thread."""
    import h5py

    chunks = []
    for path in paths:
        with h5py.File(path, "r") as file:
            for group in file["train"].values():
                node = group["eye_image"]
                info = node.id.get_chunk_info(0)
                chunks.append((path, info.byte_offset, info.size, node.nbytes))
    descriptors = {path: os.open(path, os.O_RDONLY) for path in paths}

    def read() -> None:
        for path, offset, size, nbytes in chunks:
            deflate.zlib_decompress(os.pread(descriptors[path], size, offset), nbytes)

    return read


def with_workers(run: Path, paths: list[Path], schemas: list[DatasetSchema]) -> Iterator[Row]:
    """Two workers: whole epochs through the ``DataLoader``."""
    plain = ReferenceLoader(
        [PlainHdf5(p, "train", names(s)) for p, s in zip(paths, schemas, strict=True)], schemas
    )
    order = np.random.default_rng(0).permutation(len(plain)).reshape(-1, BATCH).tolist()

    def loader(dataset: Any, collate: Any) -> DataLoader[Any]:
        return DataLoader(
            dataset,
            batch_sampler=order,
            num_workers=2,
            collate_fn=collate,
            worker_init_fn=seed_worker,
        )

    def drain(dataset: Any, collate: Any) -> None:
        for _ in loader(dataset, collate):
            pass

    def first() -> None:
        shutil.rmtree(run / "cache", ignore_errors=True)
        drain(mix([HDF5Dataset(path, "train") for path in paths], schemas), unified_collate)

    def later() -> None:
        drain(mix([HDF5Dataset(path, "train") for path in paths], schemas), unified_collate)

    def reference() -> None:
        drain(plain, reference_collate)

    label = "blink HDF5, workers 2"
    yield compare(f"{label}, first epoch", reference, first, target=2.5, repeats=3)
    omni = mix([HDF5Dataset(path, "train") for path in paths], schemas)
    for rows in order:
        unified_collate(omni.__getitems__(rows))
    for dataset in omni.datasets:
        dataset.close()
    yield compare(f"{label}, later", reference, later, target=3.0, repeats=3)


def from_columns(run: Path, paths: list[Path], schemas: list[DatasetSchema]) -> Iterator[Row]:
    """The same samples from columnar stores."""
    plain = ReferenceLoader(
        [PlainHdf5(p, "train", names(s)) for p, s in zip(paths, schemas, strict=True)], schemas
    )
    order = np.random.default_rng(0).permutation(len(plain)).reshape(-1, BATCH).tolist()
    part = max(1, len(order) // 4)
    stores = [
        ColumnarDataset(to_columnar(HDF5Dataset(path, "train"), run / path.stem)) for path in paths
    ]
    omni = mix(stores, schemas)
    for rows in order[:2]:
        batch = unified_collate(omni.__getitems__(rows))
        assert_equal(batch, reference_collate([plain[i] for i in rows]))

    def reference() -> None:
        for rows in order[:part]:
            reference_collate([plain[i] for i in rows])

    def product() -> None:
        for rows in order:
            unified_collate(omni.__getitems__(rows))

    floor = copy_floor(unified_collate(omni.__getitems__(order[0])), len(order))
    yield compare(
        "blink columns, workers 0",
        reference,
        product,
        target=20.0,
        floor=floor,
        scale=len(order) / part,
    )


def rows() -> Iterator[Row]:
    """All rows of this workload."""
    before = os.environ.get("OMNILOADER_CACHE")
    threads = torch.get_num_threads()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder)
        os.environ["OMNILOADER_CACHE"] = str(run / "cache")
        paths, schemas = blink_hdf5(run)
        torch.set_num_threads(1)
        yield from in_process(run, paths, schemas)
        yield from from_columns(run, paths, schemas)
        torch.set_num_threads(threads)
        yield from with_workers(run, paths, schemas)
    os.environ.pop("OMNILOADER_CACHE")
    if before is not None:
        os.environ["OMNILOADER_CACHE"] = before


def main() -> None:
    """Print the rows."""
    from run import print_rows

    print_rows(rows())


if __name__ == "__main__":
    main()
