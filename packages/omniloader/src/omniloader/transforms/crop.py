"""Cut one window out of all sequences of a sample."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import torch

from omniloader._types import IntArray
from omniloader.masks import broadcast_mask, mask_name
from omniloader.schema.spec import DatasetSchema, UnifiedSchema
from omniloader.transforms.batched import BatchTransform, Keys, Stack
from omniloader.transforms.draws import below
from omniloader.transforms.options import whole
from omniloader.transforms.select import Form, Needs
from omniloader.transforms.valid import take_steps
from omniloader.utils.seeding import uniform


class Crop(BatchTransform):
    """Base of the crops: all sequences of a sample are brought to ``length`` steps together.

    Step i of every sequence counts as the same moment: one offset serves features and targets,
    so they stay aligned. It is chosen within the longest real sequence of the sample (up to its
    last real step), hence the amount of padding does not matter, and a shorter sequence may be
    masked in a late window. Sequences at another rate are on another clock: crop them by a
    transform of their own, naming ``keys``.

    A sample shorter than ``length`` is padded with each key's placeholder, mask False.
    """

    needs = Needs(sequence=True, features_only=False)

    def __init__(
        self,
        length: int,
        keys: Sequence[str] | None = None,
        schema: UnifiedSchema | DatasetSchema | None = None,
    ) -> None:
        self.length = whole(type(self).__name__, "length", length, 1)
        super().__init__(keys, schema)

    @abstractmethod
    def offsets(self, room: IntArray, keys: Keys) -> IntArray:
        """First step of each sample's window, in ``[0, room]``."""

    def apply_batch(self, stack: Stack, keys: Keys) -> None:
        """Cut the windows."""
        forms = self.forms(stack)
        room = np.maximum(extent(stack, forms) - self.length, 0)
        offsets = self.offsets(room, keys)
        stack.lengths = None if stack.lengths is None else dict(stack.lengths)
        for form in forms:
            self._cut(stack, form, offsets)
            if stack.lengths is not None:
                stack.lengths[form.name] = np.full(stack.size, self.length, dtype=np.int64)

    def _cut(self, stack: Stack, form: Form, offsets: IntArray) -> None:
        value, mask = stack.pair(form.name)
        steps = mask.shape[1]
        time = torch.from_numpy(offsets[:, None] + np.arange(self.length))
        if not steps:
            out = value.new_full((stack.size, self.length, *value.shape[2:]), form.placeholder)
            out_mask = torch.zeros(stack.size, self.length, dtype=torch.bool)
        else:
            rows, at = torch.arange(stack.size), time.clamp(max=steps - 1)
            out, out_mask = take_steps(value, rows, at), take_steps(mask, rows, at)
            outside = time >= steps
            if outside.any():
                out.masked_fill_(broadcast_mask(outside, out), form.placeholder)
                out_mask &= ~outside
        stack.values[form.name], stack.values[mask_name(form.name)] = out, out_mask


class RandomCrop(Crop):
    """A window of ``length`` steps at a random place; see :class:`Crop`.

    Args:
        length: Steps of the result.
        keys: Sequences to crop. Default: all, features and targets.
        schema: The union schema, for placeholders; see :class:`BatchTransform`.
    """

    train_only = True

    def offsets(self, room: IntArray, keys: Keys) -> IntArray:
        """A random one of all windows within the sample."""
        return below(uniform(keys, 0), room + 1)


class CenterCrop(Crop):
    """The middle ``length`` steps, also when not training; see :class:`Crop`.

    Args:
        length: Steps of the result.
        keys: Sequences to crop. Default: all, features and targets.
        schema: The union schema, for placeholders; see :class:`BatchTransform`.
    """

    random = False

    def offsets(self, room: IntArray, keys: Keys) -> IntArray:
        """The middle window; of two middles the earlier."""
        return room // 2


def extent(stack: Stack, forms: Sequence[Form]) -> IntArray:
    """Steps up to the last real one of any of the sequences, int64 ``(B,)``."""
    longest = np.zeros(stack.size, dtype=np.int64)
    for form in forms:
        longest = np.maximum(longest, region_ends(stack, form.name))
    return longest


def region_ends(stack: Stack, name: str) -> IntArray:
    """Steps up to the last real one of a sequence, int64 ``(B,)``; 0 where none is real."""
    mask = stack.values[mask_name(name)]
    numbers = torch.arange(1, mask.shape[1] + 1)
    if not numbers.numel():
        return np.zeros(stack.size, dtype=np.int64)
    return np.asarray((mask * numbers).amax(1).numpy(), dtype=np.int64)
