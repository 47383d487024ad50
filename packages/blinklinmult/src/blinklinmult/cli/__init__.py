"""The command line: ``blinklinmult COMMAND …``, or ``main([...])`` from Python."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments after the program's name; default those of the process.

    Returns:
        The exit status: 0 all well, 1 there are findings, 2 misuse.
    """
    # typer and rich load here, so that importing blinklinmult never loads them.
    from blinklinmult.cli.app import run_command

    return run_command(list(sys.argv[1:] if argv is None else argv))


def run() -> None:
    """Entry point of the console script."""
    sys.exit(main())
