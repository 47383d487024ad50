"""The samplers' state under torchdata's StatefulDataLoader, which counts consumed batches."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest

from omniloader.sampling.bucketing import LengthBucketBatchSampler
from omniloader.sampling.per_source import plan_batches
from omniloader.sampling.sampler import OmniSampler
from omniloader.sampling.strategies import TemperatureStrategy

stateful = pytest.importorskip("torchdata.stateful_dataloader")

# torchdata still calls what torch has deprecated
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")

LENGTHS = np.arange(60) % 9 + 1


class _Echo:
    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: Any) -> tuple[int, int, int]:
        return int(index), index.epoch, index.visit


def loader(kind: str, workers: int) -> Any:
    sampler = OmniSampler(TemperatureStrategy([40, 20]), epoch=1)
    options: dict[str, Any] = {"num_workers": workers, "collate_fn": list}
    if kind == "sampler":
        return stateful.StatefulDataLoader(_Echo(), batch_size=16, sampler=sampler, **options)
    if kind == "buckets":
        batches: Any = LengthBucketBatchSampler(sampler, LENGTHS, 16, 3, max_tokens=80)
    else:
        batches = plan_batches(sampler, 16, composition=kind)
    return stateful.StatefulDataLoader(_Echo(), batch_sampler=batches, **options)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["sampler", "mixed", "exact_ratio", "per_source", "buckets"])
def test_the_rest_of_the_epoch_is_the_same(kind: str, workers: int) -> None:
    whole = list(loader(kind, workers))
    for consumed in range(len(whole) + 1) if workers == 0 else (0, 2, len(whole)):
        stopped = loader(kind, workers)
        assert list(itertools.islice(stopped, consumed)) == whole[:consumed]
        resumed = loader(kind, workers)
        resumed.load_state_dict(json.loads(json.dumps(stopped.state_dict())))
        assert list(resumed) == whole[consumed:]
