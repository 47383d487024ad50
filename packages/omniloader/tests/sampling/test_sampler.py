from __future__ import annotations

import itertools
import json

import pytest
from torch.utils.data import DataLoader

from omniloader.errors import PlanError, StateError
from omniloader.sampling.draw import DrawIndex
from omniloader.sampling.evaluation import evaluation_sampler
from omniloader.sampling.sampler import OmniSampler
from omniloader.sampling.strategies import (
    MixingStrategy,
    ProportionalStrategy,
    RoundRobinStrategy,
    TemperatureStrategy,
)
from omniloader.sampling.subsamplers import ExhaustionPolicy, SubsampleConfig


def mix(seed: int = 0) -> MixingStrategy:
    return TemperatureStrategy([30, 12, 5], seed=seed, names=["a", "b", "c"])


def described(draws: list[DrawIndex]) -> list[tuple[int, int, int]]:
    return [(int(draw), draw.epoch, draw.visit) for draw in draws]


def test_draws_are_those_of_the_plan() -> None:
    sampler = OmniSampler(mix(), epoch=2)
    index, visit = mix().plan(2)[:]
    assert described(list(sampler)) == [
        (i, 2, v) for i, v in zip(index.tolist(), visit.tolist(), strict=True)
    ]
    assert len(sampler) == len(mix())
    assert list(sampler) == list(sampler)


def test_many_blocks_make_one_order() -> None:
    strategy = ProportionalStrategy([20_000, 3_000])
    assert list(OmniSampler(strategy)) == strategy.epoch_indices(0)


def test_an_epoch_reaches_indices_and_loader() -> None:
    told: list[int] = []
    sampler = OmniSampler(mix(), on_epoch=told.append)
    first = list(sampler)
    sampler.set_epoch(1)
    assert told == [1]
    assert {draw.epoch for draw in sampler} == {1}
    assert list(sampler) != first
    sampler.set_epoch(0)
    assert list(sampler) == first


@pytest.mark.parametrize(
    ("world", "drop_last"), [*itertools.product([1, 2, 3, 7, 50], [False, True])]
)
def test_ranks_share_the_plan(world: int, drop_last: bool) -> None:
    order = mix().epoch_indices(0)
    if drop_last and world > len(order):
        with pytest.raises(
            PlanError, match="drop_last would drop everything: an epoch of 47 draws"
        ):
            OmniSampler(mix(), num_replicas=world, rank=0, drop_last=True)
        return
    ranks = [list(OmniSampler(mix(), 0, world, rank, drop_last)) for rank in range(world)]
    sampler = OmniSampler(mix(), 0, world, 0, drop_last)
    assert {len(part) for part in ranks} == {len(sampler)}
    total = len(sampler) * world
    together = [draw for step in zip(*ranks, strict=True) for draw in step]
    assert together == (order * 20)[:total]


def test_more_ranks_than_samples_get_one_each() -> None:
    strategy = ProportionalStrategy([3])
    ranks = [list(OmniSampler(strategy, num_replicas=7, rank=rank)) for rank in range(7)]
    assert [len(part) for part in ranks] == [1] * 7
    assert {int(part[0]) for part in ranks} == {0, 1, 2}


@pytest.mark.parametrize(("n", "world"), [*itertools.product([1, 5, 12], [1, 2, 5, 8])])
def test_evaluation_gives_every_sample_once_in_order(n: int, world: int) -> None:
    samplers = [evaluation_sampler([n, 2], world, rank, epoch=4) for rank in range(world)]
    parts = [list(sampler) for sampler in samplers]
    assert [len(sampler) for sampler in samplers] == [len(part) for part in parts]
    assert sorted(itertools.chain(*parts)) == list(range(n + 2))
    assert all(part == sorted(part) for part in parts)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert {draw.epoch for part in parts for draw in part} == {4}


