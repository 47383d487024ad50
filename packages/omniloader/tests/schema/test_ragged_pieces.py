"""Batches of ragged lists and of values that are cast while they are copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from omniloader import DatasetSchema, OmniLoader, TensorSpec
from omniloader.errors import SampleError

STEPS = [3, 7, 0, 5]


class Columns(torch.utils.data.Dataset):
    """A source of given values of ``x``, as a list column or one by one."""

    def __init__(self, values: list[Any], masks: list[Any] | None = None) -> None:
        self.columns = {"x": values} if masks is None else {"x": values, "x_mask": masks}

    def __len__(self) -> int:
        return len(self.columns["x"])

    def __getitem__(self, index: int) -> dict[str, Any]:
        items = {name: column[index] for name, column in self.columns.items()}
        return {name: item for name, item in items.items() if item is not None}

    def read_batch(self, indices: np.ndarray) -> dict[str, list[Any]]:
        return {name: [column[i] for i in indices] for name, column in self.columns.items()}


def ragged(width: int, dtype: torch.dtype) -> list[torch.Tensor | None]:
    values = [torch.arange(t * width).reshape(t, width).to(dtype) for t in STEPS]
    return [*values, None]


def assert_batch_equals_items(source: Columns, spec: TensorSpec) -> None:
    other = Columns([torch.ones(2, *spec.trailing_shape)])
    for pad in (True, False):
        omni = OmniLoader([source, other], [DatasetSchema([spec], [])] * 2, pad_features=pad)
        order = [4, 0, 5, 1, 3, 2]
        for left, right in zip(omni.__getitems__(order), [omni[i] for i in order], strict=True):
            for name in ("x", "x_mask"):
                assert left[name].dtype is right[name].dtype
                assert torch.equal(left[name], right[name]), (name, pad)


@pytest.mark.parametrize("width", [2, 600])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8, torch.float64])
@pytest.mark.parametrize("time_dim", [6, 20])
def test_ragged_rows(width: int, dtype: torch.dtype, time_dim: int) -> None:
    spec = TensorSpec("x", feature_dim=width, time_dim=time_dim, placeholder=-2.0)
    assert_batch_equals_items(Columns(ragged(width, dtype)), spec)


@pytest.mark.parametrize("width", [2, 600])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bool, torch.bfloat16])
@pytest.mark.parametrize("masked", [False, True])
def test_rows_of_one_shape_are_cast_while_they_are_copied(
    width: int, dtype: torch.dtype, masked: bool
) -> None:
    values = [torch.full((4, width), i % 2).to(dtype) for i in range(5)]
    masks = [torch.arange(4) != i for i in range(5)] if masked else None
    for time_dim in (3, 9):
        spec = TensorSpec("x", feature_dim=width, time_dim=time_dim, placeholder=-2.0)
        assert_batch_equals_items(Columns(values, masks), spec)


def test_rows_that_differ_in_more_than_their_length() -> None:
    spec = TensorSpec("x", feature_dim=2, time_dim=6)
    mixed = ragged(2, torch.float32)
    for odd in (torch.ones(2, 2, dtype=torch.float64), np.ones((2, 2)), [[1.0, 2.0]]):
        assert_batch_equals_items(Columns([odd, *mixed[1:]]), spec)
        assert_batch_equals_items(Columns([*mixed[:3], odd, None]), spec)
    learned = torch.ones(2, 2, requires_grad=True)
    assert_batch_equals_items(Columns([*mixed[:3], learned, None]), spec)
    wide = Columns([torch.ones(t, 3) for t in STEPS])
    with pytest.raises(SampleError, match=r"'x': must be a sequence of shape \(t, 2\), got"):
        OmniLoader([wide], [DatasetSchema([spec], [])]).__getitems__([0, 1])


def test_a_mask_that_does_not_fit_is_named() -> None:
    spec = TensorSpec("x", feature_dim=2, time_dim=6)
    source = Columns([torch.ones(3, 2)] * 2, [torch.ones(3), torch.tensor([1, 2, 0])])
    omni = OmniLoader([source], [DatasetSchema([spec], [])])
    with pytest.raises(SampleError, match=r"sample 1 .*'x': mask must hold only 0 and 1"):
        omni.__getitems__([0, 1])
