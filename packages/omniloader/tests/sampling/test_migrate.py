from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from omniloader.errors import StateError
from omniloader.sampling.bucketing import LengthBucketBatchSampler
from omniloader.sampling.per_source import plan_batches
from omniloader.sampling.sampler import OmniSampler
from omniloader.sampling.strategies import (
    MixingStrategy,
    ProportionalStrategy,
    RoundRobinStrategy,
    TemperatureStrategy,
)
from omniloader.sampling.subsamplers import ExhaustionPolicy, SubsampleConfig

OLD = {"a": 40, "b": 25}
NEW = {"new": 7, "b": 25, "a": 40}
EXHAUST = SubsampleConfig(policy=ExhaustionPolicy.EXHAUST)


def mix(sizes: dict[str, int], **options: object) -> MixingStrategy:
    return ProportionalStrategy(list(sizes.values()), names=list(sizes), **options)  # type: ignore[arg-type]


def named(strategy: MixingStrategy, draws: list[int]) -> list[tuple[str, int]]:
    """Draws as (source, local index)."""
    starts = np.cumsum([0, *strategy.sizes])
    found = np.searchsorted(starts, draws, side="right") - 1
    return [(strategy.names[n], int(d) - int(starts[n])) for n, d in zip(found, draws, strict=True)]


def stopped(
    strategy: MixingStrategy, after: int, epoch: int = 0
) -> tuple[list[tuple[str, int]], dict]:  # type: ignore[type-arg]
    sampler = OmniSampler(strategy, epoch)
    draws = list(itertools.islice(sampler, after))
    return named(strategy, draws), json.loads(json.dumps(sampler.state_dict()))


def migrated(strategy: MixingStrategy, state: object) -> OmniSampler:
    sampler = OmniSampler(strategy)
    assert sampler.load_state_dict(state, migrate=True) is True  # type: ignore[arg-type]
    return sampler


def test_unchanged_sources_go_on_where_they_stood(capsys: pytest.CaptureFixture[str]) -> None:
    seen, state = stopped(mix(OLD), 30)
    sampler = migrated(mix(NEW), state)
    assert "going on with a changed mix:\n  source 'new' is new\n" in capsys.readouterr().out
    assert len(sampler) == 72 - 30
    rest = named(mix(NEW), list(sampler))
    assert len(rest) == 42
    # together one whole pass over every source, in the order the old mix had
    assert sorted(seen + rest) == sorted((name, i) for name in NEW for i in range(NEW[name]))
    whole, _ = stopped(mix(OLD), 65)
    for name in OLD:
        assert [d for d in seen + rest if d[0] == name] == [d for d in whole if d[0] == name]


def test_a_changed_source_starts_anew() -> None:
    _, state = stopped(mix(OLD), 30)
    larger = {"a": 41, "b": 25}
    rest = named(mix(larger), list(migrated(mix(larger), state)))
    assert sorted(d for d in rest if d[0] == "a") == [("a", i) for i in range(41)]


def test_a_source_may_go() -> None:
    seen, state = stopped(mix(OLD), 30)
    alone = {"b": 25}
    rest = named(mix(alone), list(migrated(mix(alone), state)))
    assert sorted([d for d in seen if d[0] == "b"] + rest) == [("b", i) for i in range(25)]


def test_exhaust_streams_go_on_over_the_epochs() -> None:
    small = SubsampleConfig(policy=ExhaustionPolicy.EXHAUST, effective_size=11)
    old, new = mix(OLD, subsample=small), mix(NEW, subsample=small)
    expected = [d for e in range(8) for d in named(old, old.epoch_indices(e)) if d[0] == "a"]
    seen = named(old, old.epoch_indices(0)) + named(old, old.epoch_indices(1))
    part, state = stopped(old, 9, epoch=2)
    sampler = migrated(new, state)
    seen += part + named(new, list(sampler))
    for epoch in range(3, 8):
        sampler.set_epoch(epoch)
        seen += named(new, list(sampler))
    assert [d for d in seen if d[0] == "a"] == expected


@pytest.mark.parametrize("subsample", [SubsampleConfig(), EXHAUST])
def test_a_migrated_run_resumes_exactly(subsample: SubsampleConfig) -> None:
    _, state = stopped(mix(OLD, subsample=subsample), 30)
    new = mix(NEW, subsample=subsample)
    sampler = migrated(new, state)
    whole = list(sampler)
    sampler.set_epoch(1)
    after = list(sampler)
    for consumed in range(0, 43, 6):
        run = migrated(new, state)
        list(itertools.islice(run, consumed))
        again = OmniSampler(new)
        assert again.load_state_dict(json.loads(json.dumps(run.state_dict()))) is False
        assert list(again) == whole[consumed:]
        again.set_epoch(1)
        assert list(again) == after
        again.set_epoch(0)
        assert list(again) == whole


