"""``preview``: run one epoch as a training loop would, and say what came."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice
from typing import Annotated, Any

import numpy as np
import typer
from torch import Tensor

from omniloader.cli.common import AsJson, ConfigPath, Evaluation, command, load
from omniloader.cli.console import show, show_json, table, track, warning
from omniloader.masks import is_mask_name, mask_name
from omniloader.schema.spec import INDEX_KEYS


class Preview:
    """Adds up what the batches of an epoch hold.

    Args:
        names: Names of the sources.
    """

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.batches = self.samples = 0
        self.wait = self.total = 0.0
        self.drawn = np.zeros(len(names), dtype=np.int64)
        self._shapes: dict[str, list[tuple[int, ...]]] = {}
        self._kinds: dict[str, str] = {}
        self._real: dict[str, int] = {}
        self._positions: dict[str, int] = {}

    def run(self, batches: Iterable[dict[str, Any]], step: float) -> None:
        """Consume batches, each followed by a pause of ``step`` seconds for the model's work."""
        start = asked = time.perf_counter()
        for batch in batches:
            came = time.perf_counter()
            self.wait += came - asked
            self._add(batch)
            if step:
                time.sleep(max(0.0, step - (time.perf_counter() - came)))
            asked = time.perf_counter()
        self.total = time.perf_counter() - start

    def _add(self, batch: dict[str, Any]) -> None:
        self.batches += 1
        source = batch["dataset_index"].numpy()
        self.samples += len(source)
        self.drawn += np.bincount(source, minlength=len(self.names))
        for key, value in batch.items():
            if not isinstance(value, Tensor):
                self._kinds[key] = "list"
                continue
            self._kinds[key] = str(value.dtype).removeprefix("torch.")
            shapes = self._shapes.setdefault(key, [])
            if value.shape[1:] not in shapes:
                shapes.append(tuple(value.shape[1:]))
            if is_mask_name(key):
                self._real[key] = self._real.get(key, 0) + int(value.sum())
                self._positions[key] = self._positions.get(key, 0) + value.numel()

    def layout(self) -> list[dict[str, Any]]:
        """One entry a key that is not a mask: shape, dtype and share of real positions."""
        rows = []
        for key, kind in self._kinds.items():
            if is_mask_name(key) and key.removesuffix("_mask") in self._kinds:
                continue
            mask = mask_name(key)
            positions = self._positions.get(mask, 0)
            rows.append(
                {
                    "key": key,
                    "shape": _shape_text(self._shapes.get(key), kind),
                    "dtype": kind,
                    "valid": self._real[mask] / positions if positions else None,
                }
            )
        return rows

    def speed(self) -> dict[str, float]:
        """Samples and batches a second, and the share of time waited for data."""
        total = self.total or float("inf")
        return {
            "samples_per_s": self.samples / total,
            "batches_per_s": self.batches / total,
            "waiting_share": self.wait / total,
        }


def _shape_text(shapes: list[tuple[int, ...]] | None, kind: str) -> str:
    """``(B, 24, 8)``; an axis that differed between batches as ``7–29``."""
    if shapes is None:
        return "B values"
    axes = []
    for sizes in zip(*shapes, strict=True):
        low, high = min(sizes), max(sizes)
        axes.append(str(low) if low == high else f"{low}–{high}")
    return f"({', '.join(['B', *axes])}{',' if not axes else ''})"


@command
def preview_command(
    config: ConfigPath,
    epoch: Annotated[int, typer.Option(min=0, help="Which epoch.")] = 0,
    batches: Annotated[int | None, typer.Option(min=1, help="Stop after so many batches.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=0, help="Processes that read; default as the config says.")
    ] = None,
    step_ms: Annotated[
        float, typer.Option(min=0.0, help="Time the model takes for a batch, in milliseconds.")
    ] = 0.0,
    evaluation: Evaluation = False,
    as_json: AsJson = False,
) -> int:
    """Run one epoch: batch layout, realised mix against the plan, speed, time waited for data."""
    settings = load(config)
    if workers is not None:
        settings = settings.replace(num_workers=workers)
    loader = settings.build_dataloader(training=not evaluation, epoch=epoch)
    omni: Any = loader.dataset
    planned = (
        omni.dataset_sizes
        if evaluation
        else settings.build_strategy(omni.dataset_sizes, names=omni.names).target_counts(epoch)
    )
    total = len(loader) if batches is None else min(batches, len(loader))
    preview = Preview(omni.names)
    preview.run(track(islice(loader, total), total=total, description="preview"), step_ms / 1000)
    result = _result(preview, planned, epoch, omni.schema.target_keys)
    if as_json:
        show_json(result)
    else:
        _print(result)
    return 0


def _result(preview: Preview, planned: list[int], epoch: int, targets: list[str]) -> dict[str, Any]:
    whole = sum(planned) or 1
    drawn = preview.samples or 1
    layout = preview.layout()
    starved = [row["key"] for row in layout if row["key"] in targets and not row["valid"]]
    return {
        "epoch": epoch,
        "batches": preview.batches,
        "samples": preview.samples,
        "layout": layout,
        "mix": [
            {
                "source": name,
                "planned": int(count),
                "planned_share": count / whole,
                "drawn": int(got),
                "drawn_share": int(got) / drawn,
            }
            for name, count, got in zip(preview.names, planned, preview.drawn, strict=True)
        ],
        **preview.speed(),
        "warnings": [f"target '{key}' had no real value in these batches" for key in starved],
    }


def _print(result: dict[str, Any]) -> None:
    layout = table(
        f"Epoch {result['epoch']}: {result['samples']:,} samples in {result['batches']:,} batches",
        "key",
        "shape",
        "dtype",
        "valid",
        left=3,
    )
    for row in result["layout"]:
        if row["key"] not in INDEX_KEYS:
            valid = "" if row["valid"] is None else f"{row['valid']:.1%}"
            layout.add_row(row["key"], row["shape"], row["dtype"], valid)
    mix = table("Mix", "source", "planned", "share", "drawn", "share")
    for row in result["mix"]:
        mix.add_row(
            row["source"],
            f"{row['planned']:,}",
            f"{row['planned_share']:.1%}",
            f"{row['drawn']:,}",
            f"{row['drawn_share']:.1%}",
        )
    show(layout, mix)
    show(
        f"{result['samples_per_s']:,.0f} samples/s, {result['batches_per_s']:,.1f} batches/s, "
        f"{result['waiting_share']:.0%} of the time waited for data"
    )
    show(*(warning(text) for text in result["warnings"]))
