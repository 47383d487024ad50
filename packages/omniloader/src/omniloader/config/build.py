"""The one assembly: every way from a config to a ``DataLoader`` goes through here.

The parts are made in :mod:`omniloader.config.parts`; here they are put together, so that
``OmniDataModule``, the command line and other packages can replace one part and keep the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from omniloader._types import MapDataset
from omniloader.collate import DynamicCollator
from omniloader.config.dataloader import OmniDataLoader
from omniloader.config.model import ConfigFields
from omniloader.config.options import without_user_keys
from omniloader.config.parts import Collate, Sources, make_collate, make_strategy, make_transform
from omniloader.data.source import default_name
from omniloader.introspection import Forecast, forecast
from omniloader.loader import OmniLoader
from omniloader.sampling.bucketing import LengthBucketBatchSampler
from omniloader.sampling.evaluation import evaluation_sampler
from omniloader.sampling.per_source import plan_batches
from omniloader.sampling.sampler import OmniSampler
from omniloader.sampling.shard import Shard
from omniloader.schema.spec import UnifiedSchema
from omniloader.utils.seeding import seed_worker


def make_loader(
    config: ConfigFields,
    sources: Sources,
    base_dir: Path | None,
    training: bool,
    schema: UnifiedSchema | None = None,
) -> OmniLoader:
    """The unified, transformed data set.

    Args:
        config: The config.
        sources: Datasets and their schemas.
        base_dir: Where relative paths start.
        training: False: evaluation data, without transforms for training only.
        schema: The union to follow, where it holds more than these sources declare.
    """
    datasets, schemas = sources
    names = None if len(datasets) != len(config.datasets) else _names(config, datasets)
    union = UnifiedSchema(schemas, names) if schema is None else schema
    return OmniLoader(
        datasets,
        schemas,
        schema=schema,
        pad_features=config.pad_features,
        transform=make_transform(config, union, base_dir, training),
        training=training,
        seed=config.seed,
        names=names,
        metadata=config.metadata,
        on_error=config.on_error,
        error_budget=config.error_budget,
    )


def _names(config: ConfigFields, datasets: Sequence[MapDataset]) -> list[str]:
    """Names from the entries, so that given datasets are called as the config calls them."""
    return [
        entry.get("name") or default_name(dataset, i)
        for i, (entry, dataset) in enumerate(zip(config.datasets, datasets, strict=True))
    ]


# -- the whole -----------------------------------------------------------------------------


def training_dataloader(
    config: ConfigFields,
    omni: OmniLoader,
    epoch: int,
    kind: type[OmniDataLoader] = OmniDataLoader,
) -> OmniDataLoader:
    """Draws through the strategy; every rank gets the same number of batches.

    Args:
        config: The config.
        omni: Its loader.
        epoch: First epoch.
        kind: Class of the loader.
    """
    sampler = OmniSampler(
        make_strategy(config, omni.dataset_sizes, None, omni.names),
        epoch,
        config.num_replicas,
        config.rank,
        config.drop_last,
        on_epoch=omni.set_epoch,
    )
    omni.set_epoch(epoch)
    collate = make_collate(config, omni.schema, training=True)
    batches = _make_batches(config, omni, sampler)
    return make_dataloader(
        omni, config, collate, sampler, batches, drop_last=config.drop_last, kind=kind
    )


def _make_batches(config: ConfigFields, omni: OmniLoader, sampler: OmniSampler) -> Any:
    """The batch sampler, where batches are not just cut from the sampler in its order."""
    if config.bucketing is not None:
        options = without_user_keys(config.bucketing)
        lengths = omni.sequence_lengths(options.pop("key"))
        return LengthBucketBatchSampler(
            sampler,
            lengths,
            config.batch_size,
            drop_last=config.drop_last,
            seed=config.seed,
            **options,
        )
    if config.composition == "mixed":
        return None
    return plan_batches(
        sampler,
        config.batch_size,
        config.drop_last,
        composition=config.composition,
        batch_sizes=config.batch_sizes or None,
    )


def evaluation_dataloader(config: ConfigFields, omni: OmniLoader, epoch: int) -> OmniDataLoader:
    """Every sample once and in order, no batch dropped; ranks differ by one sample at most.

    Args:
        config: The config; mixing, bucketing and ``drop_last`` are for training only.
        omni: Its loader, made with ``training=False``.
        epoch: What the samples' ``epoch`` says.
    """
    omni.set_epoch(epoch)
    sampler = evaluation_sampler(
        omni.dataset_sizes, config.num_replicas, config.rank, epoch=epoch, names=omni.names
    )
    collate = make_collate(config, omni.schema, training=False)
    return make_dataloader(omni, config, collate, sampler)


def make_dataloader(
    dataset: Any,
    config: ConfigFields,
    collate: Collate,
    sampler: Any,
    batch_sampler: Any = None,
    *,
    drop_last: bool = False,
    kind: type[OmniDataLoader] = OmniDataLoader,
) -> OmniDataLoader:
    """The only place where a ``DataLoader`` is made of a config.

    ``persistent_workers`` and ``prefetch_factor`` mean something only for worker processes and
    have no effect with ``num_workers: 0``; ``pin_memory`` has none without an accelerator.

    Args:
        dataset: An ``OmniLoader``.
        config: Gives the loader's knobs.
        collate: Makes a batch of samples.
        sampler: Yields indices, cut into batches of ``batch_size``.
        batch_sampler: Yields whole batches instead.
        drop_last: Drop a last batch that is not full (with ``sampler``).
        kind: Class of the loader.
    """
    knobs: dict[str, Any] = {
        "num_workers": config.num_workers,
        "collate_fn": collate,
        "pin_memory": config.pin_memory and torch.accelerator.is_available(),
        "worker_init_fn": seed_worker,
    }
    if config.num_workers > 0:
        knobs["persistent_workers"] = config.persistent_workers
        knobs["prefetch_factor"] = config.prefetch_factor
    if batch_sampler is not None:
        return kind(dataset, batch_sampler=batch_sampler, **knobs)
    return kind(
        dataset, batch_size=config.batch_size, sampler=sampler, drop_last=drop_last, **knobs
    )


def forecasts(config: ConfigFields, omni: OmniLoader, epochs: Iterable[int]) -> list[Forecast]:
    """What epochs of the training loader will hold.

    Args:
        config: The config.
        omni: Its loader; no sample of it is read.
        epochs: Numbers of the epochs.
    """
    # With its rank given, looking ahead on one rank waits for no other.
    shard = Shard.resolve(config.rank, config.num_replicas)
    facts = {"rank": shard.rank, "num_replicas": shard.num_replicas}
    loader = training_dataloader(config.model_copy(update=facts), omni, 0)
    strategy = make_strategy(config, omni.dataset_sizes, None, omni.names)
    batches: Any = loader.index_batches()  # ours, and it knows the sampler it plans batches of
    sampler: OmniSampler = batches.sampler
    collate = loader.collate_fn
    dynamic = collate.keys if isinstance(collate, DynamicCollator) else ()
    found = []
    for epoch in epochs:
        loader.set_epoch(epoch)
        found.append(
            forecast(
                omni,
                strategy.target_counts(epoch),
                batches,
                epoch=epoch,
                dynamic_keys=dynamic,
                draws=len(sampler),
            )
        )
    return found
