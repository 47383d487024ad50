"""Times a reference and the product in turn, and says how they compare."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Args:
        workload: What was measured.
        reference: Seconds of the plainest correct way, median.
        product: Seconds of omniloader, median.
        target: The ratio to reach; None where there is none.
        floor: Seconds of what the machine must do anyway, median; None where it was not measured.
        note: Anything the figures need to be read.
    """

    workload: str
    reference: float
    product: float
    target: float | None
    floor: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float:
        """How many times faster than the reference."""
        return self.reference / self.product

    @property
    def reached(self) -> bool:
        """Whether the target is met."""
        return self.target is None or self.ratio >= self.target

    def as_dict(self) -> dict[str, Any]:
        """For the JSON file."""
        return {**asdict(self), "ratio": self.ratio, "reached": self.reached}


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(
    workload: str,
    reference: Callable[[], object],
    product: Callable[[], object],
    *,
    target: float | None,
    floor: Callable[[], object] | None = None,
    scale: float = 1.0,
    repeats: int = 5,
    note: str = "",
) -> Row:
    """Run reference, product and floor in turn, A B C A B C, and take medians.

    Args:
        workload: Name of the row.
        reference: The plainest correct way.
        product: The same with omniloader.
        target: The ratio to reach.
        floor: What the machine must do anyway, for as much work as ``product``.
        scale: How many times the reference's work the product does, where the reference is too
            slow to do all of it.
        repeats: Rounds; one more is run first and not counted.
        note: Shown beside the row.
    """
    works = [work for work in (reference, product, floor) if work is not None]
    rounds = [[seconds(work) for work in works] for _ in range(repeats + 1)][1:]
    medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
    return Row(
        workload,
        medians[0] * scale,
        medians[1],
        target,
        medians[2] if floor is not None else None,
        note,
    )
