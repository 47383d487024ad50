"""Batches planned over all ranks, then cut by rank."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from torch.utils.data import Sampler

from omniloader.errors import PlanError, StateError
from omniloader.sampling.checks import checked_whole
from omniloader.sampling.draw import DrawBatch
from omniloader.sampling.mixing import MixingStrategy
from omniloader.sampling.sampler import OmniSampler
from omniloader.sampling.state import State, is_of

COMPOSITIONS = ("mixed", "exact_ratio", "per_source")

# Draws computed at once: enough to spread NumPy's overhead over several batches.
_BULK = 1 << 13


class PlannedBatchSampler(Sampler[DrawBatch], ABC):
    """What batch samplers over an :class:`OmniSampler` share: epoch, shard and state.

    The order of an epoch is cut into *global* batches of ``batch_size`` draws for each rank, and
    every global batch by rank. So at each step the ranks together hold the same samples for any
    world size with the same global batch.

    Args:
        sampler: Gives strategy, epoch and shard.
        batch_size: Draws of this rank in a batch.
        drop_last: Drop a last batch that is not full.

    Raises:
        PlanError: If no batch would be left.
    """

    def __init__(self, sampler: OmniSampler, batch_size: int, drop_last: bool) -> None:
        self.sampler = sampler
        self.batch_size = checked_whole(batch_size, "batch_size", 1)
        self.drop_last = drop_last

    @property
    def global_batch(self) -> int:
        """Draws of all ranks together in a full batch."""
        return self.batch_size * self.sampler.shard.num_replicas

    @property
    def epoch(self) -> int:
        """The present epoch."""
        return self.sampler.epoch

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of an epoch; the epoch of a loaded state goes on where it was saved."""
        self.sampler.set_epoch(epoch)

    @abstractmethod
    def __len__(self) -> int:
        """Batches of this rank in a whole epoch; a resumed epoch yields the rest of them."""

    @abstractmethod
    def state_dict(self, consumed: int | None = None) -> State:
        """Where the run stands, as small plain JSON.

        Args:
            consumed: Batches that training has consumed since the iteration began; default
                those handed out. A loader that prefetches must say it.
        """

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any], *, migrate: bool = False) -> bool:
        """Go on where a state was saved: the next iteration yields the rest of its epoch.

        Args:
            state: From :meth:`state_dict`.
            migrate: As for :meth:`OmniSampler.load_state_dict`.

        Returns:
            Whether the mix has changed.
        """

    def refuse_empty(self) -> None:
        """Refuse options under which an epoch has no batch."""
        if len(self) == 0 and self.sampler.shard.training:
            raise PlanError(
                f"drop_last would drop everything: an epoch of {len(self.sampler.strategy)} draws "
                f"does not fill one batch of {self.batch_size} on each of "
                f"{self.sampler.shard.num_replicas} ranks; use drop_last=False or smaller batches"
            )


