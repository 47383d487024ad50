"""A report as tables for a terminal."""

from __future__ import annotations

from typing import Protocol

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from omniloader.introspection.records import Finding, KeyFacts, SourceFacts

_TEXT_WIDTH = 120
_MAX_CLASSES = 12


class _Tabular(Protocol):
    """What of a report is shown."""

    @property
    def sources(self) -> tuple[SourceFacts, ...]: ...
    @property
    def union_keys(self) -> list[str]: ...
    @property
    def target_keys(self) -> list[str]: ...
    @property
    def class_distributions(self) -> dict[str, dict[str, dict[int, int]]]: ...
    @property
    def findings(self) -> tuple[Finding, ...]: ...


def as_text(report: _Tabular) -> str:
    """The tables as plain text, without colours."""
    console = Console(width=_TEXT_WIDTH, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(render(report))
    return capture.get().rstrip()


def render(report: _Tabular) -> RenderableType:
    """Coverage, facts a source and key, class distributions, findings."""
    parts: list[RenderableType] = [_coverage(report), _facts(report)]
    if any(any(targets.values()) for targets in report.class_distributions.values()):
        parts.append(_classes(report))
    parts += [_finding_line(str(finding), finding.level) for finding in report.findings]
    if not report.findings:
        parts.append(Text("no findings", style="green"))
    return Group(*parts)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i < 2 else "right", overflow="fold")
    return table


def _coverage(report: _Tabular) -> Table:
    """One row a source, one column a key: the share of real positions, or a dot."""
    table = _table("Valid share by source and key", "source", "samples")
    for key in report.union_keys:
        table.add_column(f"{key} *" if key in report.target_keys else key, justify="right")
    for source in report.sources:
        cells = [
            f"{source.keys[key].valid_fraction:.0%}" if key in source.keys else "·"
            for key in report.union_keys
        ]
        table.add_row(source.name, f"{source.size:,}", *cells)
    table.caption = "* target; · not declared by this source"
    table.caption_justify = "left"
    return table


_FACTS = (
    *("source", "key", "spec", "present"),
    *("length\nmin/med/max", "range", "NaN/±inf", "misfits"),
)


def _facts(report: _Tabular) -> Table:
    title = "What was read: " + ", ".join(
        f"{source.read} of {source.size:,} from '{source.name}'" for source in report.sources
    )
    rows = [
        [source.name, key, *_fact_cells(facts, source.read)]
        for source in report.sources
        for key, facts in source.keys.items()
    ]
    # A column without an entry takes the room that the others need in a narrow window.
    shown = [i for i in range(len(_FACTS)) if i < 4 or any(row[i] for row in rows)]
    table = _table(title, *(_FACTS[i] for i in shown))
    for column in table.columns[3:]:
        column.no_wrap = True  # the spec folds, a number never does
    for row in rows:
        table.add_row(*(row[i] for i in shown))
    return table


def _fact_cells(facts: KeyFacts, read: int) -> list[str]:
    low, median, high = facts.lengths or (0, 0.0, 0)
    length = "" if facts.lengths is None else f"{low}/{median:g}/{high}"
    spread = "" if facts.minimum is None else f"{facts.minimum:.4g} … {facts.maximum:.4g}"
    nonfinite = facts.nan + facts.posinf + facts.neginf
    return [
        facts.spec,
        f"{facts.present}/{read}",
        length,
        spread,
        str(nonfinite) if nonfinite else "",
        str(facts.misfits) if facts.misfits else "",
    ]


def _classes(report: _Tabular) -> Table:
    table = _table("Classes (over the samples read)", "source", "target", "class: count")
    for name, targets in report.class_distributions.items():
        for key, counts in targets.items():
            shown = [f"{c}: {n:,}" for c, n in sorted(counts.items())[:_MAX_CLASSES]]
            more = len(counts) - len(shown)
            table.add_row(name, key, "  ".join(shown) + (f"  … {more} more" if more > 0 else ""))
    return table


def _finding_line(text: str, level: str) -> Text:
    return Text(text, style="bold red" if level == "error" else "yellow")
