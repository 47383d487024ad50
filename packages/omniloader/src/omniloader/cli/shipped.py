"""``template`` and ``schema``: what a config may say, for people and for editors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from omniloader.cli.common import command
from omniloader.cli.output import replacing
from omniloader.config.json_schema import json_schema
from omniloader.templates import config_template_path

ToFile = Annotated[Path | None, typer.Option("--output", "-o", help="File to write.")]


@command
def template_command(output: ToFile = None) -> int:
    """Print the annotated config template: every option with its default."""
    return _give(config_template_path().read_text(encoding="utf-8"), output)


@command
def schema_command(output: ToFile = None) -> int:
    """Print the JSON Schema of a config, for editors."""
    return _give(json.dumps(json_schema(), indent=1) + "\n", output)


def _give(text: str, output: Path | None) -> int:
    if output is None:
        sys.stdout.write(text)
        return 0
    with replacing(output) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return 0
