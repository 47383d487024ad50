from typing import Any

import numpy as np
import pytest
import torch

from omniloader.schema.spec import TensorSpec
from omniloader.schema.values import Misfit, as_tensor, cast_exactly, fit


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (3, torch.tensor(3)),
        (2.5, torch.tensor(2.5, dtype=torch.float64)),
        (True, torch.tensor(True)),
        ([], torch.zeros(0)),
        ([[1, 2], [3, 4]], torch.tensor([[1, 2], [3, 4]])),
        (np.float32(1.5), torch.tensor(1.5)),
        (np.arange(3, dtype=">i2"), torch.tensor([0, 1, 2], dtype=torch.int16)),
        (np.array([1, 65535], dtype=np.uint16), torch.tensor([1, 65535], dtype=torch.int32)),
        (np.array([2**32 - 1], dtype=np.uint32), torch.tensor([2**32 - 1])),
        (np.array([7], dtype=np.uint64), torch.tensor([7])),
        (np.arange(4)[::-1], torch.tensor([3, 2, 1, 0])),
        (np.ones(2, dtype=np.longdouble), torch.ones(2, dtype=torch.float64)),
        (torch.ones(2, requires_grad=True), torch.ones(2)),
    ],
)
def test_whatever_a_source_hands_out_becomes_a_tensor(raw: Any, expected: torch.Tensor) -> None:
    result = as_tensor(raw)
    assert result.dtype is expected.dtype
    assert torch.equal(result, expected)
    assert not result.requires_grad


def test_read_only_memory_is_copied_without_a_warning() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    result = as_tensor(array)
    result.zero_()
    assert array.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("happy", "must be numeric, got str 'happy'; convert it in the source"),
        ({"a": 1}, r"must be numeric, got dict \{'a': 1\}"),
        ("x" * 99, r"got str 'x{36}\.\.\."),
        (np.array(["a", "b"]), "must be numeric, got an array of dtype <U1"),
        ([[1], [1, 2]], "must be one rectangular array, got a ragged list"),
        (np.array([2**64 - 1], dtype=np.uint64), "must fit int64, got the uint64 value 1844674407"),
        (torch.ones(2).to_sparse(), "must be a dense tensor, got layout torch.sparse_coo"),
    ],
)
def test_what_is_not_numeric_is_refused(raw: Any, text: str) -> None:
    with pytest.raises(Misfit, match=text):
        as_tensor(raw)


@pytest.mark.parametrize(
    ("values", "source", "target"),
    [
        ([1.5, float("nan"), float("inf")], torch.float64, torch.float32),
        ([0.1], torch.float64, torch.float16),
        ([3.0, -4.0], torch.float32, torch.int8),
        ([2**53], torch.int64, torch.float32),
        ([2**24], torch.int32, torch.float32),
        ([200], torch.int64, torch.uint8),
        ([0, 1], torch.int32, torch.bool),
        ([True], torch.bool, torch.int64),
        ([1.0], torch.float32, torch.complex64),
        ([float(2**62)], torch.float64, torch.int64),
    ],
)
def test_casts_that_keep_the_number(
    values: list[float], source: torch.dtype, target: torch.dtype
) -> None:
    result = cast_exactly(torch.tensor(values, dtype=source), target)
    assert result.dtype is target
    assert torch.equal(result.nan_to_num(), torch.tensor(values, dtype=target).nan_to_num())


@pytest.mark.parametrize(
    ("values", "source", "target", "shown"),
    [
        ([1.0, 1.5], torch.float32, torch.int64, "1.5"),
        ([float("nan")], torch.float32, torch.int64, "nan"),
        ([float("inf")], torch.float64, torch.int32, "inf"),
        ([1e39], torch.float64, torch.float32, "1e+39"),
        ([70000.0], torch.float32, torch.float16, "70000.0"),
        ([2**24 + 1], torch.int64, torch.float32, "16777217"),
        ([2**63 - 1], torch.int64, torch.float64, "9223372036854775807"),
        ([2**63 - 1], torch.int64, torch.float32, "9223372036854775807"),
        ([-1], torch.int64, torch.uint8, "-1"),
        ([300], torch.int32, torch.uint8, "300"),
        ([256.0], torch.float32, torch.uint8, "256.0"),
        ([float(2**63)], torch.float64, torch.int64, "9.223372036854776e+18"),
        ([2], torch.int64, torch.bool, "2"),
        ([0.5], torch.float32, torch.bool, "0.5"),
    ],
)
def test_casts_that_lose_are_refused_with_the_number(
    values: list[float], source: torch.dtype, target: torch.dtype, shown: str
) -> None:
    with pytest.raises(Misfit) as caught:
        cast_exactly(torch.tensor(values, dtype=source), target)
    assert f"must hold numbers that {target} can represent, got {shown} ({source})" in str(
        caught.value
    )


