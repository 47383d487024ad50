"""How many processes read, and whether pinning their batches does anything."""

from __future__ import annotations

import logging
import os

import torch

logger = logging.getLogger(__name__)

MAX_WORKERS = 8
"""Most worker processes of a loader.

From the table of the data module's documentation, measured over the six-corpus mix: 8 workers
read 3.97 times as fast as none; 10 add 8 %, and 12 are slower again. ``blinklinmult bench`` makes
the same table on your own mix.
"""


def pinning_helps() -> bool:
    """Whether pinned host memory does anything on this machine.

    It lets copies to a CUDA device run beside the computation. Elsewhere PyTorch warns and ignores
    it, so the flag is dropped there and configs may keep it.
    """
    return torch.cuda.is_available()


def worker_count(num_workers: int) -> int:
    """Clamp the configured worker count to ``MAX_WORKERS`` and to the cores of this process.

    Args:
        num_workers: Worker count from the data config.

    Returns:
        The number to use; a log line says when it is not the one asked for.
    """
    cores = available_cores()
    count = min(num_workers, MAX_WORKERS, cores)
    if count < num_workers:
        logger.info(
            "num_workers: %d asked for, %d used (at most %d, and %d cores are given to this "
            "process)",
            num_workers,
            count,
            MAX_WORKERS,
            cores,
        )
    return count


def inflating_threads(num_workers: int) -> int:
    """Threads of a process that inflate images: two where training waits for its own reading.

    Args:
        num_workers: Worker processes of the loader; they have the cores to themselves.
    """
    return min(2, available_cores()) if num_workers == 0 else 0


def available_cores() -> int:
    """Cores this process may run on; a container may give it fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
