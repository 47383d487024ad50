"""The declaration of one value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from omniloader.errors import SchemaError
from omniloader.masks import MASK_SUFFIX, is_mask_name

METADATA_KEYS = ("dataset", "subset", "key")
"""Metadata that every unified sample carries."""

INDEX_KEYS = ("index", "dataset_index", "epoch", "visit")
"""Where a sample came from; int64 ``(B,)`` in a batch. With them ``omni.sample(index, epoch=…,
visit=…)`` makes any augmented sample again."""

NONFINITE = ("keep", "mask", "raise")


@dataclass(frozen=True)
class TensorSpec:
    """Declares one value: its shape, dtype and what fills it when it is missing.

    A value is a sequence exactly when ``time_dim`` is set. ``feature_dim`` declares a flat
    trailing axis, ``shape`` a structured one; neither means one number (a step)::

        TensorSpec("sentiment")                                  # ()
        TensorSpec("audio", feature_dim=8, time_dim=24)          # (24, 8)
        TensorSpec("eye", shape=(3, 64, 64), time_dim=15)        # (15, 3, 64, 64)

    Args:
        name: Key in the sample; the mask is ``<name>_mask``.
        feature_dim: Width F of a flat trailing axis.
        shape: Structured trailing shape, instead of ``feature_dim``.
        time_dim: Number of steps T a sequence is brought to.
        dtype: Dtype the value is cast to.
        placeholder: Fills missing values and the padded tail. A value equal to it is still
            real: only masks say what is missing.
        nonfinite: What NaN and ±inf mean: ``"keep"`` them, ``"mask"`` the step (the whole value
            of a vector), or ``"raise"``.
        sentinel: A number the source writes where it has no value; such a step is masked.

    Raises:
        SchemaError: If the declaration is impossible, naming the spec.
    """

    name: str
    feature_dim: int | None = None
    shape: tuple[int, ...] | None = None
    time_dim: int | None = None
    dtype: torch.dtype = torch.float32
    placeholder: float = 0.0
    nonfinite: Literal["keep", "mask", "raise"] = "keep"
    sentinel: float | None = None

    def __post_init__(self) -> None:
        """Check the declaration, and make ``shape`` a tuple of plain ints."""
        if self.shape is not None:
            object.__setattr__(self, "shape", tuple(self.shape))
        _check_name(self.name)
        if self.feature_dim is not None and self.shape is not None:
            raise SchemaError(
                f"spec '{self.name}': feature_dim={self.feature_dim} and shape={self.shape} "
                "exclude each other; keep feature_dim for a flat axis, shape for a structured one"
            )
        for label, size in self._axes():
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise SchemaError(
                    f"spec '{self.name}': {label} must be a whole number of at least 1, "
                    f"got {size!r}"
                )
        if not isinstance(self.dtype, torch.dtype):
            raise SchemaError(
                f"spec '{self.name}': dtype must be a torch dtype such as torch.float32, "
                f"got {self.dtype!r}"
            )
        if self.nonfinite not in NONFINITE:
            raise SchemaError(
                f"spec '{self.name}': nonfinite must be one of {', '.join(NONFINITE)}, "
                f"got {self.nonfinite!r}"
            )
        _check_fits(self.name, "placeholder", self.placeholder, self.dtype)
        _check_sentinel(self.name, self.sentinel)
        if self.placeholder == 0:
            # -0.0 equals 0.0 but has other bits: two equal specs must fill alike.
            object.__setattr__(self, "placeholder", abs(self.placeholder))

    def _axes(self) -> list[tuple[str, object]]:
        axes: list[tuple[str, object]] = [
            (f"shape[{i}]", size) for i, size in enumerate(self.shape or ())
        ]
        if self.feature_dim is not None:
            axes.append(("feature_dim", self.feature_dim))
        if self.time_dim is not None:
            axes.append(("time_dim", self.time_dim))
        return axes

    @property
    def is_sequence(self) -> bool:
        """Whether the value has a leading time axis."""
        return self.time_dim is not None

    @property
    def trailing_shape(self) -> tuple[int, ...]:
        """Shape of one step: ``()``, ``(F,)`` or ``shape``."""
        if self.feature_dim is not None:
            return (self.feature_dim,)
        return self.shape or ()

    @property
    def value_shape(self) -> tuple[int, ...]:
        """Shape of a whole value: ``(T, *trailing)`` for a sequence, else ``trailing``."""
        return self.mask_shape + self.trailing_shape

    @property
    def mask_shape(self) -> tuple[int, ...]:
        """``(T,)`` for a sequence, ``()`` for a vector."""
        return () if self.time_dim is None else (self.time_dim,)

    def placeholder_value(self) -> Tensor:
        """A fresh tensor of ``value_shape`` filled with the placeholder."""
        return torch.full(self.value_shape, self.placeholder, dtype=self.dtype)

    def placeholder_mask(self) -> Tensor:
        """A fresh all-False mask of ``mask_shape``."""
        return torch.zeros(self.mask_shape, dtype=torch.bool)

    def describe(self) -> str:
        """The declaration in one line, for messages."""
        kind = "sequence" if self.is_sequence else "vector"
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{kind} {self.value_shape} {dtype} placeholder={self.placeholder:g}"


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise SchemaError(f"spec: name must be a non-empty text, got {name!r}")
    if is_mask_name(name):
        raise SchemaError(
            f"spec '{name}': a name must not end in '{MASK_SUFFIX}', which is reserved for masks; "
            f"declare '{name.removesuffix(MASK_SUFFIX)}' and let the source provide '{name}' "
            "beside it"
        )
    if name in METADATA_KEYS or name in INDEX_KEYS:
        raise SchemaError(
            f"spec '{name}': the name is reserved for metadata "
            f"({', '.join(METADATA_KEYS + INDEX_KEYS)}); rename the value"
        )


def _check_fits(name: str, label: str, value: float, dtype: torch.dtype) -> None:
    """Refuse a number that ``dtype`` cannot hold (-1 in uint8, nan in int64, 1e5 in float16)."""
    if isinstance(value, bool) and dtype is torch.bool:
        return
    if not isinstance(value, int | float):
        raise SchemaError(f"spec '{name}': {label} must be a number, got {value!r}")
    if not fits_dtype(value, dtype):
        raise SchemaError(
            f"spec '{name}': {label} {value!r} does not fit {dtype}; "
            f"choose a {label} the dtype can hold or another dtype"
        )


def _check_sentinel(name: str, value: object) -> None:
    """A sentinel may lie outside of the dtype: it is compared with what the source stores."""
    if value is None:
        return
    if not isinstance(value, int | float):
        raise SchemaError(f"spec '{name}': sentinel must be a number, got {value!r}")
    if value != value:
        raise SchemaError(
            f"spec '{name}': sentinel must be a number that equals itself, got nan; "
            'declare nonfinite="mask" to mask NaN'
        )


def fits_dtype(value: float, dtype: torch.dtype) -> bool:
    """Whether ``dtype`` can hold the number, up to rounding of a float."""
    if dtype is torch.bool:
        return value in (0, 1)
    if dtype.is_complex:
        return True
    if dtype.is_floating_point:
        return not math.isfinite(value) or abs(value) <= torch.finfo(dtype).max
    info = torch.iinfo(dtype)
    return math.isfinite(value) and value == int(value) and info.min <= value <= info.max
