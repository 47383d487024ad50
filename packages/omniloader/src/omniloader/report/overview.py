"""Figures of the whole mix: shares over epochs, lengths, classes, the masks of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from omniloader.masks import mask_name
from omniloader.report.canvas import Svg, bare, colour, figure
from omniloader.report.gather import Gathered

# Beyond this many classes a bar is a hairline.
_MOST_CLASSES = 40


def shares_over_epochs(data: Gathered) -> Svg:
    """Stacked areas: what part of each epoch a source gets."""
    shares = data.counts / np.maximum(data.counts.sum(axis=1, keepdims=True), 1)
    epochs = np.arange(len(shares) + 1)
    steps = np.vstack([shares, shares[-1:]])

    def draw(made: Figure) -> None:
        axes = made.add_subplot()
        colours = [colour(i) for i in range(shares.shape[1])]
        axes.stackplot(epochs, steps.T, colors=colours, step="post", labels=data.labels)
        axes.set(xlim=(0, len(shares)), ylim=(0, 1), xlabel="epoch", ylabel="share of draws")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
        bare(axes)
        made.legend(loc="outside upper left", ncols=2, frameon=False, fontsize=8)

    return figure(6.4, 2.9, draw, "Share of draws of each source over the epochs")


def equal_lengths(data: Gathered) -> dict[str, int]:
    """Sequences of which all samples have one length, and that length."""
    found = {key: np.unique(own[own > 0]) for key, own in data.lengths.items()}
    return {key: int(own[0]) for key, own in found.items() if len(own) == 1}


def lengths(data: Gathered) -> dict[str, Svg]:
    """Sequence to histograms of its native lengths, one row a source that has it."""
    return {
        key: _lengths_of(data, key, own)
        for key, own in data.lengths.items()
        if len(np.unique(own[own > 0])) > 1
    }


def _lengths_of(data: Gathered, key: str, own: Any) -> Svg:
    parts = np.split(own, np.cumsum(data.omni.dataset_sizes)[:-1])
    rows = [
        (number, label, part[part > 0])
        for number, (label, part) in enumerate(zip(data.labels, parts, strict=True))
        if (part > 0).any()
    ]
    longest = max(int(part.max()) for _, _, part in rows)
    time_dim = data.omni.schema.spec(key).time_dim
    edge = max(longest, time_dim or 0)
    bins = np.linspace(0.5, edge + 0.5, min(edge, 40) + 1)

    def draw(made: Figure) -> None:
        panels = made.subplots(len(rows), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (number, label, part) in zip(panels, rows, strict=True):
            axes.hist(part, bins=bins, color=colour(number))
            axes.set_yticks([])
            axes.set_ylabel(label, rotation=0, ha="right", va="center")
            axes.axvline(time_dim, color=colour(5), linewidth=1.2, linestyle="--")
            bare(axes)
        panels[-1].set(xlim=(0, edge * 1.04 + 1), xlabel="steps (dashed: time_dim)")

    return figure(6.4, 0.62 * len(rows) + 0.6, draw, f"Native lengths of {key}")


def classes(data: Gathered) -> dict[str, Svg]:
    """Categorical target to bars of its class counts, stacked by source."""
    found = data.described.class_distributions
    targets = dict.fromkeys(key for own in found.values() for key in own)
    figures = {}
    for key in targets:
        per_source = {label: found.get(label, {}).get(key, {}) for label in data.labels}
        ids = sorted({i for counts in per_source.values() for i in counts})
        if 0 < len(ids) <= _MOST_CLASSES:
            figures[key] = _class_bars(key, ids, per_source)
    return figures


def _class_bars(key: str, ids: list[int], per_source: Mapping[str, Mapping[int, int]]) -> Svg:
    def draw(made: Figure) -> None:
        axes = made.add_subplot()
        base = np.zeros(len(ids))
        for number, (label, counts) in enumerate(per_source.items()):
            heights = np.array([counts.get(i, 0) for i in ids], dtype=float)
            if heights.any():
                axes.bar(range(len(ids)), heights, bottom=base, color=colour(number), label=label)
                base += heights
        axes.set_xticks(range(len(ids)), [str(i) for i in ids])
        axes.set(xlabel="class", ylabel="labels read")
        bare(axes)
        made.legend(loc="outside upper left", ncols=2, frameon=False, fontsize=8)

    return figure(6.4, 2.3, draw, f"Labels of each class of {key}")


def batch_masks(data: Gathered) -> Svg:
    """Rows are samples, by source; columns are the steps of every value; filled is real."""
    batch, keys = data.batch, [spec.name for spec in data.omni.schema.specs]
    order = np.argsort(batch["dataset_index"].numpy(), kind="stable")
    owners = batch["dataset_index"].numpy()[order]
    masks = [batch[mask_name(key)].numpy()[order] for key in keys]
    # A vector is one step: too narrow to be seen, or to be named below.
    least = max(4, sum(mask.shape[1] for mask in masks if mask.ndim == 2) // 24)
    blocks = [
        np.repeat(mask[:, None], least, axis=1)
        if mask.ndim == 1
        else np.repeat(mask, -(-least // max(mask.shape[1], 1)), axis=1)
        for mask in masks
    ]
    gap = np.zeros((len(order), 2), dtype=bool)
    wide = np.concatenate([part for block in blocks for part in (block, gap)][:-1], axis=1)
    centres, at = [], 0
    for block in blocks:
        centres.append(at + block.shape[1] / 2)
        at += block.shape[1] + gap.shape[1]

    def draw(made: Figure) -> None:
        axes = made.add_subplot()
        axes.imshow(
            _tinted(wide, blocks, gap.shape[1], owners),
            aspect="auto",
            resample=False,
            interpolation="nearest",
            extent=(0, wide.shape[1], len(order), 0),
        )
        axes.set_xticks(centres, keys, rotation=35, ha="right")
        middles = [(owners == i).nonzero()[0].mean() + 0.5 for i in np.unique(owners)]
        axes.set_yticks(middles, [data.labels[i] for i in np.unique(owners)])
        bare(axes, keep="none")
        axes.tick_params(length=0)

    return figure(7.2, 0.09 * len(order) + 1.6, draw, "What is real in one training batch")


def _tinted(wide: Any, blocks: list[Any], gap: int, owners: Any) -> Any:
    """RGBA: a source's colour where real, faint grey where masked, nothing between keys."""
    image = np.zeros((*wide.shape, 4))
    at = 0
    for block in blocks:
        image[:, at : at + block.shape[1]] = (0.5, 0.5, 0.5, 0.16)
        at += block.shape[1] + gap
    for row, owner in enumerate(owners.tolist()):
        hexed = colour(owner)
        rgb = [int(hexed[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        image[row, wide[row]] = (*rgb, 1.0)
    return image
