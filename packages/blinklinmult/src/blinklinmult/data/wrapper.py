"""What all wrappers around a corpus share: they pass on whatever the corpus offers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from torch.utils.data import Dataset

from omniloader._types import IntArray, Sample


class SourceWrapper(Dataset[Sample]):
    """Passes on name, subset, handles and the epoch of a wrapped source.

    Args:
        dataset: The source.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    @property
    def name(self) -> str | None:
        """Name of the corpus."""
        return getattr(self.dataset, "name", None)

    @property
    def subset(self) -> str | None:
        """Which split this is."""
        return getattr(self.dataset, "subset", None)

    def set_epoch(self, epoch: int) -> None:
        """Tell the wrapped source the epoch."""
        advance = getattr(self.dataset, "set_epoch", None)
        if callable(advance):
            advance(epoch)

    def reset_for_worker(self) -> None:
        """Drop handles inherited from another process."""
        reset = getattr(self.dataset, "reset_for_worker", None)
        if callable(reset):
            reset()

    def close(self) -> None:
        """Release files."""
        close = getattr(self.dataset, "close", None)
        if callable(close):
            close()


class TakenNames(Sequence[str]):
    """Some of a sequence of names, looked up when asked for.

    Args:
        names: All names.
        rows: Which of them, ``(n,)``.
    """

    def __init__(self, names: Sequence[str], rows: IntArray) -> None:
        self._names = names
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self._names[int(row)] for row in self._rows[index]]
        return self._names[int(self._rows[index])]
