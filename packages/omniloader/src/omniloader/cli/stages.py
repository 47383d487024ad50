"""Time each stage on its own: fetch and unify a source, transform and collate a batch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from omniloader.config import OmniConfig
from omniloader.introspection.describe import spread
from omniloader.loader import OmniLoader

_SAMPLES = 64


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Cost of one stage.

    Args:
        source: The source; ``"(batch)"`` for what works on mixed batches.
        name: ``fetch``, ``fetch + unify``, ``+ transform`` or ``collate``.
        microseconds: Time a sample.
    """

    source: str
    name: str
    microseconds: float


def stage_times(omni: OmniLoader, config: OmniConfig) -> list[Stage]:
    """Time the stages in this process, on samples spread over each source.

    Args:
        omni: The loader of the config, with its transforms.
        config: The config.
    """
    bare = config.replace(transforms=[], eval_transforms=None).build_loader(
        omni.datasets, omni.schemas, training=True
    )
    stages = []
    start = 0
    for name, dataset in zip(omni.names, omni.datasets, strict=True):
        local = spread(len(dataset), _SAMPLES).tolist()
        if local:
            flat = [start + index for index in local]
            stages += _source_stages(name, dataset, local, flat, bare, omni)
        start += len(dataset)
    mixed = spread(len(omni), config.batch_size).tolist()
    if mixed:
        batch = omni.__getitems__(mixed)
        collate = config.build_collate(omni.schema, training=True)
        stages.append(_stage("(batch)", "collate", len(mixed), lambda: collate(batch)))
    return stages


def _source_stages(
    name: str, dataset: Any, local: list[int], flat: list[int], bare: OmniLoader, omni: OmniLoader
) -> list[Stage]:
    count = len(local)
    stages = [
        _stage(name, "fetch", count, lambda: [dataset[index] for index in local]),
        _stage(name, "fetch + unify", count, lambda: bare.__getitems__(flat)),
    ]
    if omni.transform is not None:
        stages.append(_stage(name, "+ transform", count, lambda: omni.__getitems__(flat)))
    return stages


def _stage(source: str, name: str, count: int, work: Callable[[], object]) -> Stage:
    work()  # files open, caches fill
    started = time.perf_counter()
    work()
    return Stage(
        source=source, name=name, microseconds=(time.perf_counter() - started) / count * 1e6
    )
