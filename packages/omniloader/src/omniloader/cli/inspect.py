"""``describe``, ``validate`` and ``lengths``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from omniloader._types import IntArray
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
from omniloader.cli.console import inform, show, show_json, table, track
from omniloader.cli.engine import Address, Engine, reading_with
from omniloader.cli.output import replacing
from omniloader.errors import OmniError
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
    engine: Engine = "local",
    address: Address = None,
    evaluation: Evaluation = False,
    as_json: AsJson = False,
) -> int:
    """Check the data against its schemas, and that the whole config can be built.

    Exits with 1 if there are errors (with --strict: or warnings).
    """
    settings = load(config)
    loader = plain_loader(settings, training=not evaluation)
    limit = None if all_samples else samples
    with reading_with(engine, address, workers) as readers:
        report = validate(loader, limit, num_workers=readers, track=track)
    try:
        settings.build_dataloader(loader.datasets, loader.schemas, training=not evaluation)
        if any(entry.get("eval") for entry in settings.datasets):
            plain_loader(settings, training=evaluation).close()  # the other side opens, too
    except OmniError:
        if report.findings:  # "no findings" above an error would be no help
            _print(report, as_json)
        raise
    _print(report, as_json)
    failed = report.findings if strict else report.errors
    return FINDINGS if failed else 0


@command
def lengths_command(
    config: ConfigPath,
    key: Annotated[str, typer.Option("--key", help="A sequence of the schema.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="npy file to write: int64, by global index."),
    ] = None,
    workers: Workers = 0,
    engine: Engine = "local",
    address: Address = None,
    evaluation: Evaluation = False,
    as_json: AsJson = False,
) -> int:
    """Native lengths of a sequence in every sample: for buckets, and for a time_dim."""
    loader = plain_loader(load(config), training=not evaluation)
    with reading_with(engine, address, workers) as readers:
        lengths = loader.sequence_lengths(key, readers)
    if output is not None:
        with replacing(output) as temporary, temporary.open("wb") as file:
            np.save(file, lengths)
    found = dict(zip(loader.names, _spans(lengths, loader.dataset_sizes), strict=True))
    if as_json:
        show_json({"key": key, "sources": found})
    else:
        shown = table(f"Lengths of '{key}'", "source", "samples", "without", *_FIGURES)
        for name, own in found.items():
            counts = (f"{own['samples']:,}", f"{own['without']:,}")
            shown.add_row(name, *counts, *(f"{own[figure]:,g}" for figure in _FIGURES))
        show(shown)
    if output is not None:
        inform(f"written to {output}")
    return 0


_FIGURES = ("min", "median", "p95", "max")


def _spans(lengths: IntArray, sizes: Sequence[int]) -> Iterator[dict[str, float]]:
    """Figures of each source over the samples that have the sequence."""
    for own in np.split(lengths, np.cumsum(sizes)[:-1]):
        real = own[own > 0]
        points = np.percentile(real, (0, 50, 95, 100)).tolist() if len(real) else [0.0] * 4
        yield {
            "samples": len(own),
            "without": len(own) - len(real),
            **dict(zip(_FIGURES, points, strict=True)),
        }


def _print(report: Report, as_json: bool) -> None:
    if as_json:
        show_json(report.to_dict())
    else:
        show(report)
