"""Batches of like lengths: less padding, and no rank that waits for another."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from torch.utils.data import Sampler

from omniloader._types import IntArray
from omniloader.errors import PlanError, StateError
from omniloader.sampling.buckets import BucketRule, PlannedBuckets
from omniloader.sampling.checks import checked_whole
from omniloader.sampling.sampler import OmniSampler
from omniloader.sampling.state import State


class LengthBucketBatchSampler(Sampler[Sequence[int]]):
    """Groups samples of like lengths into batches.

    A pool of ``bucket_multiplier`` batches is sorted by length, cut into batches, and their
    order is shuffled; then comes the next pool. Over an :class:`OmniSampler` pools and batches
    are those of all ranks together and each batch is then cut by rank: at every step all ranks
    hold similar lengths, and all have the same number of batches. Any other sampler of ints is
    taken as this process's own.

    Args:
        sampler: An :class:`OmniSampler`, or any sized iterable of indices.
        lengths: Steps of every sample, by index: ``omni.sequence_lengths(key)``.
        batch_size: Samples in a batch of one rank; with ``max_tokens`` at most so many.
        bucket_multiplier: Batches in a pool: more means less padding, and batches less random.
        drop_last: Drop a last batch that is not full.
        shuffle: Shuffle the batches within their pool; False leaves the longest first.
        seed: Names that shuffle.
        max_tokens: Budget of padded steps (longest length times samples) in a batch of one rank.
            Give a generous ``batch_size`` to let it alone decide. Needs an :class:`OmniSampler`.

    Raises:
        PlanError: If an option or a length cannot be used.
    """

    def __init__(
        self,
        sampler: Iterable[int],
        lengths: Sequence[int] | IntArray,
        batch_size: int,
        bucket_multiplier: int = 100,
        drop_last: bool = False,
        shuffle: bool = True,
        seed: int = 0,
        *,
        max_tokens: int | None = None,
    ) -> None:
        self.sampler = sampler
        self.lengths = _checked_lengths(lengths)
        planned = isinstance(sampler, OmniSampler)
        self._rule = BucketRule(
            batch_size=checked_whole(batch_size, "batch_size", 1),
            num_replicas=sampler.shard.num_replicas if isinstance(sampler, OmniSampler) else 1,
            multiplier=checked_whole(bucket_multiplier, "bucket_multiplier", 1),
            max_tokens=None if max_tokens is None else self._checked_budget(max_tokens, planned),
            drop_last=bool(drop_last),
            shuffle=bool(shuffle),
            seed=int(seed),
        )
        self._epoch = 0
        self._planned: PlannedBuckets | None = None
        if isinstance(sampler, OmniSampler):
            total = sum(sampler.strategy.sizes)
            if len(self.lengths) != total:
                raise PlanError(
                    f"lengths must hold one length for each of {total} samples, got "
                    f"{len(self.lengths)}; use omni.sequence_lengths(key)"
                )
            self._planned = PlannedBuckets(sampler, self.lengths, self._rule)
        elif len(self) == 0 and len(sampler) > 0:  # type: ignore[arg-type]
            raise PlanError(
                f"drop_last would drop everything: {len(sampler)} samples do not fill one batch "  # type: ignore[arg-type]
                f"of {batch_size}; use drop_last=False or smaller batches"
            )

    @property
    def batch_size(self) -> int:
        """Samples in a batch of one rank, at most."""
        return self._rule.batch_size

    @property
    def epoch(self) -> int:
        """The present epoch."""
        return self._epoch if self._planned is None else self._planned.epoch

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch."""
        if self._planned is not None:
            return len(self._planned)
        full, rest = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type]
        return full + (rest > 0 and not self._rule.drop_last)

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of an epoch, the sampler too."""
        if self._planned is not None:
            self._planned.set_epoch(epoch)
            return
        self._epoch = checked_whole(epoch, "epoch", 0)
        advance = getattr(self.sampler, "set_epoch", None)
        if callable(advance):
            advance(epoch)

    def __iter__(self) -> Iterator[Sequence[int]]:
        return self._local() if self._planned is None else iter(self._planned)

    def _local(self) -> Iterator[list[int]]:
        """Pools of a sampler that cannot be planned, as they come."""
        indices = iter(self.sampler)
        number = 0
        while pool := list(itertools.islice(indices, self._rule.pool)):
            lengths = self._lengths_of(np.array([int(index) for index in pool], dtype=np.int64))
            for rows in self._rule.cut(lengths, self._epoch, number):
                yield [pool[row] for row in rows.tolist()]
            number += 1

    def _lengths_of(self, indices: IntArray) -> IntArray:
        wrong = indices[(indices < 0) | (indices >= len(self.lengths))]
        if len(wrong):
            raise PlanError(
                f"the sampler gives index {wrong[0]}, but there are {len(self.lengths)} lengths"
            )
        return self.lengths[indices]

    def _checked_budget(self, max_tokens: int, planned: bool) -> int:
        budget = checked_whole(max_tokens, "max_tokens", 1)
        if not planned:
            raise PlanError(
                "max_tokens needs an OmniSampler: the number of batches must be known before the "
                "indices are drawn, and no other sampler can be asked twice"
            )
        if len(self.lengths) and int(self.lengths.max()) > budget:
            longest = int(np.argmax(self.lengths))
            raise PlanError(
                f"max_tokens must be at least the length of the longest sample, got {budget}; "
                f"sample {longest} has {self.lengths[longest]} steps"
            )
        return budget

    def state_dict(self, consumed: int | None = None) -> State:
        """Where the run stands, as small plain JSON.

        Args:
            consumed: Batches that training has consumed since the iteration began; default
                those handed out.

        Raises:
            StateError: If the sampler is not an :class:`OmniSampler`.
        """
        return self._resumable().state_dict(consumed)

    def load_state_dict(self, state: Mapping[str, Any], *, migrate: bool = False) -> bool:
        """Go on where a state was saved: the next iteration yields the rest of its epoch.

        Args:
            state: From :meth:`state_dict`.
            migrate: As for :meth:`OmniSampler.load_state_dict`.

        Returns:
            Whether the mix has changed.

        Raises:
            StateError: If the state is of another order, or the sampler not an
                :class:`OmniSampler`.
        """
        return self._resumable().load_state_dict(state, migrate=migrate)

    def _resumable(self) -> PlannedBuckets:
        if self._planned is None:
            raise StateError(
                f"only batches over an OmniSampler can be resumed, this is over a "
                f"{type(self.sampler).__name__}"
            )
        return self._planned


def _checked_lengths(lengths: Sequence[int] | IntArray) -> IntArray:
    array = np.asarray(lengths)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise PlanError(
            f"lengths must be one whole number a sample, got dtype {array.dtype} and shape "
            f"{array.shape}"
        )
    negative = np.flatnonzero(array < 0)
    if len(negative):
        raise PlanError(
            f"lengths must be at least 0, got {array[negative[0]]} for sample {negative[0]}"
        )
    return array.astype(np.int64)
