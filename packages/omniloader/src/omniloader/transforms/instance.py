"""Normalise a sample by itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from omniloader.errors import SampleError
from omniloader.schema.spec import DatasetSchema, UnifiedSchema
from omniloader.transforms.batched import BatchTransform, Keys, Stack
from omniloader.transforms.options import number
from omniloader.transforms.select import Needs
from omniloader.transforms.valid import change_steps, steps_of, valid_index, wide


class InstanceNormalize(BatchTransform):
    """Brings each sequence of each sample to mean 0 and deviation 1 over its own real steps.

    Every feature is normalised over time; of a structured step ``(C, H, W)`` every channel is,
    over time and its other axes. The deviation is the population's. A feature that is constant
    in a sample, such as one of a single step, becomes 0.

    Args:
        keys: Sequences to normalise. Default: all floating feature sequences. (A vector has no
            steps to take a mean over.)
        eps: A deviation of this or less counts as 0: the scale is then 1.
        schema: The union schema; see :class:`BatchTransform`.

    Raises:
        ConfigError: If a key is not a floating sequence.
    """

    needs = Needs(floating=True, sequence=True)
    random = False

    def __init__(
        self,
        keys: Sequence[str] | None = None,
        eps: float = 1e-6,
        schema: UnifiedSchema | DatasetSchema | None = None,
    ) -> None:
        self.eps = number("InstanceNormalize", "eps", eps, 0.0)
        super().__init__(keys, schema)

    def apply_batch(self, stack: Stack, keys: Keys) -> None:
        """Normalise sample by sample: a mean over steps depends on how many there are."""
        for form in self.forms(stack):
            index = valid_index(stack.pair(form.name)[1])
            normalize_each(stack, form.name, index, self.eps)


def normalize_each(stack: Stack, name: str, index: Tensor, eps: float) -> None:
    """Normalise the steps given, those of each sample by themselves.

    Args:
        stack: The samples.
        name: A sequence.
        index: Flat positions of steps, int64 ``(n,)``, ascending.
        eps: Least deviation.

    Raises:
        SampleError: If a step is NaN or infinite: it would spread over the whole sequence.
    """
    owners = index // max(steps_of(stack.pair(name)[1]), 1)
    counts = torch.bincount(owners, minlength=stack.size).tolist()
    for row, part in enumerate(torch.split(index, counts)):
        if part.numel():
            change_steps(
                stack, name, part, partial(_standardise_alone, name, eps, _whose(stack, row))
            )


def _standardise_alone(name: str, eps: float, whose: str, steps: Tensor) -> Tensor:
    # In NumPy: sums of a large array in torch depend on the number of threads.
    values = steps.to(torch.float64).numpy()
    over = (0, *range(2, values.ndim))
    with np.errstate(invalid="ignore", over="ignore"):
        mean = values.mean(axis=over, keepdims=True)
    if not np.isfinite(mean).all():
        raise SampleError(
            f"'{name}' of {whose} must be finite where its mask is True, to be normalised by "
            "itself, got NaN or infinity; clean the source, or declare nonfinite='mask' for it"
        )
    centred = values - mean
    std = np.sqrt(np.mean(centred**2, axis=over, keepdims=True))
    return torch.from_numpy(centred / np.where(std > eps, std, 1.0)).to(wide(steps.dtype))


def _whose(stack: Stack, row: int) -> str:
    """Which sample, for messages."""
    names = {key: stack.metadata.get(key) for key in ("dataset", "key")}
    said = [f"{key} '{column[row]}'" for key, column in names.items() if column is not None]
    return ", ".join(said) or "this sample"
