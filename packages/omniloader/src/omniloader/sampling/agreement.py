"""Whether all ranks follow the same order; if not, some data would be lost and some doubled."""

from __future__ import annotations

import functools
from typing import Any, Protocol

import torch.distributed as dist

from omniloader.errors import StateError
from omniloader.sampling.mixing import MixingStrategy
from omniloader.sampling.shard import Shard
from omniloader.sampling.state import Cursor, fingerprint_of, mix_of


class Shares(Protocol):
    """What takes a share of an order: an :class:`~omniloader.sampling.sampler.OmniSampler`."""

    strategy: MixingStrategy
    epoch: int
    shard: Shard
    cursor: Cursor


def require_agreement(sampler: Shares) -> None:
    """Check that the samplers of all ranks share one order out.

    A collective: every rank of the default process group has to call it. Without a process group
    it does nothing. A sampler that has its rank from the process group calls it by itself at the
    start of every iteration.

    Args:
        sampler: This rank's.

    Raises:
        StateError: On every rank, if ranks differ in mix, seed, epoch, position or world size, or
            if two take the same share, naming the ranks.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return
    facts: list[dict[str, Any]] = [{} for _ in range(dist.get_world_size())]
    dist.all_gather_object(facts, _facts_of(sampler), group=_cpu_group(dist.group.WORLD))
    first = facts[0]
    for number, other in enumerate(facts):
        for key, value in other.items():
            if key != "rank" and value != first[key]:
                raise StateError(
                    f"ranks do not follow one order: {key} is {first[key]} on process 0 and "
                    f"{value} on process {number}; give every process the same config and data"
                )
    ranks = [one["rank"] for one in facts]
    if first["num_replicas"] == len(ranks) and len(set(ranks)) < len(ranks):
        raise StateError(
            f"ranks do not share the order out: the processes take the shares {ranks}; each "
            "needs a rank of its own"
        )


@functools.lru_cache(maxsize=1)
def _cpu_group(world: Any) -> Any:
    """The default group, or with NCCL one beside it that needs no GPU: a rank may not have set one.

    Args:
        world: The default group, so that another one is not taken for it.
    """
    return dist.new_group(backend="gloo") if dist.get_backend(world) == "nccl" else world


def _facts_of(sampler: Shares) -> dict[str, Any]:
    mix = mix_of(sampler.strategy)
    return {
        "seed": sampler.strategy.seed,
        "names": mix["names"],
        "sizes": mix["sizes"],
        "mix": fingerprint_of(mix),
        "epoch": sampler.epoch,
        "position": sampler.cursor.at(sampler.epoch, 0, 1) if sampler.cursor.pending else 0,
        "num_replicas": sampler.shard.num_replicas,
        "drop_last": sampler.shard.drop_last,
        "rank": sampler.shard.rank,
    }
