"""Every clause of the contract of a batch sampler is broken once, and named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from omniloader.sampling.draw import DrawIndex
from omniloader.testing import check_batch_sampler


class Good:
    """Batches ``[epoch + step, …]`` of two, five an epoch."""

    batch_size = 2

    def __init__(self) -> None:
        self.epoch = 0
        self.start: dict[int, int] = {}
        self.begun = self.done = 0

    def __len__(self) -> int:
        return 5

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def batch(self, step: int) -> list[DrawIndex]:
        return [DrawIndex(10 * step + row + self.epoch, self.epoch) for row in range(2)]

    def __iter__(self) -> Iterator[Any]:
        self.begun, self.done = self.start.pop(self.epoch, 0), 0
        for step in range(self.begun, 5):
            self.done += 1
            yield self.batch(step)

    def state_dict(self, consumed: int | None = None) -> dict[str, Any]:
        done = self.done if consumed is None else consumed
        return {"epoch": self.epoch, "step": self.begun + done}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch, self.start = state["epoch"], {state["epoch"]: state["step"]}
        self.begun, self.done = state["step"], 0


def test_a_batch_sampler_of_ones_own_passes() -> None:
    check_batch_sampler(Good())
    check_batch_sampler(Good(), positions=2, epochs=[4])


class Short(Good):
    def __len__(self) -> int:
        return 4


class Empty(Good):
    def batch(self, step: int) -> list[DrawIndex]:
        return []


class Big(Good):
    def batch(self, step: int) -> list[DrawIndex]:
        return super().batch(step) + super().batch(step)


class Elsewhere(Good):
    def batch(self, step: int) -> list[DrawIndex]:
        return [DrawIndex(1, self.epoch + 1)]


class Moody(Good):
    asked = 0

    def batch(self, step: int) -> list[DrawIndex]:
        self.asked += 1
        return [DrawIndex(self.asked, self.epoch)]


class Object(Good):
    def state_dict(self, consumed: int | None = None) -> dict[str, Any]:
        return {"step": {1, 2}}


class StartsAgain(Good):
    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch = state["epoch"]


class CountsAhead(Good):
    def state_dict(self, consumed: int | None = None) -> dict[str, Any]:
        return super().state_dict()


class KeepsGoing(Good):
    """The next epoch starts where the resumed one did."""

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        if self.begun:
            self.start = {epoch: self.begun}


class ForgetsTheFirstStop(Good):
    def state_dict(self, consumed: int | None = None) -> dict[str, Any]:
        done = self.done if consumed is None else consumed
        return {"epoch": self.epoch, "step": done}


class EndsEarly(Good):
    """A state of the very start is taken for one of the end."""

    def __iter__(self) -> Iterator[Any]:
        if self.start.get(self.epoch) == 0:
            return iter(())
        return super().__iter__()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Short, "Short, epoch 0: len must be the 5 batches that come, got 4"),
        (Empty, "Empty, epoch 0: a batch must hold 1 to 2 draws, got 0"),
        (Big, "Big, epoch 0: a batch must hold 1 to 2 draws, got 4"),
        (Elsewhere, "Elsewhere, epoch 0: draws must be of the epoch that was set"),
        (Moody, "Moody, epoch 0: the batches must be the same when the epoch comes again"),
        (Object, "Object: a state must be plain JSON, got: .*set is not JSON serializable"),
        (StartsAgain, "epoch 0: the rest must come after a stop at batch 1"),
        (CountsAhead, "epoch 0: the state of 0 batches consumed must not count more"),
        (KeepsGoing, "epoch 1: it must be whole after epoch 0 was resumed"),
        (ForgetsTheFirstStop, "epoch 0: the rest must come after a second stop, at 2"),
        (EndsEarly, "epoch 0: the rest must come after a stop at batch 0"),
    ],
)
def test_what_breaks_the_contract_is_named(kind: type[Good], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_batch_sampler(kind())


class ForgetsWithoutAsking(Good):
    """Says nothing of what came unless it is told."""

    def state_dict(self, consumed: int | None = None) -> dict[str, Any]:
        return {"epoch": self.epoch, "step": self.begun + (consumed or 0)}


def test_a_state_that_is_not_told_what_was_consumed() -> None:
    with pytest.raises(AssertionError, match="epoch 0: the rest must come after a stop at batch 1"):
        check_batch_sampler(ForgetsWithoutAsking())


def test_without_a_state() -> None:
    check_batch_sampler(StartsAgain(), resume=False)
