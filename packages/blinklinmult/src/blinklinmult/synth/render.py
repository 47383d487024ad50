"""Draw eyes: skin, an almond opening between two lids, a white, an iris and a pupil."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Face:
    """What one person's eyes look like.

    Args:
        skin: RGB of the skin ``(3,)`` in [0, 1].
        iris: RGB of the iris ``(3,)`` in [0, 1].
        width: Half the width of the opening, in halves of the crop.
        height: Half its height when fully open.
        light: Brightness of the scene.
    """

    skin: Image
    iris: Image
    width: float
    height: float
    light: float

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Self:
        """Some person."""
        tone = rng.uniform(0.35, 0.85)
        return cls(
            skin=np.array([tone, tone * 0.78, tone * 0.66], dtype=np.float32),
            iris=rng.uniform(0.1, 0.5, 3).astype(np.float32),
            width=float(rng.uniform(0.7, 0.85)),
            height=float(rng.uniform(0.4, 0.55)),
            light=float(rng.uniform(0.75, 1.1)),
        )


def draw_eyes(
    face: Face,
    openness: Image,
    size: int,
    rng: np.random.Generator,
    *,
    mirrored: bool = False,
    shaking: float = 0.03,
) -> Image:
    """Crops of one eye, a frame each.

    Args:
        face: Whose eye.
        openness: ``(n,)`` in [0, 1].
        size: Side of the crops in pixels.
        rng: Draws gaze, shaking and noise.
        mirrored: The other eye of the face.
        shaking: How far the crop is off, in halves of the crop.

    Returns:
        ``(n, 3, size, size)`` float32 in [0, 1], in steps of 1/255 as from a camera.
    """
    frames = len(openness)
    axis = np.linspace(-1, 1, size, dtype=np.float32)
    shift = rng.normal(0, shaking, (2, frames, 1, 1)).astype(np.float32)
    x = axis[None, None, :] - shift[0]
    y = axis[None, :, None] - shift[1] - 0.1
    arch = np.clip(1 - (x / face.width) ** 2, 0, None)
    upper = -face.height * openness[:, None, None] * arch
    lower = 0.35 * face.height * openness[:, None, None] * arch
    # Half a pixel of softness at the edges, as a camera has.
    soft = size / 4
    opening = _step((y - upper) * soft) * _step((lower - y) * soft) * (arch > 0)
    gaze = np.cumsum(rng.normal(0, 0.015, frames)).clip(-0.25, 0.25).astype(np.float32)
    radius = np.hypot(x - gaze[:, None, None], y + 0.1)
    iris, pupil = _step((0.34 - radius) * soft), _step((0.14 - radius) * soft)
    lash = np.exp(-(((y - upper) * soft / 2) ** 2)) * (arch > 0)
    canvas = np.empty((frames, 3, size, size), dtype=np.float32)
    for channel in range(3):
        inside = 0.92 * (1 - iris) + face.iris[channel] * iris
        inside = inside * (1 - pupil) + 0.03 * pupil
        canvas[:, channel] = face.skin[channel] * (1 - opening) + inside * opening
    canvas *= (1 - 0.7 * lash[:, None]) * face.light
    canvas += rng.normal(0, 0.01, (frames, 1, size, size)).astype(np.float32)
    if mirrored:
        canvas = canvas[..., ::-1]
    stepped: Image = np.round(canvas.clip(0, 1) * 255).astype(np.float32) / np.float32(255)
    return stepped


def _step(value: Image) -> Image:
    ramp: Image = np.clip(value + 0.5, 0, 1)
    return ramp
