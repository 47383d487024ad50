"""A few samples of a source, drawn: curves, bars, thumbnails, or the number itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from omniloader._types import Sample
from omniloader.masks import mask_name
from omniloader.report.canvas import Svg, bare, colour, figure, png
from omniloader.schema.spec import TensorSpec

# More lines than this are a thicket, more frames a film strip.
_MOST_LINES, _MOST_FRAMES, _MOST_BARS = 6, 8, 64


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """One value of one sample, as the page shows it: exactly one of the forms is set.

    Args:
        key: Name of the value.
        svg: A figure.
        images: Frames as data URIs.
        text: A number, or why there is no picture.
        part: What of the value is shown; empty if it is all.
    """

    key: str
    svg: Svg | None = None
    images: tuple[str, ...] = ()
    text: str | None = None
    part: str = ""


def draw_sample(specs: list[TensorSpec], sample: Sample) -> list[Drawing]:
    """Draw the values of a sample; one without a real position says so.

    Args:
        specs: What its source declares.
        sample: The unified sample.
    """
    drawings = []
    for spec in specs:
        mask = sample[mask_name(spec.name)]
        if bool(mask.any()):
            drawings.append(_draw(spec, sample[spec.name], mask))
        else:
            drawings.append(Drawing(key=spec.name, text="missing"))
    return drawings


def _draw(spec: TensorSpec, value: Tensor, mask: Tensor) -> Drawing:
    if spec.is_sequence:
        steps = int(mask.nonzero().max()) + 1
        value, mask = value[:steps], mask[:steps]
    trailing = spec.trailing_shape
    if len(trailing) == 3 and trailing[0] in (1, 3):
        images, real = _frames(spec, value, mask)
        return Drawing(key=spec.name, images=images, part=_part(len(images), real, "frames"))
    if value.dtype.is_complex or len(trailing) > 1:
        return Drawing(key=spec.name, text=f"shape {tuple(value.shape)}")
    flat = value.double().numpy()
    if spec.is_sequence:
        part = _part(_MOST_LINES, flat[0].size, "columns")
        return Drawing(key=spec.name, svg=_curves(spec.name, flat, mask.numpy()), part=part)
    if trailing:
        part = _part(_MOST_BARS, flat.size, "elements")
        return Drawing(key=spec.name, svg=_bars(spec.name, flat), part=part)
    return Drawing(key=spec.name, text=f"{flat.item():g}")


def _part(shown: int, there: int, noun: str) -> str:
    return f"{shown} of {there} {noun}" if shown < there else ""


def _curves(key: str, value: np.ndarray, mask: np.ndarray) -> Svg:
    lines = value.reshape(len(value), -1)[:, :_MOST_LINES].copy()
    lines[~mask] = np.nan  # a masked step is a gap

    def draw(made: Figure) -> None:
        axes = made.add_subplot()
        marker = "o" if len(lines) == 1 else None
        for number, line in enumerate(lines.T):
            axes.plot(line, color=colour(number), marker=marker, markersize=3)
        axes.margins(x=0.01)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=3))
        bare(axes)

    return figure(3.4, 1.25, draw, f"{key} over its steps")


def _bars(key: str, value: np.ndarray) -> Svg:
    shown = value[:_MOST_BARS]

    def draw(made: Figure) -> None:
        axes = made.add_subplot()
        axes.bar(range(len(shown)), np.nan_to_num(shown), color=colour(0))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=3))
        bare(axes)

    return figure(3.4, 1.25, draw, f"{key}, element by element")


def _frames(spec: TensorSpec, value: Tensor, mask: Tensor) -> tuple[tuple[str, ...], int]:
    """Frames spread over the real ones, and how many of these there are."""
    frames = value if spec.is_sequence else value[None]
    real = mask.nonzero()[:, 0].numpy() if spec.is_sequence else np.array([0])
    picked = real[np.unique(np.linspace(0, len(real) - 1, _MOST_FRAMES).round().astype(int))]
    pixels = frames[picked].double().numpy()
    if spec.dtype == torch.uint8:
        pixels = pixels / 255
    return tuple(png(frame.transpose(1, 2, 0)) for frame in _in_range(pixels)), len(real)


def _in_range(pixels: np.ndarray) -> np.ndarray:
    """Values in [0, 1] as they are; others, such as normalised ones, stretched to it."""
    finite = pixels[np.isfinite(pixels)]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 0.0)
    if low >= 0.0 and high <= 1.0:
        return pixels
    return (pixels - low) / (high - low if high > low else 1.0)
