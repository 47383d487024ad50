"""What a run that goes on with a changed mix carries over: the cursors of its sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from omniloader._types import IntArray
from omniloader.sampling.streams import Stream


@dataclass(frozen=True, kw_only=True)
class Carry:
    """Where each source stood when the mix changed.

    Args:
        epoch: Epoch in which it changed.
        keys: What names each source's order: its number in the first mix it was part of.
        before: Draws of each source in all epochs before.
        drawn: Draws of each source in that epoch until then.
    """

    epoch: int
    keys: tuple[int, ...]
    before: tuple[int, ...]
    drawn: tuple[int, ...]

    def rest(self, counts: IntArray, epoch: int) -> IntArray:
        """Draws of each source that are left of an epoch's ``counts``."""
        if epoch != self.epoch:
            return counts
        left: IntArray = np.maximum(counts - np.asarray(self.drawn), 0)
        return left

    def total(self, counts: IntArray, epoch: int) -> IntArray:
        """Draws of each source in the whole epoch, those before the change included."""
        return np.maximum(counts, np.asarray(self.drawn)) if epoch == self.epoch else counts

    def shifted(self, stream: Stream, number: int, epoch: int) -> Stream:
        """A source's draws in an epoch without those it had already."""
        offset = self.drawn[number] if epoch == self.epoch else 0
        return Shifted(stream, offset) if offset else stream

    def to_state(self, names: Sequence[str]) -> dict[str, Any]:
        """Plain values, by names of the sources."""
        cursors = cursors_of(names, self.keys, self.before, self.drawn)
        return {"epoch": self.epoch, "cursors": cursors}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], names: Sequence[str]) -> Carry:
        """The inverse of :meth:`to_state`."""
        rows = [state["cursors"][name] for name in names]
        keys, before, drawn = (
            tuple(int(row[field]) for row in rows) for field in ("key", "before", "drawn")
        )
        return cls(epoch=int(state["epoch"]), keys=keys, before=before, drawn=drawn)


def cursors_of(
    names: Sequence[str], keys: Sequence[int], before: Sequence[int], drawn: Sequence[int]
) -> dict[str, dict[str, int]]:
    """Cursors as plain values: by name of the source its key and how far it came."""
    return {
        name: {"key": int(key), "before": int(earlier), "drawn": int(now)}
        for name, key, earlier, now in zip(names, keys, before, drawn, strict=True)
    }


class Shifted:
    """A stream whose first draws are already used.

    Args:
        stream: The whole stream.
        offset: How many of its draws are used.
    """

    def __init__(self, stream: Stream, offset: int) -> None:
        self._stream, self._offset = stream, offset

    def take(self, draws: IntArray) -> tuple[IntArray, IntArray]:
        """Local indices and visits of the draws with these numbers."""
        return self._stream.take(draws + self._offset)
