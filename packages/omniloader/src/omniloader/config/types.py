"""Types of config values: lenient to how YAML writes a number, strict to everything else."""

from __future__ import annotations

import enum
import os
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Union

import numpy as np
from pydantic import BeforeValidator, StrictBool, StrictStr, WrapValidator
from pydantic_core import PydanticCustomError, ValidationError

# YAML 1.1 reads 1e-3 (no point) as text. A number in quotes is a number too where one belongs.
_NUMBER = re.compile(r"[-+]?([0-9][0-9_]*(\.[0-9_]*)?|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?")

MUST = "must"
"""Type of the custom errors raised here: their message already says what the value must be."""


def _must(text: str) -> PydanticCustomError:
    return PydanticCustomError(MUST, "must be {text}", {"text": text})


def _number_of(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value.replace("_", ""))
    return value


def _as_float(value: Any) -> float:
    number = _number_of(value)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise _must("a number")
    return float(number)


def _as_whole(value: Any) -> int:
    number = _number_of(value)
    if isinstance(number, float) and number.is_integer():
        # Read text again as a whole number: past 2**53 a float would have rounded it.
        exact = isinstance(value, str) and value.lstrip("+-").replace("_", "").isdigit()
        number = int(value) if exact else int(number)
    if isinstance(number, bool) or not isinstance(number, int):
        raise _must("a whole number")
    return number


def _as_path(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


Number = Annotated[float, BeforeValidator(_as_float)]
Whole = Annotated[int, BeforeValidator(_as_whole)]
PathText = Annotated[StrictStr, BeforeValidator(_as_path)]


def tighten(annotation: Any) -> Any:
    """Turn a constructor's annotation into the type of the config value it is given from.

    Numbers may come as text, never as booleans; sequences come as lists, enums as their values,
    paths as text; what a config cannot hold (a tensor, a schema) becomes ``Any``.

    Args:
        annotation: As ``typing.get_type_hints`` gives it.

    Returns:
        A type for a pydantic field.
    """
    simple = {int: Whole, float: Number, bool: StrictBool, str: StrictStr, type(None): None}
    if annotation in simple:
        return simple[annotation]
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return _literal_of(annotation)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        return _tighten_union(args)
    if origin is Literal:
        return annotation
    if isinstance(origin, type) and issubclass(origin, os.PathLike):
        return PathText
    if isinstance(annotation, type) and issubclass(annotation, os.PathLike):
        return PathText
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict[str, tighten(args[1])]  # type: ignore[misc]
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return list[tighten(args[0])]  # type: ignore[misc]
    return Any


def _literal_of(family: type[enum.Enum]) -> Any:
    literal: Any = Literal  # to a type checker, Literal[...] would be a type expression
    return literal[tuple(member.value for member in family)]


def _tighten_union(args: tuple[Any, ...]) -> Any:
    """A union without its doubles, whose failure is one message and not one a member."""
    members: list[Any] = []
    for arg in args:
        member = tighten(arg)
        if member not in members:
            members.append(member)
    if Any in members:
        return Any
    if PathText in members and StrictStr in members:
        members.remove(StrictStr)
    form: Any = Union  # as in _literal_of
    union = form[tuple(members)]
    solid = [member for member in members if member is not None]
    if len(solid) < 2:
        return union
    return Annotated[union, WrapValidator(_one_message(" or ".join(map(_word, solid))))]


def _one_message(expected: str) -> Callable[[Any, Callable[[Any], Any]], Any]:
    def validate(value: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise _must(expected) from None

    return validate


def _word(member: Any) -> str:
    """What a message calls a type."""
    if member is Whole:
        return "a whole number"
    if member is Number:
        return "a number"
    if member in (StrictStr, PathText):
        return "text"
    if member is StrictBool:
        return "true or false"
    origin = typing.get_origin(member)
    if origin is Literal:
        return " or ".join(f"'{value}'" for value in typing.get_args(member))
    if origin is dict:
        return "a mapping"
    return f"a list of {_plural(typing.get_args(member)[0])}"


def _plural(member: Any) -> str:
    return {Whole: "whole numbers", Number: "numbers", StrictStr: "texts"}.get(member, "values")
