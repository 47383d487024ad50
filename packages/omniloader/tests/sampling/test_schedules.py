from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniloader.errors import PlanError
from omniloader.sampling.batches import OmniBatchSampler
from omniloader.sampling.groups import group_weights
from omniloader.sampling.sampler import OmniSampler
from omniloader.sampling.schedule import Schedule
from omniloader.sampling.strategies import (
    AnnealedTemperatureStrategy,
    FixedWeightStrategy,
    ScheduledWeightStrategy,
    TemperatureStrategy,
)
from omniloader.sampling.subsamplers import ExhaustionPolicy, SubsampleConfig

UP = [{"at": 0, "weights": [1, 0]}, {"at": 4, "weights": [0, 1]}]


def share_of_second(strategy: ScheduledWeightStrategy, epoch: int, parts: int) -> list[float]:
    indices = np.array(strategy.epoch_indices(epoch)) >= strategy.sizes[0]
    return [float(part.mean()) for part in np.array_split(indices, parts)]


# -- schedules -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("linear", [0, 2.5, 5, 7.5, 10]),
        ("cosine", [0, 1.464, 5, 8.536, 10]),
        ("piecewise", [0, 0, 0, 0, 10]),
    ],
)
def test_shapes(shape: str, expected: list[float]) -> None:
    schedule = Schedule(times=[2, 6], values=np.array([[0.0], [10.0]]), shape=shape)
    got = [float(schedule.at(time)[0]) for time in (2, 3, 4, 5, 6)]
    assert got == pytest.approx(expected, abs=1e-3)
    assert [float(schedule.at(time)[0]) for time in (0, 99)] == [0, 10]


@pytest.mark.parametrize(
    ("times", "shape", "text"),
    [
        ([0, 1], "square", "shape must be one of linear, cosine, piecewise, got 'square'"),
        ([], "linear", "must have at least one point"),
        ([0, 0], "linear", r"times must rise, got \[0, 0\]"),
        ([-1, 0], "linear", "a point's time must be a number of at least 0, got -1"),
        ([0, float("nan")], "linear", "a point's time must be .* got nan"),
        ([True], "linear", "a point's time must be .* got True"),
        (["2"], "linear", "a point's time must be .* got '2'"),
    ],
)
def test_bad_schedules_are_refused(times: list[float], shape: str, text: str) -> None:
    with pytest.raises(PlanError, match=text):
        Schedule(times=times, values=np.zeros((2, 1)), shape=shape)


def test_weights_move_from_epoch_to_epoch() -> None:
    strategy = ScheduledWeightStrategy([60, 40], UP)
    assert [strategy.target_counts(e)[1] for e in range(6)] == [0, 25, 50, 75, 100, 100]
    piecewise = ScheduledWeightStrategy([60, 40], UP, shape="piecewise")
    assert [piecewise.target_counts(e)[1] for e in range(6)] == [0, 0, 0, 0, 100, 100]
    named = [{"at": 0, "weights": {"b": 3, "a": 1}}]
    assert ScheduledWeightStrategy([60, 40], named, names=["a", "b"]).target_counts(7) == [25, 75]
    assert ScheduledWeightStrategy([60, 40]).target_counts(0) == [50, 50]


def test_weights_move_from_step_to_step() -> None:
    # two epochs of 100 steps of 8 draws: all of it within epoch 0 and 1
    points = [{"at": 0, "weights": [1, 0]}, {"at": 200, "weights": [0, 1]}]
    strategy = ScheduledWeightStrategy([500, 300], points, unit="step", step_size=8)
    assert share_of_second(strategy, 0, 4) == pytest.approx(
        [1 / 16, 3 / 16, 5 / 16, 7 / 16], abs=0.02
    )
    assert share_of_second(strategy, 1, 2) == pytest.approx([0.625, 0.875], abs=0.02)
    assert share_of_second(strategy, 2, 2) == [1, 1]
    assert [strategy.target_counts(e) for e in range(3)] == [[600, 200], [200, 600], [0, 800]]


