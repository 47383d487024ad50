"""Batches of one source each, the sources interleaved by their shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from omniloader._types import IntArray
from omniloader.errors import PlanError, StateError
from omniloader.sampling.batches import (
    COMPOSITIONS,
    OmniBatchSampler,
    PlannedBatchSampler,
    check_batches,
    take_over,
)
from omniloader.sampling.checks import checked_whole, per_source
from omniloader.sampling.draw import DrawBatch
from omniloader.sampling.interleave import Shuffled
from omniloader.sampling.sampler import OmniSampler
from omniloader.sampling.state import Cursor, State
from omniloader.utils.seeding import derive_seed

# Batches whose sources are looked up at once.
_BULK = 64


def plan_batches(
    sampler: OmniSampler,
    batch_size: int,
    drop_last: bool = False,
    *,
    composition: str = "mixed",
    batch_sizes: Mapping[str, int] | None = None,
) -> PlannedBatchSampler:
    """The batch sampler of a composition.

    Args:
        sampler: Gives strategy, epoch and shard.
        batch_size: Draws of this rank in a batch.
        drop_last: Drop a last batch that is not full.
        composition: ``"mixed"``, ``"exact_ratio"`` or ``"per_source"``.
        batch_sizes: With ``"per_source"``: batch sizes of some sources, by name.

    Raises:
        PlanError: If the composition is not known or has no ``batch_sizes``.
    """
    if composition == "per_source":
        return PerSourceBatchSampler(sampler, batch_size, drop_last, batch_sizes=batch_sizes)
    if composition not in COMPOSITIONS:
        raise PlanError(
            f"composition must be one of {', '.join(COMPOSITIONS)}, got {composition!r}"
        )
    if batch_sizes is not None:
        raise PlanError(
            f"batch_sizes needs composition='per_source', got composition={composition!r}"
        )
    return OmniBatchSampler(sampler, batch_size, drop_last, composition=composition)


class PerSourceBatchSampler(PlannedBatchSampler):
    """Each batch from one source; of each source as many batches as its draws fill.

    Two sources of 4 and 2 draws in batches of 2: ``AA BB AA``.

    Args:
        sampler: Gives strategy, epoch and shard.
        batch_size: Draws of this rank in a batch.
        drop_last: Drop the last batch of each source if it is not full.
        batch_sizes: Batch sizes of some sources, by name, in place of ``batch_size``.

    Raises:
        PlanError: If a batch size cannot be used, or no batch would be left.
    """

    def __init__(
        self,
        sampler: OmniSampler,
        batch_size: int,
        drop_last: bool = False,
        *,
        batch_sizes: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(sampler, batch_size, drop_last)
        self._cursor = Cursor()
        if not sampler.shard.training:
            raise PlanError("per_source batches are for training; evaluate with 'mixed' ones")
        names = sampler.strategy.names
        given: Sequence[int | None] = per_source(batch_sizes or {}, names, "batch_sizes")
        self.batch_sizes = [
            self.batch_size
            if size is None
            else checked_whole(size, f"source '{name}': batch size", 1)
            for name, size in zip(names, given, strict=True)
        ]
        self._sizes = np.asarray(self.batch_sizes) * sampler.shard.num_replicas
        self.refuse_empty()

    def _batch_counts(self) -> IntArray:
        """Global batches of each source in the present epoch."""
        counts = np.asarray(self.sampler.counts(), dtype=np.int64)
        full, rest = np.divmod(counts, self._sizes)
        shard = self.sampler.shard
        if self.drop_last:
            return full
        # A rest that training ranks cannot share evenly makes no batch for any of them.
        least = shard.num_replicas if shard.drop_last else 1
        return np.asarray(full + (rest >= least), dtype=np.int64)

    def __len__(self) -> int:
        """Batches of this rank in the present epoch; a resumed epoch yields the rest of them."""
        return sum(self._batch_counts().tolist())

    def __iter__(self) -> Iterator[DrawBatch]:
        shard = self.sampler.shard
        plan, order = self.sampler.plan(), self._order()
        counts = self.sampler.counts()
        take_over(self.sampler, self._cursor.pending > 0)
        for step in range(self._cursor.begin(plan.epoch), len(order), _BULK):
            sources, numbers = order.locate(np.arange(step, min(step + _BULK, len(order))))
            firsts = numbers * self._sizes[sources]
            for source, first in zip(sources.tolist(), firsts.tolist(), strict=True):
                size = min(int(self._sizes[source]), counts[source] - first)
                draws = first + shard.cut(size)
                index, visit = plan.take(np.full(len(draws), source), draws)
                self._cursor.done += 1
                yield DrawBatch(index, visit, plan.epoch)

    def _order(self) -> Shuffled:
        seed = derive_seed(self.sampler.strategy.seed, "per_source", self.epoch)
        return Shuffled(self._batch_counts(), seed)

    def _facts(self) -> dict[str, Any]:
        return {"composition": "per_source", "global_batches": self._sizes.tolist()}

    def state_dict(self, consumed: int | None = None) -> State:
        """Where the run stands, as small plain JSON; ``step`` counts batches.

        Args:
            consumed: Batches that training has consumed since the iteration began; default
                those handed out.
        """
        step = self._cursor.at(self.epoch, consumed, 1)
        drawn = np.minimum(self._order().drawn(step) * self._sizes, self.sampler.counts())
        state = self.sampler.state_at(int(drawn.sum()), drawn)
        state["batches"] = {**self._facts(), "step": step}
        return state

    def load_state_dict(self, state: Mapping[str, Any], *, migrate: bool = False) -> bool:
        """Go on where a state was saved: the next iteration yields the rest of its epoch.

        Args:
            state: From :meth:`state_dict`.
            migrate: As for :meth:`OmniSampler.load_state_dict`.

        Returns:
            Whether the mix has changed.

        Raises:
            StateError: If the state is of another order or of other batches.
        """
        saved = state.get("batches") if isinstance(state, Mapping) else None
        check_batches(state, self._facts(), self.sampler.strategy, migrate)
        changed = self.sampler.load_state_dict(state, migrate=migrate)
        if changed:
            self._cursor.jump(self.epoch, 0)
            return True
        if not isinstance(saved, Mapping) or "step" not in saved:
            raise StateError(
                "sampler state is not of per_source batches; load a state that this batch "
                "sampler itself has saved"
            )
        self._cursor.jump(self.epoch, int(saved["step"]))
        return False
