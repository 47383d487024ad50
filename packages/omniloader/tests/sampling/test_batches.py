from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from torch.utils.data import BatchSampler

from omniloader.errors import PlanError, StateError
from omniloader.sampling.batches import OmniBatchSampler, PlannedBatchSampler
from omniloader.sampling.draw import DrawBatch
from omniloader.sampling.evaluation import evaluation_sampler
from omniloader.sampling.per_source import PerSourceBatchSampler, plan_batches
from omniloader.sampling.sampler import OmniSampler
from omniloader.sampling.strategies import (
    AnnealedTemperatureStrategy,
    FixedWeightStrategy,
    MixingStrategy,
    ProportionalStrategy,
    TemperatureStrategy,
)

SIZES = [30, 12, 5]


def mix() -> MixingStrategy:
    return TemperatureStrategy(SIZES, names=["a", "b", "c"])


def ranks(world: int, drop_last: bool = False, epoch: int = 0) -> list[OmniSampler]:
    return [OmniSampler(mix(), epoch, world, rank, drop_last) for rank in range(world)]


def source_of(batch: DrawBatch) -> list[int]:
    return np.searchsorted(np.cumsum(SIZES), batch.indices, side="right").tolist()


@pytest.mark.parametrize(
    ("world", "size", "drop_last"), [*itertools.product([1, 2, 3], [1, 4, 7, 50], [False, True])]
)
def test_mixed_batches_are_those_of_torch(world: int, size: int, drop_last: bool) -> None:
    for sampler in ranks(world, drop_last):
        expected = list(BatchSampler(sampler, size, drop_last))
        if not expected:
            with pytest.raises(PlanError, match="drop_last would drop everything: an epoch of 47"):
                OmniBatchSampler(sampler, size, drop_last)
            continue
        batches = OmniBatchSampler(sampler, size, drop_last)
        got = list(batches)
        assert got == expected
        assert len(batches) == len(got)
        visits = [[draw.visit for draw in batch] for batch in expected]
        assert [batch.visits.tolist() for batch in got] == visits
        assert {batch.epoch for batch in got} == {0}
        assert all(batch.indices.base is None for batch in got)


