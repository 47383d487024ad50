"""Change the speed of a sample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from omniloader._types import FloatArray, IntArray
from omniloader.errors import ConfigError
from omniloader.masks import broadcast_mask
from omniloader.schema.spec import DatasetSchema, UnifiedSchema
from omniloader.transforms.batched import BatchTransform, Keys, Stack
from omniloader.transforms.crop import region_ends
from omniloader.transforms.draws import chosen
from omniloader.transforms.options import number, probability
from omniloader.transforms.select import Form, Needs
from omniloader.transforms.valid import narrowed, take_steps, wide
from omniloader.utils.seeding import uniform


class TimeWarp(BatchTransform):
    """Plays a sample faster or slower: all its sequences at one random rate.

    Step j of the result is the source at time ``j · rate``, counted from step 0, so features and
    targets stay aligned, also where they have different lengths or sampling rates. The number
    of steps stays. A faster sample ends early (its last steps become placeholders, mask False);
    a slower one is cut off where it ended before, so padding is never written.

    Floating values are interpolated between real steps; integers, bools, masks, and floats beside
    a hole take the nearest step, so a hole moves with the steps around it.

    Args:
        min_rate: Slowest rate, over 0.
        max_rate: Fastest rate. Rates are drawn uniformly.
        keys: Sequences to warp. Default: all, features and targets.
        p: Probability that a sample is changed.
        schema: The union schema, for placeholders; see :class:`BatchTransform`.
    """

    train_only = True
    needs = Needs(sequence=True, features_only=False)

    def __init__(
        self,
        min_rate: float = 0.8,
        max_rate: float = 1.25,
        keys: Sequence[str] | None = None,
        p: float = 0.5,
        schema: UnifiedSchema | DatasetSchema | None = None,
    ) -> None:
        self.min_rate = number("TimeWarp", "min_rate", min_rate, 0.0, above=True)
        self.max_rate = number("TimeWarp", "max_rate", max_rate, 0.0, above=True)
        if max_rate < min_rate:
            raise ConfigError(
                f"TimeWarp: max_rate must be at least min_rate, got {max_rate} under {min_rate}; "
                "swap them"
            )
        self.p = probability("TimeWarp", "p", p)
        super().__init__(keys, schema)

    def apply_batch(self, stack: Stack, keys: Keys) -> None:
        """Warp the samples chosen."""
        active = np.flatnonzero(chosen(keys, self.p))
        rates = self.min_rate + (self.max_rate - self.min_rate) * uniform(keys, 1)
        for form in self.forms(stack):
            ends = region_ends(stack, form.name)
            rows = active[ends[active] > 1]
            if rows.size:
                _warp(stack, form, rows, ends[rows], rates[rows])


def _warp(stack: Stack, form: Form, rows: IntArray, ends: IntArray, rates: FloatArray) -> None:
    """Warp one sequence of some samples in place, up to the last real step of each."""
    value, mask = stack.pair(form.name)
    picked = torch.from_numpy(rows)
    steps = np.arange(int(ends.max()))
    time = steps * rates[:, None]
    last = (ends - 1)[:, None]
    own = torch.from_numpy(steps <= last)
    reached = torch.from_numpy(time <= last)
    nearest = _at(np.minimum(np.floor(time + 0.5), last))
    new_mask = take_steps(mask, picked, nearest) & reached
    new = take_steps(value, picked, nearest)
    if value.dtype.is_floating_point:
        floor = np.floor(time)
        low, high = _at(np.minimum(floor, last)), _at(np.minimum(floor + 1, last))
        share = torch.from_numpy(time - floor)
        between = take_steps(mask, picked, low) & take_steps(mask, picked, high) & (share > 0)
        ends_of = (take_steps(value, picked, low), take_steps(value, picked, high))
        mixed = narrowed(_interpolate(*ends_of, share), value.dtype, form.name)
        new = torch.where(broadcast_mask(between, new), mixed, new)
    # A step that no source step reaches any more is missing now.
    new.masked_fill_(broadcast_mask(~reached, new), form.placeholder)
    span = slice(0, len(steps))
    value[picked, span] = torch.where(broadcast_mask(own, new), new, value[picked, span])
    mask[picked, span] = torch.where(own, new_mask, mask[picked, span])


def _interpolate(low: Tensor, high: Tensor, share: Tensor) -> Tensor:
    dtype = wide(low.dtype)
    weight = broadcast_mask(share.to(dtype), low)
    return low.to(dtype) * (1 - weight) + high.to(dtype) * weight


def _at(steps: FloatArray) -> Tensor:
    return torch.from_numpy(steps.astype(np.int64))
