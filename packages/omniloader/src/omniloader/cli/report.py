"""``report``: the mix as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omniloader.cli.common import ConfigPath, command, load
from omniloader.cli.console import inform, track
from omniloader.cli.output import replacing
from omniloader.errors import ConfigError


@command
def report_command(
    config: ConfigPath,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path(
        "report.html"
    ),
    epochs: Annotated[int, typer.Option(min=1, help="Epochs to show the mix over.")] = 10,
    samples: Annotated[int, typer.Option(min=1, help="Samples to read of each source.")] = 64,
) -> int:
    """Draw the mix as one self-contained HTML page (extra: report).

    Findings, shares over the epochs, coverage, lengths, classes, the masks of a batch, and a few
    samples of every source.
    """
    settings = load(config)
    try:
        from omniloader.report import render_report
    except ImportError as error:
        raise ConfigError(str(error)) from error
    with replacing(output) as temporary:
        page = render_report(settings, epochs=epochs, max_samples=samples, track=track)
        temporary.write_text(page, encoding="utf-8")
    inform(f"written to {output}")
    return 0
