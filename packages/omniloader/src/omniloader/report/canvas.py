"""Figures as inline SVG that reads on light and on dark pages."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

try:
    from matplotlib import rc_context
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.image import imsave
except ImportError as error:
    raise ImportError(
        "omniloader.report draws with matplotlib and jinja2; pip install 'omniloader[report]'"
    ) from error

# Okabe & Ito (2008): told apart by colour-blind readers, on white and on black.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C8C8C", "#B8A800")
# Ink is drawn in a colour nothing else has, and becomes the page's own text colour.
INK = "#010203"

Svg = str


def figure(width: float, height: float, draw: Callable[[Figure], None], title: str) -> Svg:
    """Draw a figure and give it as an ``<svg>`` element.

    Args:
        width: Inches, of which a page shows 96 pixels or fewer.
        height: Inches.
        draw: Draws into the figure.
        title: What one sees, for readers that do not see it.
    """
    settings = {
        "svg.hashsalt": "omniloader",
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 9,
    }
    for part in ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"):
        settings[part] = INK
    with rc_context(settings):  # type: ignore[arg-type]
        made = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(made)
        made.patch.set_alpha(0.0)
        draw(made)
        out = io.StringIO()
        made.savefig(out, format="svg", metadata={"Date": None})
    return _inline(out.getvalue(), title)


def _inline(svg: str, title: str) -> Svg:
    """Only the element, scaled by the page, in the page's ink."""
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    width, height = re.findall(r'(?:width|height)="([\d.]+)pt"', svg)[:2]
    svg = re.sub(r'(width|height)="[\d.]+pt"', "", svg, count=2)
    label = title.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    style = f'style="max-width:{float(height) and float(width) * 96 / 72:.0f}px"'
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}" {style}', 1)


def bare(axes: Axes, *, keep: str = "bottom") -> None:
    """Leave only the axis that says something."""
    axes.patch.set_alpha(0.0)
    for side, spine in axes.spines.items():
        spine.set_visible(side == keep)
        spine.set_alpha(0.35)
    axes.tick_params(length=2)


def png(pixels: npt.NDArray[Any]) -> str:
    """An image ``(H, W, 3)`` or ``(H, W)`` in [0, 1] as a data URI."""
    out = io.BytesIO()
    clipped = np.clip(np.nan_to_num(pixels.astype(np.float64)), 0.0, 1.0)
    if clipped.ndim == 2:
        clipped = np.repeat(clipped[:, :, None], 3, axis=2)
    imsave(out, clipped, format="png", metadata={"Software": "omniloader"})
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode("ascii")


def colour(number: int) -> str:
    """Colour of source, or line, number i."""
    return PALETTE[number % len(PALETTE)]
