from __future__ import annotations

import pickle
import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniloader.errors import PlanError
from omniloader.sampling.evaluation import SequentialStrategy
from omniloader.sampling.strategies import (
    STRATEGIES,
    AnnealedTemperatureStrategy,
    FixedWeightStrategy,
    MixingStrategy,
    ProportionalStrategy,
    RoundRobinStrategy,
    TemperatureStrategy,
)
from omniloader.sampling.subsamplers import ExhaustionPolicy, SubsampleConfig

ALL = [*STRATEGIES.values(), SequentialStrategy]
size_lists = st.lists(st.integers(1, 200), min_size=1, max_size=5)
configs = st.builds(
    SubsampleConfig,
    replacement=st.booleans(),
    policy=st.sampled_from(ExhaustionPolicy),
    effective_size=st.none() | st.integers(1, 300),
)


def letters(strategy: MixingStrategy, epoch: int = 0) -> str:
    starts = np.cumsum(strategy.sizes)
    indices = np.array(strategy.epoch_indices(epoch))
    return "".join("ABCDE"[i] for i in np.searchsorted(starts, indices, side="right"))


# -- what every strategy promises ----------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(
    name=st.sampled_from(sorted(STRATEGIES)),
    sizes=size_lists,
    config=configs,
    seed=st.integers(0, 9),
    epoch=st.integers(0, 12),
)
def test_a_plan_holds_exactly_the_counts_and_is_pure(
    name: str, sizes: list[int], config: SubsampleConfig, seed: int, epoch: int
) -> None:
    strategy = STRATEGIES[name](sizes, seed=seed, subsample=config)
    counts = strategy.target_counts(epoch)
    indices = strategy.epoch_indices(epoch)
    assert sum(counts) == len(strategy) == len(strategy.plan(epoch)) == len(indices)
    source = np.searchsorted(np.cumsum(sizes), indices, side="right")
    assert np.bincount(source, minlength=len(sizes)).tolist() == counts
    other = STRATEGIES[name](sizes, seed=seed, subsample=config)
    other.epoch_indices(epoch + 1)
    assert other.epoch_indices(epoch) == indices
    positions = np.random.default_rng(0).permutation(len(strategy))[:50]
    index, visit = strategy.plan(epoch)[positions]
    assert index.tolist() == [indices[p] for p in positions]
    assert index.dtype == visit.dtype == np.int64
    pairs = list(zip(*(part.tolist() for part in strategy.plan(epoch)[:]), strict=True))
    assert len(set(pairs)) == len(pairs)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(STRATEGIES)),
    sizes=size_lists,
    epoch=st.integers(0, 5),
    policy=st.sampled_from(ExhaustionPolicy),
)
def test_visits_count_how_often_a_sample_was_drawn_before(
    name: str, sizes: list[int], epoch: int, policy: ExhaustionPolicy
) -> None:
    config = SubsampleConfig(policy=policy, effective_size=150)
    index, visit = STRATEGIES[name](sizes, subsample=config).plan(epoch)[:]
    seen: Counter[int] = Counter()
    for one, number in zip(index.tolist(), visit.tolist(), strict=True):
        assert number == seen[one]
        seen[one] += 1


@pytest.mark.parametrize("kind", STRATEGIES.values())
def test_exhaust_goes_through_a_source_before_it_repeats(kind: type[MixingStrategy]) -> None:
    config = SubsampleConfig(policy=ExhaustionPolicy.EXHAUST, effective_size=30)
    strategy = kind([70, 110], subsample=config)
    starts, drawn = np.array([0, 70]), [[], []]
    for epoch in range(14):
        for index in strategy.epoch_indices(epoch):
            drawn[index >= 70].append(index - starts[int(index >= 70)])
    for size, stream in zip([70, 110], drawn, strict=True):
        for start in range(0, len(stream) - size, size):
            assert sorted(stream[start : start + size]) == list(range(size))
    # an epoch asked for out of turn is the same
    assert kind([70, 110], subsample=config).epoch_indices(13) == strategy.epoch_indices(13)


@pytest.mark.parametrize("kind", ALL)
def test_strategies_survive_pickling(kind: type[MixingStrategy]) -> None:
    strategy = kind([5, 9])
    again = pickle.loads(pickle.dumps(strategy))  # noqa: S301
    assert again.epoch_indices(3) == strategy.epoch_indices(3)


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = {
        tuple(ProportionalStrategy([30, 20], seed=seed).epoch_indices(epoch))
        for seed in range(4)
        for epoch in range(4)
    }
    assert len(orders) == 16


def test_names_do_not_change_the_order() -> None:
    named = TemperatureStrategy([30, 20], names=["faces", "speech"])
    assert named.epoch_indices() == TemperatureStrategy([30, 20]).epoch_indices()


# -- orders of this plan version -----------------------------------------------------------


