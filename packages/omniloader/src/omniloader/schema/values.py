"""Fit a raw value to its spec: tensor, rank and shape, exact cast, mask, non-finite steps.

The same functions serve one value (``lead=0``) and a column of n stacked values (``lead=1``), so
the per-sample and the batched path cannot drift apart. What does not fit raises
:class:`Misfit`, to which the caller adds whose value it was.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omniloader.masks import broadcast_mask
from omniloader.schema.spec import TensorSpec

# Unsigned NumPy widths that torch barely supports, and the signed ones that hold them.
_WIDEN = {"uint16": np.int32, "uint32": np.int64, "uint64": np.int64}


class Misfit(Exception):  # noqa: N818 - never leaves the package: it becomes a SampleError
    """A value does not fit its spec; the text says what was expected, what came, what to do."""


def fit(
    spec: TensorSpec, value: Tensor, mask: Tensor | None, *, lead: int = 0, crop: bool = True
) -> tuple[Tensor, Tensor | None]:
    """Bring a tensor and its mask to a spec, short of padding.

    Args:
        spec: What the source declares.
        value: ``(*lead, [t,] *trailing)``, any dtype.
        mask: ``(*lead, [t])``, bool or 0/1 of any dtype; None means all real.
        lead: Number of leading sample axes, 0 or 1.
        crop: Keep only the first ``time_dim`` steps.

    Returns:
        Value of the spec's dtype and mask (None: all real); either may share memory with the
        input.

    Raises:
        Misfit: If rank, trailing shape, a cast, the mask or a non-finite value does not fit.
    """
    value = _fit_shape(spec, value, lead)
    mask = None if mask is None else fit_mask(spec, mask, value.shape[: lead + spec.is_sequence])
    if crop and spec.time_dim is not None:
        value = value.narrow(lead, 0, min(spec.time_dim, value.shape[lead]))
        mask = None if mask is None else mask.narrow(lead, 0, value.shape[lead])
    bad = _invalid(spec, value, mask, lead)
    if bad is None or not bool(bad.any()):
        return cast_exactly(value, spec.dtype), mask
    # Before the cast: the dtype need not hold what says that there is no value.
    value = cast_exactly(value.masked_fill(broadcast_mask(bad, value), 0), spec.dtype)
    value = value.masked_fill(broadcast_mask(bad, value), spec.placeholder)
    return value, ~bad if mask is None else mask & ~bad


def fit_raw(
    spec: TensorSpec, raw: Any, raw_mask: Any, *, crop: bool
) -> tuple[Tensor, Tensor | None] | Misfit:
    """:func:`fit` one value as a source handed it out.

    Returns:
        Value and mask, or the misfit: returned, so that what its caller raises of it stands
        alone, without an inner error as its context.
    """
    try:
        mask = None if raw_mask is None else as_tensor(raw_mask)
        return fit(spec, as_tensor(raw), mask, crop=crop)
    except Misfit as problem:
        return problem


def as_tensor(raw: Any) -> Tensor:
    """View (or convert) whatever a source hands out as a CPU tensor.

    Raises:
        Misfit: For text, objects, ragged lists, sparse tensors.
    """
    if isinstance(raw, Tensor):
        if raw.layout is not torch.strided:
            raise Misfit(f"must be a dense tensor, got layout {raw.layout}; call .to_dense()")
        return raw.detach().cpu() if raw.requires_grad or raw.device.type != "cpu" else raw
    if isinstance(raw, np.ndarray | np.generic):
        return _from_numpy(np.asarray(raw))
    if isinstance(raw, bool | int | float | complex | list | tuple):
        return _from_python(raw)
    raise Misfit(
        f"must be numeric, got {type(raw).__name__} {_short(raw)}; "
        "convert it in the source, or carry it as metadata"
    )


def _from_python(raw: Any) -> Tensor:
    try:
        array = np.asarray(raw)
    except ValueError:
        raise Misfit(
            "must be one rectangular array, got a ragged list; pad it or split it"
        ) from None
    if not array.size and array.dtype == np.float64:
        return torch.zeros(array.shape)
    return _from_numpy(array)


def _from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    if array.dtype.kind not in "biufc":
        raise Misfit(
            f"must be numeric, got an array of dtype {array.dtype}; "
            "convert it in the source, or carry it as metadata"
        )
    native = array.dtype.newbyteorder("=")
    if native.name == "uint64" and array.size and array.max() > np.iinfo(np.int64).max:
        raise Misfit(f"must fit int64, got the uint64 value {array.max()}; store it another way")
    wanted = _WIDEN.get(
        native.name, np.float64 if native.itemsize > 8 and native.kind == "f" else native
    )
    array = array.astype(wanted, copy=False)
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()  # torch warns about read-only memory and refuses negative strides
    return torch.from_numpy(array)


def _fit_shape(spec: TensorSpec, value: Tensor, lead: int) -> Tensor:
    shape = tuple(value.shape[lead:])
    expected = spec.trailing_shape
    if spec.is_sequence:
        fits = len(shape) == 1 + len(expected) and shape[1:] == expected
    elif not expected and value.numel() == int(np.prod(value.shape[:lead])):
        return value.reshape(value.shape[:lead])  # one element, however wrapped, is a scalar
    else:
        fits = shape == expected
    if fits:
        return value
    steps = ("t", *map(str, expected)) if spec.is_sequence else tuple(map(str, expected))
    wanted = f"({', '.join(steps)}{',' if len(steps) == 1 else ''})"
    kind = "sequence" if spec.is_sequence else "vector"
    raise Misfit(
        f"must be a {kind} of shape {wanted}, got shape {shape}; "
        "correct the source or its declared schema"
    )


def fit_mask(spec: TensorSpec, mask: Tensor, expected: torch.Size) -> Tensor:
    """A mask as bool of the expected shape.

    Raises:
        Misfit: If it has another shape, or holds anything but 0 and 1.
    """
    if mask.shape != expected:
        if not spec.is_sequence and mask.numel() == int(np.prod(expected)):
            mask = mask.reshape(expected)
        else:
            raise Misfit(
                f"mask must have shape {tuple(expected)} like the value, got {tuple(mask.shape)}; "
                "a mask holds one flag a step, True = real"
            )
    if mask.dtype is torch.bool:
        return mask
    flags = mask != 0
    wrong = flags & (mask != 1)
    if bool(wrong.any()):
        raise Misfit(f"mask must hold only 0 and 1 (True = real), got {mask[wrong][0].item()!r}")
    return flags


def _invalid(spec: TensorSpec, value: Tensor, mask: Tensor | None, lead: int) -> Tensor | None:
    """Steps that the spec's ``nonfinite`` and ``sentinel`` mask; None where it has neither."""
    bad: Tensor | None = None
    if spec.sentinel is not None:
        bad = _per_step(spec, value == spec.sentinel, lead)
    floating = value.dtype.is_floating_point or value.dtype.is_complex
    if spec.nonfinite != "keep" and floating:
        nonfinite = _per_step(spec, ~_finite(value), lead)
        if spec.nonfinite == "raise":
            _refuse_nonfinite(nonfinite if mask is None else nonfinite & mask)
        else:
            bad = nonfinite if bad is None else bad | nonfinite
    return bad


