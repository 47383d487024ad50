"""Pad sequences of native length to the longest of their batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from omniloader._types import Sample
from omniloader.collate.unified import unified_collate
from omniloader.errors import ConfigError
from omniloader.masks import mask_name
from omniloader.schema.batch import UnifiedBatch
from omniloader.schema.spec import TensorSpec, UnifiedSchema
from omniloader.utils.padding import pad_or_crop_time_dim


class DynamicCollator:
    """Collate for ``pad_features=False``: pad to the batch's longest, not to ``time_dim``.

    Two sequences of 3 and 5 steps give ``(2, 5, F)`` and a mask ``(2, 5)`` whose first row ends
    in two False. A batch in which no sample has a key still gets one (masked) step, so that
    recurrent and convolutional layers accept it.

    Args:
        schema: The union schema, for the placeholders.
        keys: Sequences to pad dynamically; the other sequences are brought to their
            ``time_dim``. None: all sequences.

    Raises:
        ConfigError: If a key is not a sequence of the schema.
    """

    def __init__(self, schema: UnifiedSchema, keys: Sequence[str] | None = None) -> None:
        sequences = {spec.name: spec for spec in schema.specs if spec.is_sequence}
        for name in keys or ():
            if name not in sequences:
                raise ConfigError(
                    f"DynamicCollator: keys must name sequences of the schema, got '{name}'; "
                    f"sequences are: {', '.join(sequences) or 'none'}"
                )
        self.keys = list(sequences) if keys is None else list(keys)
        self._sequences = sequences

    def __call__(self, batch: Sequence[Sample]) -> dict[str, Any]:
        """Pad and stack B samples; see :func:`unified_collate` for the result."""
        if isinstance(batch, UnifiedBatch):
            return unified_collate(self._bring(batch))
        rows = [dict(sample) for sample in batch]
        for name, spec in self._sequences.items():
            present = [len(row[name]) for row in rows if name in row]
            if present:
                steps = self._steps(spec, max(present))
                for row in rows:
                    _resize_row(row, spec, steps)
        return unified_collate(rows)

    def _steps(self, spec: TensorSpec, longest: int) -> int:
        return max(longest, 1) if spec.name in self.keys else int(spec.time_dim or 1)

    def _bring(self, batch: UnifiedBatch) -> UnifiedBatch:
        values = dict(batch.values)
        lengths = batch.lengths or {}
        for name, spec in self._sequences.items():
            steps = self._steps(spec, values[name].shape[1])
            if steps != values[name].shape[1]:
                mask = mask_name(name)
                values[name] = _resize(values[name], steps, spec.placeholder)
                values[mask] = _resize(values[mask], steps, False)
        kept = {name: own for name, own in lengths.items() if name not in self._sequences}
        return batch.with_values(values, kept)


def _resize_row(row: Sample, spec: TensorSpec, steps: int) -> None:
    mask = mask_name(spec.name)
    row[spec.name], row[mask] = pad_or_crop_time_dim(
        row[spec.name], steps, spec.placeholder, mask=row[mask]
    )


def _resize(tensor: Tensor, steps: int, fill: float) -> Tensor:
    """Bring axis 1 of a stacked tensor to a number of steps."""
    kept = tensor[:, :steps]
    missing = steps - kept.shape[1]
    if not missing:
        return kept
    tail = kept.new_full((kept.shape[0], missing, *kept.shape[2:]), fill)
    return torch.cat([kept, tail], dim=1)
