"""Memory that all workers of a process see."""

from __future__ import annotations

from torch import Tensor


def shared(tensor: Tensor) -> Tensor:
    """Move a tensor into shared memory, where forked and spawned workers see each write."""
    tensor.share_memory_()  # type: ignore[no-untyped-call]
    return tensor
