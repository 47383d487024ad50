import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset

from omniloader.utils.seeding import (
    derive_keys,
    derive_seed,
    generator_of,
    mix64,
    reset_for_worker,
    seed_everything,
    seed_worker,
    uniform,
)


def test_golden_seeds_never_change() -> None:
    assert derive_seed(0) == 4150800647355970614
    assert derive_seed(0, "shuffle", 1, 2) == 1428886344218420333
    assert derive_keys(7, np.arange(2), 3).tolist() == [3269722852640066213, 16830675388865983284]


def test_order_type_and_grouping_of_parts_matter() -> None:
    seeds = [
        derive_seed(0, 1),
        derive_seed(1, 0),
        derive_seed(0, "1"),
        derive_seed(0, 1, 1),
        derive_seed(0, 11),
        derive_seed(0, "a", "b"),
        derive_seed(0, "ab"),
        derive_seed(0, -1),
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert derive_seed(np.int64(3), np.int32(4)) == derive_seed(3, 4)


def test_seeds_do_not_depend_on_the_process() -> None:
    code = (
        "from omniloader.utils.seeding import derive_seed; print(derive_seed(0, 'shuffle', 1, 2))"
    )
    env = {"PYTHONHASHSEED": "123", "PATH": ""}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True
    )
    assert int(out.stdout) == derive_seed(0, "shuffle", 1, 2)


def test_keys_of_columns_are_distinct_and_elementwise() -> None:
    ids, visits = np.arange(1000) % 100, np.arange(1000) // 100
    keys = derive_keys(5, ids, visits)
    assert len(np.unique(keys)) == 1000
    assert keys[123] == derive_keys(5, int(ids[123]), int(visits[123]))
    assert not np.array_equal(keys, derive_keys(6, ids, visits))
    assert derive_keys(5, 1, 2) != derive_keys(5, 2, 1)


def test_uniform_numbers_are_uniform_and_counter_based() -> None:
    draws = uniform(derive_keys(1, np.arange(20_000)), 0)
    counts = np.histogram(draws, bins=20, range=(0.0, 1.0))[0]
    chi2 = float(((counts - 1000.0) ** 2 / 1000.0).sum())
    assert chi2 < 43.8  # the 99.9 % quantile of chi-square with 19 degrees of freedom
    assert draws.min() >= 0.0
    assert draws.max() < 1.0
    again = uniform(derive_keys(1, np.arange(5)), 3)
    assert (
        abs(float(np.corrcoef(uniform(derive_keys(1, np.arange(20_000)), 1), draws)[0, 1])) < 0.03
    )
    assert np.array_equal(again, uniform(derive_keys(1, np.arange(20_000)), 3)[:5])


def test_mix64_is_a_bijection_where_it_was_looked_at() -> None:
    assert len(np.unique(mix64(np.arange(100_000, dtype=np.uint64)))) == 100_000


def test_generators_repeat() -> None:
    first = torch.rand(3, generator=generator_of(2**64 - 1))
    assert torch.equal(first, torch.rand(3, generator=generator_of(2**64 - 1)))
    assert not torch.equal(first, torch.rand(3, generator=generator_of(1)))


class Handle(Dataset[int]):
    def __init__(self) -> None:
        self.resets = 0

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> int:
        return index

    def reset_for_worker(self) -> None:
        self.resets += 1


def test_reset_reaches_wrapped_datasets() -> None:
    first, second = Handle(), Handle()
    reset_for_worker(ConcatDataset([Subset(first, [0]), second]))
    assert (first.resets, second.resets) == (1, 1)
    reset_for_worker(object())


@pytest.fixture
def global_state() -> object:
    """Put the global generators back, whatever a test did to them."""
    saved = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(saved[0])
    np.random.set_state(saved[1])
    torch.set_rng_state(saved[2])


@pytest.mark.usefixtures("global_state")
def test_seed_everything_seeds_the_three_globals() -> None:
    def draw() -> tuple[float, float, float]:
        seed_everything(2**40 + 3)
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    assert draw() == draw()


@pytest.mark.usefixtures("global_state")
def test_seed_worker_outside_a_worker_seeds_from_torch() -> None:
    torch.manual_seed(5)
    seed_worker(0)
    first = random.random(), float(np.random.rand())
    seed_worker(1)
    assert (random.random(), float(np.random.rand())) == first


@pytest.mark.parametrize("part", [1.5, None, 1.0])
def test_a_seed_is_a_whole_number(part: object) -> None:
    with pytest.raises(TypeError, match=f"a seed must be a whole number, got {part!r}"):
        derive_seed(part)  # type: ignore[arg-type]
    assert derive_seed(np.int32(-3)) == derive_seed(-3)