def test_evaluation_resumes_too() -> None:
    sampler = evaluation_sampler([9, 4], 2, 1)
    whole = list(sampler)
    list(itertools.islice(sampler, 3))
    again = evaluation_sampler([9, 4], 2, 1)
    again.load_state_dict(sampler.state_dict())
    assert list(again) == whole[3:]


def test_evaluation_drops_nothing() -> None:
    with pytest.raises(PlanError, match="drop_last must be False for evaluation"):
        OmniSampler(mix(), drop_last=True, training=False)


# -- resume --------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ExhaustionPolicy)
@pytest.mark.parametrize("world", [1, 2, 3])
def test_resume_at_every_position(world: int, policy: ExhaustionPolicy) -> None:
    strategy = TemperatureStrategy([20, 6], subsample=SubsampleConfig(policy=policy))
    for rank in range(world):
        whole = described(list(OmniSampler(strategy, 1, world, rank)))
        for consumed in range(len(whole) + 1):
            stopped = OmniSampler(strategy, 1, world, rank)
            assert described(list(itertools.islice(stopped, consumed))) == whole[:consumed]
            state = json.loads(json.dumps(stopped.state_dict()))
            resumed = OmniSampler(strategy, 0, world, rank)
            resumed.load_state_dict(state)
            resumed.set_epoch(state["epoch"])
            assert described(list(resumed)) == whole[consumed:]
            assert described(list(resumed)) == whole, "the epoch after is a whole one"


def test_a_state_holds_for_another_world_size() -> None:
    order = mix().epoch_indices(0)
    two = OmniSampler(mix(), num_replicas=2, rank=0)
    list(itertools.islice(two, 9))
    for world in (1, 2, 3, 6):
        ranks = [OmniSampler(mix(), num_replicas=world, rank=rank) for rank in range(world)]
        for rank in ranks:
            rank.load_state_dict(two.state_dict())
        parts = [list(rank) for rank in ranks]
        assert len({len(part) for part in parts}) == 1
        together = [draw for step in zip(*parts, strict=True) for draw in step]
        assert together[: len(order) - 18] == order[18:]


def test_a_state_counts_what_was_consumed() -> None:
    sampler = OmniSampler(mix(), num_replicas=2, rank=1)
    draws = iter(sampler)
    list(itertools.islice(draws, 10))
    assert sampler.state_dict()["position"] == 20
    assert sampler.state_dict(consumed=4)["position"] == 8
    list(draws)
    assert sampler.state_dict()["position"] == len(mix())


def test_a_second_stop_in_one_epoch() -> None:
    whole = list(OmniSampler(mix()))
    first = OmniSampler(mix())
    list(itertools.islice(first, 11))
    second = OmniSampler(mix())
    second.load_state_dict(first.state_dict())
    list(itertools.islice(second, 7))
    assert second.state_dict()["position"] == 18
    third = OmniSampler(mix())
    third.load_state_dict(second.state_dict())
    assert third.state_dict() == second.state_dict()
    assert list(third) == whole[18:]


def test_another_epoch_begins_at_its_start() -> None:
    sampler = OmniSampler(mix())
    list(itertools.islice(sampler, 11))
    again = OmniSampler(mix())
    again.load_state_dict(sampler.state_dict())
    again.set_epoch(1)
    assert list(again) == mix().epoch_indices(1)
    assert again.state_dict()["epoch"] == 1


def test_a_loaded_state_advances_the_loader() -> None:
    told: list[int] = []
    sampler = OmniSampler(mix(), on_epoch=told.append)
    sampler.load_state_dict(OmniSampler(mix(), epoch=5).state_dict())
    assert (sampler.epoch, told) == (5, [5])


def test_a_state_is_small_and_readable() -> None:
    state = OmniSampler(mix(), epoch=1).state_dict()
    assert list(state) == ["version", "epoch", "position", "seed", "fingerprint", "mix", "cursors"]
    assert state["mix"]["sizes"] == [30, 12, 5]
    weighted = SubsampleConfig(sample_weights=[1.0] * 100_000)
    sampler = OmniSampler(ProportionalStrategy([100_000], subsample=weighted))
    assert len(json.dumps(sampler.state_dict())) < 1000


