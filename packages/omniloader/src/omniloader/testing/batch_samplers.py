"""Check that a batch sampler keeps its contract: length, epochs, exact resume."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

Batches = list[list[tuple[int, int, int]]]


class ResumableBatches(Protocol):
    """What is checked: sized batches of indices, by epoch, with a state."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of an epoch."""

    def state_dict(self, consumed: int | None = None) -> dict[str, Any]:
        """Where it stands, after so many batches of this iteration."""

    def load_state_dict(self, state: dict[str, Any]) -> Any:
        """Go on there."""


def check_batch_sampler(
    sampler: ResumableBatches,
    *,
    epochs: Sequence[int] = (0, 1, 3),
    resume: bool = True,
    positions: int = 12,
) -> None:
    """Run a batch sampler through epochs, stop it everywhere, and check what a loader relies on.

    Checked are:

    - ``len`` is the number of batches that come, none of them empty or over ``batch_size``;
    - an epoch is the same when it comes again, and after others; draws that know their epoch
      (:class:`~omniloader.sampling.draw.DrawIndex`) are of that one;
    - a state is plain JSON; loaded into another sampler the rest of the epoch comes, from every
      position, the first and the last, and after a second stop;
    - a state of batches consumed does not see those that were read ahead;
    - after a resumed epoch the next one is whole.

    Args:
        sampler: The batch sampler; it is copied, not used.
        epochs: Epochs to run, in order.
        resume: False for one without a state, such as one over a plain sampler.
        positions: Stop at so many places of an epoch at most.

    Raises:
        AssertionError: If something does not hold, naming the sampler and the epoch.
    """
    case = _Case(sampler, epochs)
    case.check_epochs()
    if resume:
        for epoch, following in zip(epochs, [*epochs[1:], epochs[0]], strict=True):
            for position in case.places(epoch, positions):
                case.check_resume(epoch, position, following)


class _Case:
    def __init__(self, sampler: ResumableBatches, epochs: Sequence[int]) -> None:
        self.name = type(sampler).__name__
        self.sampler = sampler
        self.epochs = epochs
        self.whole = {epoch: _drawn(self.at(epoch)) for epoch in epochs}

    def at(self, epoch: int) -> ResumableBatches:
        """A sampler of its own at the start of an epoch."""
        own = copy.deepcopy(self.sampler)
        own.set_epoch(epoch)
        return own

    def places(self, epoch: int, limit: int) -> list[int]:
        """Positions to stop at: the first and last ones, and some between."""
        end = len(self.whole[epoch])
        step = max(1, end // limit)
        return sorted({*range(0, end + 1, step), min(1, end), max(end - 1, 0), end})

    def _most(self) -> float:
        sizes = [
            getattr(self.sampler, "batch_size", None),
            *getattr(self.sampler, "batch_sizes", ()),
        ]
        return max((size for size in sizes if size is not None), default=float("inf"))

    def check_epochs(self) -> None:
        """Lengths and sizes are as said, and one sampler gives what fresh ones give."""
        one, most = copy.deepcopy(self.sampler), self._most()
        for epoch in [*self.epochs, *reversed(self.epochs)]:
            one.set_epoch(epoch)
            said, batches = len(one), _drawn(one)
            if said != len(batches) or len(one) != said:
                self._fail(epoch, f"len must be the {len(batches)} batches that come, got {said}")
            if batches != self.whole[epoch] or _drawn(one) != batches:
                self._fail(epoch, "the batches must be the same when the epoch comes again")
            for batch in batches:
                if not 1 <= len(batch) <= most:
                    self._fail(epoch, f"a batch must hold 1 to {most} draws, got {len(batch)}")
                if any(draw[1] not in (-1, epoch) for draw in batch):
                    self._fail(epoch, "draws must be of the epoch that was set")

    def check_resume(self, epoch: int, position: int, following: int) -> None:
        """The rest of an epoch comes after a stop, then the next epoch."""
        state = self._state(self.at(epoch), position)
        rest = self.whole[epoch][position:]
        resumed = self._loaded(state)
        if _drawn(resumed) != rest:
            self._fail(epoch, f"the rest must come after a stop at batch {position}")
        resumed.set_epoch(following)
        if _drawn(resumed) != self.whole[following]:
            self._fail(following, f"it must be whole after epoch {epoch} was resumed")
        ahead = self.at(epoch)
        _drawn(islice(ahead, position + 2))
        if _drawn(self._loaded(_plain(self.name, ahead.state_dict(position)))) != rest:
            self._fail(epoch, f"the state of {position} batches consumed must not count more")
        if position:
            again = self._state(self._loaded(state), min(1, len(rest)))
            if _drawn(self._loaded(again)) != rest[1:]:
                self._fail(epoch, f"the rest must come after a second stop, at {position + 1}")

    def _state(self, sampler: ResumableBatches, consumed: int) -> dict[str, Any]:
        _drawn(islice(sampler, consumed))
        return _plain(self.name, sampler.state_dict())

    def _loaded(self, state: dict[str, Any]) -> ResumableBatches:
        own = copy.deepcopy(self.sampler)
        own.load_state_dict(copy.deepcopy(state))
        return own

    def _fail(self, epoch: int, problem: str) -> None:
        raise AssertionError(f"{self.name}, epoch {epoch}: {problem}")


def _drawn(batches: Iterable[Any]) -> Batches:
    """Index, epoch and visit of every draw; -1 where a plain int does not know."""
    return [
        [(int(d), getattr(d, "epoch", -1), getattr(d, "visit", -1)) for d in batch]
        for batch in batches
    ]


def _plain(name: str, state: dict[str, Any]) -> dict[str, Any]:
    try:
        plain: dict[str, Any] = json.loads(json.dumps(state, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{name}: a state must be plain JSON, got: {error}") from error
    return plain