def test_a_step_falls_where_it_should() -> None:
    points = [{"at": 0, "weights": [1, 0]}, {"at": 37, "weights": [0, 1]}]
    strategy = ScheduledWeightStrategy([500, 300], points, "piecewise", "step", step_size=8)
    second = np.array(strategy.epoch_indices(0)) >= 500
    assert np.flatnonzero(second)[0] == 37 * 8
    assert second[37 * 8 :].all()


@settings(max_examples=40, deadline=None)
@given(
    step=st.integers(1, 40),
    last=st.integers(1, 60),
    epoch=st.integers(0, 3),
    shape=st.sampled_from(["linear", "cosine", "piecewise"]),
    policy=st.sampled_from(ExhaustionPolicy),
    window=st.none() | st.integers(1, 50),
)
def test_plans_by_step_are_pure_and_exact(
    step: int, last: int, epoch: int, shape: str, policy: ExhaustionPolicy, window: int | None
) -> None:
    points = [
        {"at": 0, "weights": [1, 5, 0]},
        {"at": last, "weights": [3, 1, 1]},
        {"at": last + 9.5, "weights": [0, 1, 1]},
    ]
    strategy = ScheduledWeightStrategy(
        [130, 50, 20], points, shape, "step", step, subsample=SubsampleConfig(policy=policy)
    )
    plan = strategy.plan(epoch, window=window)
    index, visit = plan[:]
    source = np.searchsorted([130, 180], index, side="right")
    assert np.bincount(source, minlength=3).tolist() == strategy.target_counts(epoch)
    assert sum(strategy.target_counts(epoch)) == len(plan) == 200
    assert len(set(zip(index.tolist(), visit.tolist(), strict=True))) == 200
    order = np.random.default_rng(0).permutation(200)
    assert plan[order][0].tolist() == index[order].tolist()
    for position in (0, 1, 77, 199, 200):
        seen = np.bincount(source[:position], minlength=3)
        assert plan.drawn(position).tolist() == seen.tolist()


def test_exhaust_goes_on_through_a_schedule() -> None:
    strategy = ScheduledWeightStrategy(
        [30, 30],
        [{"at": 0, "weights": [1, 3]}, {"at": 12, "weights": [3, 1]}],
        unit="step",
        step_size=10,
        subsample=SubsampleConfig(policy=ExhaustionPolicy.EXHAUST),
    )
    drawn = [i for epoch in range(6) for i in strategy.epoch_indices(epoch) if i < 30]
    for start in range(0, len(drawn) - 30, 30):
        assert sorted(drawn[start : start + 30]) == list(range(30))


def test_a_schedule_resumes_at_every_batch() -> None:
    points = [{"at": 0, "weights": [1, 0]}, {"at": 20, "weights": [0, 1]}]
    strategy = ScheduledWeightStrategy([50, 30], points, unit="step", step_size=8)
    for composition in ("mixed", "exact_ratio"):
        whole = list(OmniBatchSampler(OmniSampler(strategy), 8, composition=composition))
        for consumed in range(len(whole) + 1):
            run = OmniBatchSampler(OmniSampler(strategy), 8, composition=composition)
            list(itertools.islice(run, consumed))
            again = OmniBatchSampler(OmniSampler(strategy), 8, composition=composition)
            again.load_state_dict(run.state_dict())
            assert list(again) == whole[consumed:]


def test_temperature_moves_by_step_and_by_cosine() -> None:
    strategy = AnnealedTemperatureStrategy([900, 100], 5.0, 1.0, num_steps=100, step_size=10)
    first = np.array(strategy.epoch_indices(0)) >= 900
    assert first[:100].mean() > 0.35
    assert first[-100:].mean() < 0.2
    assert strategy.target_counts(1) == [900, 100]
    assert strategy.temperature_at(50) == pytest.approx(3.0)
    cosine = AnnealedTemperatureStrategy([900, 100], 5.0, 1.0, 5, shape="cosine")
    assert cosine.temperature_at(1) == pytest.approx(5 - 4 * 0.1464, abs=1e-3)
    endless = AnnealedTemperatureStrategy([900, 100], float("inf"), 1.0, 3)
    assert [endless.temperature_at(e) for e in range(3)] == [float("inf"), float("inf"), 1.0]


