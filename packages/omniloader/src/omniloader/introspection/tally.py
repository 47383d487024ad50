"""Count what one source holds, sample by sample; tallies of parts add up to that of the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omniloader._types import MapDataset
from omniloader.masks import broadcast_mask, mask_name, valid_rows
from omniloader.schema.spec import METADATA_KEYS, DatasetSchema, TensorSpec
from omniloader.schema.values import Misfit, as_tensor, fit

# What a user's dataset raises for a sample it cannot give. Not KeyboardInterrupt, not a warning.
READ_ERRORS = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    RuntimeError,
    ArithmeticError,
    AttributeError,
    StopIteration,
)


@dataclass(kw_only=True)
class KeyTally:
    """Counts of one value of one source.

    Args:
        spec: As its source declares it.
        pad_features: Whether padding counts as missing steps, as it does in a batch.
    """

    spec: TensorSpec
    pad_features: bool = True
    samples: int = 0
    present: int = 0
    valid: int = 0
    positions: int = 0
    nan: int = 0
    posinf: int = 0
    neginf: int = 0
    sentinel: int = 0
    low: float = np.inf
    high: float = -np.inf
    lengths: list[int] = field(default_factory=list)
    classes: Counter[int] = field(default_factory=Counter)
    misfits: list[tuple[int, str]] = field(default_factory=list)

    def add(self, index: int, sample: Mapping[str, Any]) -> None:
        """Count one sample's value.

        Args:
            index: Local index of the sample, for messages.
            sample: As the source gives it.
        """
        self.samples += 1
        raw = sample.get(self.spec.name)
        value = mask = None
        if raw is not None:
            self.present += 1
            try:
                value, mask = self._fit(raw, sample.get(mask_name(self.spec.name)))
            except Misfit as problem:
                self.misfits.append((index, str(problem)))
        if value is None or mask is None:
            self.positions += (self.spec.time_dim or 1) if self._padded else 1
            return
        if self.spec.is_sequence:
            self.lengths.append(len(value))
        self._count(value, mask)

    @property
    def _padded(self) -> bool:
        return self.pad_features or not self.spec.is_sequence

    def _fit(self, raw: Any, raw_mask: Any) -> tuple[Tensor, Tensor]:
        """The whole value as its source gives it: non-finite numbers and sentinels still there."""
        plain = replace(self.spec, nonfinite="keep", sentinel=None)
        flags, given = None if raw_mask is None else as_tensor(raw_mask), as_tensor(raw)
        if self.spec.nonfinite == "mask" or self.spec.sentinel is not None:
            # What marks a missing value need not fit the dtype; all else has to.
            marked = replace(
                self.spec, nonfinite="mask" if self.spec.nonfinite == "mask" else "keep"
            )
            fit(marked, given, flags, crop=False)
            plain = replace(plain, dtype=given.dtype, placeholder=0)
        value, mask = fit(plain, given, flags, crop=False)
        if mask is None:
            mask = torch.ones(value.shape[: int(self.spec.is_sequence)], dtype=torch.bool)
        return value, mask

    def _count(self, value: Tensor, mask: Tensor) -> None:
        valid = mask
        numbers = valid_rows(value, mask)
        if value.dtype.is_floating_point:
            self.nan += int(numbers.isnan().sum())
            self.posinf += int((numbers == np.inf).sum())
            self.neginf += int((numbers == -np.inf).sum())
            if self.spec.nonfinite != "keep":
                valid = valid & ~self._steps_with(~torch.isfinite(value))
        if self.spec.sentinel is not None:
            written = self._steps_with(value == self.spec.sentinel)
            self.sentinel += int((written & mask).sum())
            valid = valid & ~written
        self._count_valid(value, valid)

    def _count_valid(self, value: Tensor, valid: Tensor) -> None:
        if self._padded and self.spec.time_dim is not None:
            self.valid += int(valid[: self.spec.time_dim].sum())
            self.positions += self.spec.time_dim
        else:
            self.valid += int(valid.sum())
            self.positions += valid.numel()
        numbers = value[broadcast_mask(valid, value).expand(value.shape)]
        if numbers.dtype.is_complex:
            return
        if numbers.dtype.is_floating_point:
            numbers = numbers[torch.isfinite(numbers)].double()
        if numbers.numel():
            self.low = min(self.low, float(numbers.min()))
            self.high = max(self.high, float(numbers.max()))
        if is_categorical(self.spec):
            ids, counts = np.unique(numbers.numpy(), return_counts=True)
            self.classes.update(dict(zip(map(int, ids), map(int, counts), strict=True)))

    def _steps_with(self, flags: Tensor) -> Tensor:
        return (
            flags.flatten(int(self.spec.is_sequence)).any(-1) if self.spec.trailing_shape else flags
        )

    def merge(self, other: KeyTally) -> None:
        """Add the counts of other samples of the same source."""
        for name in (
            *("samples", "present", "valid", "positions"),
            *("nan", "posinf", "neginf", "sentinel", "lengths", "misfits"),
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.classes.update(other.classes)


def is_categorical(spec: TensorSpec) -> bool:
    """Whether values are class ids: an integer or bool of one number (a step)."""
    whole = not spec.dtype.is_floating_point and not spec.dtype.is_complex
    return whole and not spec.trailing_shape


class SourceTally:
    """Counts of all values of one source, and what could not be read.

    Args:
        schema: What the source declares.
        pad_features: As of the loader.
        metadata: Names that are carried besides values.
    """

    def __init__(
        self, schema: DatasetSchema, pad_features: bool = True, metadata: Iterable[str] = ()
    ) -> None:
        self.keys = {
            spec.name: KeyTally(spec=spec, pad_features=pad_features) for spec in schema.specs
        }
        self.unreadable: list[tuple[int, str]] = []
        self.undeclared: Counter[str] = Counter()
        self.carried: set[str] = set()
        self._metadata = frozenset(metadata)
        self._known = {*schema.keys, *map(mask_name, schema.keys), *METADATA_KEYS, *metadata}

    def add(self, index: int, dataset: MapDataset) -> None:
        """Read and count one sample; a failure is noted, not raised."""
        try:
            sample = dataset[index]
        except READ_ERRORS as error:
            self.unreadable.append((index, f"{type(error).__name__}: {error}"))
            return
        if not isinstance(sample, Mapping):
            self.unreadable.append((index, f"must be a dict, got {type(sample).__name__}"))
            return
        self.undeclared.update(str(key) for key in sample if key not in self._known)
        self.carried.update(self._metadata.intersection(sample))
        for tally in self.keys.values():
            tally.add(index, sample)

    def merge(self, other: SourceTally) -> None:
        """Add the counts of other samples of the same source."""
        for name, tally in self.keys.items():
            tally.merge(other.keys[name])
        self.unreadable += other.unreadable
        self.undeclared.update(other.undeclared)
        self.carried |= other.carried
