"""Parts of the page on their own: colours, names beside masks, values of samples."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib", reason="the extra 'report' is not installed")
pytest.importorskip("jinja2", reason="the extra 'report' is not installed")

from matplotlib.image import imread

from omniloader import TensorSpec
from omniloader.report.canvas import PALETTE, short
from omniloader.report.cards import draw_sample
from omniloader.report.masks import batch_masks


def _luminance(colour: str) -> float:
    part = np.array([*bytes.fromhex(colour.lstrip("#"))]) / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize(("panel", "least"), [("#ffffff", 2.2), ("#1c2128", 3.0)])
def test_every_colour_stands_out_of_both_panels(panel: str, least: float) -> None:
    for colour in PALETTE:
        low, high = sorted((_luminance(colour), _luminance(panel)))
        assert (high + 0.05) / (low + 0.05) > least, colour


def test_masks_are_rows_by_source_and_columns_by_key() -> None:
    batch = {
        "dataset_index": torch.tensor([2, 0, 2]),
        "audio_mask": torch.tensor([[True, False], [True, True], [False, False]]),
        "mood_mask": torch.tensor([True, False, True]),
    }
    svg, sources = batch_masks(batch, ["audio", "mood"])
    assert sources == [0, 2]
    assert re.findall(r">(\w+)</text>", svg) == ["audio", "mood"]
    (uri,) = re.findall(r'xlink:href="(data:image/png;base64,[^"]+)"', svg)
    image = imread(io.BytesIO(base64.b64decode("".join(uri.split(",")[1].split()))))[::1]
    blue, green = ([*bytes.fromhex(PALETTE[i][1:]), 255] for i in (0, 2))
    height, width = image.shape[:2]
    seen = (image[[height // 6, height // 2, -height // 6]] * 255).round().astype(int)
    columns = [width // 8, width * 4 // 8, -2]  # two steps of audio, then mood
    real = [
        [tuple(seen[row, c]) in {tuple(blue), tuple(green)} for c in columns] for row in (0, 1, 2)
    ]
    assert sorted(real) == sorted([[True, True, False], [True, False, True], [False, False, True]])


def test_long_names_are_cut() -> None:
    assert short("japanese_vowels") == "japanese_vowels"
    assert short("a" * 30) == "a" * 17 + "…"


def _frame(uri: str) -> np.ndarray:
    return imread(io.BytesIO(base64.b64decode(uri.split(",")[1])))[..., :3]


def _drawn(spec: TensorSpec, value: torch.Tensor, mask: torch.Tensor):
    (drawing,) = draw_sample([spec], {spec.name: value, f"{spec.name}_mask": mask})
    return drawing


def test_bytes_are_shown_as_bright_as_they_are() -> None:
    spec = TensorSpec("face", shape=(3, 4, 5), dtype=torch.uint8)
    drawing = _drawn(spec, torch.full((3, 4, 5), 51, dtype=torch.uint8), torch.tensor(True))
    (image,) = drawing.images
    assert _frame(image).shape == (4, 5, 3)
    np.testing.assert_allclose(_frame(image), 0.2, atol=1e-6)


def test_normalised_frames_are_stretched_and_nan_is_black() -> None:
    spec = TensorSpec("face", shape=(1, 1, 3), time_dim=2)
    value = torch.tensor([-2.0, 2.0, float("nan"), 0.0, 0.0, 0.0]).reshape(2, 1, 1, 3)
    first, second = _drawn(spec, value, torch.tensor([True, True])).images
    np.testing.assert_allclose(_frame(first)[0, :, 0], [0.0, 1.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(_frame(second), 0.5, atol=0.003)


def test_frames_of_one_colour_or_of_nan_are_drawn() -> None:
    spec = TensorSpec("face", shape=(3, 1, 1))
    for value in (7.0, float("nan")):
        drawing = _drawn(spec, torch.full((3, 1, 1), value), torch.tensor(True))
        np.testing.assert_array_equal(_frame(drawing.images[0]), 0.0)


def test_a_missing_value_says_so_and_masked_frames_are_left_out() -> None:
    vector = TensorSpec("open")
    assert _drawn(vector, torch.tensor(0.0), torch.tensor(False)).text == "missing"
    spec = TensorSpec("face", shape=(3, 2, 2), time_dim=4)
    mask = torch.tensor([True, False, True, False])
    assert len(_drawn(spec, torch.zeros(4, 3, 2, 2), mask).images) == 2


def test_values_without_a_picture_are_named_by_shape() -> None:
    spec = TensorSpec("map", shape=(2, 5))
    assert _drawn(spec, torch.zeros(2, 5), torch.tensor(True)).text == "shape (2, 5)"


@pytest.mark.parametrize(
    ("spec", "shape", "part"),
    [
        (TensorSpec("a", feature_dim=12, time_dim=3), (3, 12), "6 of 12 columns"),
        (TensorSpec("a", feature_dim=6, time_dim=3), (3, 6), ""),
        (TensorSpec("a", time_dim=3), (3,), ""),
        (TensorSpec("a", feature_dim=100), (100,), "64 of 100 elements"),
        (TensorSpec("a", shape=(3, 2, 2), time_dim=30), (30, 3, 2, 2), "8 of 30 frames"),
        (TensorSpec("a", shape=(3, 2, 2)), (3, 2, 2), ""),
    ],
)
def test_a_drawing_says_what_it_leaves_out(
    spec: TensorSpec, shape: tuple[int, ...], part: str
) -> None:
    mask = torch.ones(spec.mask_shape, dtype=torch.bool)
    assert _drawn(spec, torch.zeros(shape), mask).part == part
