"""Every clause of the contract of a collator is broken once, and named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import get_worker_info
from transform_cases import SCHEMA

from omniloader._types import Sample
from omniloader.collate import DynamicCollator, unified_collate
from omniloader.schema.batch import UnifiedBatch
from omniloader.schema.spec import DatasetSchema, TensorSpec
from omniloader.testing import check_collator

PLAIN = DatasetSchema(
    [TensorSpec("x", feature_dim=2, time_dim=5, placeholder=-1.0)], [TensorSpec("y")]
)


class Own:
    """Collates, then does something to the batch."""

    def __init__(self, change: Any, stored: Any = None) -> None:
        self.change = change
        self.stored = stored

    def __call__(self, batch: Sequence[Sample]) -> Any:
        result = dict(unified_collate(batch))
        changed = self.change(result, batch)
        return result if changed is None else changed


def size_too(result: dict[str, Any], batch: Any) -> None:
    result["size"] = len(batch)


def test_collators_of_ones_own_pass() -> None:
    check_collator(Own(size_too), SCHEMA)
    check_collator(DynamicCollator(SCHEMA), SCHEMA, native=True, size=3, seed=5)


def no_mask(result: dict[str, Any], batch: Any) -> None:
    del result["x_mask"]


def no_key(result: dict[str, Any], batch: Any) -> None:
    del result["key"], result["epoch"]


def a_list(result: dict[str, Any], batch: Any) -> Any:
    return [result]


def a_scalar(result: dict[str, Any], batch: Any) -> None:
    result["total"] = result["x"].sum()


def transposed(result: dict[str, Any], batch: Any) -> None:
    result["steps"] = result["x"].transpose(0, 1)


def text(result: dict[str, Any], batch: Any) -> None:
    result["about"] = "a batch"


def short(result: dict[str, Any], batch: Any) -> None:
    result["key"] = result["key"][:1] + result["key"][2:]


def doubled(result: dict[str, Any], batch: Any) -> None:
    result["x"] = result["x"].double()


def float_mask(result: dict[str, Any], batch: Any) -> None:
    result["x_mask"] = result["x_mask"].float()


def narrow(result: dict[str, Any], batch: Any) -> None:
    result["x"] = result["x"][..., :1]


def flipped(result: dict[str, Any], batch: Any) -> None:
    result["index"] = result["index"].flip(0)


def zeroed(result: dict[str, Any], batch: Any) -> None:
    result["x"] = result["x"] * 0


def zero_tail(result: dict[str, Any], batch: Any) -> None:
    tail = torch.zeros(len(batch), 1, 2)
    result["x"] = torch.cat([result["x"], tail], 1)
    result["x_mask"] = torch.cat([result["x_mask"], tail[..., 0].bool()], 1)


def by_path(result: dict[str, Any], batch: Any) -> None:
    result["path"] = [type(batch).__name__] * len(batch)


def by_path_order(result: dict[str, Any], batch: Any) -> Any:
    return dict(reversed(result.items())) if isinstance(batch, UnifiedBatch) else result


def writes(result: dict[str, Any], batch: Any) -> None:
    if not isinstance(batch, UnifiedBatch):
        batch[1]["y"] += 1


def adds(result: dict[str, Any], batch: Any) -> None:
    if not isinstance(batch, UnifiedBatch):
        batch[0]["seen"] = 1


def draws(result: dict[str, Any], batch: Any) -> None:
    torch.rand(())


def in_worker_only(result: dict[str, Any], batch: Any) -> None:
    result["size"] = 0 if get_worker_info() is None else 1


def one_squeezed(result: dict[str, Any], batch: Any) -> None:
    if len(batch) == 1:
        result["y"] = result["y"].squeeze()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (no_mask, "Own, a batch: must hold x_mask"),
        (no_key, "must hold epoch, key"),
        (a_list, "must be a dict, got list"),
        (a_scalar, "'total' must have one row for each of 8 samples, got None"),
        (transposed, "'steps' must have one row for each of 8 samples, got 5"),
        (text, "'about' must be a tensor, a list or a number, got str"),
        (short, "'key' must have one row for each of 8 samples, got 7"),
        (doubled, "'x' must be torch.float32 with a bool mask, got torch.float64"),
        (float_mask, "'x' must be torch.float32 with a bool mask"),
        (narrow, r"'x' must keep its step shape .* got \(8, 5, 1\) and \(8, 5\)"),
        (flipped, "row 0: 'index' must be that of sample 0"),
        (zeroed, "row 0: 'x' must be that of sample 0"),
        (zero_tail, "row 0: 'x' must be padding after its 5 steps"),
        (by_path, "'path' must be the same from a UnifiedBatch"),
        (by_path_order, "must hold the same names in the same order from a UnifiedBatch, got"),
        (writes, "must leave sample 1 as it was, 'y' has changed"),
        (adds, "must leave sample 0 as it was, 'seen' has changed"),
        (draws, "Own, a batch draws from a global generator; make keys of the batch's index"),
        (in_worker_only, "'size' must be the same in a worker"),
        (one_squeezed, "'y' must have one row for each of 1 samples, got None"),
    ],
)
def test_what_breaks_the_contract_is_named(change: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_collator(Own(change), PLAIN)


class Counts:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, batch: Sequence[Sample]) -> dict[str, Any]:
        self.calls += 1
        return {**unified_collate(batch), "calls": self.calls}


class Forgets(Counts):
    def __call__(self, batch: Sequence[Sample]) -> dict[str, Any]:
        return {**unified_collate(batch), "total": self.calls}

    def __getstate__(self) -> dict[str, Any]:
        return {"calls": 1}


def test_what_is_stored() -> None:
    with pytest.raises(AssertionError, match="'calls' must be the same from a UnifiedBatch"):
        check_collator(Counts(), PLAIN)
    with pytest.raises(AssertionError, match="'total' must be the same after pickling"):
        check_collator(Forgets(), PLAIN)
    with pytest.raises(AssertionError, match="Own, a batch stores a Generator, which every worker"):
        check_collator(Own(size_too, np.random.default_rng(0)), PLAIN)
    with pytest.raises(AssertionError, match="Own, a batch must pickle, for workers"):
        check_collator(Own(lambda result, batch: None), PLAIN)


def test_values_of_a_mix_are_not_compared() -> None:
    check_collator(Own(zeroed), PLAIN, mixes=True)
