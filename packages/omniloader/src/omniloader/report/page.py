"""Put the parts of a report on one page."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from omniloader._types import PathLike
from omniloader._version import __version__
from omniloader.config import OmniConfig
from omniloader.introspection.subject import Track, no_progress
from omniloader.report import overview
from omniloader.report.canvas import PALETTE
from omniloader.report.cards import Drawing, draw_sample
from omniloader.report.gather import Gathered, gather

try:
    from jinja2 import Environment, StrictUndefined
except ImportError as error:
    raise ImportError(
        "omniloader.report writes pages with jinja2; pip install 'omniloader[report]'"
    ) from error


@dataclass(frozen=True)
class Card:
    """One source on the page."""

    label: str
    colour: str
    facts: list[tuple[str, str]]
    samples: list[tuple[str, list[Drawing]]]


def render_report(
    config: OmniConfig,
    *,
    epochs: int = 10,
    max_samples: int = 64,
    shown: int = 3,
    track: Track = no_progress,
) -> str:
    """Draw the mix that a config describes as one HTML page.

    The page needs nothing beside itself: no script, no font, no request. It follows the reader's
    light or dark setting.

    Args:
        config: Describes the mix.
        epochs: Number of epochs to show the mix over.
        max_samples: Samples to read of each source for its facts.
        shown: Samples to draw of each source.
        track: Shows progress.

    Returns:
        The page.
    """
    data = gather(config, epochs, max_samples, shown, track)
    template = resources.files("omniloader.report").joinpath("page.html.j2")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    page = environment.from_string(template.read_text(encoding="utf-8"))
    return page.render(
        version=__version__,
        data=data,
        forecast=data.forecast,
        findings=_findings(data),
        colours={label: _colour(i) for i, label in enumerate(data.labels)},
        coverage=_coverage(data),
        shares=overview.shares_over_epochs(data),
        epochs=epochs,
        lengths=overview.lengths(data),
        equal_lengths=overview.equal_lengths(data),
        classes=overview.classes(data),
        masks=overview.batch_masks(data),
        cards=list(_cards(data)),
    )


def write_report(config: OmniConfig, path: PathLike, **options: Any) -> Path:
    """Write :func:`render_report` to a file, which is complete or stays as it was.

    Args:
        config: Describes the mix.
        path: The file.
        **options: Those of :func:`render_report`.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    temporary.touch()  # a folder that may not be written to is found before the work
    try:
        temporary.write_text(render_report(config, **options), encoding="utf-8")
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def _colour(number: int) -> str:
    return PALETTE[number % len(PALETTE)]


def _findings(data: Gathered) -> list[tuple[str, str, str]]:
    """(level, whose, text), errors first, each once."""
    found = {
        (f.level, f"{f.source} · {f.key}" if f.key else f.source, f.text): None
        for report in (data.checked, data.described)
        for f in report.findings
    }
    found |= {("warning", "the plan", text): None for text in data.forecast.warnings}
    return sorted(found, key=lambda finding: finding[0] != "error")


def _coverage(data: Gathered) -> list[tuple[str, list[float | None]]]:
    """Source to the real share of each key, None where it does not declare the key."""
    declared, valid = data.described.coverage, data.described.valid_fraction
    return [
        (
            label,
            [valid[label][k] if declared[label][k] else None for k in data.described.union_keys],
        )
        for label in data.labels
    ]


def _cards(data: Gathered) -> Iterator[Card]:
    for number, (facts, schema) in enumerate(
        zip(data.described.sources, data.omni.schemas, strict=True)
    ):
        shown = [("samples", f"{facts.size:,}")]
        shown += [(name, _plain(value)) for name, value in facts.storage.items()]
        samples = [
            (str(sample["key"]), draw_sample(schema.specs, sample))
            for sample in data.samples[facts.name]
        ]
        yield Card(facts.name, _colour(number), shown, samples)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_plain(own)}" for name, own in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