def _per_step(spec: TensorSpec, flags: Tensor, lead: int) -> Tensor:
    return flags.flatten(lead + spec.is_sequence).any(-1) if spec.trailing_shape else flags


def _refuse_nonfinite(nonfinite: Tensor) -> None:
    if bool(nonfinite.any()):
        where = f" at step {int(nonfinite.nonzero()[0][-1])}" if nonfinite.ndim else ""
        raise Misfit(
            f"must be finite, got NaN or infinity{where}; "
            'clean the source, or declare nonfinite="mask" to mask such steps'
        )


def cast_exactly(value: Tensor, dtype: torch.dtype) -> Tensor:
    """Cast, or refuse where the cast would change a number beyond the rounding of a float.

    Refused: a fraction or a non-finite number into an integer, anything out of range, a float
    that becomes infinite, an integer that a float cannot hold exactly (2**24 + 1 in float32),
    anything but 0 and 1 into bool.

    Raises:
        Misfit: Naming the first number that does not survive.
    """
    if value.dtype is dtype:
        return value
    if value.dtype.is_complex and not dtype.is_complex:
        raise Misfit(f"must be real to become {dtype}, got {value.dtype}; take abs or real part")
    if always_exact(value.dtype, dtype):
        return value.to(dtype)
    lost = _lost(value, dtype)
    if bool(lost.any()):
        first = value[lost][0].item()
        raise Misfit(
            f"must hold numbers that {dtype} can represent, got {first!r} ({value.dtype}); "
            "declare another dtype, or convert the values in the source"
        )
    return value.to(dtype)


@lru_cache(maxsize=256)
def always_exact(source: torch.dtype, target: torch.dtype) -> bool:
    """Whether no number of one dtype can be lost in the other (rounding of floats aside)."""
    if source is torch.bool:
        return True
    if target is torch.bool:
        return False
    floats = target.is_floating_point or target.is_complex
    if source.is_floating_point or source.is_complex:
        return floats and torch.finfo(target).max >= torch.finfo(source).max
    largest = torch.iinfo(source).max
    if floats:
        return largest <= 2 / torch.finfo(target).eps and largest <= torch.finfo(target).max
    return torch.iinfo(target).min <= torch.iinfo(source).min and largest <= torch.iinfo(target).max


def _lost(value: Tensor, dtype: torch.dtype) -> Tensor:
    """Which numbers the cast would lose."""
    if dtype is torch.bool:
        return (value != 0) & (value != 1)
    if dtype.is_floating_point or dtype.is_complex:
        if value.dtype.is_floating_point or value.dtype.is_complex:
            # float8 does not overflow, it stays at its largest number.
            beyond = value.abs() > torch.finfo(dtype).max if dtype.itemsize == 1 else False
            return _finite(value) & (~_finite(value.to(dtype)) | beyond)
        cast = value.to(dtype)
        back = (cast.real if dtype.is_complex else cast).to(torch.float64)
        # Beyond 2**63 - 1024 float64 has no neighbour that int64 could hold.
        inside = back.abs() <= 2.0**63 - 1024
        return ~inside | (torch.where(inside, back, 0.0).to(torch.int64) != value.to(torch.int64))
    info = torch.iinfo(dtype)
    if value.dtype.is_floating_point:
        wide = value.to(torch.float64)
        # `max + 1` is a power of two, exact in float64 even where `max` is not.
        in_range = (wide >= info.min) & (wide < float(info.max) + (1 if info.bits < 53 else 0))
        return ~in_range | (wide != wide.trunc())
    wide_int = value.to(torch.int64)
    if value.dtype is torch.uint64:  # beyond int64 it comes back negative
        return (wide_int < 0) | (wide_int > info.max)
    # Every int64 is below the largest uint64, which int64 cannot express.
    return (wide_int < info.min) | (wide_int > min(info.max, torch.iinfo(torch.int64).max))


def _finite(value: Tensor) -> Tensor:
    """``torch.isfinite``, which knows no float8."""
    return torch.isfinite(value.to(torch.float32) if value.dtype.itemsize == 1 else value)


def _short(raw: Any) -> str:
    text = repr(raw)
    return text if len(text) <= 40 else text[:37] + "..."
