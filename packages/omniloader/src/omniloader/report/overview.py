"""Figures of the whole mix: shares over epochs, native lengths, classes of targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from omniloader._types import IntArray
from omniloader.report.canvas import INK, Svg, bare, colour, figure, short
from omniloader.report.gather import Gathered

# Beyond this many classes a bar is a hairline, and they are summed up in words.
_MOST_CLASSES = 40
# Inches of a figure; two stand side by side on a desk, and one scales to a phone.
_WIDTH = 4.4


@dataclass(frozen=True)
class Panel:
    """A figure of one key, and the numbers of the sources whose colours it uses."""

    key: str
    svg: Svg
    sources: list[int]


@dataclass(frozen=True)
class ManyClasses:
    """A target of more classes than bars can show; counts are of the samples read."""

    key: str
    classes: int
    least: int
    most: int


def shares_over_epochs(data: Gathered) -> Svg:
    """Stacked areas: what part of each epoch a source gets."""
    shares = data.counts / np.maximum(data.counts.sum(axis=1, keepdims=True), 1)
    epochs = np.arange(len(shares) + 1)
    steps = np.vstack([shares, shares[-1:]])

    def draw(made: Figure) -> None:
        axes = made.add_subplot()
        colours = [colour(i) for i in range(shares.shape[1])]
        axes.stackplot(epochs, steps.T, colors=colours, step="post")
        axes.set(xlim=(0, len(shares)), ylim=(0, 1), xlabel="epoch")
        if len(shares) <= 12:  # the name of an epoch stands under the middle of its step
            axes.set_xticks(epochs[:-1] + 0.5, [str(epoch) for epoch in epochs[:-1]])
        else:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
        bare(axes)

    return figure(_WIDTH, 2.4, draw, "Share of draws of each source over the epochs")


def equal_lengths(data: Gathered) -> dict[str, int]:
    """Sequences of which all samples have one length, and that length."""
    found = {key: np.unique(own[own > 0]) for key, own in data.lengths.items()}
    return {key: int(own[0]) for key, own in found.items() if len(own) == 1}


def lengths(data: Gathered) -> list[Panel]:
    """Histograms of native lengths, one row a source that has the sequence."""
    return [
        _lengths_of(data, key, own)
        for key, own in data.lengths.items()
        if len(np.unique(own[own > 0])) > 1
    ]


def _lengths_of(data: Gathered, key: str, own: IntArray) -> Panel:
    parts = np.split(own, np.cumsum(data.omni.dataset_sizes)[:-1])
    rows = {number: part[part > 0] for number, part in enumerate(parts) if (part > 0).any()}
    time_dim = data.omni.schema.spec(key).time_dim or 0
    edge = max(time_dim, *(int(part.max()) for part in rows.values()))
    # A bin holds whole steps, as many as any other: else a flat histogram has teeth.
    width = -(-edge // 40)
    bins = np.arange(0.5, edge + width + 0.5, width)

    def draw(made: Figure) -> None:
        panels = made.subplots(len(rows), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (number, part) in zip(panels, rows.items(), strict=True):
            axes.hist(part, bins=bins, color=colour(number), histtype="stepfilled")
            axes.set_yticks([])
            axes.set_ylabel(short(data.labels[number]), rotation=0, ha="right", va="center")
            axes.axvline(time_dim, color=INK, linewidth=1.2, linestyle="--")
            bare(axes)
        panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
        panels[-1].set(xlim=(0, edge * 1.04 + 1), xlabel="steps (dashed: time_dim)")

    height = 0.5 * len(rows) + 0.75
    return Panel(key, figure(_WIDTH, height, draw, f"Native lengths of {key}"), list(rows))


def classes(data: Gathered) -> tuple[list[Panel], list[ManyClasses]]:
    """Bars of class counts stacked by source, and the targets of too many classes for that."""
    found = data.report.class_distributions
    panels, many = [], []
    for key in dict.fromkeys(key for own in found.values() for key in own):
        counts = {
            number: found[label][key]
            for number, label in enumerate(data.labels)
            if found.get(label, {}).get(key)
        }
        ids = sorted({i for own in counts.values() for i in own})
        if len(ids) > _MOST_CLASSES:
            totals = [sum(own.get(i, 0) for own in counts.values()) for i in ids]
            many.append(ManyClasses(key, len(ids), min(totals), max(totals)))
        elif ids:
            panels.append(Panel(key, _class_bars(key, ids, counts), list(counts)))
    return panels, many


def _class_bars(key: str, ids: list[int], per_source: Mapping[int, Mapping[int, int]]) -> Svg:
    def draw(made: Figure) -> None:
        axes = made.add_subplot()
        base, wide = np.zeros(len(ids)), 0.8 * min(1.0, len(ids) / 5)
        for number, counts in per_source.items():
            heights = np.array([counts.get(i, 0) for i in ids], dtype=float)
            axes.bar(range(len(ids)), heights, wide, base, color=colour(number))
            base += heights
        every = -(-len(ids) // 14)  # names of more classes than this run into each other
        axes.set_xticks(range(0, len(ids), every), [str(i) for i in ids[::every]])
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
        axes.set(xlabel="class", ylabel="labels read", xlim=(-0.6, len(ids) - 0.4))
        bare(axes)

    return figure(_WIDTH, 2.1, draw, f"Labels of each class of {key}")
