from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DistributedSampler, RandomSampler, SequentialSampler

from omniloader.errors import PlanError, StateError
from omniloader.sampling.bucketing import LengthBucketBatchSampler
from omniloader.sampling.draw import DrawBatch
from omniloader.sampling.evaluation import evaluation_sampler
from omniloader.sampling.sampler import OmniSampler
from omniloader.sampling.strategies import ProportionalStrategy, TemperatureStrategy

LENGTHS = np.random.default_rng(0).integers(1, 60, 200)


def sampler(world: int = 1, rank: int = 0, drop_last: bool = False) -> OmniSampler:
    return OmniSampler(TemperatureStrategy([150, 50]), 1, world, rank, drop_last)


def buckets(
    world: int = 1, rank: int = 0, size: int = 6, **options: object
) -> LengthBucketBatchSampler:
    options = {"bucket_multiplier": 4, **options}
    return LengthBucketBatchSampler(sampler(world, rank), LENGTHS, size, **options)  # type: ignore[arg-type]


def steps(batch: object) -> int:
    return int(LENGTHS[list(batch)].max())  # type: ignore[call-overload]


# -- planned over all ranks ----------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    world=st.integers(1, 4),
    size=st.integers(1, 9),
    multiplier=st.integers(1, 9),
    drop_last=st.booleans(),
    drop_uneven=st.booleans(),
    shuffle=st.booleans(),
    max_tokens=st.none() | st.integers(59, 400),
    epoch=st.integers(0, 3),
)
def test_ranks_agree_and_length_is_what_is_yielded(
    world: int,
    size: int,
    multiplier: int,
    drop_last: bool,
    drop_uneven: bool,
    shuffle: bool,
    max_tokens: int | None,
    epoch: int,
) -> None:
    parts = []
    for rank in range(world):
        batches = LengthBucketBatchSampler(
            sampler(world, rank, drop_uneven),
            LENGTHS,
            size,
            multiplier,
            drop_last,
            shuffle,
            max_tokens=max_tokens,
        )
        batches.set_epoch(epoch)
        parts.append(list(batches))
        assert len(parts[-1]) == len(batches)
    drawn = [i for part in parts for batch in part for i in batch]
    for step in zip(*parts, strict=True):
        assert len({len(batch) for batch in step}) == 1
        assert all(0 < len(batch) <= size for batch in step)
        if max_tokens is not None:
            assert all(steps(batch) * len(batch) <= max_tokens for batch in step)
    planned = np.bincount(TemperatureStrategy([150, 50]).epoch_indices(epoch), minlength=200)
    got = np.bincount(drawn, minlength=200)
    if not drop_last and not drop_uneven:
        assert (got >= planned).all()
        assert got.sum() - planned.sum() < world
    if drop_last or drop_uneven:
        assert len(drawn) <= 200 + (world - 1) * (not drop_uneven and max_tokens is None)


