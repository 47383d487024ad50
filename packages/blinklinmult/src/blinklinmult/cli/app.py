"""The Typer application and its commands."""

from __future__ import annotations

import typer

from blinklinmult.cli import bench, build, inspect

app = typer.Typer(
    name="blinklinmult",
    help="Make, look at and measure blink corpora.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.command("synth")(build.synth_command)
app.command("build-talkingface")(build.talkingface_command)
app.command("inspect")(inspect.inspect_command)
app.command("bench")(bench.bench_command)


def run_command(argv: list[str]) -> int:
    """Run one command and give its exit status; user errors are one line, never a traceback."""
    command = typer.main.get_command(app)
    try:
        command.main(args=argv, prog_name="blinklinmult", standalone_mode=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
