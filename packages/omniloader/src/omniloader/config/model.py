"""What a config may say: every field with its type and default, and nothing else.

The fields hold plain values (numbers, text, lists, dicts), as written. The options of a
strategy, a transform, a collator or an adapter are checked against the class that takes them, in
:mod:`omniloader.config.options`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictStr
from pydantic_core import PydanticCustomError

from omniloader.config.options import Strict
from omniloader.config.types import MUST, Number, Whole
from omniloader.data.declare import DTYPES


def _text_keys(value: Any) -> Any:
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        raise PydanticCustomError(MUST, "must be a mapping whose keys are text")
    return value


def _dtype_name(value: Any) -> Any:
    name = str(value).removeprefix("torch.")
    if name not in DTYPES:
        raise PydanticCustomError(MUST, "must be one of {names}", {"names": ", ".join(DTYPES)})
    return name


def is_by_name(subsample: dict[str, Any]) -> bool:
    """Whether a mapping holds options by name of dataset, and not the options themselves."""
    return any(isinstance(value, dict) for value in subsample.values())


def _one_or_many(value: Any) -> Any:
    """One mapping for all datasets, or a list with a mapping or nothing for each."""
    if isinstance(value, tuple):
        value = list(value)
    items = value if isinstance(value, list) else [value]
    for item in items:
        if item is not None and not isinstance(item, dict):
            raise PydanticCustomError(
                MUST, "must be a mapping of options for all datasets, or a list of one a dataset"
            )
        _text_keys(item)
    return value


Options = Annotated[dict[str, Any], BeforeValidator(_text_keys)]
"""A mapping whose keys are checked elsewhere."""

AtLeast1 = Annotated[Whole, Field(ge=1)]
AtLeast0 = Annotated[Whole, Field(ge=0)]


class ConfigFields(BaseModel):
    """The fields of a config, in the order of the template. See ``config_template.yaml``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: Whole = 0
    batch_size: AtLeast1 = 32
    num_workers: AtLeast0 = 0
    pad_features: StrictBool = True
    strategy: StrictStr = "proportional"
    strategy_kwargs: Options = Field(default_factory=dict)
    transforms: list[Options] = Field(default_factory=list)
    eval_transforms: list[Options] | None = None
    datasets: list[Options] = Field(default_factory=list)
    subsample: Annotated[Any, BeforeValidator(_one_or_many)] = None
    collate: StrictStr = "unified"
    collate_kwargs: Options = Field(default_factory=dict)
    composition: Literal["mixed", "exact_ratio", "per_source"] = "mixed"
    batch_sizes: dict[StrictStr, AtLeast1] = Field(default_factory=dict)
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


class SpecFields(Strict):
    """One entry of a schema's ``features`` or ``targets``."""

    name: Annotated[StrictStr, Field(min_length=1)]
    feature_dim: AtLeast1 | None = None
    shape: list[AtLeast1] | None = None
    time_dim: AtLeast1 | None = None
    dtype: Annotated[StrictStr, BeforeValidator(_dtype_name)] = "float32"
    placeholder: Number = 0.0
    nonfinite: Literal["keep", "mask", "raise"] = "keep"
    sentinel: Number | None = None


class SchemaFields(Strict):
    """The ``schema`` of one dataset."""

    features: list[SpecFields] | None = None
    targets: list[SpecFields] | None = None
