"""Put the parts of a report on one page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from omniloader._types import PathLike
from omniloader._version import __version__
from omniloader.config import OmniConfig
from omniloader.introspection.records import SourceFacts
from omniloader.introspection.subject import Track, no_progress
from omniloader.report import overview
from omniloader.report.canvas import colour
from omniloader.report.cards import Drawing, draw_sample
from omniloader.report.gather import Gathered, gather
from omniloader.report.masks import MOST_ROWS, batch_masks
from omniloader.report.words import breakable, plain
from omniloader.utils.atomic import replacing_output


@dataclass(frozen=True)
class Card:
    """One source on the page; a sample is drawings, or why it cannot be read."""

    number: int
    facts: SourceFacts
    storage: list[tuple[str, str]]
    samples: Sequence[tuple[str, list[Drawing] | str]]


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
    environment.filters["breakable"] = breakable
    page = environment.from_string(template.read_text(encoding="utf-8"))
    class_panels, many_classes = overview.classes(data)
    keys = data.report.union_keys
    return page.render(
        version=__version__,
        data=data,
        keys=keys,
        forecast=data.forecast,
        findings=_findings(data),
        colours=[colour(number) for number in range(len(data.labels))],
        coverage=_coverage(data),
        shares=overview.shares_over_epochs(data),
        epochs=epochs,
        lengths=overview.lengths(data),
        equal_lengths=overview.equal_lengths(data),
        classes=class_panels,
        many_classes=many_classes,
        level=bool((data.counts == data.counts[0]).all()),
        masks=None if data.batch is None else batch_masks(data.batch, keys),
        rows=0 if data.batch is None else len(data.batch["dataset_index"]),
        most_rows=MOST_ROWS,
        cards=list(_cards(data)),
    )


def write_report(config: OmniConfig, path: PathLike, **options: Any) -> Path:
    """Write :func:`render_report` to a file, which is complete or stays as it was.

    Args:
        config: Describes the mix.
        path: The file.
        **options: Those of :func:`render_report`.

    Raises:
        ConfigError: If the file cannot be written; found before anything is read.
    """
    target = Path(path)
    with replacing_output(target, "report:") as temporary:
        temporary.write_text(render_report(config, **options), encoding="utf-8")
    return target


def _findings(data: Gathered) -> list[tuple[str, str, str]]:
    """(level, whose, text), errors first."""
    found = [
        (f.level, f"{f.source} · {f.key}" if f.key else f.source, f.text)
        for f in data.report.findings
    ]
    for text in dict.fromkeys(text for _, text in data.gaps):
        parts = ", ".join(part for part, why in data.gaps if why == text)
        found.append(("error", "this page", f"lacks {parts}: {text}"))
    if data.forecast is not None:
        found += [("warning", "plan", text) for text in data.forecast.warnings]
    return sorted(found, key=lambda finding: finding[0] != "error")


def _coverage(data: Gathered) -> list[list[float | None]]:
    """Real share of each key, a row a source, None where it does not declare the key."""
    return [
        [
            source.keys[key].valid_fraction if key in source.keys else None
            for key in data.report.union_keys
        ]
        for source in data.report.sources
    ]


def _cards(data: Gathered) -> Iterator[Card]:
    for number, (facts, schema) in enumerate(
        zip(data.report.sources, data.omni.schemas, strict=True)
    ):
        samples = [
            ("", sample)
            if isinstance(sample, str)
            else (str(sample["key"]), draw_sample(schema.specs, sample))
            for sample in data.samples[facts.name]
        ]
        storage = [(name, plain(name, value)) for name, value in facts.storage.items()]
        yield Card(number, facts, storage, samples)
