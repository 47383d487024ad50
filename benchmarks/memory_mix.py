"""Six sources in memory: assembling a batch, sending it, transforming it, mixing it up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from harness import Row, compare
from reference import ReferenceLoader
from reference import collate as reference_collate
from torch.utils.data import DataLoader, TensorDataset, default_collate
from workloads import ItemOnly, memory_mix

from omniloader import (
    Compose,
    DatasetSchema,
    DictTensorDataset,
    FeatureDropout,
    GaussianNoise,
    MixupCollator,
    Normalize,
    OmniLoader,
    SpanMasking,
    TensorSpec,
    compute_stats,
    seed_worker,
    unified_collate,
)

BATCH = 64
BATCHES = 60


def indices(size: int, batches: int = BATCHES) -> list[list[int]]:
    """The same random batches for both sides."""
    return np.random.default_rng(0).integers(0, size, (batches, BATCH)).tolist()


def assert_equal(left: dict[str, Any], right: dict[str, Any]) -> None:
    """Bit for bit, key by key."""
    assert list(left) == list(right)
    for name, value in left.items():
        if isinstance(value, torch.Tensor):
            assert value.numpy().tobytes() == right[name].numpy().tobytes(), name
        else:
            assert value == right[name], name


def copy_floor(batch: dict[str, Any], batches: int) -> Callable[[], None]:
    """Copy as many bytes as the batches hold, into memory used before."""
    tensors = [value for value in batch.values() if isinstance(value, torch.Tensor)]
    targets = [torch.empty_like(tensor) for tensor in tensors]

    def copy() -> None:
        for _ in range(batches):
            for target, tensor in zip(targets, tensors, strict=True):
                target.copy_(tensor)

    return copy


def in_process(name: str, scale: int, target: float, *, items: bool = False) -> Row:
    """Workers 0: ``collate(dataset[...])`` against ``collate(omni.__getitems__(...))``."""
    datasets, schemas = memory_mix(400 if scale == 1 else 4000, scale)
    sources: Sequence[Any] = [ItemOnly(d) for d in datasets] if items else datasets
    omni, plain = OmniLoader(sources, schemas), ReferenceLoader(sources, schemas)
    order = indices(len(omni))
    first = unified_collate(omni.__getitems__(order[0]))
    assert_equal(first, reference_collate([plain[i] for i in order[0]]))

    def reference() -> None:
        for rows in order[: BATCHES // 3]:
            reference_collate([plain[i] for i in rows])

    def product() -> None:
        for rows in order:
            unified_collate(omni.__getitems__(rows))

    floor = copy_floor(first, BATCHES)
    return compare(name, reference, product, target=target, floor=floor, scale=3.0)


def with_workers(name: str, workers: int, target: float) -> Row:
    """Whole ``DataLoader`` epochs."""
    datasets, schemas = memory_mix(2000)
    omni, plain = OmniLoader(datasets, schemas), ReferenceLoader(datasets, schemas)

    def epoch(dataset: Any, collate: Any, batches: int) -> DataLoader[Any]:
        return DataLoader(
            dataset,
            batch_sampler=indices(len(omni), batches),
            num_workers=workers,
            collate_fn=collate,
            worker_init_fn=seed_worker,
            persistent_workers=True,
        )

    ours, theirs = epoch(omni, unified_collate, 240), epoch(plain, reference_collate, 60)
    assert_equal(next(iter(ours)), next(iter(theirs)))

    def run(loader: DataLoader[Any]) -> Callable[[], None]:
        def drain() -> None:
            for _ in loader:
                pass

        return drain

    return compare(name, run(theirs), run(ours), target=target, scale=4.0)


def transformed(name: str, target: float) -> Row:
    """Normalise, add noise, mask spans, drop streams: whole batches against sample by sample."""
    datasets, schemas = memory_mix()
    omni = OmniLoader(datasets, schemas)
    stats = compute_stats(omni, omni.schema.feature_keys)
    pipeline = Compose([Normalize(stats), GaussianNoise(), SpanMasking(), FeatureDropout()])
    ours = OmniLoader(datasets, schemas, transform=pipeline)
    order = indices(len(omni))
    assert_equal(
        unified_collate(ours.__getitems__(order[0])), unified_collate([ours[i] for i in order[0]])
    )

    def reference() -> None:
        for rows in order[: BATCHES // 6]:
            unified_collate([ours[i] for i in rows])

    def product() -> None:
        for rows in order:
            unified_collate(ours.__getitems__(rows))

    return compare(name, reference, product, target=target, scale=6.0)


def mixed_up(name: str, target: float) -> Row:
    """MixUp on top of each side's batches."""
    datasets, schemas = memory_mix()
    omni, plain = OmniLoader(datasets, schemas), ReferenceLoader(datasets, schemas)
    ours = MixupCollator(unified_collate, omni.schema, alpha=0.4)
    theirs = MixupCollator(reference_collate, omni.schema, alpha=0.4)
    order = indices(len(omni))
    first = ours(omni.__getitems__(order[0]))
    other = theirs([plain[i] for i in order[0]])
    assert first["mixup_lambda"] == other["mixup_lambda"]
    assert all(torch.equal(first[k], other[k]) for k in omni.schema.feature_keys)

    def reference() -> None:
        for rows in order[: BATCHES // 3]:
            theirs([plain[i] for i in rows])

    def product() -> None:
        for rows in order:
            ours(omni.__getitems__(rows))

    return compare(name, reference, product, target=target, scale=3.0)


def uniform_overhead(name: str) -> Row:
    """One source that has everything: against ``default_collate`` over a ``TensorDataset``."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(4000, 64, generator=generator), torch.randn(4000, generator=generator)
    schema = DatasetSchema([TensorSpec("x", feature_dim=64)], [TensorSpec("y")])
    omni = OmniLoader([DictTensorDataset({"x": x, "y": y})], [schema])
    order, plain = indices(4000), TensorDataset(x, y)

    def reference() -> None:
        for rows in order:
            default_collate([plain[i] for i in rows])

    def product() -> None:
        for rows in order:
            unified_collate(omni.__getitems__(rows))

    return compare(name, reference, product, target=1.0)


def rows() -> Iterator[Row]:
    """All rows of this workload."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield in_process("memory mix, workers 0", 1, 6.0)
    yield in_process("memory mix, small rows, workers 0", 16, 15.0)
    yield in_process("memory mix, items only, workers 0", 1, 3.5, items=True)
    yield uniform_overhead("data already uniform, against default_collate")
    yield transformed("normalise + noise + spans + dropout", 10.0)
    yield mixed_up("mixup", 3.5)
    torch.set_num_threads(threads)
    yield with_workers("memory mix, workers 2", 2, 8.0)
