"""Casts at the edges of dtypes, and markers of missing values that the dtype cannot hold."""

from typing import Any

import numpy as np
import pytest
import torch

from omniloader.errors import SchemaError
from omniloader.schema.spec import TensorSpec
from omniloader.schema.values import Misfit, cast_exactly, fit

NAN = float("nan")


@pytest.mark.parametrize("source", [torch.int64, torch.int8, torch.uint16])
def test_uint64_takes_what_is_not_negative(source: torch.dtype) -> None:
    cast = cast_exactly(torch.tensor([0, 100], dtype=source), torch.uint64)
    assert cast.dtype is torch.uint64
    assert cast.tolist() == [0, 100]
    if source is not torch.uint16:
        with pytest.raises(Misfit, match=r"torch\.uint64 can represent, got -1"):
            cast_exactly(torch.tensor([3, -1], dtype=source), torch.uint64)


def test_uint64_beyond_int64_does_not_turn_negative() -> None:
    large = torch.from_numpy(np.array([1, 2**63], dtype=np.uint64))
    for dtype in (torch.int64, torch.int32):
        with pytest.raises(Misfit, match="can represent, got 9223372036854775808"):
            cast_exactly(large, dtype)


@pytest.mark.parametrize("source", [torch.uint16, torch.uint32, torch.uint64])
def test_wide_unsigned_numbers_become_floats_that_hold_them(source: torch.dtype) -> None:
    for dtype in (torch.float16, torch.float32, torch.bfloat16, torch.complex64):
        assert cast_exactly(torch.tensor([1, 200]).to(source), dtype).tolist() == [1, 200]
    with pytest.raises(Misfit, match=r"torch\.float16 can represent, got 2049"):
        cast_exactly(torch.tensor([2049]).to(source), torch.float16)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (torch.tensor([1e300], dtype=torch.float64), torch.complex64),
        (torch.tensor([1e300 + 0j], dtype=torch.complex128), torch.complex64),
        (torch.tensor([2**24 + 1]), torch.complex64),
        (torch.tensor([1e6]), torch.float8_e4m3fn),
        (torch.tensor([1e6]), torch.float8_e5m2),
    ],
)
def test_what_would_become_infinite_or_another_number_is_refused(
    value: Any, dtype: torch.dtype
) -> None:
    with pytest.raises(Misfit, match=f"must hold numbers that {dtype} can represent"):
        cast_exactly(value, dtype)


def test_float8_and_complex_keep_what_they_can_hold() -> None:
    assert cast_exactly(torch.tensor([1.5, -2.0]), torch.float8_e4m3fn).tolist() == [1.5, -2.0]
    assert cast_exactly(torch.tensor([3, 4]), torch.complex64).tolist() == [3 + 0j, 4 + 0j]
    assert cast_exactly(torch.tensor([NAN, 1.0]), torch.complex64).isnan().tolist() == [True, False]


def test_nan_marks_a_missing_class_although_integers_hold_none() -> None:
    spec = TensorSpec("y", time_dim=4, dtype=torch.int64, placeholder=-100, nonfinite="mask")
    value, mask = fit(spec, torch.tensor([1.0, NAN, 2.0]), torch.tensor([1, 1, 0]))
    assert value.tolist() == [1, -100, 2]
    assert mask is not None
    assert mask.tolist() == [True, False, False]


def test_a_sentinel_may_be_a_number_that_the_dtype_does_not_hold() -> None:
    spec = TensorSpec("y", time_dim=4, dtype=torch.uint8, sentinel=-1)
    value, mask = fit(spec, torch.tensor([3, -1]), None)
    assert value.dtype is torch.uint8
    assert value.tolist() == [3, 0]
    assert mask is not None
    assert mask.tolist() == [True, False]


def test_the_placeholder_need_not_fit_the_dtype_of_the_file() -> None:
    spec = TensorSpec("x", feature_dim=2, time_dim=4, placeholder=NAN, sentinel=255)
    value, mask = fit(spec, torch.tensor([[1, 2], [255, 4]], dtype=torch.uint8), None)
    assert value[0].tolist() == [1.0, 2.0]
    assert bool(value[1].isnan().all())
    assert mask is not None
    assert mask.tolist() == [True, False]


@pytest.mark.parametrize("sentinel", ["-1", [1], NAN])
def test_a_sentinel_that_never_matches_is_refused(sentinel: Any) -> None:
    with pytest.raises(SchemaError, match="spec 'x': sentinel must be a number"):
        TensorSpec("x", sentinel=sentinel)
