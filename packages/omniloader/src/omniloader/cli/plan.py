"""``plan``: what an epoch will hold, without reading a sample."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import RenderableType

from omniloader.cli.common import AsJson, ConfigPath, command, load
from omniloader.cli.console import show, show_json, table, warning
from omniloader.introspection import Forecast


@command
def plan_command(
    config: ConfigPath,
    epochs: Annotated[int, typer.Option(min=1, help="How many epochs to plan.")] = 1,
    as_json: AsJson = False,
) -> int:
    """Show what each epoch will hold: draws and passes a source, labels a target, padding.

    Reads sizes and shapes, never data.
    """
    settings = load(config)
    forecasts = settings.forecast(range(epochs))
    if as_json:
        show_json([forecast.to_dict() for forecast in forecasts])
    else:
        for forecast in forecasts:
            show(*_tables(forecast))
    return 0


def _tables(forecast: Forecast) -> list[RenderableType]:
    title = f"Epoch {forecast.epoch}: {forecast.samples:,} samples in {forecast.batches:,} batches"
    sources = table(title, "source", "samples", "draws", "share", "passes")
    for source in forecast.sources:
        sources.add_row(
            source.name,
            f"{source.size:,}",
            f"{source.count:,}",
            f"{source.share:.1%}",
            f"{source.passes:.3g}",
        )
    targets = table(
        "Labels, if every sample of a source that declares the target has one",
        "target",
        "labels",
        "a batch",
        "batches without",
    )
    for target in forecast.targets:
        targets.add_row(
            target.key,
            f"{target.labels:,}",
            f"{target.per_batch:.3g}",
            f"{target.empty_batches:.1%}",
        )
    parts: list[RenderableType] = [sources, targets]
    if forecast.padding:
        padding = table("Padding, of samples that have the sequence", "sequence", "padded steps")
        for key, share in forecast.padding.items():
            padding.add_row(key, f"{share:.1%}")
        parts.append(padding)
    if forecast.examined < forecast.batches:
        parts.append(f"labels and padding were counted over {forecast.examined:,} batches")
    return parts + [warning(text) for text in forecast.warnings]
