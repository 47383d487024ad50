"""What happens to a bad sample: raise, or mask it, count it and stop at a budget."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch.utils.data import get_worker_info

from omniloader.errors import ConfigError, SampleError
from omniloader.utils.sharing import shared

ON_ERROR = ("raise", "mask")
# Each process counts in a row of its own, so that no lock is needed.
_ROWS = 257


class FaultLog:
    """Decides about bad values and counts those that were masked, over all workers.

    Args:
        names: Names of the sources.
        on_error: ``"raise"`` or ``"mask"``.
        budget: Number of masked values, all sources together, after which it raises.

    Raises:
        ConfigError: If an option is not known.
    """

    def __init__(self, names: Sequence[str], on_error: str, budget: int) -> None:
        if on_error not in ON_ERROR:
            raise ConfigError(f"on_error must be one of {', '.join(ON_ERROR)}, got {on_error!r}")
        if budget < 0:
            raise ConfigError(f"error_budget must be at least 0, got {budget}")
        self.masks = on_error == "mask"
        self._names = list(names)
        self._budget = budget
        self._counts = shared(torch.zeros(_ROWS, len(self._names), dtype=torch.int64))
        self._warned: set[int] = set()

    def refuse(self, source: int, text: str, cause: BaseException | None = None) -> None:
        """Raise a :class:`SampleError`, or count one masked value of a source.

        Args:
            source: Number of the source.
            text: What is wrong with which sample.
            cause: What the source raised, if it did.
        """
        if not self.masks:
            raise SampleError(text) from cause
        info = get_worker_info()
        self._counts[0 if info is None else 1 + info.id % (_ROWS - 1), source] += 1
        total = int(self._counts.sum())
        if total > self._budget:
            raise SampleError(
                f"{text} (bad values so far: {total}, more than error_budget={self._budget}; "
                "see OmniLoader.error_counts, mend the source or raise the budget)"
            ) from cause
        if source not in self._warned:
            self._warned.add(source)
            warnings.warn(
                f'{text} (masked, as on_error="mask" asks; further bad values of this source are '
                "only counted in OmniLoader.error_counts)",
                RuntimeWarning,
                stacklevel=2,
            )

    def counts(self) -> dict[str, int]:
        """Masked values per source, over all workers."""
        return dict(zip(self._names, self._counts.sum(0).tolist(), strict=True))
