"""The options of a class, as a config may give them: read from its constructor.

A strategy, transform, collator or adapter states its options once, in its signature. The model
made from it here refuses unknown keys, checks types, and becomes a part of the JSON Schema.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from omniloader.config.types import tighten

USER_PREFIX = "x-"
"""Keys that start with this are the user's own, in every mapping with fixed keys."""


class Strict(BaseModel):
    """A mapping with fixed keys, besides those of the user."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=False)

    @model_validator(mode="before")
    @classmethod
    def _drop_user_keys(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return without_user_keys(value)


def is_user_key(key: object) -> bool:
    """Whether a key is the user's own."""
    return isinstance(key, str) and key.startswith(USER_PREFIX)


def without_user_keys(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a mapping without the keys of the user."""
    return {key: value for key, value in mapping.items() if not is_user_key(key)}


@functools.lru_cache(maxsize=256)
def options_model(owner: Callable[..., Any], given: frozenset[str] = frozenset()) -> type[Strict]:
    """The model of a constructor's options.

    Args:
        owner: A class, or a function that takes the options.
        given: Parameters that the assembly gives and a config does not.

    Returns:
        A model whose fields have the parameters as aliases, so that ``schema`` or ``copy`` as
        the name of an option cannot collide with pydantic's own.
    """
    hints = _hints(owner)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(owner).parameters.items():
        if name in given or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[f"option_{name}"] = (tighten(hints.get(name, Any)), Field(default, alias=name))
    return create_model(getattr(owner, "__name__", "Options"), __base__=Strict, **fields)


def extended(model: type[Strict], **extra: tuple[Any, Any]) -> type[Strict]:
    """A model with more keys: each a type and a default (``...``: required)."""
    fields: dict[str, Any] = {
        f"option_{name}": (kind, Field(default, alias=name))
        for name, (kind, default) in extra.items()
    }
    return create_model(model.__name__, __base__=model, **fields)


def optional(model: type[Strict]) -> type[Strict]:
    """The same keys, none of them required."""
    fields: dict[str, Any] = {
        name: (field.annotation, Field(None, alias=field.alias))
        for name, field in model.model_fields.items()
    }
    return create_model(model.__name__, __base__=Strict, **fields)


def keys_of(model: type[BaseModel]) -> list[str]:
    """The keys a mapping of this model may have."""
    return [field.alias or name for name, field in model.model_fields.items()]


def plain(model: BaseModel) -> dict[str, Any]:
    """The keys that were given, as plain values."""
    return model.model_dump(by_alias=True, exclude_unset=True)


def with_user_keys(raw: Any, clean: Any) -> Any:
    """Put the user's own keys back where the checked value has dropped them."""
    if isinstance(raw, Mapping) and isinstance(clean, dict):
        return {
            key: with_user_keys(item, clean[key]) if key in clean else item
            for key, item in raw.items()
            if key in clean or is_user_key(key)
        }
    if isinstance(clean, list) and isinstance(raw, Iterable) and not isinstance(raw, str | bytes):
        return [with_user_keys(*pair) for pair in zip(raw, clean, strict=True)]
    return clean


def _hints(owner: Callable[..., Any]) -> dict[str, Any]:
    """Evaluated annotations; none where a module hides their imports from run time."""
    target = owner.__init__ if isinstance(owner, type) else owner  # type: ignore[misc]
    try:
        return typing.get_type_hints(target)
    except NameError:
        return {}
