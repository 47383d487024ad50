"""The Typer application: its commands, and what their errors become."""

from __future__ import annotations

from typing import Annotated

import typer

from omniloader._version import __version__
from omniloader.cli import bench, inspect, plan, preview, report, shipped, statistics

app = typer.Typer(
    name="omniloader",
    help="Look at, check and measure a joint data mix that a config file describes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.command("describe")(inspect.describe_command)
app.command("validate")(inspect.validate_command)
app.command("lengths")(inspect.lengths_command)
app.command("plan")(plan.plan_command)
app.command("preview")(preview.preview_command)
app.command("bench")(bench.bench_command)
app.command("compute-stats")(statistics.compute_stats_command)
app.command("class-weights-for-loss")(statistics.class_weights_command)
app.command("report")(report.report_command)
app.command("template")(shipped.template_command)
app.command("schema")(shipped.schema_command)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"omniloader {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Options of the program itself; the application's help stands above."""


def run_command(argv: list[str]) -> int:
    """Run one command and give its exit status; user errors are one line, never a traceback."""
    command = typer.main.get_command(app)
    status: str | int | None = 0
    try:
        command.main(args=argv, prog_name="omniloader", standalone_mode=True)
    except SystemExit as end:
        status = end.code
    return status if isinstance(status, int) else int(status is not None)
