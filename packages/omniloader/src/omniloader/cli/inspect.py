"""``describe`` and ``validate``."""

from __future__ import annotations

from typing import Annotated

import typer

from omniloader.cli.common import (
    FINDINGS,
    AsJson,
    ConfigPath,
    Evaluation,
    Workers,
    command,
    load,
    plain_loader,
)
from omniloader.cli.console import show, show_json, track
from omniloader.introspection import Report, describe, validate

AllSamples = Annotated[bool, typer.Option("--all", help="Read every sample.")]


@command
def describe_command(
    config: ConfigPath,
    samples: Annotated[int, typer.Option(min=1, help="Samples to read of each source.")] = 64,
    all_samples: AllSamples = False,
    workers: Workers = 0,
    evaluation: Evaluation = False,
    as_json: AsJson = False,
) -> int:
    """Say what the mix holds: coverage, valid shares, lengths, ranges, classes."""
    loader = plain_loader(load(config), training=not evaluation)
    limit = None if all_samples else samples
    _print(describe(loader, limit, num_workers=workers, track=track), as_json)
    return 0


@command
def validate_command(
    config: ConfigPath,
    samples: Annotated[int, typer.Option(min=1, help="Samples to read of each source.")] = 4,
    all_samples: AllSamples = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings are findings too.")] = False,
    workers: Workers = 0,
    evaluation: Evaluation = False,
    as_json: AsJson = False,
) -> int:
    """Check the data against its schemas, and that the whole config can be built.

    Exits with 1 if there are errors (with --strict: or warnings).
    """
    settings = load(config)
    loader = plain_loader(settings, training=not evaluation)
    limit = None if all_samples else samples
    report = validate(loader, limit, num_workers=workers, track=track)
    _print(report, as_json)
    settings.build_dataloader(loader.datasets, loader.schemas, training=not evaluation)
    failed = report.findings if strict else report.errors
    return FINDINGS if failed else 0


def _print(report: Report, as_json: bool) -> None:
    if as_json:
        show_json(report.to_dict())
    else:
        show(report)
