"""Checks of what an OmniLoader is made of."""

from __future__ import annotations

import operator
from collections.abc import Iterable

from omniloader.errors import ConfigError, SchemaError
from omniloader.masks import is_mask_name, masked_name
from omniloader.schema.spec import INDEX_KEYS, METADATA_KEYS, DatasetSchema, UnifiedSchema
from omniloader.transforms.base import Transform


def covering(schema: UnifiedSchema, union: UnifiedSchema) -> UnifiedSchema:
    """A given union, once it is known to hold every value of the sources as they declare it."""
    if not isinstance(schema, UnifiedSchema):
        raise SchemaError(
            f"OmniLoader: schema must be a UnifiedSchema, got {type(schema).__name__}; "
            "make one with UnifiedSchema([schema, …]), or leave schema=None"
        )
    features = DatasetSchema(schema.features, schema.targets)
    own = DatasetSchema(union.features, union.targets)
    merged = UnifiedSchema([features, own], ["the given schema", "the sources"])
    extra = [name for name in (*merged.feature_keys, *merged.target_keys) if name not in schema]
    if extra:
        raise SchemaError(
            f"OmniLoader: schema must hold every value the sources declare, lacks "
            f"{', '.join(extra)}; build it from all schemas, or leave schema=None"
        )
    return schema


def bound(transform: Transform, schema: UnifiedSchema) -> Transform:
    """A transform for samples of this schema."""
    if not isinstance(transform, Transform):
        raise ConfigError(
            f"OmniLoader: transform must be a Transform, got {type(transform).__name__}; "
            "subclass Transform and write its apply(sample, generator), or chain several by Compose"
        )
    return transform.bind(schema)


def checked_metadata(metadata: Iterable[str], schema: UnifiedSchema) -> tuple[str, ...]:
    """Names of metadata beyond those that every sample carries."""
    if isinstance(metadata, str):
        raise SchemaError(f"metadata must be a list of names, got the text '{metadata}'")
    names = tuple(name for name in dict.fromkeys(metadata) if name not in METADATA_KEYS)
    for name in names:
        if not isinstance(name, str):
            raise SchemaError(f"metadata must be a list of names, got {name!r} among them")
        if is_mask_name(name) and masked_name(name) in schema:
            raise SchemaError(f"metadata '{name}' is the name of a mask; every batch carries it")
        if name in schema or name in INDEX_KEYS:
            raise SchemaError(
                f"metadata '{name}' is the name of a value or of an index; rename one of them"
            )
    return names


def whole(what: str, value: int) -> int:
    """A whole number as a plain int."""
    try:
        return operator.index(value)
    except TypeError:
        raise ConfigError(f"OmniLoader: {what} must be a whole number, got {value!r}") from None
