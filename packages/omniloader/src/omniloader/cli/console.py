"""Where text goes: results to stdout, progress and errors to stderr, bars only on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any, TypeVar

from rich import box
from rich.console import Console, RenderableType
from rich.progress import track as rich_track
from rich.table import Table
from rich.text import Text

T = TypeVar("T")

# In a pipe there is no window to fit: wide enough that tables stay whole.
_PIPE_WIDTH = 160


def _console(stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, emoji=False, markup=False)


def show(*parts: RenderableType) -> None:
    """Print results."""
    console = _console(stderr=False)
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str | Text))


def show_json(data: Any) -> None:
    """Print a result as JSON: nothing else goes to stdout then."""
    sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def complain(text: str) -> None:
    """Print an error."""
    _console(stderr=True).print(Text(f"error: {text}", style="bold red"), soft_wrap=True)


def inform(text: str) -> None:
    """Say something that is no result, and is not wanted in a pipe's output."""
    _console(stderr=True).print(text, soft_wrap=True)


def track(items: Iterable[T], *, total: int | None, description: str) -> Iterable[T]:
    """Show a progress bar on a terminal; elsewhere pass the items on."""
    console = _console(stderr=True)
    if not console.is_terminal:
        return items
    return rich_track(items, total=total, description=description, console=console, transient=True)


def table(title: str, *columns: str, left: int = 1, caption: str | None = None) -> Table:
    """An empty table whose first ``left`` columns are text, the others numbers."""
    made = Table(
        title=Text(title, no_wrap=True, overflow="ignore"),
        box=box.SIMPLE_HEAD,
        title_justify="left",
        pad_edge=False,
        caption=caption,
        caption_justify="left",
    )
    for i, column in enumerate(columns):
        made.add_column(column, justify="left" if i < left else "right", overflow="fold")
    return made


def warning(text: str) -> Text:
    """A finding, as it is shown below a table."""
    return Text(f"warning: {text}", style="yellow")
