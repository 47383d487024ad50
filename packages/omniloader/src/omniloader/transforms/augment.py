"""Corrupt features while training: noise, dropped streams, masked spans and bands.

Which samples are changed, and where, is drawn for the whole batch at once. Each of these leaves
targets alone unless their keys are named.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from omniloader.schema.spec import DatasetSchema, UnifiedSchema
from omniloader.transforms.batched import BatchTransform, Keys, Stack
from omniloader.transforms.draws import as_rows, chosen, named_keys
from omniloader.transforms.options import number, probability
from omniloader.transforms.select import Needs
from omniloader.transforms.valid import change_steps, valid_index, wide


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
        generator = torch.Generator()
        for k, form in enumerate(forms):
            _, mask = stack.pair(form.name)
            counts = mask.reshape(stack.size, -1).sum(1) * rows
            seeds = words[:, k].tolist()

            def add_noise(
                steps: Tensor, counts: Tensor = counts, seeds: list[int] = seeds
            ) -> Tensor:
                noise = _normal(steps, counts.tolist(), seeds, generator)
                # Not add_(alpha=): its vectorised and its scalar form round differently.
                return noise.mul_(self.std).add_(steps)

            change_steps(stack, form.name, valid_index(mask, rows), add_noise, "GaussianNoise")


def _normal(
    steps: Tensor, counts: list[int], seeds: list[int], generator: torch.Generator
) -> Tensor:
    """Standard normal numbers like ``steps``, each sample's from its own seed.

    A sample's numbers depend on how many it needs, so only real steps are counted.
    """
    noise = torch.empty(steps.shape, dtype=wide(steps.dtype))
    flat = noise.view(-1)
    per_step = flat.numel() // max(steps.shape[0], 1)
    start = 0
    for count, seed in zip(counts, seeds, strict=True):
        if count:
            stop = start + count * per_step
            flat[start:stop].normal_(generator=generator.manual_seed(seed & (2**63 - 1)))
            start = stop
    return noise
