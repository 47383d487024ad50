"""What a config may say: every field with its type and default, and nothing else.

The fields hold plain values (numbers, text, lists, dicts), as written. The options of a
strategy, a transform, a collator or an adapter are checked against the class that takes them, in
:mod:`omniloader.config.options`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictStr
from pydantic_core import PydanticCustomError

from omniloader.config.types import MUST, Number, Whole

USER_PREFIX = "x-"
"""Keys that start with this are the user's own, anywhere in a config."""


def _text_keys(value: Any) -> Any:
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        raise PydanticCustomError(MUST, "must be a mapping whose keys are text")
    return value


Options = Annotated[dict[str, Any], BeforeValidator(_text_keys)]
"""A mapping whose keys are checked elsewhere."""

AtLeast1 = Annotated[Whole, Field(ge=1)]
AtLeast0 = Annotated[Whole, Field(ge=0)]


class ConfigFields(BaseModel):
    """The fields of a config, in the order of the template. See ``config_template.yaml``."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=False, arbitrary_types_allowed=False
    )

    seed: Whole = 0
    batch_size: AtLeast1 = 32
    num_workers: AtLeast0 = 0
    pad_features: StrictBool = True
    strategy: StrictStr = "proportional"
    strategy_kwargs: Options = Field(default_factory=dict)
    transforms: list[Options] = Field(default_factory=list)
    eval_transforms: list[Options] | None = None
    datasets: list[Options] = Field(default_factory=list)
    subsample: Options | list[Options | None] | None = None
    collate: StrictStr = "unified"
    collate_kwargs: Options = Field(default_factory=dict)
    bucketing: Options | None = None
    num_replicas: AtLeast1 | None = None
    rank: AtLeast0 | None = None
    drop_last: StrictBool = False
    pin_memory: StrictBool = False
    persistent_workers: StrictBool = False
    prefetch_factor: AtLeast1 | None = None
    metadata: list[StrictStr] = Field(default_factory=list)
    on_error: Literal["raise", "mask"] = "raise"
    error_budget: AtLeast0 = 100


class SpecFields(BaseModel):
    """One entry of a schema's ``features`` or ``targets``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[StrictStr, Field(min_length=1)]
    feature_dim: AtLeast1 | None = None
    shape: list[AtLeast1] | None = None
    time_dim: AtLeast1 | None = None
    dtype: StrictStr = "float32"
    placeholder: Number = 0.0
    nonfinite: Literal["keep", "mask", "raise"] = "keep"
    sentinel: Number | None = None


class SchemaFields(BaseModel):
    """The ``schema`` of one dataset."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    features: list[SpecFields] = Field(default_factory=list)
    targets: list[SpecFields] = Field(default_factory=list)
