"""What a value looks like, what a source provides, and the union of all sources."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class DatasetSchema:
    """What one source provides; a value's role is the list it stands in.

    Args:
        features: Specs of the model's inputs.
        targets: Specs of the labels.

    Raises:
        SchemaError: If a name stands twice.
    """

    features: Sequence[TensorSpec] = field(default_factory=tuple)
    targets: Sequence[TensorSpec] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        """Freeze the lists and refuse doubled names."""
        object.__setattr__(self, "features", tuple(self.features))
        object.__setattr__(self, "targets", tuple(self.targets))
        seen: set[str] = set()
        for spec in self.specs:
            if not isinstance(spec, TensorSpec):
                raise SchemaError(f"schema: every entry must be a TensorSpec, got {spec!r}")
            if spec.name in seen:
                raise SchemaError(
                    f"schema: '{spec.name}' is declared twice; "
                    "a value is a feature or a target, once"
                )
            seen.add(spec.name)

    @property
    def specs(self) -> list[TensorSpec]:
        """Features, then targets."""
        return [*self.features, *self.targets]

    @property
    def keys(self) -> set[str]:
        """Names of all declared values."""
        return {spec.name for spec in self.specs}


class UnifiedSchema:
    """The union of several sources' schemas, in order of first appearance.

    Sources that share a name must agree on role, trailing shape, ``time_dim``, dtype and
    placeholder; what differs otherwise would be padding learnt as data.

    Args:
        schemas: One schema a source.
        names: Names of the sources for messages; default ``dataset_<i>``.

    Raises:
        SchemaError: If two sources disagree, naming both and both specs.
    """

    def __init__(
        self, schemas: Sequence[DatasetSchema], names: Sequence[str] | None = None
    ) -> None:
        labels = list(names) if names is not None else [f"dataset_{i}" for i in range(len(schemas))]
        merged: dict[str, tuple[TensorSpec, str, str]] = {}
        for label, schema in zip(labels, schemas, strict=True):
            for role, specs in (("feature", schema.features), ("target", schema.targets)):
                for spec in specs:
                    first = merged.setdefault(spec.name, (spec, role, label))
                    _check_agreement(first, (spec, role, label))
        self.features = [spec for spec, role, _ in merged.values() if role == "feature"]
        self.targets = [spec for spec, role, _ in merged.values() if role == "target"]
        self._by_name = {spec.name: spec for spec in self.specs}

    @property
    def specs(self) -> list[TensorSpec]:
        """Features, then targets."""
        return [*self.features, *self.targets]

    @property
    def feature_keys(self) -> list[str]:
        """Names of the features, in order."""
        return [spec.name for spec in self.features]

    @property
    def target_keys(self) -> list[str]:
        """Names of the targets, in order."""
        return [spec.name for spec in self.targets]

    @property
    def keys(self) -> set[str]:
        """Names of all values."""
        return set(self._by_name)

    def spec(self, name: str) -> TensorSpec:
        """The spec of a name.

        Raises:
            KeyError: If no source declares it; the text lists what is declared.
        """
        try:
            return self._by_name[name]
        except KeyError:
            known = ", ".join(self._by_name) or "nothing"
            raise KeyError(f"'{name}' is not in the union schema; declared: {known}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __len__(self) -> int:
        return len(self._by_name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UnifiedSchema):
            return NotImplemented
        return self.features == other.features and self.targets == other.targets

    def __hash__(self) -> int:
        return hash((tuple(self.features), tuple(self.targets)))

    def __repr__(self) -> str:
        return f"UnifiedSchema(features={self.feature_keys}, targets={self.target_keys})"


# What one tensor of a batch needs to have in common. `nonfinite` and `sentinel` are habits of a
# source, applied to its own samples, and may differ.
_AGREE = ("trailing_shape", "time_dim", "dtype", "placeholder")


def _check_agreement(
    first: tuple[TensorSpec, str, str], second: tuple[TensorSpec, str, str]
) -> None:
    """Refuse two declarations of one name that would stack into one tensor wrongly."""
    (spec_a, role_a, label_a), (spec_b, role_b, label_b) = first, second
    differing = [attr for attr in _AGREE if not _same(getattr(spec_a, attr), getattr(spec_b, attr))]
    if role_a != role_b:
        differing.insert(0, "role")
    if differing:
        raise SchemaError(
            f"'{spec_a.name}': sources '{label_a}' and '{label_b}' disagree on "
            f"{', '.join(differing)}: '{label_a}' declares a {role_a}, {spec_a.describe()}; "
            f"'{label_b}' declares a {role_b}, {spec_b.describe()}; "
            "make them equal, or give one of the values another name"
        )


def _same(left: object, right: object) -> bool:
    """Equality under which nan equals nan (a nan placeholder agrees with itself)."""
    return left == right or (left != left and right != right)
