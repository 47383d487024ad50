"""``template`` and ``schema``: the files that are shipped with the package."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from omniloader.cli.common import command
from omniloader.cli.output import replacing
from omniloader.templates import config_schema_path, config_template_path

ToFile = Annotated[Path | None, typer.Option("--output", "-o", help="File to write.")]


@command
def template_command(output: ToFile = None) -> int:
    """Print the annotated config template: every option with its default."""
    return _give(config_template_path(), output)


@command
def schema_command(output: ToFile = None) -> int:
    """Print the JSON Schema of a config, for editors."""
    return _give(config_schema_path(), output)


def _give(shipped: Path, output: Path | None) -> int:
    text = shipped.read_text(encoding="utf-8")
    if output is None:
        sys.stdout.write(text)
        return 0
    with replacing(output) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return 0
