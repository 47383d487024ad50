from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omniloader.data.splits import apportion, split_indices
from omniloader.errors import ConfigError

RATIOS = st.lists(st.integers(0, 10), min_size=1, max_size=5).filter(any)


def sizes(splits: dict[str, list[int]]) -> list[int]:
    return [len(indices) for indices in splits.values()]


def everything(splits: dict[str, list[int]]) -> list[int]:
    return sorted(index for indices in splits.values() for index in indices)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 300), RATIOS, st.integers(-5, 2**70))
def test_sizes_are_exact_and_nothing_is_lost(n: int, weights: list[int], seed: int) -> None:
    ratios = [w / sum(weights) for w in weights]
    names = [f"s{i}" for i in range(len(ratios))]
    splits = split_indices(n, ratios, seed, names=names)
    assert list(splits) == names
    assert everything(splits) == list(range(n))
    assert all(indices == sorted(indices) for indices in splits.values())
    for got, ratio in zip(sizes(splits), ratios, strict=True):
        assert abs(got - n * ratio) < 1
        assert ratio > 0 or got == 0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(3, 40), min_size=1, max_size=12), st.integers(0, 9))
def test_each_class_is_split_by_the_ratios(counts: list[int], seed: int) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    splits = split_indices(len(labels), seed=seed, stratify=labels)
    assert everything(splits) == list(range(len(labels)))
    assert sizes(splits) == apportion(len(labels), np.array([0.8, 0.1, 0.1])).tolist()
    for ratio, indices in zip((0.8, 0.1, 0.1), splits.values(), strict=True):
        for label, count in enumerate(counts):
            assert abs((labels[indices] == label).sum() - ratio * count) < 2


def test_many_small_classes_reach_every_split() -> None:
    labels = [i // 5 for i in range(50)]
    assert sizes(split_indices(50, stratify=labels)) == [40, 5, 5]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=40, max_size=200), st.booleans(), st.integers(0, 9))
def test_groups_stay_whole(groups: list[int], stratified: bool, seed: int) -> None:
    stratify = [i % 3 for i in range(len(groups))] if stratified else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        splits = split_indices(len(groups), seed=seed, groups=groups, stratify=stratify)
    assert everything(splits) == list(range(len(groups)))
    owners = [{groups[i] for i in indices} for indices in splits.values()]
    assert sum(map(len, owners)) == len(set(groups))


def test_groups_come_near_the_ratios_and_the_class_shares() -> None:
    groups = np.repeat(np.arange(100), 10)
    labels = groups % 4
    splits = split_indices(1000, groups=groups, stratify=labels)
    assert all(
        abs(got - want) <= 20 for got, want in zip(sizes(splits), (800, 100, 100), strict=True)
    )
    shares = Counter(labels[splits["train"]].tolist())
    assert max(shares.values()) - min(shares.values()) <= 20


def test_too_few_groups_warn() -> None:
    with pytest.warns(UserWarning, match=r"'valid', 'test' is empty: 2 groups do not reach"):
        splits = split_indices(10, groups=["a"] * 5 + ["b"] * 5)
    assert sizes(splits) == [10, 0, 0]
    assert sizes(split_indices(0, groups=[])) == [0, 0, 0]


def test_a_split_of_share_0_gets_no_group() -> None:
    splits = split_indices(6, (0.5, 0.0, 0.5), groups=[0, 1, 2, 3, 4, 5])
    assert sizes(splits) == [3, 0, 3]


def test_small_classes_go_to_the_first_split_with_a_warning() -> None:
    labels = ["common"] * 20 + ["rare"] * 2
    with pytest.warns(UserWarning, match="1 classes have too few .* go to 'train' whole: rare"):
        splits = split_indices(22, stratify=labels)
    assert {20, 21} <= set(splits["train"])
    assert sizes(splits) == [18, 2, 2]


def test_two_samples_are_enough_for_two_splits() -> None:
    splits = split_indices(4, (0.5, 0.5), stratify=[0, 0, 1, 1], names=("train", "test"))
    assert sizes(splits) == [2, 2]


@pytest.mark.parametrize(
    "ratios", [(0.7, 0.2, 0.1), (0.8, 0.1, 0.0999999999), (0.1, 0.2, 0.7000002)]
)
def test_float_noise_in_ratios_is_accepted(ratios: tuple[float, ...]) -> None:
    assert sum(sizes(split_indices(1000, ratios))) == 1000


def test_products_that_floats_miss_are_whole() -> None:
    assert sizes(split_indices(100, (0.29, 0.71), names=("a", "b"))) == [29, 71]


def test_nothing_splits_into_nothing() -> None:
    empty = {"train": [], "valid": [], "test": []}
    assert split_indices(0, stratify=[]) == split_indices(0, groups=[]) == split_indices(0) == empty


def test_seed_decides_and_the_order_is_the_same_everywhere() -> None:
    assert split_indices(12, seed=3) == {
        "train": [0, 2, 3, 4, 5, 6, 7, 8, 10, 11],
        "valid": [1],
        "test": [9],
    }
    assert split_indices(100, seed=0) != split_indices(100, seed=1)


def test_global_generators_are_left_alone() -> None:
    before = np.random.get_state()[1].tolist()
    split_indices(50, stratify=[i % 2 for i in range(50)])
    assert np.random.get_state()[1].tolist() == before


def test_labels_may_be_tensors_texts_or_arrays() -> None:
    numbers = [i % 2 for i in range(40)]
    expected = split_indices(40, stratify=numbers)
    assert split_indices(40, stratify=torch.tensor(numbers)) == expected
    assert split_indices(40, stratify=np.array(numbers, dtype=np.float32)) == expected
    assert split_indices(40, stratify=["ab"[i] for i in numbers]) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": -1}, "n must be a whole number of at least 0, got -1"),
        ({"n": 1.5}, "n must be a whole number of at least 0, got 1.5"),
        ({"n": True}, "n must be a whole number of at least 0, got True"),
        ({"ratios": (0.5, 0.4, 0.0)}, "must sum to 1, .* with sum 0.9"),
        ({"ratios": (1.2, -0.1, -0.1)}, "ratios must be at least 0"),
        ({"ratios": (float("nan"), 0.5, 0.5)}, "ratios must be at least 0"),
        ({"ratios": (0.5, 0.5)}, r"every ratio needs a name .* ratios=\(0.5, 0.5\)"),
        ({"names": ("a", "a", "b")}, "every ratio needs a name of its own"),
        ({"names": "abc"}, "every ratio needs a name of its own"),
        ({"stratify": [0, 1]}, r"stratify must have one label a sample \(10\), got \(2,\)"),
        ({"groups": [0]}, r"groups must have one label a sample \(10\), got \(1,\)"),
        ({"stratify": [float("nan")] * 10}, "stratify must have a label for every sample"),
        ({"groups": [None] * 10}, "groups must be labels of one kind"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        split_indices(**{"n": 10, **arguments})
