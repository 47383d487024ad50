"""Who computes a long pass: worker processes of this machine, or a Ray cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated

import typer

from omniloader.config.problems import unknown_name
from omniloader.errors import ConfigError
from omniloader.utils.cluster import RayEngine
from omniloader.utils.parts import Workers

LOCAL, RAY = "local", "ray"

Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        help="Who reads: 'local' processes (--workers), or the tasks of a 'ray' cluster.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        help="Of the Ray cluster: 'auto', 'host:6379', 'ray://host:10001'; default RAY_ADDRESS, "
        "else one on this machine for this run.",
    ),
]


@contextlib.contextmanager
def reading_with(engine: str, address: str | None, workers: int) -> Iterator[Workers]:
    """What the library takes as ``workers``; a cluster that was started here is stopped.

    Args:
        engine: ``local`` or ``ray``.
        address: Of the Ray cluster.
        workers: Processes of this machine.

    Raises:
        ConfigError: If the options contradict each other, or Ray is not installed.
        EngineError: If the cluster cannot be reached.
    """
    if engine not in (LOCAL, RAY):
        raise ConfigError(f"--engine: {unknown_name('engine', engine, [LOCAL, RAY])}")
    if engine == LOCAL:
        if address is not None:
            raise ConfigError(f"--address {address}: needs --engine ray")
        yield workers
        return
    if workers:
        raise ConfigError(
            f"--workers {workers}: is for --engine local; with Ray the CPUs of the cluster count"
        )
    try:
        cluster = RayEngine(address)
    except ImportError as error:
        raise ConfigError(f"--engine ray: {error}") from error
    with cluster:
        yield cluster
