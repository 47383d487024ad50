"""From a run's data config to the settings of omniloader's assembly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blinklinmult.data.corpus import METADATA
from blinklinmult.data.workers import pinning_helps, worker_count
from blinklinmult.errors import DataModuleError
from blinklinmult.train.config import STRATEGIES, DataConfig
from omniloader.config import OmniConfig
from omniloader.errors import ConfigError, PlanError
from omniloader.sampling.mixing import MixingStrategy


def build_strategy(
    name: str, sizes: list[int], kwargs: Mapping[str, Any] | None = None
) -> MixingStrategy:
    """Construct a mixing strategy by config name.

    Args:
        name: One of ``STRATEGIES``.
        sizes: Sample count per dataset, in dataset order.
        kwargs: Strategy-specific keyword arguments.

    Raises:
        DataModuleError: If the name is unknown, or the strategy does not take a keyword or value.
    """
    if name not in STRATEGIES:
        raise DataModuleError(
            f"strategy: unknown strategy {name!r}; known: {', '.join(STRATEGIES)}"
        )
    try:
        config = OmniConfig(strategy=name, strategy_kwargs=dict(kwargs or {}))
        return config.build_strategy(sizes)
    except ConfigError as error:
        raise DataModuleError(str(error)) from error
    except PlanError as error:
        raise DataModuleError(f"strategy_kwargs: {error}") from error


def omni_config(config: DataConfig) -> OmniConfig:
    """The run's loader settings, for omniloader's assembly."""
    settings: dict[str, Any] = {
        "seed": config.seed,
        "batch_size": config.batch_size,
        "num_workers": worker_count(config.num_workers),
        "strategy": config.strategy,
        "strategy_kwargs": dict(config.strategy_kwargs),
        "transforms": list(config.transforms),
        "drop_last": True,
        "pin_memory": config.pin_memory and pinning_helps(),
        "persistent_workers": config.persistent_workers,
        "prefetch_factor": config.prefetch_factor,
        "metadata": list(METADATA),
    }
    try:
        return OmniConfig(**settings)
    except ConfigError as error:
        raise DataModuleError(str(error)) from error