@pytest.mark.parametrize("composition", ["mixed", "exact_ratio", "per_source"])
def test_ranks_hold_the_same_samples_at_any_world_size(composition: str) -> None:
    unions = []
    for world in (1, 2, 3, 6):
        samplers = [plan_batches(r, 6 // world, composition=composition) for r in ranks(world)]
        steps = list(zip(*samplers, strict=True))
        assert {len(s) for s in samplers} == {len(steps)}
        unions.append([{int(i) for batch in step for i in batch.indices} for step in steps])
    # The last step of a mixed order repeats draws from the front of the epoch.
    last = None if composition == "per_source" else -1
    assert all(union[:last] == unions[0][:last] for union in unions)


def test_set_epoch_goes_on_to_the_next_order() -> None:
    batches = OmniBatchSampler(OmniSampler(mix()), 4)
    first = list(batches)
    batches.set_epoch(1)
    assert (batches.epoch, batches.sampler.epoch) == (1, 1)
    assert list(batches) == list(BatchSampler(OmniSampler(mix(), epoch=1), 4, False))
    assert list(batches) != first


def test_evaluation_batches_cover_everything_once() -> None:
    samplers = [OmniBatchSampler(evaluation_sampler(SIZES, 3, rank), 5) for rank in range(3)]
    parts = [list(sampler) for sampler in samplers]
    assert [len(s) for s in samplers] == [len(p) for p in parts]
    assert sorted(i for p in parts for b in p for i in b) == list(range(47))


# -- compositions --------------------------------------------------------------------------


@pytest.mark.parametrize("world", [1, 2])
def test_exact_ratio_batches_never_drift(world: int) -> None:
    strategy = FixedWeightStrategy([500, 300, 100], [5, 3, 2], 600)
    samplers = [
        OmniBatchSampler(OmniSampler(strategy, 0, world, r), 10 // world, composition="exact_ratio")
        for r in range(world)
    ]
    seen = np.zeros(3)
    for step, batches in enumerate(zip(*samplers, strict=True)):
        indices = np.concatenate([batch.indices for batch in batches])
        counts = np.bincount(np.searchsorted([500, 800], indices, side="right"), minlength=3)
        assert counts.tolist() == [5, 3, 2]
        seen += counts
        assert np.abs(seen - (step + 1) * np.array([5, 3, 2])).max() <= 1


def test_exact_ratio_rounds_running_totals() -> None:
    strategy = FixedWeightStrategy([10, 10], [1, 2], 30)
    batches = OmniBatchSampler(OmniSampler(strategy), 4, composition="exact_ratio")
    counts = [int((batch.indices < 10).sum()) for batch in batches]
    assert counts == [1, 2, 1, 1, 2, 1, 1, 1]


def test_per_source_batches_hold_one_source() -> None:
    batches = PerSourceBatchSampler(OmniSampler(mix()), 4, batch_sizes={"b": 2})
    got = list(batches)
    assert len(got) == len(batches)
    sources = [set(source_of(batch)) for batch in got]
    assert all(len(source) == 1 for source in sources)
    counts = mix().target_counts()
    sizes = [[len(b) for b, s in zip(got, sources, strict=True) if s == {n}] for n in range(3)]
    assert [sum(part) for part in sizes] == counts
    assert set(sizes[1][:-1]) == {2}
    assert set(sizes[0][:-1]) == {4}
    assert sorted(i for b in got for i in b) == sorted(mix().epoch_indices(0))


def test_per_source_orders_are_pure() -> None:
    strategy = ProportionalStrategy([4, 2])
    got = [batch.indices.tolist() for batch in PerSourceBatchSampler(OmniSampler(strategy), 2)]
    assert sum(len(batch) for batch in got) == 6
    again = PerSourceBatchSampler(OmniSampler(strategy), 2)
    assert [batch.indices.tolist() for batch in again] == got


@pytest.mark.parametrize(
    ("world", "drop_last", "drop_uneven"),
    [*itertools.product([1, 2, 4], [False, True], [False, True])],
)
def test_per_source_ranks_agree(world: int, drop_last: bool, drop_uneven: bool) -> None:
    samplers = [PerSourceBatchSampler(r, 2, drop_last) for r in ranks(world, drop_uneven)]
    parts = [list(sampler) for sampler in samplers]
    assert {len(p) for p in parts} == {len(s) for s in samplers}
    for step in zip(*parts, strict=True):
        assert len({len(batch) for batch in step}) == 1
        assert len({s for batch in step for s in source_of(batch)}) == 1


def test_per_source_length_follows_the_epoch() -> None:
    sampler = OmniSampler(AnnealedTemperatureStrategy([100, 10], num_epochs=3))
    batches = PerSourceBatchSampler(sampler, 7)
    lengths = set()
    for epoch in range(3):
        batches.set_epoch(epoch)
        assert len(list(batches)) == len(batches)
        lengths.add(len(batches))
    assert lengths == {16, 17}


# -- resume --------------------------------------------------------------------------------


@pytest.mark.parametrize("composition", ["mixed", "exact_ratio", "per_source"])
@pytest.mark.parametrize(("world", "drop_last"), [(1, False), (2, False), (2, True)])
def test_resume_at_every_batch(composition: str, world: int, drop_last: bool) -> None:
    def fresh(rank: int) -> PlannedBatchSampler:
        sampler = OmniSampler(mix(), 1, world, rank, drop_last)
        return plan_batches(sampler, 3, drop_last, composition=composition)

    for rank in range(world):
        whole = list(fresh(rank))
        for consumed in range(len(whole) + 1):
            stopped = fresh(rank)
            list(itertools.islice(stopped, consumed))
            state = json.loads(json.dumps(stopped.state_dict()))
            resumed = fresh(rank)
            resumed.set_epoch(0)
            resumed.load_state_dict(state)
            assert resumed.state_dict() == state
            assert list(resumed) == whole[consumed:]
            assert list(resumed) == whole
        ahead = fresh(rank)
        list(itertools.islice(ahead, 5))
        resumed = fresh(rank)
        resumed.load_state_dict(ahead.state_dict(consumed=2))
        assert list(resumed) == whole[2:]


@pytest.mark.parametrize("composition", ["mixed", "exact_ratio", "per_source"])
def test_a_state_holds_for_another_world_of_the_same_global_batch(composition: str) -> None:
    one = plan_batches(ranks(1)[0], 6, composition=composition)
    whole = [set(map(int, batch)) for batch in one]
    stopped = plan_batches(ranks(1)[0], 6, composition=composition)
    list(itertools.islice(stopped, 3))
    pair = [plan_batches(r, 3, composition=composition) for r in ranks(2)]
    for sampler in pair:
        sampler.load_state_dict(stopped.state_dict())
    rest = [set(map(int, a)) | set(map(int, b)) for a, b in zip(*pair, strict=True)]
    assert rest[:-1] == whole[3:-1]
    assert len(rest) == len(whole) - 3


def test_mixed_batches_resume_with_another_batch_size() -> None:
    order = mix().epoch_indices(0)
    stopped = OmniBatchSampler(OmniSampler(mix()), 6)
    list(itertools.islice(stopped, 3))
    resumed = OmniBatchSampler(OmniSampler(mix()), 4)
    resumed.load_state_dict(stopped.state_dict())
    assert [i for batch in resumed for i in batch] == order[18:]


def test_states_of_other_batches_are_refused() -> None:
    exact = OmniBatchSampler(OmniSampler(mix()), 6, composition="exact_ratio")
    with pytest.raises(StateError, match="composition=exact_ratio, these have composition=mixed"):
        OmniBatchSampler(OmniSampler(mix()), 6).load_state_dict(exact.state_dict())
    with pytest.raises(StateError, match="global_batch=6, these have global_batch=5"):
        OmniBatchSampler(OmniSampler(mix()), 5, composition="exact_ratio").load_state_dict(
            exact.state_dict()
        )
    source = PerSourceBatchSampler(OmniSampler(mix()), 6)
    with pytest.raises(StateError, match=r"composition=exact_ratio, these have .*per_source"):
        source.load_state_dict(exact.state_dict())
    with pytest.raises(StateError, match="sampler state is not of per_source batches"):
        source.load_state_dict(OmniSampler(mix()).state_dict())
    for sampler in (source, exact):
        with pytest.raises(StateError, match="sampler state must be a mapping, got list"):
            sampler.load_state_dict([])  # type: ignore[arg-type]


@pytest.mark.parametrize("composition", ["mixed", "exact_ratio", "per_source"])
def test_an_epoch_set_on_the_sampler_alone_counts(composition: str) -> None:
    """Lightning and Accelerate know the sampler of a loader, not its batch sampler."""
    run = plan_batches(OmniSampler(mix()), 6, composition=composition)
    list(itertools.islice(run, 3))
    resumed = plan_batches(OmniSampler(mix()), 6, composition=composition)
    resumed.load_state_dict(run.state_dict())
    resumed.sampler.set_epoch(1)
    assert resumed.state_dict()["position"] == 0
    fresh = plan_batches(OmniSampler(mix(), epoch=1), 6, composition=composition)
    assert list(resumed) == list(fresh)


def test_a_state_loaded_into_the_sampler_counts_for_its_batches() -> None:
    sampler = OmniSampler(mix())
    list(itertools.islice(sampler, 12))
    batches = OmniBatchSampler(OmniSampler(mix()), 6)
    whole = list(batches)
    batches.sampler.load_state_dict(sampler.state_dict())
    assert list(batches) == whole[2:]
    assert batches.sampler.state_dict()["position"] == 47
    source = PerSourceBatchSampler(OmniSampler(mix()), 6)
    source.sampler.load_state_dict(sampler.state_dict())
    with pytest.raises(StateError, match="the sampler is to go on at position 12, but these batch"):
        list(source)


# -- bad options ---------------------------------------------------------------------------


def test_bad_options_are_refused() -> None:
    sampler = OmniSampler(mix())
    with pytest.raises(PlanError, match="one of mixed, exact_ratio, per_source, got 'ratio'"):
        plan_batches(sampler, 4, composition="ratio")
    with pytest.raises(PlanError, match="composition must be one of mixed, exact_ratio, got 'x'"):
        OmniBatchSampler(sampler, 4, composition="x")
    with pytest.raises(PlanError, match=r"batch_sizes needs composition='per_source', got .*mixed"):
        plan_batches(sampler, 4, batch_sizes={"a": 3})
    with pytest.raises(PlanError, match="batch_size must be a whole number of at least 1, got 0"):
        OmniBatchSampler(sampler, 0)
    with pytest.raises(PlanError, match=r"source 'a': batch size must be .* got 0"):
        PerSourceBatchSampler(sampler, 4, batch_sizes={"a": 0})
    with pytest.raises(PlanError, match="batch_sizes names no such source: z; sources are a, b, c"):
        PerSourceBatchSampler(sampler, 4, batch_sizes={"z": 3})
    with pytest.raises(PlanError, match="per_source batches are for training"):
        PerSourceBatchSampler(evaluation_sampler(SIZES), 4)
    with pytest.raises(PlanError, match="drop_last would drop everything"):
        PerSourceBatchSampler(sampler, 100, drop_last=True)
