"""Figures as inline SVG that reads on light and on dark pages."""

from __future__ import annotations

import base64
import html
import io
import re
import threading
import warnings
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.image import imsave

# Okabe & Ito (2008) without black and yellow, which vanish on one of the two pages, and two that
# stay apart from these for colour-blind readers: CIELAB distance over 16 for each kind.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#9048F0", "#C0A860")
# Ink is drawn in a colour nothing else has, and becomes the page's own text colour.
INK = "#010203"

_SETTINGS = {
    "svg.hashsalt": "omniloader",
    "svg.fonttype": "none",
    "text.parse_math": False,  # a name may hold dollars
    "font.size": 9.0,
    "lines.linewidth": 1.3,
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK
    ),
}
# Drawn small enough for a phone, a figure may grow by this on a desk.
_STRETCH = 1.2
# Settings of matplotlib belong to the process: one figure at a time.
_DRAWING = threading.Lock()

Svg = str


def figure(width: float, height: float, draw: Callable[[Figure], None], title: str) -> Svg:
    """Draw a figure and give it as an ``<svg>`` element.

    The settings of the process, such as a style that is in use, have no part in it, and come out
    as they were.

    Args:
        width: Inches; the page scales it to the room there is.
        height: Inches.
        draw: Draws into the figure.
        title: What one sees, for readers that do not see it.
    """
    out = io.StringIO()
    with _DRAWING, mpl.rc_context(), warnings.catch_warnings():
        # matplotlib only measures a text; the browser, which has the letters, draws it.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        warnings.filterwarnings("ignore", "Matplotlib currently does not support", UserWarning)
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)  # type: ignore[arg-type]
        made = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(made)
        made.patch.set_alpha(0.0)
        draw(made)
        made.savefig(out, format="svg", metadata={"Date": None})
    return _inline(out.getvalue(), width, title)


def _inline(svg: str, width: float, title: str) -> Svg:
    """Only the element, scaled by the page, in the page's ink."""
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(width|height)="[\d.]+pt"', "", svg, count=2)
    # Names of groups, alike in all figures; ids that are referred to are hashes of what they name.
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    style = f'style="max-width:{width * 96 * _STRETCH:.0f}px"'
    return svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(title)}" {style}', 1)


def bare(axes: Axes, *, keep: str = "bottom") -> None:
    """Leave only the axis that says something."""
    axes.patch.set_alpha(0.0)
    for side, spine in axes.spines.items():
        spine.set_visible(side == keep)
        spine.set_alpha(0.35)
    axes.tick_params(length=2)


def png(pixels: npt.NDArray[Any]) -> str:
    """An image ``(H, W, 3)`` or ``(H, W, 1)`` in [0, 1] as a data URI."""
    out = io.BytesIO()
    clipped = np.clip(np.nan_to_num(pixels.astype(np.float64)), 0.0, 1.0)
    clipped = np.broadcast_to(clipped, (*clipped.shape[:2], 3))
    imsave(out, clipped, format="png", metadata={"Software": "omniloader"})
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode("ascii")


def colour(number: int) -> str:
    """Colour of source, or line, number i."""
    return PALETTE[number % len(PALETTE)]


def short(name: str, most: int = 18) -> str:
    """A name that leaves room for the figure it stands beside."""
    return name if len(name) <= most else name[: most - 1] + "…"
