"""Pools of draws, sorted by length and cut into batches of all ranks."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from omniloader._types import IntArray
from omniloader.errors import StateError
from omniloader.sampling.batches import PlannedBatchSampler, check_batches, take_over
from omniloader.sampling.draw import DrawBatch
from omniloader.sampling.permutation import permute
from omniloader.sampling.plan import EpochPlan
from omniloader.sampling.sampler import OmniSampler
from omniloader.sampling.state import Cursor, State
from omniloader.utils.seeding import derive_seed


@dataclass(frozen=True, kw_only=True)
class BucketRule:
    """How a pool is cut.

    Args:
        batch_size: Draws of one rank in a batch, at most.
        num_replicas: Number of ranks.
        multiplier: Full global batches in a pool.
        max_tokens: Padded steps in a batch of one rank, at most; None for no limit.
        drop_last: Drop a last batch that is not full.
        shuffle: Bring the batches of a pool into random order.
        seed: Names that order.
    """

    batch_size: int
    num_replicas: int
    multiplier: int
    max_tokens: int | None
    drop_last: bool
    shuffle: bool
    seed: int

    @property
    def global_batch(self) -> int:
        """Draws of all ranks in a full batch."""
        return self.batch_size * self.num_replicas

    @property
    def pool(self) -> int:
        """Draws in a pool."""
        return self.global_batch * self.multiplier

    def cut(self, lengths: IntArray, epoch: int, number: int) -> list[IntArray]:
        """Rows of each global batch of a pool, in the order of the batches.

        Args:
            lengths: Steps of the pool's draws, ``(n,)``.
            epoch: Number of the epoch.
            number: Number of the pool in it.
        """
        rows = np.argsort(-lengths, kind="stable")
        if self.max_tokens is None:
            stops = list(range(self.global_batch, len(rows) + 1, self.global_batch))
        else:
            stops = self._budget_stops(lengths[rows])
        batches = [rows[a:b] for a, b in zip([0, *stops], stops, strict=False)]
        done = stops[-1] if stops else 0
        rest = [rows[done : done + self._kept(len(rows) - done)]]
        if self.shuffle and batches:
            key = np.uint64(derive_seed(self.seed, "buckets", epoch, number))
            order = permute(np.arange(len(batches)), len(batches), key)
            batches = [batches[i] for i in order.tolist()]
        # The batch that is not full stays last, so that full ones can be counted.
        return batches + rest if len(rest[0]) else batches

    def _kept(self, left: int) -> int:
        """How many of the draws that do not fill a batch make one that is not full."""
        if not self.drop_last:
            return left
        # Budget batches differ in size anyway: only what ranks cannot share evenly is dropped.
        return 0 if self.max_tokens is None else left // self.num_replicas * self.num_replicas

    def _budget_stops(self, falling: IntArray) -> list[int]:
        """Ends of batches that fit the budget; the longest of a batch stands first."""
        stops: list[int] = []
        start = 0
        while start < len(falling):
            longest = int(falling[start])
            fitting = self.max_tokens // longest if self.max_tokens and longest else self.batch_size
            stop = start + min(fitting, self.batch_size) * self.num_replicas
            if stop > len(falling):
                break
            stops.append(stop)
            start = stop
        return stops


class PlannedBuckets(PlannedBatchSampler):
    """Length buckets over the plan of an :class:`OmniSampler`: the same at any world size.

    A place in the epoch is a pool and a number of batches in it.

    Args:
        sampler: Gives strategy, epoch and shard.
        lengths: Steps of every sample by global index, int64 ``(N,)``.
        rule: How pools are cut.
    """

    def __init__(self, sampler: OmniSampler, lengths: IntArray, rule: BucketRule) -> None:
        super().__init__(sampler, rule.batch_size, rule.drop_last)
        self._lengths, self._rule = lengths, rule
        self._cursor = Cursor()
        self._place = self._next_place = (0, 0)
        self._counts: list[int] = []
        self._known_len: tuple[int, int] | None = None
        self.refuse_empty()

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch; with ``max_tokens`` planned once an epoch."""
        total = self.sampler.total
        if self._rule.max_tokens is None:
            full, rest = divmod(total, self._rule.global_batch)
            kept = 0 if self.drop_last else int(self.sampler.shard.share(rest) > 0)
            return full + kept
        if self._known_len is None or self._known_len[0] != self.epoch:
            plan = self.sampler.plan()
            pools = range(-(-total // self._rule.pool))
            count = sum(len(self._pool(plan, number)) for number in pools)
            self._known_len = (self.epoch, count)
        return self._known_len[1]

    def _pool(self, plan: EpochPlan, number: int) -> list[DrawBatch]:
        """This rank's batches of a pool."""
        first = number * self._rule.pool
        index, visit = plan[np.arange(first, min(first + self._rule.pool, len(plan)))]
        batches = []
        for rows in self._rule.cut(self._lengths[index], plan.epoch, number):
            own = rows[self.sampler.shard.cut(len(rows))]
            if len(own):
                batches.append(DrawBatch(index[own], visit[own], plan.epoch))
        return batches

    def _jump(self, place: tuple[int, int]) -> None:
        self._place = self._next_place = place
        self._counts = []
        self._cursor.jump(self.epoch, 0)

    def __iter__(self) -> Iterator[DrawBatch]:
        plan = self.sampler.plan()
        place = self._next_place if plan.epoch == self._cursor.epoch else (0, 0)
        take_over(self.sampler, place != (0, 0))
        self._place, self._next_place = place, (0, 0)
        counts: list[int] = []
        self._counts = counts
        self._cursor.begin(plan.epoch)
        for number in range(place[0], -(-len(plan) // self._rule.pool)):
            batches = self._pool(plan, number)[place[1] if number == place[0] else 0 :]
            counts.append(len(batches))
            for batch in batches:
                self._cursor.done += 1
                yield batch

    def state_dict(self, consumed: int | None = None) -> State:
        """Where the run stands: a pool, and the batches consumed in it."""
        left = self._cursor.at(self.epoch, consumed, 1)
        pool, batch = self._place if self.epoch == self._cursor.epoch else (0, 0)
        for count in self._counts:
            if left < count:
                break
            left -= count
            pool, batch = pool + 1, 0
        batch += left
        position = pool * self._rule.pool
        if self._rule.max_tokens is None:
            position += batch * self._rule.global_batch
        # The draws of a pool come in order of length: a mix that has changed since cannot go on
        # within one, but after it.
        end = min((pool + (batch > 0)) * self._rule.pool, self.sampler.total)
        state = self.sampler.state_at(position, self.sampler.plan().drawn(end))
        state["batches"] = {**self._facts(), "pool": pool, "batch": batch}
        state["batches"]["num_replicas"] = self._rule.num_replicas
        return state

    def _facts(self) -> dict[str, Any]:
        rule = self._rule
        return {
            "composition": "buckets",
            "global_batch": rule.global_batch,
            "bucket_multiplier": rule.multiplier,
            "max_tokens": rule.max_tokens,
            "shuffle": rule.shuffle,
            "seed": rule.seed,
            "lengths": hashlib.blake2b(self._lengths.tobytes(), digest_size=8).hexdigest(),
        }

    def load_state_dict(self, state: Mapping[str, Any], *, migrate: bool = False) -> bool:
        """Go on where a state was saved: the next iteration yields the rest of its epoch.

        ``max_tokens`` batches depend on the world size: another one goes on at the next pool,
        with a warning that says so.

        Args:
            state: From :meth:`state_dict`.
            migrate: As for :meth:`OmniSampler.load_state_dict`; the rest of the pool is skipped.

        Returns:
            Whether the mix has changed.

        Raises:
            StateError: If the state is of another order or of other batches.
        """
        saved = state.get("batches") if isinstance(state, Mapping) else None
        check_batches(state, self._facts(), self.sampler.strategy, migrate)
        changed = self.sampler.load_state_dict(state, migrate=migrate)
        self._known_len = None
        if changed:
            self._jump((0, 0))
            return True
        if not isinstance(saved, Mapping) or not {"pool", "batch", "num_replicas"} <= set(saved):
            raise StateError(
                "sampler state is not of length buckets; load a state that the bucket sampler "
                "itself has saved"
            )
        pool, batch = int(saved["pool"]), int(saved["batch"])
        ranks = self._rule.num_replicas
        if self._rule.max_tokens is not None and batch and saved["num_replicas"] != ranks:
            warnings.warn(
                f"batches of max_tokens={self._rule.max_tokens} are cut for the world size: saved "
                f"on {saved['num_replicas']} ranks, going on with {ranks} at the next pool; the "
                f"rest of pool {pool} of epoch {self.epoch} is skipped",
                RuntimeWarning,
                stacklevel=2,
            )
            pool, batch = pool + 1, 0
        self._jump((pool, batch))
        return False
