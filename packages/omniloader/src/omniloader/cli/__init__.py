"""The command line: ``omniloader COMMAND …``, or ``main([...])`` from Python."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments after the program's name; default those of the process.

    Returns:
        The exit status: 0 all well, 1 there are findings (or a bad sample), 2 misuse, 130
        interrupted.
    """
    # typer and rich load here, so that importing omniloader never loads them.
    from omniloader.cli.app import run_command

    return run_command(list(sys.argv[1:] if argv is None else argv))


def run() -> None:
    """Entry point of the console script."""
    sys.exit(main())
