import enum
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from omniloader.config.types import Number, PathText, Whole, tighten


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


def read(annotation, value):
    return TypeAdapter(tighten(annotation)).validate_python(value)


def refusal(annotation, value):
    with pytest.raises(ValidationError) as caught:
        read(annotation, value)
    return caught.value.errors()


@pytest.mark.parametrize(
    ("given", "number"),
    [("1e-3", 1e-3), (2, 2.0), ("-.5", -0.5), ("1_000", 1000.0), (np.float32(0.5), 0.5)],
)
def test_numbers_however_written(given, number):
    value = read(float, given)
    assert value == number
    assert type(value) is float


@pytest.mark.parametrize(
    ("given", "number"),
    [
        ("12", 12),
        (3.0, 3),
        ("1e3", 1000),
        (np.int64(7), 7),
        (str(2**60 + 1), 2**60 + 1),
        ("-4", -4),
    ],
)
def test_whole_numbers_however_written(given, number):
    value = read(int, given)
    assert value == number
    assert type(value) is int


@pytest.mark.parametrize("given", [True, "nan", "x", None, "", [1], "1e", "0x10"])
def test_what_is_no_number(given):
    assert refusal(float, given)[0]["msg"] == "must be a number"


@pytest.mark.parametrize("given", [True, 1.5, "1.5", "inf", None, float("inf")])
def test_what_is_no_whole_number(given):
    assert refusal(int, given)[0]["msg"] == "must be a whole number"


@pytest.mark.parametrize("given", ["yes", 1, "true", None])
def test_what_is_no_boolean(given):
    assert refusal(bool, given)[0]["type"] == "bool_type"


def test_text_is_not_made_of_numbers():
    assert refusal(str, 3)[0]["type"] == "string_type"


@pytest.mark.parametrize("annotation", [Path, os.PathLike[str], str | os.PathLike[str]])
def test_paths_come_as_text(annotation):
    assert read(annotation, Path("a/b")) == "a/b"
    assert read(annotation, "a/b") == "a/b"
    assert tighten(annotation) is PathText


def test_an_enum_is_given_by_value():
    assert read(Colour, "red") == "red"
    assert refusal(Colour, "green")[0]["type"] == "literal_error"


def test_sequences_are_lists_and_text_is_none():
    assert read(Sequence[int], (1, "2")) == [1, 2]
    assert refusal(Sequence[str], "ab")[0]["type"] == "list_type"


def test_mappings_have_text_keys():
    assert read(Mapping[str, float], {"a": "1e-3"}) == {"a": 1e-3}


def test_optional_gives_the_message_of_what_is_inside():
    assert read(int | None, None) is None
    assert refusal(int | None, "x")[0]["msg"] == "must be a whole number"


def test_a_union_gives_one_message():
    errors = refusal(int | Sequence[int] | Literal["auto"] | bool | None, "x")
    assert [error["msg"] for error in errors] == [
        "must be a whole number or a list of whole numbers or 'auto' or true or false"
    ]


def test_members_of_a_union_that_read_alike_are_one():
    assert read(Path | str | os.PathLike[str] | None, "a") == "a"
    assert read(int | bool | Sequence[int] | tuple[int, ...], [1]) == [1]


def test_a_union_of_mappings_and_text():
    errors = refusal(Mapping[str, float] | str | float, None)
    assert errors[0]["msg"] == "must be a mapping or text or a number"


def test_what_a_config_cannot_hold_is_left_alone():
    marker = object()
    assert tighten(torch.Tensor) is Any
    assert tighten(torch.Tensor | str) is Any
    assert read(torch.Tensor, marker) is marker


def test_simple_types_are_the_shared_ones():
    assert tighten(int) is Whole
    assert tighten(float) is Number
