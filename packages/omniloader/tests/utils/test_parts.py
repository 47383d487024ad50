from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from omniloader.utils.parts import Parts, compute, slots_of


class Squares:
    """Part i is i squared, and the number of the process's threads."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index**2, torch.get_num_threads()


class Backwards:
    """An engine that computes the last part first."""

    slots = 0

    def compute(self, parts: Parts) -> Iterator[Any]:
        found = {index: parts[index] for index in reversed(range(len(parts)))}
        return (found[index] for index in range(len(parts)))


@pytest.mark.parametrize("workers", [0, 1, 2, Backwards()], ids=str)
@pytest.mark.parametrize("count", [0, 1, 5])
def test_results_come_in_order_whoever_computes_them(workers: Any, count: int) -> None:
    found = list(compute(Squares(count), workers))
    assert [square for square, _ in found] == [i**2 for i in range(count)]


def test_a_worker_has_one_thread() -> None:
    assert {threads for _, threads in compute(Squares(3), 2)} == {1}


def test_slots() -> None:
    assert [slots_of(0), slots_of(3), slots_of(Backwards())] == [0, 3, 1]
