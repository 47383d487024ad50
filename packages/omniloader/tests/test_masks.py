import torch

from omniloader import masks


def test_names() -> None:
    assert masks.mask_name("x") == "x_mask"
    assert masks.is_mask_name("x_mask")
    assert not masks.is_mask_name("mask")
    assert masks.masked_name("x_mask") == "x"


def test_broadcast_over_trailing_axes() -> None:
    mask = torch.tensor([[True, False]])
    assert masks.broadcast_mask(mask, torch.zeros(1, 2, 3, 4)).shape == (1, 2, 1, 1)
    assert masks.broadcast_mask(torch.tensor(True), torch.zeros(3)).shape == (1,)


def test_valid_rows_of_sequences_and_vectors() -> None:
    value = torch.arange(6.0).reshape(3, 2)
    assert masks.valid_rows(value, torch.tensor([True, False, True])).tolist() == [[0, 1], [4, 5]]
    assert masks.valid_rows(value[0], torch.tensor(True)).tolist() == [[0, 1]]
    assert masks.valid_rows(value[0], torch.tensor(False)).shape == (0, 2)


def test_key_padding_mask_has_the_polarity_of_attention() -> None:
    attention = torch.nn.MultiheadAttention(2, 1, batch_first=True)
    x = torch.ones(1, 2, 2)
    mask = torch.tensor([[True, False]])
    _, weights = attention(x, x, x, key_padding_mask=masks.key_padding_mask(mask))
    assert weights[0, :, 1].tolist() == [0.0, 0.0]
