"""What commands share: arguments, how errors end them, how a config becomes a loader."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ParamSpec

import typer

from omniloader.cli.console import complain
from omniloader.config import OmniConfig
from omniloader.errors import OmniError, SampleError
from omniloader.loader import OmniLoader

P = ParamSpec("P")

FINDINGS = 1
MISUSE = 2
INTERRUPTED = 130

ConfigPath = Annotated[Path, typer.Argument(metavar="CONFIG", help="YAML or JSON config file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Evaluation = Annotated[
    bool, typer.Option("--eval", help="The evaluation data (each dataset's 'eval' options).")
]
Workers = Annotated[int, typer.Option(min=0, help="Processes that read.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="JSON file to write.")]


def command(function: Callable[P, int]) -> Callable[P, None]:
    """Make a function that returns an exit status a Typer command.

    Errors of the user (a config, a file, a sample) end it with their text and a status; Ctrl-C
    ends it with 130. Anything else is a bug and keeps its traceback.
    """

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            status = function(*args, **kwargs)
        except KeyboardInterrupt:
            complain("interrupted")
            status = INTERRUPTED
        except SampleError as error:
            complain(_told(error))
            status = FINDINGS
        except OmniError as error:
            complain(_told(error))
            status = MISUSE
        if status:
            raise typer.Exit(status)

    return wrapped


def _told(error: OmniError) -> str:
    """An error's own text: PyTorch wraps that of a worker in the worker's traceback."""
    text = str(error)
    if not text.startswith("Caught "):
        return text
    return re.split(r"^omniloader\.errors\.\w+: ", text, flags=re.MULTILINE)[-1].strip()


def load(path: Path) -> OmniConfig:
    """Read a config that has datasets.

    Raises:
        ConfigError: If it cannot be used.
    """
    config = OmniConfig.from_file(path)
    config.require_datasets()
    return config


def plain_loader(config: OmniConfig, *, training: bool = True) -> OmniLoader:
    """The config's mix without transforms: what is looked at and counted."""
    return config.replace(transforms=[], eval_transforms=None).build_loader(training=training)
