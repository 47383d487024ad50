"""Vary how images look: brightness, contrast, a small affine map, blur.

Plain torch, one draw a sample: every frame of every image sequence of a sample is changed alike, as
if the camera had been another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from omniloader._types import FloatArray
from omniloader.errors import ConfigError
from omniloader.schema.spec import DatasetSchema, UnifiedSchema
from omniloader.transforms.batched import BatchTransform, Keys, Stack
from omniloader.transforms.draws import chosen
from omniloader.transforms.options import number, probability
from omniloader.transforms.select import Needs
from omniloader.transforms.valid import change_steps, valid_index, wide
from omniloader.utils.seeding import uniform

_PARAMETERS = 7


class ImageJitter(BatchTransform):
    """Random brightness, contrast, small affine map and blur of images ``(C, H, W)``.

    Every strength is a symmetric range around "as it is", and 0 switches that change off. Targets
    are never moved: keep the affine map small where they are places in the image.

    Args:
        keys: Images or image sequences to change. Default: all floating features of three axes.
        brightness: Values are multiplied by 1 ± this much.
        contrast: Distances to each frame's mean are multiplied by 1 ± this much.
        degrees: Rotation, ± degrees.
        translate: Shift in both axes, ± this share of the image's size.
        scale: Zoom by 1 ± this much.
        blur: Gaussian blur of up to this many pixels' standard deviation.
        value_range: Clip results into this range, such as ``(0, 1)``; None: do not clip.
        p: Probability that a sample is changed.
        schema: The union schema; see :class:`BatchTransform`.

    Raises:
        ConfigError: If a key does not hold floating images.
    """

    train_only = True
    needs = Needs(floating=True, trailing_axes=3)

    def __init__(
        self,
        keys: Sequence[str] | None = None,
        brightness: float = 0.2,
        contrast: float = 0.2,
        degrees: float = 5.0,
        translate: float = 0.05,
        scale: float = 0.05,
        blur: float = 1.0,
        value_range: tuple[float, float] | None = None,
        p: float = 0.5,
        schema: UnifiedSchema | DatasetSchema | None = None,
    ) -> None:
        self.brightness = number("ImageJitter", "brightness", brightness, 0.0, 1.0)
        self.contrast = number("ImageJitter", "contrast", contrast, 0.0, 1.0)
        self.degrees = number("ImageJitter", "degrees", degrees, 0.0, 180.0)
        self.translate = number("ImageJitter", "translate", translate, 0.0, 1.0)
        self.scale = number("ImageJitter", "scale", scale, 0.0, 0.9)
        self.blur = number("ImageJitter", "blur", blur, 0.0)
        self.value_range = _checked_range(value_range)
        self.p = probability("ImageJitter", "p", p)
        super().__init__(keys, schema)

    def apply_batch(self, stack: Stack, keys: Keys) -> None:
        """Change sample by sample: all frames of one share their parameters."""
        active = chosen(keys, self.p)
        unit = torch.stack([torch.from_numpy(uniform(keys, 1 + k)) for k in range(_PARAMETERS)], 1)
        looks = {row: self._look(unit[row].numpy()) for row in active.nonzero()[0].tolist()}
        for form in self.forms(stack):
            mask = stack.pair(form.name)[1]
            for row, look in looks.items():
                own = torch.arange(stack.size) == row
                change_steps(stack, form.name, valid_index(mask, own), partial(self._change, look))

    def _look(self, unit: FloatArray) -> _Look:
        """Parameters of one sample, from seven uniform numbers."""
        signed = (2 * unit - 1).tolist()
        return _Look(
            brightness=1 + self.brightness * signed[0],
            contrast=1 + self.contrast * signed[1],
            radians=math.radians(self.degrees * signed[2]),
            shift=(2 * self.translate * signed[3], 2 * self.translate * signed[4]),
            zoom=1 + self.scale * signed[5],
            sigma=self.blur * float(unit[6]),
        )

    def _change(self, look: _Look, frames: Tensor) -> Tensor:
        changed = frames.to(wide(frames.dtype))
        if self.degrees or self.translate or self.scale:
            changed = _affine(changed, look)
        if self.blur:
            changed = _blur(changed, look.sigma)
        if self.brightness:
            changed = changed * look.brightness
        if self.contrast:
            # In NumPy: torch's sum of one large frame depends on the number of threads.
            mean = torch.from_numpy(changed.numpy().mean(axis=(1, 2, 3), keepdims=True))
            changed = (changed - mean) * look.contrast + mean
        return changed if self.value_range is None else changed.clamp(*self.value_range)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Look:
    """Parameters of one sample; ``shift`` is in half image sizes, as torch's grids are."""

    brightness: float
    contrast: float
    radians: float
    shift: tuple[float, float]
    zoom: float
    sigma: float


def _affine(frames: Tensor, look: _Look) -> Tensor:
    """Rotate, zoom and shift frames ``(n, C, H, W)``; the border is repeated outside."""
    height, width = frames.shape[-2:]
    cos, sin = math.cos(look.radians) / look.zoom, math.sin(look.radians) / look.zoom
    # torch's axes run from -1 to 1 each: without their ratio a rotation would shear.
    ratio = height / width
    theta = torch.tensor(
        [[cos, -sin * ratio, -look.shift[0]], [sin / ratio, cos, -look.shift[1]]],
        dtype=frames.dtype,
    )
    thetas = theta.expand(frames.shape[0], 2, 3)
    grid = functional.affine_grid(thetas, list(frames.shape), align_corners=False)
    return functional.grid_sample(
        frames, grid, mode="bilinear", padding_mode="border", align_corners=False
    )


def _blur(frames: Tensor, sigma: float) -> Tensor:
    """Gaussian blur of each channel, in two passes of a kernel of three deviations."""
    radius = math.ceil(3 * sigma)
    if radius == 0:
        return frames
    offsets = torch.arange(-radius, radius + 1, dtype=frames.dtype)
    kernel = torch.exp(-0.5 * (offsets / sigma) ** 2)
    kernel = kernel / kernel.sum()
    for axis in (-1, -2):
        pad = (radius, radius, 0, 0) if axis == -1 else (0, 0, radius, radius)
        padded = functional.pad(frames, pad, mode="replicate")
        # A sum of shifted copies, not conv2d, whose algorithm depends on sizes and threads.
        frames = torch.zeros_like(frames)
        for start, weight in enumerate(kernel.tolist()):
            frames = frames + weight * padded.narrow(axis, start, frames.shape[axis])
    return frames


def _checked_range(value_range: tuple[float, float] | None) -> tuple[float, float] | None:
    if value_range is None:
        return None
    low, high = value_range
    if not low < high:
        raise ConfigError(
            f"ImageJitter: value_range must be (low, high) with low under high, got {value_range}"
        )
    return (float(low), float(high))
