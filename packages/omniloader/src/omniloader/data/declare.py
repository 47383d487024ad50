"""Schemas from plain values, as they stand in a config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from omniloader.data._options import listed, unknown_key
from omniloader.errors import ConfigError, SchemaError
from omniloader.schema.spec import DatasetSchema, TensorSpec

DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
}
"""Names a config may give as ``dtype``."""

ROLES = ("features", "targets")

_SPEC_KEYS = (
    "name",
    "feature_dim",
    "shape",
    "time_dim",
    "dtype",
    "placeholder",
    "nonfinite",
    "sentinel",
)


def is_user_key(key: object) -> bool:
    """Whether a key is free for the user's own notes (``x-…``)."""
    return isinstance(key, str) and key.startswith("x-")


def schema_from_dict(data: Mapping[str, Any], where: str = "schema") -> DatasetSchema:
    """The schema of plain values.

    ::

        schema_from_dict({
            "features": [{"name": "audio", "feature_dim": 12, "time_dim": 29}],
            "targets": [{"name": "label", "dtype": "int64", "placeholder": -1}],
        })

    Args:
        data: ``features`` and ``targets``, each a list of mappings with the arguments of
            :class:`~omniloader.schema.spec.TensorSpec`; ``dtype`` is a name such as ``float32``.
        where: Key path of ``data`` in its config, for messages.

    Raises:
        ConfigError: If a key is unknown or a value of another kind, with its key path.
        SchemaError: If a declaration is impossible, with its key path.
    """
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where} must be a mapping with features and targets, got {data!r}")
    for key in data:
        if key not in ROLES and not is_user_key(key):
            raise ConfigError(f"{where}.{key}: {unknown_key(str(key), ROLES)}")
    features, targets = (_specs(data.get(role), f"{where}.{role}") for role in ROLES)
    try:
        return DatasetSchema(features, targets)
    except SchemaError as error:
        raise SchemaError(f"{where}: {error}") from error


def _specs(entries: object, where: str) -> list[TensorSpec]:
    if entries is None:
        return []
    if not isinstance(entries, list | tuple):
        raise ConfigError(f"{where} must be a list of declarations, got {entries!r}")
    return [_spec(entry, f"{where}[{i}]") for i, entry in enumerate(entries)]


def _spec(entry: object, where: str) -> TensorSpec:
    if not isinstance(entry, Mapping):
        raise ConfigError(
            f"{where} must be a mapping such as {{name: audio, feature_dim: 8}}, got {entry!r}"
        )
    values = {key: value for key, value in entry.items() if not is_user_key(key)}
    for key in values:
        if key not in _SPEC_KEYS:
            raise ConfigError(f"{where}.{key}: {unknown_key(str(key), _SPEC_KEYS)}")
    if "name" not in values:
        raise ConfigError(f"{where}.name is required, got only {listed(values)}")
    if "dtype" in values:
        values["dtype"] = _dtype(values["dtype"], f"{where}.dtype")
    shape = values.get("shape")
    if shape is not None and not isinstance(shape, list | tuple):
        raise ConfigError(
            f"{where}.shape must be a list of sizes such as [3, 64, 64], got {shape!r}"
        )
    try:
        return TensorSpec(**values)
    except SchemaError as error:
        raise SchemaError(f"{where}: {error}") from error


def _dtype(value: object, where: str) -> torch.dtype:
    if isinstance(value, torch.dtype):
        return value
    if isinstance(value, str) and value.removeprefix("torch.") in DTYPES:
        return DTYPES[value.removeprefix("torch.")]
    raise ConfigError(f"{where} must be one of {listed(DTYPES)}, got {value!r}")