def test_the_union_over_ranks_is_the_same_at_any_world_size() -> None:
    def unions(world: int) -> list[set[int]]:
        parts = [buckets(world, rank, 12 // world) for rank in range(world)]
        return [{int(i) for batch in step for i in batch} for step in zip(*parts, strict=True)]

    assert unions(1) == unions(2) == unions(3) == unions(4)


def test_lengths_are_alike_on_all_ranks_and_padding_falls() -> None:
    parts = [list(buckets(2, rank, 5, bucket_multiplier=20)) for rank in range(2)]
    spread = [abs(steps(a) - steps(b)) for a, b in zip(*parts, strict=True)]
    assert np.mean(spread) < 2

    def waste(batches: list[DrawBatch]) -> float:
        real = sum(int(LENGTHS[batch.indices].sum()) for batch in batches)
        return 1 - real / sum(steps(batch) * len(batch) for batch in batches)

    unsorted = list(buckets(1, 0, 10, bucket_multiplier=1))
    assert waste(parts[0]) < 0.15 < waste(unsorted)


def test_without_shuffle_the_longest_come_first() -> None:
    longest = [steps(batch) for batch in buckets(bucket_multiplier=1000, shuffle=False)]
    assert longest == sorted(longest, reverse=True)
    shuffled = [steps(batch) for batch in buckets(bucket_multiplier=1000)]
    assert shuffled != longest
    assert sorted(shuffled, reverse=True) == longest


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    batches = buckets()
    first = list(batches)
    assert list(batches) == first
    batches.set_epoch(2)
    assert batches.epoch == 2
    assert list(batches) != first
    assert list(buckets(seed=1)) != first


def test_a_tiny_pool() -> None:
    lengths = [9, 1, 8, 2, 7, 3]
    batches = LengthBucketBatchSampler(SequentialSampler(range(6)), lengths, 2, shuffle=False)
    assert list(batches) == [[0, 2], [4, 5], [3, 1]]
    pools = LengthBucketBatchSampler(range(6), lengths, 2, 2, shuffle=False)
    assert list(pools) == [[0, 2], [3, 1], [4, 5]]
    one = LengthBucketBatchSampler(range(6), lengths, 4, 1)
    assert list(one) == [[0, 2, 3, 1], [4, 5]]


def test_missing_lengths_fill_batches_up_to_their_size() -> None:
    lengths = np.zeros(200, dtype=np.int64)
    batches = LengthBucketBatchSampler(sampler(), lengths, 8, max_tokens=10)
    assert {len(batch) for batch in batches} == {8}


def test_evaluation_covers_everything_once() -> None:
    for max_tokens in (None, 130):
        parts = []
        for rank in range(3):
            batches = LengthBucketBatchSampler(
                evaluation_sampler([150, 50], 3, rank), LENGTHS, 7, 4, max_tokens=max_tokens
            )
            parts.append(list(batches))
            assert len(parts[-1]) == len(batches)
        assert sorted(i for part in parts for batch in part for i in batch) == list(range(200))


# -- resume --------------------------------------------------------------------------------


@pytest.mark.parametrize("max_tokens", [None, 150])
@pytest.mark.parametrize("world", [1, 2])
def test_resume_at_every_batch(world: int, max_tokens: int | None) -> None:
    for rank in range(world):
        whole = list(buckets(world, rank, max_tokens=max_tokens))
        for consumed in range(len(whole) + 1):
            stopped = buckets(world, rank, max_tokens=max_tokens)
            list(itertools.islice(stopped, consumed))
            state = json.loads(json.dumps(stopped.state_dict()))
            resumed = buckets(world, rank, max_tokens=max_tokens)
            resumed.set_epoch(0)
            resumed.load_state_dict(state)
            resumed.set_epoch(1)
            assert list(resumed) == whole[consumed:]
            assert list(resumed) == whole
            again = buckets(world, rank, max_tokens=max_tokens)
            list(itertools.islice(again, min(consumed + 3, len(whole))))
            assert again.state_dict(consumed=consumed) == state


def test_a_second_stop_counts_from_the_first() -> None:
    whole = list(buckets(max_tokens=150))
    first = buckets(max_tokens=150)
    list(itertools.islice(first, 7))
    second = buckets(max_tokens=150)
    second.load_state_dict(first.state_dict())
    list(itertools.islice(second, 20))
    third = buckets(max_tokens=150)
    third.load_state_dict(second.state_dict())
    assert list(third) == whole[27:]


def test_a_state_holds_for_another_world_of_the_same_global_batch() -> None:
    whole = [set(map(int, batch)) for batch in buckets(1, 0, 6)]
    stopped = buckets(1, 0, 6)
    list(itertools.islice(stopped, 5))
    pair = [buckets(2, rank, 3) for rank in range(2)]
    for batches in pair:
        batches.load_state_dict(stopped.state_dict())
    assert [set(map(int, a)) | set(map(int, b)) for a, b in zip(*pair, strict=True)] == whole[5:]


def test_budget_batches_of_another_world_go_on_at_the_next_pool() -> None:
    stopped = buckets(1, 0, 6, max_tokens=150)
    list(itertools.islice(stopped, 2))
    other = buckets(2, 1, 3, max_tokens=150)
    with pytest.warns(
        RuntimeWarning,
        match="saved on 1 ranks, going on with 2 at the next pool; the rest of pool 0 of epoch 1",
    ):
        other.load_state_dict(stopped.state_dict())
    assert other.state_dict()["batches"]["pool"] == 1
    whole = list(buckets(2, 1, 3, max_tokens=150))
    rest = list(other)
    assert rest == whole[len(whole) - len(rest) :]
    assert 0 < len(rest) < len(whole)


def test_states_of_other_batches_are_refused() -> None:
    state = buckets().state_dict()
    with pytest.raises(StateError, match="max_tokens=None, these have max_tokens=99"):
        buckets(max_tokens=99).load_state_dict(state)
    with pytest.raises(StateError, match="bucket_multiplier=4, these have bucket_multiplier=5"):
        buckets(bucket_multiplier=5).load_state_dict(state)
    longer = LengthBucketBatchSampler(sampler(), LENGTHS + 1, 6, 4)
    with pytest.raises(StateError, match="batches with lengths="):
        longer.load_state_dict(state)
    with pytest.raises(StateError, match="sampler state is not of length buckets"):
        buckets().load_state_dict(sampler().state_dict())
    with pytest.raises(StateError, match="sampler state must be a mapping, got str"):
        buckets().load_state_dict("state")  # type: ignore[arg-type]


@pytest.mark.parametrize("max_tokens", [None, 150])
def test_an_epoch_set_on_the_sampler_alone_counts(max_tokens: int | None) -> None:
    run = buckets(max_tokens=max_tokens)
    list(itertools.islice(run, 9))
    resumed = buckets(max_tokens=max_tokens)
    resumed.load_state_dict(run.state_dict())
    resumed.sampler.set_epoch(4)  # type: ignore[attr-defined]
    assert resumed.state_dict()["position"] == 0
    fresh = buckets(max_tokens=max_tokens)
    fresh.set_epoch(4)
    assert list(resumed) == list(fresh)
    assert len(resumed) == len(list(fresh))


def test_a_state_loaded_into_the_sampler_alone_is_refused() -> None:
    run = sampler()
    list(itertools.islice(run, 12))
    batches = buckets()
    batches.sampler.load_state_dict(run.state_dict())  # type: ignore[attr-defined]
    with pytest.raises(StateError, match="load the state into the batch sampler"):
        list(batches)


# -- any sampler ---------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 60), size=st.integers(1, 9), multiplier=st.integers(1, 5), drop=st.booleans()
)
def test_any_sampler_of_ints_is_taken(n: int, size: int, multiplier: int, drop: bool) -> None:
    if drop and n < size:
        with pytest.raises(PlanError, match=f"{n} samples do not fill one batch of {size}"):
            LengthBucketBatchSampler(RandomSampler(range(n)), LENGTHS, size, multiplier, drop)
        return
    batches = LengthBucketBatchSampler(RandomSampler(range(n)), LENGTHS, size, multiplier, drop)
    got = list(batches)
    assert len(got) == len(batches)
    drawn = [i for batch in got for i in batch]
    assert len(set(drawn)) == len(drawn) == (n // size * size if drop else n)


def test_a_distributed_sampler_is_told_the_epoch() -> None:
    inner: DistributedSampler[int] = DistributedSampler(range(40), num_replicas=2, rank=1)  # type: ignore[arg-type]
    batches = LengthBucketBatchSampler(inner, LENGTHS, 4)
    batches.set_epoch(3)
    assert (inner.epoch, batches.epoch, batches.batch_size) == (3, 3, 4)
    assert sorted(i for batch in batches for i in batch) == sorted(inner)


def test_only_planned_batches_can_be_resumed() -> None:
    batches = LengthBucketBatchSampler(SequentialSampler(range(9)), LENGTHS, 4)
    with pytest.raises(StateError, match=r"over an OmniSampler .* a SequentialSampler"):
        batches.state_dict()
    with pytest.raises(StateError, match="only batches over an OmniSampler can be resumed"):
        batches.load_state_dict({})


def test_a_set_without_epochs_is_taken() -> None:
    batches = LengthBucketBatchSampler(range(5), LENGTHS, 4)
    batches.set_epoch(2)
    assert batches.epoch == 2


# -- bad options ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1, got 0"),
        ({"bucket_multiplier": 0}, "bucket_multiplier must be .* got 0"),
        ({"max_tokens": 0}, "max_tokens must be a whole number of at least 1, got 0"),
        (
            {"max_tokens": 20},
            r"at least the length of the longest sample, got 20; sample \d+ has 59",
        ),
        (
            {"lengths": LENGTHS[:50]},
            "one length for each of 200 samples, got 50; use omni.sequence",
        ),
        ({"lengths": LENGTHS.astype(float)}, "one whole number a sample, got dtype float64"),
        ({"lengths": LENGTHS.reshape(2, 100)}, r"got dtype int64 and shape \(2, 100\)"),
        ({"lengths": np.r_[LENGTHS[:-1], -1]}, "lengths must be at least 0, got -1 for sample 199"),
        ({"batch_size": 300, "drop_last": True}, "drop_last would drop everything"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], text: str) -> None:
    options = {"lengths": LENGTHS, "batch_size": 4, **options}
    with pytest.raises(PlanError, match=text):
        LengthBucketBatchSampler(sampler(), **options)  # type: ignore[arg-type]


def test_budgets_need_a_plan() -> None:
    with pytest.raises(PlanError, match="max_tokens needs an OmniSampler"):
        LengthBucketBatchSampler(range(5), LENGTHS, 4, max_tokens=100)


def test_an_index_without_a_length_is_named() -> None:
    batches = LengthBucketBatchSampler(range(5), [3, 3, 3], 4)
    with pytest.raises(PlanError, match="the sampler gives index 3, but there are 3 lengths"):
        list(batches)


def test_an_empty_sampler_gives_no_batch() -> None:
    assert list(LengthBucketBatchSampler(range(0), [], 4, drop_last=True)) == []
    assert ProportionalStrategy([1]).epoch_indices() == [0]


def test_dropping_everything_of_any_sampler_is_refused() -> None:
    with pytest.raises(PlanError, match="3 samples do not fill one batch of 4; use drop_last"):
        LengthBucketBatchSampler(range(3), LENGTHS, 4, drop_last=True)
