import pytest
import torch

from omniloader.utils.padding import (
    fill_gaps_with_repeat,
    pad_or_crop_time_dim,
    repeat_pad_time_dim,
)


def test_pad_and_crop() -> None:
    value, mask = pad_or_crop_time_dim(torch.tensor([5.0, 6.0]), 4, placeholder=-1.0)
    assert value.tolist() == [5.0, 6.0, -1.0, -1.0]
    assert mask.tolist() == [True, True, False, False]
    value, mask = pad_or_crop_time_dim(
        torch.tensor([5, 6, 7]), 2, mask=torch.tensor([True, False, True])
    )
    assert value.tolist() == [5, 6]
    assert value.dtype is torch.int64
    assert mask.tolist() == [True, False]
    value, mask = pad_or_crop_time_dim(torch.zeros(0, 3), 2)
    assert value.shape == (2, 3)
    assert not mask.any()


def test_padding_shares_no_memory() -> None:
    source = torch.zeros(3)
    pad_or_crop_time_dim(source, 2)[0].fill_(1.0)
    assert source.sum() == 0


def test_repeat_pad() -> None:
    assert repeat_pad_time_dim(torch.tensor([1, 2]), 4).tolist() == [1, 2, 2, 2]
    assert repeat_pad_time_dim(torch.tensor([1, 2, 3]), 2).tolist() == [1, 2]
    assert repeat_pad_time_dim(torch.zeros(0, 2), 0).shape == (0, 2)
    with pytest.raises(ValueError, match="must have at least one step to repeat"):
        repeat_pad_time_dim(torch.zeros(0, 2), 3)


def test_gaps_take_the_last_real_step_before_them() -> None:
    value = torch.tensor([0.0, 7.0, 0.0, 9.0, 1.0])
    mask = torch.tensor([False, True, False, True, False])
    assert fill_gaps_with_repeat(value, mask).tolist() == [7.0, 7.0, 7.0, 9.0, 9.0]
    nothing = fill_gaps_with_repeat(value, torch.zeros(5, dtype=torch.bool))
    assert nothing.tolist() == value.tolist()
    nothing.zero_()
    assert value[1] == 7.0
    frames = torch.arange(6.0).reshape(3, 2)
    assert fill_gaps_with_repeat(frames, torch.tensor([True, False, True])).tolist() == [
        [0, 1],
        [0, 1],
        [4, 5],
    ]


def test_wrong_masks_and_scalars_are_refused() -> None:
    with pytest.raises(ValueError, match=r"mask must have shape \(2,\) like the value, got \(3,\)"):
        fill_gaps_with_repeat(torch.zeros(2), torch.ones(3, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"mask must have shape \(2,\) like the value, got \(1,\)"):
        pad_or_crop_time_dim(torch.zeros(2), 2, mask=torch.ones(1, dtype=torch.bool))
    with pytest.raises(ValueError, match="must have a leading time axis, got a scalar"):
        repeat_pad_time_dim(torch.tensor(1.0), 2)
