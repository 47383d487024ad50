"""Every clause of the contract of a strategy is broken once, and named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from omniloader.sampling.carry import Carry
from omniloader.sampling.plan import EpochPlan
from omniloader.sampling.strategies import (
    FixedWeightStrategy,
    ProportionalStrategy,
    RoundRobinStrategy,
)
from omniloader.testing import check_strategy

SIZES = [11, 5]


def broken(base: type[Any] = ProportionalStrategy, **methods: Any) -> Any:
    return type("Broken", (base,), methods)(SIZES)


class Plan:
    """A plan whose draws go through a function of (positions, index, visit)."""

    def __init__(self, plan: EpochPlan, change: Any) -> None:
        self.plan, self.change = plan, change

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, positions: Any) -> Any:
        index, visit = self.plan[positions]
        return self.change(positions, index, visit)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plan, name)


def changed(change: Any) -> Any:
    def plan(self: Any, epoch: int = 0, **options: Any) -> Any:
        return Plan(ProportionalStrategy.plan(self, epoch, **options), change)

    return broken(plan=plan)


def test_strategies_of_ones_own_pass() -> None:
    check_strategy(ProportionalStrategy(SIZES))
    check_strategy(RoundRobinStrategy(SIZES), epochs=[2], worlds=[40])


def counts(values: list[int]) -> Any:
    return lambda self, epoch=0: values


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"target_counts": counts([16])}, "target_counts must be one int for each of 2 sources"),
        ({"target_counts": lambda s, e=0: np.array([11, 5])}, "must be one int for each of 2"),
        ({"target_counts": counts([10, 5])}, "Broken, epoch 0: counts must sum to 16, got 15"),
        ({"target_counts": counts([17, -1])}, r"counts must be 0 for empty .* got \[17, -1\]"),
        ({"target_counts": counts([10, 6])}, r"must draw what target_counts say, got \[11, 5\]"),
        ({"settings": lambda self: {"at": {1, 2}}}, "Broken: settings must be plain values, a sa"),
        ({"settings": lambda self: {"at": float("nan")}}, "Broken: settings must be plain values"),
        ({"epoch_indices": lambda self, e: sorted(self.plan(e)[:][0].tolist())}, "epoch_indices"),
    ],
)
def test_counts_and_settings(methods: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_strategy(broken(**methods))


def cut(positions: Any, index: Any, visit: Any) -> Any:
    return index, np.zeros_like(visit) - 1


def twice(positions: Any, index: Any, visit: Any) -> Any:
    first = np.where(index < 11, 0, 11)
    return (first, visit) if isinstance(positions, slice) else (index, visit)


def far(positions: Any, index: Any, visit: Any) -> Any:
    return index + 6, visit


def by_block(positions: Any, index: Any, visit: Any) -> Any:
    return (index, visit) if isinstance(positions, slice) else (index[::-1], visit)


def alone(positions: Any, index: Any, visit: Any) -> Any:
    return (0, 0) if isinstance(positions, int) else (index, visit)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (cut, r"epoch 0: a draw \(index and visit\) must come once; count visits from 0"),
        (twice, r"epoch 0: a draw \(index and visit\) must come once"),
        (far, "epoch 0: indices must be from 0 to below 16"),
        (by_block, "epoch 0: the plan must be the same asked in another order"),
        (alone, "epoch 0: the plan must be the same asked for position .* alone"),
    ],
)
def test_plans(change: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_strategy(changed(change))


class Endless(Plan):
    def __getitem__(self, positions: Any) -> Any:
        if isinstance(positions, int) and not 0 <= positions < len(self):
            return 0, 0
        return self.plan[positions]


class Long(Plan):
    def __len__(self) -> int:
        return 17


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Endless, "position -1 is outside the plan and must be an IndexError"),
        (Long, "the plan must have 16 draws, got 17"),
    ],
)
def test_ends_of_plans(kind: type[Plan], message: str) -> None:
    def plan(self: Any, epoch: int = 0, **options: Any) -> Any:
        return kind(ProportionalStrategy.plan(self, epoch, **options), None)

    with pytest.raises(AssertionError, match=message):
        check_strategy(broken(plan=plan))


def test_a_window_that_draws_otherwise() -> None:
    def plan(self: Any, epoch: int = 0, *, window: int | None = None, carry: Any = None) -> Any:
        other = FixedWeightStrategy(SIZES) if window else ProportionalStrategy(SIZES)
        return other.plan(epoch)

    with pytest.raises(AssertionError, match="a plan with a window must draw the same of each"):
        check_strategy(broken(plan=plan))


def test_ranks_that_get_something_else() -> None:
    class Odd(ProportionalStrategy):
        """Draws otherwise for a sampler, which passes what it carries over."""

        def plan(
            self, epoch: int = 0, *, window: int | None = None, **carried: Carry | None
        ) -> EpochPlan:
            return super().plan(epoch + len(carried), window=window)

    with pytest.raises(AssertionError, match=r"rank 0 of 2 must draw its share of the plan \{\}"):
        check_strategy(Odd(SIZES))


class Remembers(ProportionalStrategy):
    """Draws by what was asked before."""

    asked = 0

    def plan(self, epoch: int = 0, **options: Any) -> EpochPlan:
        self.asked = max(self.asked, epoch)
        return super().plan(self.asked, **options)


class Forgets(ProportionalStrategy):
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "seed": 99}

    def __deepcopy__(self, memo: Any) -> Forgets:
        return Forgets(self.sizes)


def test_the_past_must_not_matter() -> None:
    with pytest.raises(AssertionError, match="epoch 5: the plan must be the same after pickling"):
        check_strategy(Forgets(SIZES))
    with pytest.raises(AssertionError, match="epoch 1: the plan must be the same whatever was"):
        check_strategy(Remembers(SIZES), worlds=())
    with pytest.raises(AssertionError, match="Broken must pickle, for workers that are spawned"):
        check_strategy(broken())


def test_generators() -> None:
    stored = ProportionalStrategy(SIZES)
    stored.rng = np.random.default_rng(0)  # type: ignore[attr-defined]
    with pytest.raises(
        AssertionError, match=r"ProportionalStrategy stores a Generator, .*derive_s"
    ):
        check_strategy(stored)

    def plan(self: Any, epoch: int = 0, **options: Any) -> Any:
        np.random.rand()
        return ProportionalStrategy.plan(self, epoch, **options)

    with pytest.raises(AssertionError, match="Broken draws from a global generator; make keys wi"):
        check_strategy(broken(plan=plan))
