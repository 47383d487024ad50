"""Parts of a pass as Ray tasks (extra ``[ray]``)."""

from __future__ import annotations

import os
import re
import socket
from collections import deque
from collections.abc import Iterator
from itertools import islice
from types import TracebackType
from typing import Any

from omniloader.errors import ConfigError, EngineError
from omniloader.utils.parts import Parts
from omniloader.utils.seeding import reset_for_worker

# Tasks handed to the cluster at a time, for each that can run: none waits for the next one.
_AHEAD = 2
_LOST = "WorkerCrashedError", "NodeDiedError", "OutOfMemoryError", "ObjectLostError"


class RayEngine:
    """Computes the parts of a pass on a Ray cluster; give it as ``workers``.

    Statistics, histograms, validation and lengths then read each slice of the data where a CPU is
    free and send back figures, not data. They are those of the local pass. Ray runs a task
    again, on another node if need be, when its worker process or its node is lost::

        with RayEngine("auto") as engine:
            stats = compute_stats(omni, ["audio"], workers=engine)

    Every node must see the files under the same paths and have the same omniloader. Ray sends the
    sources themselves, which for files are names and not contents.

    Args:
        address: Of a running cluster, such as ``"auto"``, ``"10.0.0.1:6379"``, ``"ray://…"``.
            None: the cluster that ``RAY_ADDRESS`` names or that this process is already
            connected to, else a new one on this machine, stopped by :meth:`close`.
        max_retries: How often a task is run again after its worker was lost.

    Raises:
        ImportError: If Ray is not installed.
        EngineError: If there is no cluster at the address, or this process is connected to another.
    """

    def __init__(self, address: str | None = None, *, max_retries: int = 3) -> None:
        if isinstance(max_retries, bool) or not isinstance(max_retries, int) or max_retries < 0:
            raise ConfigError(
                f"RayEngine: max_retries must be a whole number of at least 0, got {max_retries!r}"
            )
        self._ray = _import_ray()
        self.max_retries = max_retries
        self._owned = not self._ray.is_initialized()
        if self._owned:
            self._connect(address)
        elif address not in (None, "auto", self._joined()):
            raise EngineError(
                f"RayEngine: this process is already connected to {self._joined()}, got the "
                f"address {address!r}; give no address, or call ray.shutdown() first"
            )

    def _joined(self) -> str:
        """Address of the cluster that this process is connected to."""
        return str(self._ray.get_runtime_context().gcs_address)

    def _connect(self, address: str | None) -> None:
        # Ray would report the use of a cluster that it starts to its makers.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            _require_listener(address or os.environ.get("RAY_ADDRESS", ""))
            self._ray.init(address=address, log_to_driver=False, logging_level="WARNING")
        except (OSError, ValueError, RuntimeError) as error:
            raise EngineError(
                f"RayEngine: no Ray cluster can be reached at {address!r}: {error}; start one by "
                "`ray start --head`, or give no address for one on this machine"
            ) from error

    @property
    def slots(self) -> int:
        """CPUs of the cluster at present: how many tasks run at once."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def compute(self, parts: Parts) -> Iterator[Any]:
        """The results of all parts, in order.

        Args:
            parts: Sent once to each node; every part is a task.

        Raises:
            EngineError: If a task's workers were lost more than ``max_retries`` times.
        """
        if not len(parts):
            return
        task = self._ray.remote(max_retries=self.max_retries)(_computed)
        held = self._ray.put(parts)
        # In a list, so that a task gets the reference and not a copy of its own.
        numbers = iter(range(len(parts)))
        running = deque(
            (number, task.remote([held], number)) for number in islice(numbers, _AHEAD * self.slots)
        )
        while running:
            number, reference = running.popleft()
            yield self._result(reference, number, len(parts))
            following = next(numbers, None)
            if following is not None:
                running.append((following, task.remote([held], following)))

    def _result(self, reference: Any, number: int, count: int) -> Any:
        failures = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except failures.RayTaskError as error:
            # What the part itself raised, not Ray's account of it.
            raise error.cause from error
        except tuple(getattr(failures, name) for name in _LOST) as error:
            raise EngineError(
                f"RayEngine: part {number + 1} of {count} was given up after its worker was lost "
                f"{self.max_retries + 1} times: {type(error).__name__}; look for a source that "
                "kills its process, or give the nodes more memory"
            ) from error

    def close(self) -> None:
        """Leave the cluster; stop it if this engine started it."""
        if self._owned and self._ray.is_initialized():
            self._ray.shutdown()

    def __enter__(self) -> RayEngine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


# The parts that this worker process has last been given, ready to be computed.
_opened: dict[str, Any] = {}


def _computed(held: list[Any], number: int) -> Any:
    """Compute one part, in a process of the cluster."""
    (reference,) = held
    name = reference.hex()
    if name not in _opened:
        _opened.clear()
        parts = _import_ray().get(reference)
        reset_for_worker(parts)
        _opened[name] = parts
    return _opened[name][number]


def _require_listener(address: str) -> None:
    """Knock at ``host:port``: Ray itself tries for many minutes.

    Raises:
        OSError: If nobody answers.
    """
    found = re.fullmatch(r"(?:ray://)?([^/:]+):([0-9]+)", address)
    if found is not None:
        socket.create_connection((found[1], int(found[2])), timeout=10).close()


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ImportError("RayEngine needs Ray; pip install 'omniloader[ray]'") from error
    return ray