def test_a_cap_keeps_small_sources_alive() -> None:
    capped = TemperatureStrategy([10_000, 100, 50], 1.0, size_cap=100)
    assert capped.target_counts() == [4060, 4060, 2030]
    annealed = AnnealedTemperatureStrategy([10_000, 100], 1.0, 1.0, size_cap=100)
    assert annealed.target_counts(0) == [5050, 5050]


# -- groups --------------------------------------------------------------------------------

GROUPS = {
    "speech": {"weight": 3, "sources": {"a": 1, "b": 1}},
    "video": {"weight": 1, "sources": {"c": 2, "faces": {"weight": 2, "sources": {"d": 5}}}},
}


def test_group_weights_multiply() -> None:
    names = ["a", "b", "c", "d"]
    assert group_weights(GROUPS, names, [1, 1, 1, 1]) == [3 / 8, 3 / 8, 1 / 8, 1 / 8]
    strategy = FixedWeightStrategy([10, 20, 30, 20], groups=GROUPS, names=names)
    assert strategy.target_counts() == [30, 30, 10, 10]


def test_an_empty_member_leaves_its_share_to_its_group() -> None:
    names = ["a", "b", "c", "d"]
    assert group_weights(GROUPS, names, [1, 0, 1, 1]) == [6 / 8, 0, 1 / 8, 1 / 8]
    assert group_weights(GROUPS, names, [1, 1, 1, 0]) == [3 / 8, 3 / 8, 2 / 8, 0]
    assert group_weights(GROUPS, names, [0, 0, 1, 1]) == [0, 0, 1 / 2, 1 / 2]


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        ({"a": 1}, "every source must stand in a group, missing b; give it weight 0"),
        ({"a": 1, "b": 1, "z": 1}, "groups.z: there is no such source; sources are a, b"),
        (
            {"a": 1, "g": {"weight": 1, "sources": {"a": 1, "b": 1}}},
            "groups.g.a: the source stands in two groups; name it once",
        ),
        ({"a": -1, "b": 1}, "groups.a: weight must be a finite number of at least 0, got -1"),
        ({"a": "x", "b": 1}, "groups.a: weight must be .* got 'x'"),
        ({"g": {"weight": None, "sources": {"a": 1}}, "b": 1}, "groups.g: weight must be .* None"),
        ({"g": {"sources": {"a": 1}}, "b": 1}, "groups.g: a group must be {weight: number, sour"),
        ({"g": {"weight": 1, "sources": ["a"]}, "b": 1}, "groups.g: a group must be {weight"),
    ],
)
def test_bad_groups_are_refused(groups: dict[str, object], text: str) -> None:
    with pytest.raises(PlanError, match=text):
        FixedWeightStrategy([3, 3], groups=groups, names=["a", "b"])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"unit": "batch"}, "unit must be one of epoch, step, got 'batch'"),
        ({"unit": "step"}, "a schedule by step needs step_size"),
        ({"step_size": 8}, "step_size has no meaning for a schedule by epoch"),
        ({"unit": "step", "step_size": 0}, "step_size must be .* got 0"),
        ({"points": [{"at": 0}]}, r"a point must be {at: number, weights: ...}, got {'at': 0}"),
        ({"points": [7]}, "a point must be {at: number, weights: ...}, got 7"),
        ({"points": []}, "schedule: must have at least one point, got none"),
        ({"points": [{"at": 0, "weights": [0, 0]}]}, "a weight above 0"),
    ],
)
def test_bad_scheduled_options_are_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(PlanError, match=text):
        ScheduledWeightStrategy([3, 3], **{"points": UP, **options})  # type: ignore[arg-type]


def test_other_bad_options_are_refused() -> None:
    with pytest.raises(PlanError, match="give weights or groups, not both"):
        FixedWeightStrategy([3], [1], groups={"a": 1}, names=["a"])
    with pytest.raises(PlanError, match="size_cap must be a whole number of at least 1, got 0"):
        TemperatureStrategy([3], size_cap=0)
    with pytest.raises(PlanError, match=r"num_steps must be .* got 0"):
        AnnealedTemperatureStrategy([3], num_steps=0, step_size=4)
    with pytest.raises(PlanError, match="epoch must be at least 0, got -1"):
        AnnealedTemperatureStrategy([3]).temperature_at(-1)
