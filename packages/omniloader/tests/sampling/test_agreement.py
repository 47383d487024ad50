from __future__ import annotations

from pathlib import Path

import pytest
import torch.distributed as dist
import torch.multiprocessing as mp

from omniloader.errors import StateError
from omniloader.sampling.agreement import require_agreement
from omniloader.sampling.sampler import OmniSampler
from omniloader.sampling.strategies import ProportionalStrategy


def sampler(
    rank: int, sizes: tuple[int, ...] = (5, 6), seed: int = 0, epoch: int = 0
) -> OmniSampler:
    return OmniSampler(ProportionalStrategy(list(sizes), seed=seed), epoch, 2, rank)


def gathered(monkeypatch: pytest.MonkeyPatch, samplers: list[OmniSampler]) -> None:
    """Let a process group answer with the facts of these samplers."""

    def gather(out: list[object], _own: object, group: object) -> None:
        from omniloader.sampling.agreement import _facts_of

        out[:] = [_facts_of(one) for one in samplers]

    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: len(samplers))
    monkeypatch.setattr(dist, "get_backend", lambda _group: "gloo")
    monkeypatch.setattr(dist, "all_gather_object", gather)


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"rank": 1, "seed": 3}, "seed is 0 on process 0 and 3 on process 1; give every process"),
        ({"rank": 1, "sizes": (5, 7)}, r"sizes is \[5, 6\] on process 0 and \[5, 7\] on process 1"),
        ({"rank": 1, "epoch": 2}, "epoch is 0 on process 0 and 2 on process 1"),
        ({"rank": 0}, r"the processes take the shares \[0, 0\]; each needs a rank of its own"),
    ],
)
def test_ranks_that_differ_are_refused(
    monkeypatch: pytest.MonkeyPatch, other: dict[str, int], text: str
) -> None:
    gathered(monkeypatch, [sampler(0), sampler(**other)])  # type: ignore[arg-type]
    with pytest.raises(StateError, match=text):
        require_agreement(sampler(0))


def test_ranks_that_agree_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    require_agreement(sampler(0))
    gathered(monkeypatch, [sampler(0), sampler(1)])
    require_agreement(sampler(0))


@pytest.mark.parametrize(("backend", "compared"), [("nccl", "beside"), ("gloo", "world")])
def test_ranks_are_compared_in_memory_of_the_cpu(
    monkeypatch: pytest.MonkeyPatch, backend: str, compared: str
) -> None:
    """NCCL would need a GPU of each rank, which a script may not have chosen yet."""
    from omniloader.sampling.agreement import _cpu_group

    _cpu_group.cache_clear()
    monkeypatch.setattr(dist, "get_backend", lambda _group: backend)
    monkeypatch.setattr(dist, "new_group", lambda backend: "beside")
    assert _cpu_group("world") == compared
    _cpu_group.cache_clear()


@pytest.mark.parametrize(
    ("facts", "asks"),
    [({}, True), ({"num_replicas": 2, "rank": 0}, False), ({"training": False}, False)],
    ids=["from the group", "given", "evaluation"],
)
def test_a_rank_from_the_group_asks_the_others_before_it_iterates(
    monkeypatch: pytest.MonkeyPatch, facts: dict[str, int], asks: bool
) -> None:
    monkeypatch.setattr(dist, "get_rank", lambda: 0)
    gathered(monkeypatch, [sampler(0), sampler(1, seed=3)])
    own = OmniSampler(ProportionalStrategy([5, 6]), **facts)  # type: ignore[arg-type]
    if asks:
        with pytest.raises(StateError, match="ranks do not follow one order: seed"):
            next(iter(own))
    else:
        assert len(list(own)) in (6, 11)


def _process(rank: int, folder: str) -> None:
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2
    )
    own = OmniSampler(ProportionalStrategy([5, 6]))
    assert (own.shard.rank, own.shard.num_replicas) == (rank, 2)
    require_agreement(own)
    try:
        require_agreement(OmniSampler(ProportionalStrategy([5, 6], seed=rank)))
    except StateError as error:
        Path(folder, f"refused_{rank}").write_text(str(error))
    Path(folder, f"draws_{rank}").write_text(" ".join(map(str, own)))
    dist.destroy_process_group()


def test_two_real_processes(tmp_path: Path) -> None:
    mp.start_processes(_process, args=(str(tmp_path),), nprocs=2, start_method="spawn")
    for rank in range(2):
        text = (tmp_path / f"refused_{rank}").read_text()
        assert text.startswith("ranks do not follow one order: seed is 0 on process 0 and 1")
    parts = [[int(i) for i in (tmp_path / f"draws_{r}").read_text().split()] for r in range(2)]
    order = ProportionalStrategy([5, 6]).epoch_indices(0)
    assert [draw for step in zip(*parts, strict=True) for draw in step] == [*order, order[0]]