def _other(**changes: object) -> MixingStrategy:
    options: dict[str, object] = {"sizes": [30, 12, 5], "names": ["a", "b", "c"], **changes}
    return TemperatureStrategy(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("strategy", "text"),
    [
        (_other(sizes=[30, 13, 5]), "another mix: source 'b': size was 12, is 13"),
        (_other(sizes=[30, 12], names=["a", "b"]), "source 'c' is gone"),
        (_other(names=["a", "b", "z"]), "source 'c' is gone; source 'z' is new"),
        (_other(sizes=[12, 30, 5], names=["b", "a", "c"]), "another order: b, a, c"),
        (_other(temperature=3.0), "strategy: temperature was 2.0, is 3.0"),
        (
            _other(subsample=SubsampleConfig(replacement=True)),
            "source 'a': replacement was False, is True",
        ),
        (
            _other(subsample={"c": SubsampleConfig(sample_weights=[1, 1, 1, 1, 2])}),
            "source 'c': sample_weights was None, is ",
        ),
        (
            RoundRobinStrategy([30, 12, 5], names=["a", "b", "c"]),
            "strategy: TemperatureStrategy is now RoundRobinStrategy",
        ),
        (_other(seed=4), "saved with seed 0, this strategy has seed 4"),
    ],
)
def test_a_changed_mix_is_refused_and_says_what_changed(
    strategy: MixingStrategy, text: str
) -> None:
    with pytest.raises(StateError, match=text):
        OmniSampler(strategy).load_state_dict(OmniSampler(mix()).state_dict())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"version": 99}, "of plan version 99, this is version 1"),
        ({"position": 48}, "position must be at most 47, the draws of an epoch, got 48"),
        ({"position": -1}, "position must be a whole number of at least 0, got -1"),
        ({"epoch": True}, "epoch must be a whole number of at least 0, got True"),
        ({"position": "7"}, "position must be a whole number of at least 0, got '7'"),
        ({"fingerprint": "0"}, "another mix: the mix"),
        ({"mix": None}, "sampler state: mix must be a mapping, got NoneType"),
        ({"cursors": []}, "sampler state: cursors must be a mapping, got list"),
    ],
)
def test_a_wrong_state_is_refused(change: dict[str, object], text: str) -> None:
    state = {**OmniSampler(mix()).state_dict(), **change}
    with pytest.raises(StateError, match=text):
        OmniSampler(mix()).load_state_dict(state)


def test_a_truncated_state_is_refused() -> None:
    state = OmniSampler(mix()).state_dict()
    del state["position"], state["mix"]
    with pytest.raises(StateError, match="sampler state lacks position, mix; it is truncated"):
        OmniSampler(mix()).load_state_dict(state)
    with pytest.raises(StateError, match="sampler state must be a mapping, got NoneType"):
        OmniSampler(mix()).load_state_dict(None)  # type: ignore[arg-type]


class _Echo:
    def __len__(self) -> int:
        return 47

    def __getitem__(self, index: int) -> tuple[int, int, int]:
        return int(index), index.epoch, index.visit  # type: ignore[attr-defined]


@pytest.mark.parametrize("workers", [0, 2])
def test_epoch_and_visit_reach_workers(workers: int) -> None:
    sampler = OmniSampler(mix(), epoch=3)
    loader = DataLoader(
        _Echo(),  # type: ignore[arg-type]
        batch_size=8,
        sampler=sampler,
        num_workers=workers,
        persistent_workers=workers > 0,
        collate_fn=list,
    )
    for epoch in (3, 4):
        sampler.set_epoch(epoch)
        got = [item for batch in loader for item in batch]
        assert got == described(list(OmniSampler(mix(), epoch=epoch)))
