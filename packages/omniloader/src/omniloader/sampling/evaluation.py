"""The order of evaluation: every sample exactly once, source after source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from omniloader._types import IntArray
from omniloader.sampling.carry import Carry
from omniloader.sampling.interleave import Interleave, Sequential
from omniloader.sampling.mixing import MixingStrategy
from omniloader.sampling.sampler import OmniSampler
from omniloader.sampling.streams import InOrder, Stream


class SequentialStrategy(MixingStrategy):
    """All sources in order, nothing mixed, shuffled or repeated: global indices 0, 1, 2, ….

    Args:
        sizes: Number of samples of each source.
        names: Names of the sources.
    """

    def __init__(self, sizes: Sequence[int], *, names: Sequence[str] | None = None) -> None:
        super().__init__(sizes, names=names)

    def __len__(self) -> int:
        return sum(self.sizes)

    def _counts(self, epoch: int) -> IntArray:
        return np.asarray(self.sizes, dtype=np.int64)

    def _interleave(self, counts: IntArray, epoch: int, window: int | None) -> Interleave:
        return Sequential(counts)

    def _streams(self, epoch: int, carry: Carry | None) -> dict[int, Stream]:
        return {number: InOrder() for number in np.flatnonzero(self.sizes).tolist()}

    def settings(self) -> dict[str, Any]:
        """The strategy's own options as plain values."""
        return {}


def evaluation_sampler(
    sizes: Sequence[int],
    num_replicas: int | None = None,
    rank: int | None = None,
    *,
    epoch: int = 0,
    names: Sequence[str] | None = None,
) -> OmniSampler:
    """A sampler that shares out every sample exactly once, in order.

    Ranks may differ by one sample, and the last step by one batch: a metric that calls a
    collective at every step must allow for a rank that has no last batch.

    Args:
        sizes: Number of samples of each source.
        num_replicas: Number of processes; default from ``torch.distributed``, else 1.
        rank: Number of this process; default likewise, else 0.
        epoch: What the samples' ``epoch`` will say.
        names: Names of the sources.
    """
    strategy = SequentialStrategy(sizes, names=names)
    return OmniSampler(strategy, epoch, num_replicas, rank, training=False)