def test_golden_orders() -> None:
    assert ProportionalStrategy([3, 2]).epoch_indices(0) == GOLDEN["proportional"]
    assert ProportionalStrategy([3, 2], seed=1).epoch_indices(2) == GOLDEN["seed 1 epoch 2"]
    assert TemperatureStrategy([10, 3, 1]).epoch_indices(0) == GOLDEN["temperature"]
    assert RoundRobinStrategy([2, 3]).epoch_indices(0) == GOLDEN["round_robin"]
    weighted = SubsampleConfig(sample_weights=[1, 1, 4])
    assert ProportionalStrategy([3], subsample=weighted).epoch_indices(0) == GOLDEN["weights"]
    repeated = SubsampleConfig(replacement=True)
    assert ProportionalStrategy([4], subsample=repeated).epoch_indices(0) == GOLDEN["replacement"]
    index, visit = ProportionalStrategy([10**9, 3 * 10**8]).plan(1)[np.arange(10**8, 10**8 + 4)]
    assert index.tolist() == GOLDEN["large"]
    assert visit.tolist() == [0] * 4


GOLDEN: dict[str, list[int]] = {
    "proportional": [0, 2, 3, 4, 1],
    "seed 1 epoch 2": [3, 1, 2, 0, 4],
    "temperature": [3, 9, 13, 4, 8, 10, 12, 0, 7, 13, 11, 2, 6, 10],
    "round_robin": [0, 2, 1, 4, 1, 3],
    "weights": [1, 2, 2],
    "replacement": [1, 0, 1, 3],
    "large": [499895331, 379027899, 1259103036, 352157837],
}


# -- each of them --------------------------------------------------------------------------


def test_proportional_gives_every_sample_once() -> None:
    strategy = ProportionalStrategy([40, 7])
    assert strategy.target_counts(3) == [40, 7]
    assert sorted(strategy.epoch_indices(3)) == list(range(47))


def test_temperature_two_is_the_square_root() -> None:
    assert TemperatureStrategy([100, 25]).target_counts() == [83, 42]
    assert TemperatureStrategy([100, 25], temperature=1).target_counts() == [100, 25]
    assert TemperatureStrategy([100, 25], float("inf")).target_counts() == [63, 62]
    assert TemperatureStrategy([10**6, 10], 1e-3).target_counts() == [10**6 + 10, 0]


def test_annealed_temperature_moves_evenly_and_stays() -> None:
    strategy = AnnealedTemperatureStrategy([100, 10])
    assert [strategy.temperature_at(e) for e in (0, 9, 50)] == [5.0, 1.0, 1.0]
    assert strategy.temperature_at(3) == pytest.approx(5 - 4 / 3)
    assert strategy.target_counts(0) == [67, 43]
    assert strategy.target_counts(9) == [100, 10]
    single = AnnealedTemperatureStrategy([100, 10], 4.0, 2.0, num_epochs=1)
    assert [single.temperature_at(e) for e in (0, 1)] == [4.0, 2.0]


def test_fixed_weights() -> None:
    assert FixedWeightStrategy([30, 10, 20]).target_counts() == [20, 20, 20]
    assert FixedWeightStrategy([30, 10], [1, 3]).target_counts() == [10, 30]
    assert FixedWeightStrategy([30, 10], [1, 0], epoch_size=7).target_counts() == [7, 0]
    by_name = FixedWeightStrategy([30, 10], {"b": 3, "a": 1}, 8, names=["a", "b"])
    assert by_name.target_counts() == [2, 6]


def test_round_robin_takes_sources_in_turn() -> None:
    assert letters(RoundRobinStrategy([2, 3, 1])) == "ABCABCABC"
    assert letters(RoundRobinStrategy([2, 3], samples_per_dataset=1)) == "AB"
    assert RoundRobinStrategy([2, 3, 1]).target_counts() == [3, 3, 3]


def test_epoch_size_may_be_given() -> None:
    assert ProportionalStrategy([30, 10], epoch_size=8).target_counts() == [6, 2]
    assert len(TemperatureStrategy([30, 10], epoch_size=5)) == 5


def test_sequential_gives_everything_in_order() -> None:
    strategy = SequentialStrategy([2, 3])
    assert strategy.epoch_indices(7) == [0, 1, 2, 3, 4]
    assert len(strategy) == 5


# -- subsampling ---------------------------------------------------------------------------


def test_effective_size_is_what_a_source_counts_as() -> None:
    config = SubsampleConfig(effective_size=25)
    assert ProportionalStrategy([100, 30], subsample=config).target_counts() == [25, 25]
    pair = [None, SubsampleConfig(effective_size=400)]
    assert ProportionalStrategy([100, 30], subsample=pair).target_counts() == [100, 400]
    assert TemperatureStrategy([100, 30], subsample=pair).target_counts() == [167, 333]
    assert RoundRobinStrategy([100, 30], subsample=pair).target_counts() == [400, 400]
    assert len(FixedWeightStrategy([100, 30], subsample=pair)) == 500


def test_subsampling_by_name() -> None:
    strategy = ProportionalStrategy(
        [10, 10], subsample={"b": SubsampleConfig(effective_size=5)}, names=["a", "b"]
    )
    assert strategy.target_counts() == [10, 5]


