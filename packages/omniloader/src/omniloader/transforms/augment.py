"""Corrupt features while training: noise, dropped streams, masked spans and bands.

Which samples are changed, and where, is drawn for the whole batch at once. Each of these leaves
targets alone unless their keys are named.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from omniloader.schema.spec import DatasetSchema, UnifiedSchema
from omniloader.transforms.batched import BatchTransform, Keys, Stack
from omniloader.transforms.draws import as_rows, chosen, named_keys
from omniloader.transforms.masking import FeatureMasking, SpanMasking
from omniloader.transforms.options import number, probability
from omniloader.transforms.select import Needs
from omniloader.transforms.valid import change_steps, flat_steps, valid_index, wide
from omniloader.transforms.warp import TimeWarp
from omniloader.utils.seeding import uniform

__all__ = ["FeatureDropout", "FeatureMasking", "GaussianNoise", "SpanMasking", "TimeWarp"]


class GaussianNoise(BatchTransform):
    """Adds independent normal noise to real steps.

    Args:
        keys: Values to change. Default: all floating features.
        std: Standard deviation of the noise, in units of the values.
        p: Probability that a sample is changed (all its keys together).
        schema: The union schema; see :class:`BatchTransform`.
    """

    train_only = True
    needs = Needs(floating=True)

    def __init__(
        self,
        keys: Sequence[str] | None = None,
        std: float = 0.1,
        p: float = 0.5,
        schema: UnifiedSchema | DatasetSchema | None = None,
    ) -> None:
        self.std = number("GaussianNoise", "std", std, 0.0)
        self.p = probability("GaussianNoise", "p", p)
        super().__init__(keys, schema)

    def apply_batch(self, stack: Stack, keys: Keys) -> None:
        """Add noise to the samples chosen."""
        active = chosen(keys, self.p)
        forms = self.forms(stack)
        if not active.any() or self.std == 0:
            return
        rows = as_rows(active)
        words = named_keys(keys, [form.name for form in forms])
        for k, form in enumerate(forms):
            value, mask = stack.pair(form.name)
            index = valid_index(mask, rows)
            if not index.numel():
                continue
            counts = mask.reshape(stack.size, -1).sum(1) * rows
            shape = (index.numel(), *value.shape[mask.ndim :])
            noise = torch.empty(shape, dtype=wide(value.dtype))
            _fill_normal(noise, self.std, counts.tolist(), words[:, k].tolist())
            if value.dtype is noise.dtype:
                flat_steps(stack, form.name).index_add_(0, index, noise)
            else:
                change_steps(stack, form.name, index, noise.add)


class FeatureDropout(BatchTransform):
    """Drops whole feature streams, so that a model learns to do without some.

    The real steps of a dropped stream become its placeholder, mask False, as if the sample's
    source did not have it.

    Args:
        keys: Streams that may be dropped. Default: all features, of any dtype.
        p: Probability that a stream is dropped, for each by itself.
        keep_at_least_one: Keep a random one of the streams (among ``keys``) that a sample has
            where all of them would be dropped.
        schema: The union schema, for placeholders; see :class:`BatchTransform`.
    """

    train_only = True

    def __init__(
        self,
        keys: Sequence[str] | None = None,
        p: float = 0.2,
        keep_at_least_one: bool = True,
        schema: UnifiedSchema | DatasetSchema | None = None,
    ) -> None:
        self.p = probability("FeatureDropout", "p", p)
        self.keep_at_least_one = keep_at_least_one
        super().__init__(keys, schema)

    def apply_batch(self, stack: Stack, keys: Keys) -> None:
        """Drop the streams drawn."""
        forms = self.forms(stack)
        if not forms:
            return
        masks = [stack.pair(form.name)[1] for form in forms]
        present = np.stack([mask.reshape(stack.size, -1).any(1).numpy() for mask in masks], axis=1)
        dropped = self._drawn(present, named_keys(keys, [form.name for form in forms]))
        for form, mask, drop in zip(forms, masks, dropped.T, strict=True):
            if drop.any():
                index = valid_index(mask, as_rows(drop))
                flat_steps(stack, form.name).index_fill_(0, index, form.placeholder)
                mask &= ~as_rows(drop).view(-1, *(1,) * (mask.ndim - 1))

    def _drawn(self, present: npt.NDArray[np.bool_], words: Keys) -> npt.NDArray[np.bool_]:
        """Which streams to drop, bool ``(B, K)``."""
        dropped: npt.NDArray[np.bool_] = present & (uniform(words, 0) < self.p)
        if self.keep_at_least_one:
            bare = np.flatnonzero(present.any(1) & (dropped == present).all(1))
            kept = np.where(present[bare], uniform(words[bare], 1), -1.0).argmax(1)
            dropped[bare, kept] = False
        return dropped


def _fill_normal(noise: Tensor, std: float, counts: list[int], seeds: list[int]) -> None:
    """Fill steps ``(n, *trailing)`` with normal numbers, those of each sample from its own seed.

    A sample's numbers depend on how many it needs, so only real steps are counted.
    """
    flat = noise.view(-1)
    generator = torch.Generator()
    per_step = flat.numel() // noise.shape[0]
    needed = [(count * per_step, seed) for count, seed in zip(counts, seeds, strict=True) if count]
    parts = torch.split(flat, [size for size, _ in needed])
    for part, (_, seed) in zip(parts, needed, strict=True):
        part.normal_(std=std, generator=generator.manual_seed(seed & (2**63 - 1)))
