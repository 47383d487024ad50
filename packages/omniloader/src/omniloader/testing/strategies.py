"""Check that a mixing strategy keeps its contract: counts, plan, purity, shards."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence

import numpy as np

from omniloader._types import IntArray
from omniloader.sampling.mixing import MixingStrategy
from omniloader.sampling.sampler import OmniSampler
from omniloader.testing.probes import own_generators, pickled, refuse_rng

_INSTEAD = "make keys with omniloader.utils.seeding.derive_seed"
_BLOCK = 7


def check_strategy(
    strategy: MixingStrategy,
    *,
    epochs: Sequence[int] = (0, 1, 5),
    worlds: Sequence[int] = (2, 3, 7),
) -> None:
    """Ask a strategy for some epochs in many ways, and check all that samplers rely on.

    Checked are:

    - counts are one whole number a source, nothing for an empty one, and sum to ``len``;
    - the plan holds exactly these counts, every draw (index and visit) once;
    - ``epoch_indices`` is the plan, and so is the plan asked for single positions, in blocks, in
      any order, or with a window; outside the epoch it raises ``IndexError``;
    - an epoch is the same when it is asked again, after others, and after pickling;
    - the settings are plain values, no generator is stored and global ones are left alone;
    - ranks of any world size share out the same draws, with and without ``drop_last``.

    Args:
        strategy: A strategy over small sources: whole epochs are listed.
        epochs: The epochs to ask for.
        worlds: Numbers of ranks to share an epoch.

    Raises:
        AssertionError: If something does not hold, naming the strategy and the epoch.
    """
    case = _Case(strategy)
    case.check_storage()
    with own_generators(case.name, _INSTEAD):
        for epoch in epochs:
            case.check_counts(epoch)
            case.check_plan(epoch)
            case.check_access(epoch)
            case.check_shards(epoch, worlds)
    case.check_purity(epochs)


class _Case:
    def __init__(self, strategy: MixingStrategy) -> None:
        self.name = type(strategy).__name__
        self.strategy = strategy
        self.untouched = copy.deepcopy(strategy)

    def check_storage(self) -> None:
        """It stores no generator, and says its settings as plain values."""
        refuse_rng(self.name, self.strategy, _INSTEAD)
        try:
            json.dumps(self.strategy.settings(), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise AssertionError(
                f"{self.name}: settings must be plain values, a saved state holds them as JSON; "
                f"got: {error}"
            ) from error

    def check_counts(self, epoch: int) -> None:
        """Exact, one a source, nothing of an empty one."""
        sizes, counts = self.strategy.sizes, self.strategy.target_counts(epoch)
        if len(counts) != len(sizes) or not all(type(count) is int for count in counts):
            self._fail(epoch, f"target_counts must be one int for each of {len(sizes)} sources")
        if sum(counts) != len(self.strategy):
            self._fail(epoch, f"counts must sum to {len(self.strategy)}, got {sum(counts)}")
        if min(counts) < 0 or any(n for n, size in zip(counts, sizes, strict=True) if not size):
            self._fail(epoch, f"counts must be 0 for empty sources and never below, got {counts}")

    def check_plan(self, epoch: int) -> None:
        """The plan draws what the counts say, and no draw twice."""
        plan = self.strategy.plan(epoch)
        if len(plan) != len(self.strategy):
            self._fail(epoch, f"the plan must have {len(self.strategy)} draws, got {len(plan)}")
        index, visit = plan[:]
        total = sum(self.strategy.sizes)
        if len(index) and not 0 <= index.min() <= index.max() < total:
            self._fail(epoch, f"indices must be from 0 to below {total}")
        if self._drawn(index) != self.strategy.target_counts(epoch):
            self._fail(
                epoch, f"the plan must draw what target_counts say, got {self._drawn(index)}"
            )
        if len(np.unique(np.stack([index, visit]), axis=1).T) != len(index) or (visit < 0).any():
            self._fail(epoch, "a draw (index and visit) must come once; count visits from 0")
        windowed, _ = self.strategy.plan(epoch, window=_BLOCK)[:]
        if self._drawn(windowed) != self._drawn(index):
            self._fail(epoch, "a plan with a window must draw the same of each source")

    def check_access(self, epoch: int) -> None:
        """Any positions, however they are asked for, give the same draws."""
        plan = self.strategy.plan(epoch)
        size, (index, visit) = len(plan), plan[:]
        if self.strategy.epoch_indices(epoch) != index.tolist():
            self._fail(epoch, "epoch_indices must be the indices of the plan")
        mixed = np.random.default_rng(epoch).permutation(size)
        ways = {"in another order": mixed, "twice": np.repeat(mixed, 2)}
        ways.update(
            (f"from position {start} on", np.arange(start, min(start + _BLOCK, size)))
            for start in range(0, size, max(_BLOCK, size // 20))
        )
        for how, positions in ways.items():
            found = plan[positions]
            if not _equal(found, (index[positions], visit[positions])):
                self._fail(epoch, f"the plan must be the same asked {how}")
        for at in mixed[:_BLOCK].tolist():
            if plan[at] != (int(index[at]), int(visit[at])):
                self._fail(epoch, f"the plan must be the same asked for position {at} alone")
        for outside in (-1, size):
            try:
                plan[outside]
            except IndexError:
                continue
            self._fail(epoch, f"position {outside} is outside the plan and must be an IndexError")

    def check_shards(self, epoch: int, worlds: Sequence[int]) -> None:
        """Ranks together draw what one rank draws."""
        size = len(self.strategy)
        order = self.strategy.epoch_indices(epoch)
        for world in worlds:
            rounds = -(-size // world)
            repeated = (order * (rounds * world // max(size, 1) + 1))[: rounds * world]
            self._check_ranks(epoch, world, {}, repeated)
            self._check_ranks(epoch, world, {"training": False}, order)
            if size >= world:
                kept = order[: size // world * world]
                self._check_ranks(epoch, world, {"drop_last": True}, kept)

    def _check_ranks(
        self, epoch: int, world: int, options: dict[str, bool], expected: list[int]
    ) -> None:
        for rank in range(world):
            sampler = OmniSampler(self.strategy, epoch, world, rank, **options)  # type: ignore[arg-type]
            own = [int(draw) for draw in sampler]
            if own != expected[rank::world] or len(sampler) != len(own):
                self._fail(
                    epoch, f"rank {rank} of {world} must draw its share of the plan {options}"
                )

    def check_purity(self, epochs: Sequence[int]) -> None:
        """An epoch does not depend on what was asked before."""
        for epoch in reversed(epochs):
            alone = copy.deepcopy(self.untouched).plan(epoch)[:]
            if not _equal(self.strategy.plan(epoch)[:], alone):
                self._fail(epoch, "the plan must be the same whatever was asked before")
            if not _equal(pickled(self.name, self.strategy).plan(epoch)[:], alone):
                self._fail(epoch, "the plan must be the same after pickling")

    def _drawn(self, index: IntArray) -> list[int]:
        sizes = self.strategy.sizes
        sources = np.searchsorted(np.cumsum(sizes), index, side="right")
        return list(np.bincount(sources, minlength=len(sizes)).tolist())

    def _fail(self, epoch: int, problem: str) -> None:
        raise AssertionError(f"{self.name}, epoch {epoch}: {problem}")


def _equal(left: tuple[IntArray, IntArray], right: tuple[IntArray, IntArray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))
