"""Draw the rows of a benchmark run: how many times faster than the reference, and the targets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness import Row
from matplotlib import rcParams
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

_INK, _BAR, _MISS, _TARGET = "#7d8590", "#3b82c4", "#d98324", "#c0392b"


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write an SVG that reads on light and on dark pages."""
    rcParams["svg.hashsalt"] = "omniloader"
    rcParams["svg.fonttype"] = "none"
    figure = Figure(figsize=(8.0, 0.36 * len(rows) + 1.0), layout="constrained")
    FigureCanvasSVG(figure)
    figure.patch.set_alpha(0.0)
    axes = figure.add_subplot(facecolor="none")
    places = range(len(rows))[::-1]
    axes.barh(
        list(places),
        [row.ratio for row in rows],
        color=[_BAR if row.reached else _MISS for row in rows],
        height=0.6,
    )
    for place, row in zip(places, rows, strict=True):
        if row.target is not None:
            axes.plot([row.target] * 2, [place - 0.4, place + 0.4], color=_TARGET, linewidth=2)
        axes.annotate(
            f"{row.ratio:.1f}×",
            (row.ratio, place),
            (4, 0),
            textcoords="offset points",
            va="center",
            color=_INK,
            fontsize=8,
        )
    axes.set_yticks(list(places), [row.workload for row in rows], fontsize=8)
    axes.set_xscale("log")
    axes.set_xlim(right=2 * max(row.ratio for row in rows))  # room for the figures
    axes.set_xlabel("times faster than the reference (bar), target (line)", fontsize=8)
    axes.tick_params(colors=_INK, which="both")
    axes.xaxis.label.set_color(_INK)
    for spine in axes.spines.values():
        spine.set_color(_INK)
        spine.set_alpha(0.4)
    figure.savefig(path, format="svg", metadata={"Date": None})