def test_a_second_migration_keeps_what_the_first_kept() -> None:
    seen, state = stopped(mix(OLD), 30)
    run = migrated(mix(NEW), state)
    seen += named(mix(NEW), list(itertools.islice(run, 10)))
    third = {**NEW, "late": 4}
    rest = named(mix(third), list(migrated(mix(third), run.state_dict())))
    assert sorted(seen + rest) == sorted((name, i) for name in third for i in range(third[name]))


def test_round_robin_goes_on_in_turn() -> None:
    old = RoundRobinStrategy([4, 4], names=["a", "b"])
    new = RoundRobinStrategy([4, 4, 4], names=["a", "b", "c"])
    _, state = stopped(old, 5)
    rest = named(new, list(migrated(new, state)))
    assert "".join(name for name, _ in rest) == "abcbccc"


def test_a_source_that_is_ahead_has_nothing_left() -> None:
    old = TemperatureStrategy([40, 40], names=["a", "b"])
    _, state = stopped(old, 80)
    smaller = TemperatureStrategy([40, 40], names=["a", "b"], epoch_size=20)
    sampler = migrated(smaller, state)
    assert (len(sampler), list(sampler)) == (0, [])
    sampler.set_epoch(1)
    assert len(list(sampler)) == len(sampler) == 20


def test_an_earlier_epoch_knows_no_change() -> None:
    _, state = stopped(mix(OLD), 30, epoch=3)
    sampler = migrated(mix(NEW), state)
    sampler.set_epoch(2)
    assert list(sampler) == mix(NEW).epoch_indices(2)


@pytest.mark.parametrize("composition", ["mixed", "exact_ratio", "per_source"])
def test_batches_migrate(composition: str) -> None:
    batches = plan_batches(OmniSampler(mix(OLD)), 5, composition=composition)
    seen = [d for b in itertools.islice(batches, 4) for d in named(mix(OLD), list(b))]
    new = plan_batches(OmniSampler(mix(NEW)), 3, composition=composition)
    assert new.load_state_dict(batches.state_dict(), migrate=True) is True
    got = list(new)
    assert len(got) == len(new)
    rest = [d for b in got for d in named(mix(NEW), list(b))]
    assert sorted(seen + rest) == sorted((name, i) for name in NEW for i in range(NEW[name]))


@pytest.mark.parametrize("max_tokens", [None, 60])
def test_buckets_migrate(max_tokens: int | None) -> None:
    def buckets(sizes: dict[str, int]) -> LengthBucketBatchSampler:
        lengths = np.arange(sum(sizes.values())) % 20 + 1
        return LengthBucketBatchSampler(
            OmniSampler(mix(sizes)), lengths, 5, 2, max_tokens=max_tokens
        )

    old = buckets(OLD)
    seen = [d for b in itertools.islice(old, 4) for d in named(mix(OLD), list(b))]
    new = buckets(NEW)
    assert new.load_state_dict(old.state_dict(), migrate=True) is True
    got = list(new)
    assert len(got) == len(new)
    rest = [d for b in got for d in named(mix(NEW), list(b))]
    # nothing twice; what is left of the pool of 10 draws is skipped
    assert len(set(seen + rest)) == len(seen) + len(rest) >= sum(NEW.values()) - 10
    assert {d for d in rest if d[0] == "new"} == {("new", i) for i in range(7)}


def test_migrating_an_unchanged_mix_is_an_ordinary_resume() -> None:
    whole = mix(OLD).epoch_indices(0)
    _, state = stopped(mix(OLD), 30)
    sampler = OmniSampler(mix(OLD))
    assert sampler.load_state_dict(state, migrate=True) is False
    assert list(sampler) == whole[30:]
    exact = plan_batches(OmniSampler(mix(OLD)), 5, composition="exact_ratio")
    with pytest.raises(StateError, match="composition=exact_ratio, these have composition=mixed"):
        plan_batches(OmniSampler(mix(OLD)), 5).load_state_dict(exact.state_dict(), migrate=True)


def test_another_seed_is_refused_even_then() -> None:
    _, state = stopped(mix(OLD), 30)
    with pytest.raises(StateError, match="saved with seed 0, this strategy has seed 1"):
        OmniSampler(mix(NEW, seed=1)).load_state_dict(state, migrate=True)
