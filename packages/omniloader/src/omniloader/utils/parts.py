"""Passes cut into parts: computed here, in worker processes, or by an engine on other machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, cast

from torch.utils.data import DataLoader

from omniloader.utils.seeding import seed_worker


class Parts(Protocol):
    """Item i is the result of part i; picklable, and each part can be computed on its own."""

    def __len__(self) -> int:
        """Number of parts."""
        ...

    def __getitem__(self, index: int, /) -> Any:
        """Compute a part."""
        ...


class Engine(Protocol):
    """Computes parts somewhere else, as :class:`~omniloader.integrations.ray.RayEngine` does."""

    @property
    def slots(self) -> int:
        """How many parts run at once."""
        ...

    def compute(self, parts: Parts, /) -> Iterator[Any]:
        """The results of all parts, in order; a part that fails raises its own error here."""
        ...


Workers = int | Engine
"""Number of worker processes (0: none, this process computes), or an engine."""


def slots_of(workers: Workers) -> int:
    """How many parts run at once; 0 for this process alone."""
    return workers if isinstance(workers, int) else max(workers.slots, 1)


def compute(parts: Parts, workers: Workers) -> Iterator[Any]:
    """The results of all parts, in order.

    Args:
        parts: What is to be computed.
        workers: Who computes it.
    """
    if not isinstance(workers, int):
        return workers.compute(parts)
    if workers == 0 or not len(parts):
        return (parts[index] for index in range(len(parts)))
    loader = DataLoader[Any](
        cast("Any", parts),
        batch_size=None,
        num_workers=min(workers, len(parts)),
        prefetch_factor=1,  # a result may be as large as its memory budget
        worker_init_fn=seed_worker,
    )
    return iter(loader)
