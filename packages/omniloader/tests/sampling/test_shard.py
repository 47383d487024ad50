from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch.distributed as dist

from omniloader.errors import PlanError
from omniloader.sampling.shard import Shard


def own(total: int, rank: int, world: int, **options: bool) -> list[int]:
    shard = Shard(rank=rank, num_replicas=world, **options)
    return shard.positions(0, shard.share(total), 0, total).tolist() if total else []


@pytest.mark.parametrize(("total", "world"), [*itertools.product(range(1, 14), range(1, 10))])
def test_sharing_is_exhaustively_right(total: int, world: int) -> None:
    padded = [own(total, rank, world) for rank in range(world)]
    assert {len(part) for part in padded} == {-(-total // world)}
    assert {p for part in padded for p in part} == set(range(total))
    dropped = [own(total, rank, world, drop_last=True) for rank in range(world)]
    assert sorted(itertools.chain(*dropped)) == list(range(total // world * world))
    assert {len(part) for part in dropped} == {total // world}
    evaluated = [own(total, rank, world, training=False) for rank in range(world)]
    assert sorted(itertools.chain(*evaluated)) == list(range(total))
    assert max(map(len, evaluated)) - min(map(len, evaluated)) <= 1


def test_the_drawing_of_the_docstring() -> None:
    assert [own(5, r, 2) for r in (0, 1)] == [[0, 2, 4], [1, 3, 0]]
    assert [own(5, r, 2, drop_last=True) for r in (0, 1)] == [[0, 2], [1, 3]]
    assert [own(5, r, 2, training=False) for r in (0, 1)] == [[0, 2, 4], [1, 3]]
    assert [own(3, r, 7) for r in range(7)] == [[0], [1], [2], [0], [1], [2], [0]]


def test_a_batch_is_cut_like_an_order() -> None:
    assert Shard(rank=1, num_replicas=2).cut(5).tolist() == [1, 3, 0]
    assert Shard(rank=4, num_replicas=5).cut(2).tolist() == [0]
    assert Shard(rank=4, num_replicas=5, training=False).cut(2).tolist() == []
    assert Shard(rank=0, num_replicas=5).cut(0).tolist() == []


def test_a_rank_outside_the_world_is_refused() -> None:
    with pytest.raises(PlanError, match="rank must be below num_replicas=2, got 2; ranks count"):
        Shard(rank=2, num_replicas=2)
    with pytest.raises(PlanError, match="rank must be a whole number of at least 0, got -1"):
        Shard(rank=-1)
    with pytest.raises(PlanError, match="num_replicas must be a whole number of at least 1, got 0"):
        Shard(num_replicas=0)


def test_facts_come_from_the_process_group(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Shard.resolve() == Shard(rank=0, num_replicas=1)
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 4)
    monkeypatch.setattr(dist, "get_rank", lambda: 3)
    assert Shard.resolve() == Shard(rank=3, num_replicas=4)
    assert Shard.resolve(1, 2, drop_last=True) == Shard(rank=1, num_replicas=2, drop_last=True)


def test_positions_are_int64() -> None:
    assert Shard().positions(0, 3, 0, 9).dtype == np.int64
