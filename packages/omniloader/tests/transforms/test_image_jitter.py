from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import ndimage
from transform_cases import SCHEMA, draw_for

from omniloader.errors import ConfigError
from omniloader.transforms import ImageJitter

OFF: dict[str, Any] = {
    "brightness": 0.0,
    "contrast": 0.0,
    "degrees": 0.0,
    "translate": 0.0,
    "scale": 0.0,
    "blur": 0.0,
    "p": 1.0,
}


def jittered(images: torch.Tensor, seed: int = 0, **options: Any) -> torch.Tensor:
    flags = torch.ones(images.shape[: images.ndim - 3], dtype=torch.bool)
    sample = {"eye": images.clone(), "eye_mask": flags}
    transform = ImageJitter(["eye"], **{**OFF, **options})
    result: torch.Tensor = transform.transform_sample(sample, draw_for(1, seed), training=True)[
        "eye"
    ]
    return result


def frames(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).random(shape, dtype=np.float32))


def test_all_off_changes_nothing() -> None:
    images = frames(4, 3, 8, 8)
    assert torch.equal(jittered(images), images)


def test_brightness_multiplies_all_frames_by_one_number() -> None:
    images = frames(4, 3, 8, 8) + 0.1
    ratios = [jittered(images, seed, brightness=0.2) / images for seed in range(40)]
    for ratio in ratios:
        torch.testing.assert_close(ratio, ratio[:1, :1, :1, :1].expand_as(ratio))
    factors = np.array([float(ratio.flatten()[0]) for ratio in ratios])
    assert factors.min() >= 0.8 - 1e-5
    assert factors.max() <= 1.2 + 1e-5
    assert factors.std() > 0.05


def test_contrast_keeps_the_mean_of_each_frame() -> None:
    images = frames(4, 3, 8, 8)
    result = jittered(images, contrast=0.5)
    over = (1, 2, 3)
    torch.testing.assert_close(result.mean(over), images.mean(over))
    ratio = result.std(over) / images.std(over)
    torch.testing.assert_close(ratio, ratio[:1].expand(4))
    assert abs(float(ratio[0]) - 1) > 1e-3


def test_blur_is_gaussian() -> None:
    images = frames(2, 1, 16, 20)
    found = [jittered(images, seed, blur=1.5).numpy() for seed in range(3)]
    for result in found:
        errors = [
            np.abs(
                result[0, 0]
                - ndimage.gaussian_filter(
                    images[0, 0].numpy(), sigma, mode="nearest", radius=int(np.ceil(3 * sigma))
                )
            ).max()
            for sigma in np.linspace(0.005, 1.5, 3000)
        ]
        assert min(errors) < 1e-3
    torch.testing.assert_close(
        jittered(torch.ones(1, 1, 9, 9), blur=2.0), torch.ones(1, 1, 9, 9), rtol=1e-5, atol=1e-5
    )


def test_rotation_keeps_distances_of_images_that_are_not_square() -> None:
    images = torch.zeros(1, 1, 41, 81)
    images[0, 0, 20, 60] = images[0, 0, 5, 40] = 1.0
    result = jittered(images, seed=1, degrees=30.0)[0, 0].numpy()
    right, top = result.copy(), result.copy()
    right[:, :50], top[:, 55:] = 0, 0
    centre = np.array([20.0, 40.0])
    arms = [np.array(ndimage.center_of_mass(part)) - centre for part in (right, top)]
    assert np.linalg.norm(arms[0]) == pytest.approx(20, abs=0.5)
    assert np.linalg.norm(arms[1]) == pytest.approx(15, abs=0.5)
    assert arms[0] @ arms[1] == pytest.approx(0, abs=15)
    assert abs(arms[0][0]) > 0.5


def test_a_shift_moves_every_frame_alike() -> None:
    one = torch.zeros(1, 20, 20)
    one[0, 10, 10] = 1
    result = jittered(one.expand(3, 1, 20, 20), seed=2, translate=0.2).numpy()
    centres = np.array([ndimage.center_of_mass(frame[0]) for frame in result])
    assert np.abs(centres - centres[0]).max() < 1e-4
    assert 0.1 < np.abs(centres[0] - 10).max() <= 4 + 1e-4


def test_results_are_clipped_into_the_range_given() -> None:
    result = jittered(frames(2, 3, 8, 8), brightness=1.0, contrast=1.0, value_range=(0.25, 0.5))
    assert float(result.min()) >= 0.25
    assert float(result.max()) <= 0.5


def test_single_images_and_float16_are_taken() -> None:
    image = frames(3, 8, 8).half()
    result = jittered(image, brightness=0.5, blur=1.0, degrees=5.0)
    assert result.dtype is torch.float16
    assert result.shape == (3, 8, 8)
    assert not torch.equal(result, image)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keys": ["audio"], "schema": SCHEMA}, r"key 'audio' must have images \(C, H, W\) a step"),
        ({"brightness": 2.0}, "brightness must be a number at least 0 and at most 1, got 2.0"),
        ({"value_range": (1, 0)}, "value_range must be .low, high. with low under high"),
    ],
)
def test_what_is_not_possible_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ImageJitter(**options)
