"""One way from a seed and a purpose to random numbers.

``derive_seed(seed, "shuffle", source, epoch)`` hashes its parts, so two purposes never share a
stream and ``(0, 1)`` never equals ``(1, 0)``, which ``seed + epoch`` gets wrong. Python's own
``hash()`` is salted per process and is never used.
"""

from __future__ import annotations

import hashlib
import operator
import random

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import get_worker_info

_MASK64 = (1 << 64) - 1
# Odd constants of splitmix64 (Steele, Lea & Flood 2014, "Fast splittable pseudorandom
# number generators").
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)


def derive_seed(seed: int, *parts: int | str) -> int:
    """Hash a seed and what it is for into a new seed.

    Args:
        seed: The run's seed, any int.
        *parts: Purpose, ids, epoch, …: ints and strings. Order and type matter.

    Returns:
        An int in ``[0, 2**63)``, the same on every machine and in every process.

    Raises:
        TypeError: If a part is neither a whole number nor text.
    """
    digest = hashlib.blake2b(digest_size=8, person=b"omniloader")
    for part in (seed, *parts):
        # A plain int first: a NumPy integer prints as itself, a subclass such as bool may not.
        text = f"s{part}" if isinstance(part, str) else f"i{_whole(part)}"
        raw = text.encode()
        digest.update(len(raw).to_bytes(4, "little"))
        digest.update(raw)
    return int.from_bytes(digest.digest(), "little") >> 1


def _whole(part: int) -> int:
    """A plain int; int() would make seeds 1 and 1.5 the same."""
    try:
        return operator.index(part)
    except TypeError:
        raise TypeError(f"a seed must be a whole number, got {part!r}") from None


def derive_keys(seed: int, *columns: npt.NDArray[np.int64] | int) -> npt.NDArray[np.uint64]:
    """Hash a seed with whole columns of ids at once: one independent key a row.

    Each column goes through a full splitmix64 round, so neighbouring ids share nothing.

    Args:
        seed: From :func:`derive_seed`, so that the purpose is already in it.
        *columns: Int arrays of one shape ``(n,)``, or ints for all rows.

    Returns:
        Keys, uint64 ``(n,)`` (or ``()`` when all columns are ints).
    """
    state = np.asarray(np.uint64(seed & _MASK64))
    with np.errstate(over="ignore"):
        for column in columns:
            ids = np.asarray(column, dtype=np.int64).view(np.uint64)
            state = mix64(state ^ mix64(ids + _GAMMA))
    return state


def mix64(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The splitmix64 finaliser: a bijection of 64-bit words whose bits all depend on each other."""
    with np.errstate(over="ignore"):
        mixed = values + _GAMMA
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX1
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX2
        return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def uniform(keys: npt.NDArray[np.uint64], draw: int) -> npt.NDArray[np.float64]:
    """The ``draw``-th uniform number of each key, in ``[0, 1)`` with 53 random bits.

    Counter-based: number k of a key needs no number before it, and all keys are drawn at once.
    """
    words = derive_keys(0, keys.view(np.int64), draw)
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def generator_of(key: int) -> torch.Generator:
    """A fresh CPU generator for a key; made where it is used, never stored."""
    generator = torch.Generator()
    generator.manual_seed(int(key) & (_MASK64 >> 1))
    return generator


def seed_worker(worker_id: int) -> None:
    """Prepare a ``DataLoader`` worker: pass it as ``worker_init_fn``.

    Lets every source drop handles it inherited from the parent, and seeds Python's and NumPy's
    global generators from PyTorch's per-worker seed for user code that draws from them. Nothing
    of omniloader does: its own results do not depend on the number of workers.

    Args:
        worker_id: Number of the worker, given by PyTorch.
    """
    worker_seed = torch.initial_seed()
    random.seed(worker_seed)
    np.random.seed(worker_seed % 2**32)
    info = get_worker_info()
    if info is not None:
        reset_for_worker(info.dataset)


def reset_for_worker(dataset: object) -> None:
    """Call ``reset_for_worker`` on a dataset, or on those it wraps (``Subset``, …)."""
    reset = getattr(dataset, "reset_for_worker", None)
    if callable(reset):
        reset()
        return
    for inner in (getattr(dataset, "dataset", None), *(getattr(dataset, "datasets", None) or ())):
        if inner is not None:
            reset_for_worker(inner)


def seed_everything(seed: int) -> None:
    """Seed the global generators of Python, NumPy and PyTorch, for the code around the loader.

    Args:
        seed: Any int; omniloader itself never draws from a global generator.
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