# -- bad input -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
def test_an_empty_source_is_skipped_with_a_warning(kind: type[MixingStrategy]) -> None:
    with pytest.warns(UserWarning, match="source 'b' has no samples and is skipped"):
        strategy = kind([4, 0, 4], names=["a", "b", "c"])
    assert strategy.target_counts(0)[1] == 0
    assert set(strategy.epoch_indices(0)) == set(range(8))


def test_an_empty_source_keeps_no_share_through_its_effective_size() -> None:
    with pytest.warns(UserWarning, match="'dataset_0' has no samples"):
        strategy = ProportionalStrategy([0, 4], subsample=SubsampleConfig(effective_size=9))
    assert strategy.target_counts() == [0, 9]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ProportionalStrategy([]), "sizes must hold at least one source, got none"),
        (lambda: ProportionalStrategy([0, 0]), "at least one source must have samples"),
        (lambda: ProportionalStrategy([3, -1]), "source 'dataset_1': size must be .* got -1"),
        (lambda: ProportionalStrategy([3, 2.5]), "source 'dataset_1': size must be .* got 2.5"),
        (lambda: ProportionalStrategy([3, True]), "source 'dataset_1': size must be .* got True"),
        (
            lambda: ProportionalStrategy([3, 4], names=["a"]),
            r"one name for each of 2 sizes, got \['a'\]",
        ),
        (lambda: ProportionalStrategy([3, 4], names=["a", "a"]), "names must differ, got a more"),
        (lambda: ProportionalStrategy([3], epoch_size=0), "epoch_size must be .* least 1, got 0"),
        (lambda: ProportionalStrategy([3]).plan(-1), "epoch must be .* at least 0, got -1"),
        (lambda: TemperatureStrategy([3], 0.0), "temperature must be a number above 0, got 0.0"),
        (lambda: TemperatureStrategy([3], float("nan")), "temperature must be .* got nan"),
        (lambda: TemperatureStrategy([3], True), "temperature must be .* got True"),
        (lambda: TemperatureStrategy([3], "2"), "temperature must be .* got '2'"),
        (lambda: AnnealedTemperatureStrategy([3], -1), "start_temperature must be .* got -1"),
        (lambda: AnnealedTemperatureStrategy([3], 1, 0), "end_temperature must be .* got 0"),
        (lambda: AnnealedTemperatureStrategy([3], num_epochs=0), "num_epochs must be .* got 0"),
        (
            lambda: FixedWeightStrategy([3, 4], [1]),
            r"weights must hold one entry for each of 2 sources \(dataset_0, dataset_1\), got 1",
        ),
        (
            lambda: FixedWeightStrategy([3, 4], [1, -1]),
            "source 'dataset_1': weight must be .* got -1",
        ),
        (lambda: FixedWeightStrategy([3, 4], [1, float("nan")]), "source 'dataset_1': .* got nan"),
        (lambda: FixedWeightStrategy([3, 4], [0, 0]), "a weight above 0, got {'dataset_0': 0.0"),
        (
            lambda: FixedWeightStrategy([3], {"a": 1, "z": 2}, names=["a"]),
            "names no such source: z; sources are a",
        ),
        (
            lambda: FixedWeightStrategy([3, 4], {"a": 1}, names=["a", "b"]),
            "source 'b': has no weight",
        ),
        (lambda: FixedWeightStrategy([3], 5), "weights must be one for all, a list, or a dict"),
        (lambda: RoundRobinStrategy([3], 0), "samples_per_dataset must be .* got 0"),
        (
            lambda: ProportionalStrategy([3], subsample=[1]),
            "source 'dataset_0': subsample must be a SubsampleConfig",
        ),
        (
            lambda: ProportionalStrategy(
                [3, 2], subsample=SubsampleConfig(sample_weights=[1, 1, 1])
            ),
            r"source 'dataset_1': sample_weights must hold one weight for each of its 2 samples",
        ),
    ],
)
def test_bad_options_are_refused(make: object, text: str) -> None:
    with pytest.raises(PlanError, match=text):
        make()  # type: ignore[operator]


def test_weights_only_on_empty_sources_are_refused() -> None:
    with (
        pytest.warns(UserWarning, match="skipped"),
        pytest.raises(PlanError, match="at least one source with samples must have a weight"),
    ):
        FixedWeightStrategy([3, 0], [0, 1])


def test_a_strategy_shows_what_it_mixes() -> None:
    text = repr(TemperatureStrategy([3, 4], names=["a", "b"]))
    assert text == "TemperatureStrategy({a: 3, b: 4}, epoch_size=7, temperature=2.0, seed=0)"
    assert "weights=[1.0, 1.0]" in repr(FixedWeightStrategy([3, 4]))
    assert "samples_per_dataset=4" in repr(RoundRobinStrategy([3, 4]))
    assert "end_temperature=1.0, until=9, shape=linear" in repr(AnnealedTemperatureStrategy([3, 4]))
    assert repr(SequentialStrategy([3])) == "SequentialStrategy({dataset_0: 3}, seed=0)"


def test_building_a_strategy_of_full_sources_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RoundRobinStrategy([1, 2])
