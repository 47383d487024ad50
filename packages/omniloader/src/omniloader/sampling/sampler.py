"""A torch sampler over a mixing strategy: sharded, resumable, in step with its loader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch.utils.data import Sampler

from omniloader._types import IntArray
from omniloader.errors import PlanError, StateError
from omniloader.sampling.agreement import require_agreement
from omniloader.sampling.carry import Carry
from omniloader.sampling.checks import checked_epoch
from omniloader.sampling.draw import DrawIndex
from omniloader.sampling.mixing import MixingStrategy
from omniloader.sampling.plan import EpochPlan
from omniloader.sampling.shard import Shard
from omniloader.sampling.state import Cursor, State, check_state, migrated, state_of

# The first draws of an epoch should come at once; later ones are computed in bulk.
_FIRST_BLOCK, _LARGEST_BLOCK = 1 << 8, 1 << 13


class OmniSampler(Sampler[DrawIndex]):
    """The draws of a strategy's plan that belong to this rank.

    Every index also knows its epoch and visit (:class:`~omniloader.sampling.draw.DrawIndex`),
    and through it so does the loader, in persistent workers too. The time to the first index
    does not depend on the size of the epoch or on where in it a run resumes.

    With facts from ``torch.distributed`` every iteration in training starts with a collective
    that compares seed, mix, epoch and position over the ranks: all of them have to iterate. To
    iterate on one rank alone give it ``num_replicas=1, rank=0``.

    Args:
        strategy: What is mixed and how.
        epoch: First epoch.
        num_replicas: Number of processes; default from ``torch.distributed``, else 1.
        rank: Number of this process; default likewise, else 0.
        drop_last: Drop the draws that ranks cannot share evenly. False repeats draws from the
            front instead, as often as needed.
        training: False shares out every draw exactly once, in the order of the plan, so that
            ranks may differ by one; ``drop_last`` must then be False.
        on_epoch: Called with the epoch by :meth:`set_epoch`: the loader's own ``set_epoch``.

    Raises:
        PlanError: If there is no such rank, or ``drop_last`` would drop everything.
    """

    def __init__(
        self,
        strategy: MixingStrategy,
        epoch: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
        drop_last: bool = False,
        *,
        training: bool = True,
        on_epoch: Callable[[int], object] | None = None,
    ) -> None:
        if drop_last and not training:
            raise PlanError("drop_last must be False for evaluation, which drops no sample")
        self.strategy = strategy
        self.shard = Shard.resolve(rank, num_replicas, drop_last=drop_last, training=training)
        if drop_last and not self.shard.share(len(strategy)):
            raise PlanError(
                f"drop_last would drop everything: an epoch of {len(strategy)} draws cannot be "
                f"shared by {self.shard.num_replicas} ranks; use drop_last=False or fewer ranks"
            )
        # Given facts are the caller's own affair: a loader for one rank alone, or a simulation.
        self._of_group = training and rank is None and num_replicas is None
        self.epoch = checked_epoch(epoch)
        self._on_epoch = on_epoch
        self.cursor = Cursor()
        self._carry: Carry | None = None

    def __len__(self) -> int:
        """Draws of this rank in a whole epoch; a resumed epoch yields the rest of them."""
        return self.shard.share(self.total)

    @property
    def total(self) -> int:
        """Draws of all ranks in the present epoch."""
        return sum(self.counts())

    def counts(self) -> list[int]:
        """Draws of each source in the present epoch, of all ranks."""
        return list(self.strategy.rest(self.epoch, self._carried()).tolist())

    def _carried(self) -> Carry | None:
        """What an earlier mix means for the present epoch."""
        carry = self._carry
        return carry if carry is not None and self.epoch >= carry.epoch else None

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of an epoch; the epoch of a loaded state goes on where it was saved.

        Args:
            epoch: From 0.
        """
        epoch = checked_epoch(epoch)
        self.epoch = epoch
        if self._on_epoch is not None:
            self._on_epoch(epoch)

    def plan(self, *, window: int | None = None) -> EpochPlan:
        """The plan of the present epoch, over all ranks; see :meth:`MixingStrategy.plan`."""
        return self.strategy.plan(self.epoch, window=window, carry=self._carried())

    def begin(self) -> int:
        """Start an iteration of the present epoch; where in it, in draws over all ranks.

        Raises:
            StateError: If the rank is from ``torch.distributed`` and the ranks do not agree.
        """
        if self._of_group:
            require_agreement(self)
        return self.cursor.begin(self.epoch)

    def __iter__(self) -> Iterator[DrawIndex]:
        start = self.begin()
        plan, epoch, cursor = self.plan(), self.epoch, self.cursor
        count = self.shard.share(max(len(plan) - start, 0))
        first, block = 0, _FIRST_BLOCK
        while first < count:
            stop = min(first + block, count)
            index, visit = plan[self.shard.positions(first, stop, start, len(plan))]
            for done, pair in enumerate(
                zip(index.tolist(), visit.tolist(), strict=True), first + 1
            ):
                draw = int.__new__(DrawIndex, pair[0])
                draw.epoch, draw.visit = epoch, pair[1]
                cursor.done = done
                yield draw
            first, block = stop, min(2 * block, _LARGEST_BLOCK)

    def state_dict(self, consumed: int | None = None) -> State:
        """Where the run stands, as small plain JSON.

        Args:
            consumed: Draws of this rank that training has consumed since the iteration began;
                default those handed out. A loader that prefetches must say it.

        Returns:
            ``version epoch position seed fingerprint mix cursors``; ``position`` counts draws
            over all ranks, so that it holds for another world size, batch size or number of
            workers.
        """
        return self.state_at(self.cursor.at(self.epoch, consumed, self.shard.num_replicas))

    def state_at(self, position: int, drawn: IntArray | None = None) -> State:
        """The state after ``position`` draws of the epoch, over all ranks.

        Args:
            position: Number of draws; what repeats from the front of the epoch does not count.
            drawn: The same for each source; default those of :meth:`plan`.
        """
        position = min(position, self.total)
        if drawn is None:
            drawn = self.plan().drawn(position)
        return state_of(self.strategy, self.epoch, position, drawn, self._carried())

    def load_state_dict(self, state: Mapping[str, Any], *, migrate: bool = False) -> bool:
        """Go on where a state was saved: the next iteration yields the rest of its epoch.

        Args:
            state: From :meth:`state_dict`, of any world size.
            migrate: Take the state of another mix too: sources that are unchanged go on where
                they stood, the others start anew, and the difference is printed.

        Returns:
            Whether the mix has changed.

        Raises:
            StateError: If the state is incomplete, of another version or seed, or of another
                mix, saying what changed.
        """
        changed = check_state(state, self.strategy)
        if changed and not migrate:
            raise StateError(
                f"sampler state is of another mix: {'; '.join(changed)}; load_state_dict(state, "
                "migrate=True) keeps the cursors of unchanged sources"
            )
        if changed:
            print("going on with a changed mix:", *changed, sep="\n  ")
            self._go_to(state["epoch"], 0, migrated(state, self.strategy))
        else:
            saved = state.get("carry")
            carry = None if saved is None else Carry.from_state(saved, self.strategy.names)
            self._go_to(state["epoch"], state["position"], carry)
        return bool(changed)

    def _go_to(self, epoch: int, position: int, carry: Carry | None) -> None:
        total = int(self.strategy.rest(epoch, carry).sum())
        if position > total:
            raise StateError(
                f"sampler state: position must be at most {total}, the draws of an epoch, "
                f"got {position}"
            )
        self.epoch, self._carry = epoch, carry
        self.cursor.jump(epoch, position)
        if self._on_epoch is not None:
            self._on_epoch(epoch)
