"""Zero parts of features while training: spans of time, bands of features.

After Park et al. 2019, "SpecAugment". Masks stay as they are: the steps are real, and the model is
to learn what a gap in them means. Zero is the mean of a normalised feature.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from omniloader._types import FloatArray, IntArray
from omniloader.schema.spec import DatasetSchema, UnifiedSchema
from omniloader.transforms.batched import BatchTransform, Keys, Stack
from omniloader.transforms.draws import as_rows, below, chosen, named_keys
from omniloader.transforms.options import probability, whole
from omniloader.transforms.select import Needs
from omniloader.transforms.valid import change_steps, flat_steps, steps_of, valid_index
from omniloader.utils.seeding import uniform


class SpanMasking(BatchTransform):
    """Zeroes spans of time, each value's own.

    A span covers ``span_len`` consecutive real steps (all of them where there are fewer), at a
    place drawn uniformly among the real steps; holes between them are stepped over. Spans may
    overlap.

    Args:
        keys: Sequences to change. Default: all floating feature sequences.
        num_spans: Spans a value.
        span_len: Steps a span.
        p: Probability that a sample is changed (all its keys together).
        schema: The union schema; see :class:`BatchTransform`.
    """

    train_only = True
    needs = Needs(floating=True, sequence=True)

    def __init__(
        self,
        keys: Sequence[str] | None = None,
        num_spans: int = 1,
        span_len: int = 5,
        p: float = 0.5,
        schema: UnifiedSchema | DatasetSchema | None = None,
    ) -> None:
        self.num_spans = whole("SpanMasking", "num_spans", num_spans, 0)
        self.span_len = whole("SpanMasking", "span_len", span_len, 0)
        self.p = probability("SpanMasking", "p", p)
        super().__init__(keys, schema)

    def apply_batch(self, stack: Stack, keys: Keys) -> None:
        """Zero the spans drawn."""
        active = chosen(keys, self.p)
        forms = self.forms(stack)
        if not active.any() or not forms:
            return
        words = named_keys(keys, [form.name for form in forms])
        places = [uniform(words, span) for span in range(self.num_spans)]
        for k, form in enumerate(forms):
            mask = stack.pair(form.name)[1]
            index = valid_index(mask, as_rows(active))
            if index.numel():
                owner = index.numpy() // steps_of(mask)
                hit = self._hit(owner, [place[:, k] for place in places])
                flat_steps(stack, form.name).index_fill_(0, index[torch.from_numpy(hit)], 0.0)

    def _hit(self, owner: IntArray, places: list[FloatArray]) -> npt.NDArray[np.bool_]:
        """Which real steps lie in a span.

        Args:
            owner: The sample each real step belongs to, int64 ``(n,)``.
            places: Where each span lies, in ``[0, 1)``, a span of ``(B,)`` samples each.
        """
        counts = np.bincount(owner)
        # Number of a real step within its sample: holes and padding do not count.
        number = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
        width = np.minimum(self.span_len, counts)
        hit = np.zeros(len(owner), dtype=np.bool_)
        for place in places:
            start = below(place[: len(counts)], counts - width + 1)
            hit |= (number >= start[owner]) & (number < (start + width)[owner])
        return hit


class FeatureMasking(BatchTransform):
    """Zeroes bands of neighbouring features, in all real steps of a sample, each value's own.

    Args:
        num_masks: Bands a value.
        max_width: Widest band; widths are drawn uniformly from 1 to this (or to the number of
            features F, where that is less).
        keys: Values to change, each with exactly one feature axis ``(F,)`` a step. Default: all
            floating features that have one.
        p: Probability that a sample is changed (all its keys together).
        schema: The union schema, to refuse structured values when the transform is made.

    Raises:
        ConfigError: If a key is structured or has no feature axis.
    """

    train_only = True
    needs = Needs(floating=True, trailing_axes=1)

    def __init__(
        self,
        num_masks: int = 1,
        max_width: int = 4,
        keys: Sequence[str] | None = None,
        p: float = 0.5,
        schema: UnifiedSchema | DatasetSchema | None = None,
    ) -> None:
        self.num_masks = whole("FeatureMasking", "num_masks", num_masks, 0)
        self.max_width = whole("FeatureMasking", "max_width", max_width, 1)
        self.p = probability("FeatureMasking", "p", p)
        super().__init__(keys, schema)

    def apply_batch(self, stack: Stack, keys: Keys) -> None:
        """Zero the bands drawn."""
        active = chosen(keys, self.p)
        forms = self.forms(stack)
        if not active.any() or not forms:
            return
        words = named_keys(keys, [form.name for form in forms])
        places = [uniform(words, draw) for draw in range(2 * self.num_masks)]
        for k, form in enumerate(forms):
            value, mask = stack.pair(form.name)
            index = valid_index(mask, as_rows(active))
            if index.numel():
                own = [place[:, k] for place in places]
                bands = torch.from_numpy(self._bands(own, stack.size, value.shape[-1]))
                hit = bands[index // steps_of(mask)]

                def zero(steps: Tensor, hit: Tensor = hit) -> Tensor:
                    return steps.masked_fill_(hit, 0.0)

                change_steps(stack, form.name, index, zero)

    def _bands(self, places: list[FloatArray], size: int, width: int) -> npt.NDArray[np.bool_]:
        """Which features of each sample lie in a band, bool ``(B, F)``.

        Args:
            places: Width and start of each band in turn, in ``[0, 1)``, of ``(B,)`` samples each.
            size: B.
            width: F.
        """
        feature = np.arange(width)
        hit = np.zeros((size, width), dtype=np.bool_)
        for width_draw, start_draw in zip(places[::2], places[1::2], strict=True):
            span = 1 + below(width_draw, min(self.max_width, width))
            start = below(start_draw, width - span + 1)
            hit |= (feature >= start[:, None]) & (feature < (start + span)[:, None])
        return hit