class OmniBatchSampler(PlannedBatchSampler):
    """Batches in the order of the plan: those of ``BatchSampler(sampler, batch_size)``, faster.

    Each batch is one :class:`~omniloader.sampling.draw.DrawBatch`, computed in bulk.

    Args:
        sampler: Gives strategy, epoch and shard.
        batch_size: Draws of this rank in a batch.
        drop_last: Drop a last batch that is not full.
        composition: ``"mixed"`` cuts the plan as it is. With ``"exact_ratio"`` every global
            batch holds each source's exact share, rounded so that running totals stay closest
            to it.

    Raises:
        PlanError: If an option is not known, or no batch would be left.
    """

    def __init__(
        self,
        sampler: OmniSampler,
        batch_size: int,
        drop_last: bool = False,
        *,
        composition: str = "mixed",
    ) -> None:
        super().__init__(sampler, batch_size, drop_last)
        if composition not in COMPOSITIONS[:2]:
            raise PlanError(
                f"composition must be one of {', '.join(COMPOSITIONS[:2])}, got {composition!r}"
            )
        self.composition = composition
        self.refuse_empty()

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch; a resumed epoch yields the rest of them."""
        return self._batches(len(self.sampler))

    @property
    def _window(self) -> int | None:
        return self.global_batch if self.composition == "exact_ratio" else None

    def _batches(self, draws: int) -> int:
        return draws // self.batch_size if self.drop_last else -(-draws // self.batch_size)

    def __iter__(self) -> Iterator[DrawBatch]:
        start = self.sampler.begin()
        plan = self.sampler.plan(window=self._window)
        # The sampler's own cursor, so that a state loaded into either of the two counts.
        shard, cursor, size = self.sampler.shard, self.sampler.cursor, self.batch_size
        draws = shard.share(max(len(plan) - start, 0))
        draws = min(draws, self._batches(draws) * size)
        bulk = size  # one batch first, so that training starts at once
        first = 0
        while first < draws:
            stop = min(first + bulk, draws)
            index, visit = plan[shard.positions(first, stop, start, len(plan))]
            for row in range(0, stop - first, size):
                rows = slice(row, min(row + size, stop - first))
                cursor.done = first + rows.stop
                # Copies: a batch that is sent to a worker must not bring its neighbours.
                yield DrawBatch(index[rows].copy(), visit[rows].copy(), plan.epoch)
            first, bulk = stop, max(1, _BULK // size) * size

    def state_dict(self, consumed: int | None = None) -> State:
        """Where the run stands, as small plain JSON.

        Args:
            consumed: Batches that training has consumed since the iteration began; default
                those handed out.

        Returns:
            The state of :meth:`OmniSampler.state_dict`, with the batches' composition.
        """
        draws = None if consumed is None else consumed * self.batch_size
        position = self.sampler.cursor.at(self.epoch, draws, self.sampler.shard.num_replicas)
        drawn = self.sampler.plan(window=self._window).drawn(min(position, self.sampler.total))
        state = self.sampler.state_at(position, drawn)
        state["batches"] = {"composition": self.composition, "global_batch": self.global_batch}
        return state

    def load_state_dict(self, state: Mapping[str, Any], *, migrate: bool = False) -> bool:
        """Go on where a state was saved: the next iteration yields the rest of its epoch.

        Args:
            state: From :meth:`state_dict`, of any world size; ``mixed`` batches of any size too.
            migrate: As for :meth:`OmniSampler.load_state_dict`.

        Returns:
            Whether the mix has changed.

        Raises:
            StateError: If the state is of another order.
        """
        check_batches(
            state,
            {"composition": self.composition}
            | ({"global_batch": self.global_batch} if self.composition != "mixed" else {}),
            self.sampler.strategy,
            migrate,
        )
        return self.sampler.load_state_dict(state, migrate=migrate)


def take_over(sampler: OmniSampler, goes_on: bool) -> None:
    """Let a batch sampler with a cursor of its own start an iteration.

    Args:
        sampler: Its sampler.
        goes_on: Whether the batch sampler itself knows where to go on.

    Raises:
        StateError: If the sampler was told to go on somewhere and the batch sampler was not.
    """
    pending = sampler.begin()
    if pending and not goes_on:
        raise StateError(
            f"the sampler is to go on at position {pending}, but these batches are not cut in its "
            "order; load the state into the batch sampler"
        )


def check_batches(
    state: Mapping[str, Any], wanted: Mapping[str, Any], strategy: MixingStrategy, migrate: bool
) -> None:
    """Refuse the state of batches that were planned otherwise.

    Raises:
        StateError: Naming what differs.
    """
    if not isinstance(state, Mapping) or (migrate and not is_of(state, strategy)):
        return  # not a state at all, or one whose batches end with its mix
    saved = state.get("batches", {})
    for key, value in wanted.items():
        if key in saved and saved[key] != value:
            raise StateError(
                f"sampler state is of batches with {key}={saved[key]}, these have {key}={value}; "
                "use the same batches to go on within the epoch, or start the next one"
            )