def test_complex_never_becomes_real() -> None:
    with pytest.raises(Misfit, match=r"must be real to become torch.float32, got torch.complex64"):
        cast_exactly(torch.ones(1, dtype=torch.complex64), torch.float32)


@pytest.mark.parametrize(
    ("spec", "shape", "text"),
    [
        (TensorSpec("x", time_dim=4), (), r"sequence of shape \(t,\), got shape \(\)"),
        (TensorSpec("x", time_dim=4), (4, 1), r"sequence of shape \(t,\), got shape \(4, 1\)"),
        (TensorSpec("x", time_dim=4, feature_dim=2), (4, 3), r"\(t, 2\), got shape \(4, 3\)"),
        (TensorSpec("x", feature_dim=2), (3,), r"vector of shape \(2,\), got shape \(3,\)"),
        (TensorSpec("x", shape=(2, 2)), (4,), r"vector of shape \(2, 2\), got shape \(4,\)"),
        (TensorSpec("x"), (2,), r"vector of shape \(\), got shape \(2,\)"),
    ],
)
def test_wrong_shapes_say_what_was_expected(
    spec: TensorSpec, shape: tuple[int, ...], text: str
) -> None:
    with pytest.raises(Misfit, match=text):
        fit(spec, torch.zeros(shape), None)


def test_one_element_is_a_scalar_however_wrapped() -> None:
    value, mask = fit(TensorSpec("y"), torch.tensor([[3.0]]), torch.tensor([1]))
    assert value.shape == ()
    assert mask is not None
    assert mask.shape == ()
    column, _ = fit(TensorSpec("y"), torch.arange(4.0).reshape(4, 1), None, lead=1)
    assert column.shape == (4,)


def test_masks_are_bool_or_zero_and_one_of_the_native_length() -> None:
    spec = TensorSpec("x", time_dim=2)
    _, mask = fit(spec, torch.arange(3.0), torch.tensor([0.0, 1.0, 1.0]))
    assert mask is not None
    assert mask.tolist() == [False, True]
    with pytest.raises(Misfit, match=r"mask must have shape \(3,\) like the value, got \(2,\)"):
        fit(spec, torch.arange(3.0), torch.tensor([True, True]))
    with pytest.raises(Misfit, match=r"mask must hold only 0 and 1 \(True = real\), got 7"):
        fit(spec, torch.arange(3.0), torch.tensor([0, 7, 1]))


def test_values_beyond_time_dim_are_cut_before_they_are_judged() -> None:
    value, _ = fit(
        TensorSpec("x", time_dim=2, dtype=torch.int64), torch.tensor([1.0, 2.0, 2.5]), None
    )
    assert value.tolist() == [1, 2]


def test_nonfinite_steps_are_masked_whole() -> None:
    spec = TensorSpec("x", time_dim=3, feature_dim=2, nonfinite="mask", placeholder=-1.0)
    raw = torch.tensor([[1.0, 2.0], [float("nan"), 3.0], [4.0, float("-inf")]])
    value, mask = fit(spec, raw, None)
    assert value.tolist() == [[1.0, 2.0], [-1.0, -1.0], [-1.0, -1.0]]
    assert mask is not None
    assert mask.tolist() == [True, False, False]
    assert bool(torch.isnan(raw[1, 0]))


def test_a_nonfinite_vector_is_masked_whole() -> None:
    spec = TensorSpec("x", feature_dim=2, nonfinite="mask")
    value, mask = fit(spec, torch.tensor([1.0, float("nan")]), torch.tensor(True))
    assert value.tolist() == [0.0, 0.0]
    assert mask is not None
    assert mask.tolist() is False


def test_nonfinite_raise_looks_only_at_real_steps() -> None:
    spec = TensorSpec("x", time_dim=2, nonfinite="raise")
    raw = torch.tensor([1.0, float("nan")])
    value, _ = fit(spec, raw, torch.tensor([True, False]))
    assert bool(torch.isnan(value[1]))
    with pytest.raises(
        Misfit, match="must be finite, got NaN or infinity at step 1; clean the source"
    ):
        fit(spec, raw, None)
    with pytest.raises(Misfit, match="must be finite, got NaN or infinity; clean the source"):
        fit(TensorSpec("y", nonfinite="raise"), torch.tensor(float("inf")), None)


def test_sentinels_are_masked_and_a_placeholder_never_is() -> None:
    spec = TensorSpec("x", time_dim=4, sentinel=-999.0, placeholder=-5.0)
    value, mask = fit(spec, torch.tensor([-5.0, -999.0, 0.0]), torch.tensor([True, True, False]))
    assert value.tolist() == [-5.0, -5.0, 0.0]
    assert mask is not None
    assert mask.tolist() == [True, False, False]
