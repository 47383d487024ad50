"""The families a config chooses from: their registries, and the keys each member takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, StrictStr

from omniloader.collate import COLLATES as PLAIN_COLLATES
from omniloader.config.model import Options, SchemaFields, SpecFields
from omniloader.config.options import Strict, extended, optional, options_model
from omniloader.config.types import PathText
from omniloader.data.factory import ADAPTERS
from omniloader.sampling.bucketing import LengthBucketBatchSampler
from omniloader.sampling.strategies import STRATEGIES
from omniloader.sampling.subsamplers import SubsampleConfig
from omniloader.transforms import TRANSFORMS
from omniloader.transforms.mix import MixupCollator

Model = type[Strict]

COLLATES: dict[str, Callable[..., Any]] = {**PLAIN_COLLATES, "mixup": MixupCollator}
"""Config name to collate function, or to a class that is built from the schema."""

# Figures that may stand in the config or in a file beside it.
STATS_OPTIONS = ("stats", "union_stats")


def _as_is(name: str, model: Model) -> Model:
    return model


@dataclass(frozen=True, kw_only=True)
class Family:
    """One registry, and how its members appear in a config.

    Args:
        label: What messages call a member.
        registry: Config name to class (or function).
        given: Parameters that the assembly gives, so that a config does not.
        keys: Makes a member's keys of its name and its constructor's options.
    """

    label: str
    registry: Mapping[str, Callable[..., Any]]
    given: frozenset[str]
    keys: Callable[[str, Model], Model] = _as_is

    def model(self, name: str) -> Model:
        """The keys that a config may give to the member of this name."""
        return self.keys(name, options_model(self.registry[name], self.given))


def _transform_keys(name: str, model: Model) -> Model:
    extra: dict[str, tuple[Any, Any]] = {"name": (StrictStr, ...)}
    parameters = inspect.signature(TRANSFORMS[name]).parameters
    for option in STATS_OPTIONS:
        if option in parameters:
            extra[option] = (dict[str, Any] | None, None)
            extra[f"{option}_path"] = (PathText | None, None)
    return extended(model, **extra)


def _collate_keys(name: str, model: Model) -> Model:
    if "base_collate" not in inspect.signature(COLLATES[name]).parameters:
        return model
    return extended(
        model, base=(Literal["unified", "dynamic"], "unified"), base_kwargs=(Options, {})
    )


def _adapter_keys(name: str, model: Model) -> Model:
    return extended(
        model,
        adapter=(StrictStr, ...),
        name=(Annotated[StrictStr, Field(min_length=1)] | None, None),
        schema=(SchemaFields | None, None),
        features=(list[SpecFields] | None, None),
        targets=(list[SpecFields] | None, None),
        eval=(optional(model) | None, None),
    )


STRATEGY = Family(
    label="strategy",
    registry=STRATEGIES,
    given=frozenset({"sizes", "seed", "subsample", "names"}),
)
TRANSFORM = Family(
    label="transform",
    registry=TRANSFORMS,
    given=frozenset({"schema", *STATS_OPTIONS}),
    keys=_transform_keys,
)
COLLATE = Family(
    label="collate",
    registry=COLLATES,
    given=frozenset({"batch", "schema", "base_collate", "seed"}),
    keys=_collate_keys,
)
ADAPTER = Family(label="adapter", registry=ADAPTERS, given=frozenset({"name"}), keys=_adapter_keys)


def subsample_model() -> Model:
    """The keys of ``subsample``, or of one entry of it."""
    return options_model(SubsampleConfig)


def bucketing_model() -> Model:
    """The keys of ``bucketing``."""
    given = frozenset({"sampler", "lengths", "batch_size", "drop_last", "seed"})
    return extended(options_model(LengthBucketBatchSampler, given), key=(StrictStr, ...))
