"""Which positions of an order belong to which rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from omniloader._types import IntArray
from omniloader.errors import PlanError
from omniloader.sampling.checks import checked_whole


@dataclass(frozen=True, kw_only=True)
class Shard:
    """The share of one of several processes: every ``num_replicas``-th position from ``rank``.

    Five draws on two ranks::

        training                    rank 0: 0 2 4    rank 1: 1 3 0   (repeats from the front)
        training, drop_last=True    rank 0: 0 2      rank 1: 1 3
        evaluation                  rank 0: 0 2 4    rank 1: 1 3     (nothing twice)

    Args:
        rank: Number of this process, from 0.
        num_replicas: Number of processes.
        drop_last: In training, drop the draws that cannot be shared evenly instead of
            repeating some from the front.
        training: False shares out every draw exactly once, so that ranks may differ by one.

    Raises:
        PlanError: If there is no such rank.
    """

    rank: int = 0
    num_replicas: int = 1
    drop_last: bool = False
    training: bool = True

    def __post_init__(self) -> None:
        """Check the rank against the world."""
        checked_whole(self.num_replicas, "num_replicas", 1)
        checked_whole(self.rank, "rank", 0)
        if self.rank >= self.num_replicas:
            raise PlanError(
                f"rank must be below num_replicas={self.num_replicas}, got {self.rank}; ranks "
                "count from 0"
            )

    @classmethod
    def resolve(
        cls,
        rank: int | None = None,
        num_replicas: int | None = None,
        *,
        drop_last: bool = False,
        training: bool = True,
    ) -> Shard:
        """A shard whose missing facts come from ``torch.distributed``, else are those of one."""
        ready = torch.distributed.is_available() and torch.distributed.is_initialized()
        if num_replicas is None:
            num_replicas = torch.distributed.get_world_size() if ready else 1
        if rank is None:
            rank = torch.distributed.get_rank() if ready else 0
        return cls(rank=rank, num_replicas=num_replicas, drop_last=drop_last, training=training)

    def share(self, total: int) -> int:
        """How many of ``total`` draws are this rank's."""
        if not self.training:
            return max(0, -((self.rank - total) // self.num_replicas))
        if self.drop_last:
            return total // self.num_replicas
        return -(-total // self.num_replicas)

    def positions(self, first: int, stop: int, start: int, total: int) -> IntArray:
        """Positions of this rank's draws ``first`` to ``stop``, of those from ``start`` on.

        Args:
            first: Number of a draw of this rank, counted from ``start``.
            stop: One past the last.
            start: Position at which the counting starts.
            total: Length of the order; positions past it repeat from the front.
        """
        own = np.arange(first, stop, dtype=np.int64)
        return (start + self.rank + own * self.num_replicas) % total

    def cut(self, total: int) -> IntArray:
        """Rows of this rank in a batch of ``total`` rows; in training repeated from its front."""
        own = np.arange(self.share(total), dtype=np.int64)
        return (self.rank + own * self.num_replicas) % max(total, 1)
