"""``inspect``: what a corpus file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from blinklinmult.cli.sheet import write_sheet
from blinklinmult.data.summary import CorpusSummary, summarise
from omniloader.cli.common import FINDINGS, AsJson, command
from omniloader.cli.console import show, show_json, table, warning


@command
def inspect_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A corpus file.")],
    as_json: AsJson = False,
    sheet: Annotated[
        Path | None,
        typer.Option(
            help="PNG of random windows, a row each. Bars below a frame: red blink, blue closed, "
            "grey label masked, dark image masked."
        ),
    ] = None,
    windows: Annotated[int, typer.Option(min=1, help="Rows of the sheet.")] = 12,
    seed: Annotated[int, typer.Option(help="Names which windows.")] = 0,
) -> int:
    """Count samples, labels, masks and lengths of a corpus file by split."""
    summary = summarise(file)
    rows = [] if sheet is None else write_sheet(file, sheet, windows, seed)
    if as_json:
        show_json({**summary.to_dict(), "sheet": rows})
    else:
        show(*_tables(summary), *map(warning, summary.findings))
        if sheet is not None:
            show(f"{sheet}, from top to bottom:", *rows)
    return FINDINGS if summary.findings else 0


def _tables(summary: CorpusSummary) -> list[Any]:
    about = table(str(summary.path), "attribute", "value", left=2)
    for name, value in summary.attributes.items():
        if name not in ("builder_config_yaml", "statistics"):
            about.add_row(name, str(value))
    splits = table("Splits", "split", "samples", "positive", "frames", "confidence")
    values = table("Values", "split", "value", "samples", "lengths", "real frames", "mean", left=2)
    for name, split in summary.splits.items():
        confidence = "–" if split.confidence is None else f"{split.confidence:.3f}"
        share = f"{split.positive_fraction:.1%}"
        splits.add_row(name, str(split.samples), share, str(split.frames), confidence)
        for key, facts in split.values.items():
            lengths = f"{facts.shortest}–{facts.longest}"
            real = "–" if facts.real is None else f"{facts.real:.1%}"
            mean = "–" if facts.mean is None else f"{facts.mean:.3f}"
            values.add_row(name, key, str(facts.samples), lengths, real, mean)
    return [about, splits, values]
