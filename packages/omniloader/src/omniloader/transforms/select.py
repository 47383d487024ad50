"""Which values a transform acts on, and why it refuses the others.

With a schema this is settled when the transform is made. Without one it is read off the sample: a
value is whatever has a ``<name>_mask`` beside it, and since a sample does not say which of its
values are targets, transforms of features then take those with a feature axis by default, which
labels of one number a sample or step do not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omniloader.errors import ConfigError, OmniError, SampleError
from omniloader.masks import mask_name
from omniloader.schema.spec import TensorSpec, UnifiedSchema


@dataclass(frozen=True, slots=True)
class Form:
    """What a transform needs to know of a value.

    Args:
        name: Its key.
        dtype: Its dtype.
        is_sequence: Whether it has a leading time axis.
        trailing_shape: Shape of one step.
        placeholder: Fills a missing step; 0 where no schema says otherwise.
        is_target: None where no schema says.
    """

    name: str
    dtype: torch.dtype
    is_sequence: bool
    trailing_shape: tuple[int, ...]
    placeholder: float = 0.0
    is_target: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """What a transform needs a value to be.

    Args:
        floating: A floating dtype.
        sequence: A time axis.
        trailing_axes: Number of axes of one step; None: any.
        features_only: Leave targets out by default.
    """

    floating: bool = False
    sequence: bool = False
    trailing_axes: int | None = None
    features_only: bool = True

    def problem(self, form: Form) -> str | None:
        """What keeps a value from being acted on; None if nothing does."""
        if self.floating and not form.dtype.is_floating_point:
            return f"must have a floating dtype, got {form.dtype}"
        if self.sequence and not form.is_sequence:
            return f"must be a sequence, got a vector of shape {form.trailing_shape}"
        axes = len(form.trailing_shape)
        if self.trailing_axes is not None and axes != self.trailing_axes:
            wanted = {1: "one feature axis (F,)", 3: "images (C, H, W)"}[self.trailing_axes]
            return f"must have {wanted} a step, got shape {form.trailing_shape}"
        return None

    def by_default(self, form: Form) -> bool:
        """Whether a value is acted on when no keys are named."""
        if self.problem(form) is not None:
            return False
        if not self.features_only:
            return True
        return bool(form.trailing_shape) if form.is_target is None else not form.is_target


def select(
    owner: str,
    keys: Sequence[str] | None,
    forms: Mapping[str, Form],
    needs: Needs,
    known: str,
    refusal: type[OmniError] | None = None,
) -> tuple[Form, ...]:
    """The values to act on.

    Args:
        owner: Name of the transform, for messages.
        keys: Names given by the user; None: all that fit.
        forms: The values there are.
        needs: What the transform needs.
        known: Where they come from: ``"schema"`` or ``"sample"``.
        refusal: Raised instead of those below.

    Raises:
        ConfigError: If the schema rules a key out, or leaves nothing to act on.
        SampleError: If the sample does.
    """
    error = refusal or (ConfigError if known == "schema" else SampleError)
    if keys is None:
        chosen = tuple(form for form in forms.values() if needs.by_default(form))
        if not chosen and known == "schema":
            problems = [
                f"'{name}' {needs.problem(form)}"
                for name, form in forms.items()
                if needs.problem(form) and not (needs.features_only and form.is_target)
            ]
            raise error(
                f"{owner}: the schema must hold a value to act on, got none "
                f"({'; '.join(problems) or 'it holds no features'}); name keys, or leave it out"
            )
        return chosen
    for name in keys:
        if name not in forms:
            raise error(
                f"{owner}: key '{name}' must be a value of the {known}, which holds: "
                f"{', '.join(forms) or 'nothing'}; correct the key, or name others with keys="
            )
        problem = needs.problem(forms[name])
        if problem is not None:
            raise error(f"{owner}: key '{name}' {problem}; leave it out of keys")
    return tuple(forms[name] for name in keys)


def forms_of_schema(schema: UnifiedSchema) -> dict[str, Form]:
    """The values that a schema declares."""
    return {
        spec.name: _form(spec, role)
        for role, specs in ((False, schema.features), (True, schema.targets))
        for spec in specs
    }


def _form(spec: TensorSpec, is_target: bool) -> Form:
    trailing, placeholder = spec.trailing_shape, spec.placeholder
    return Form(spec.name, spec.dtype, spec.is_sequence, trailing, placeholder, is_target)


def forms_of_values(values: Mapping[str, Any], lead: int = 1) -> dict[str, Form]:
    """The values that stacked tensors hold, in so far as tensors show it.

    Args:
        values: Names to tensors ``(B, …)``.
        lead: Number of leading sample axes.
    """
    forms: dict[str, Form] = {}
    for name, value in values.items():
        mask = values.get(mask_name(name))
        if isinstance(value, Tensor) and isinstance(mask, Tensor):
            _check_mask(name, value, mask)
            trailing = tuple(value.shape[mask.ndim :])
            forms[name] = Form(name, value.dtype, mask.ndim > lead, trailing)
    return forms


def _check_mask(name: str, value: Tensor, mask: Tensor) -> None:
    if mask.dtype is not torch.bool or value.shape[: mask.ndim] != mask.shape:
        raise SampleError(
            f"'{mask_name(name)}' must be bool and match the leading axes of '{name}' "
            f"{tuple(value.shape)}, got {mask.dtype} {tuple(mask.shape)}; a mask holds one flag a "
            "step, True = real"
        )


def checked_keys(owner: str, keys: Sequence[str] | None) -> tuple[str, ...] | None:
    """Key names as a tuple, each once.

    Raises:
        ConfigError: If keys is one text, holds something else than texts, or one twice.
    """
    if keys is None:
        return None
    if isinstance(keys, str) or not all(isinstance(key, str) for key in keys):
        raise ConfigError(
            f"{owner}: keys must be a list of names, got {keys!r}; write ['{keys}']"
            if isinstance(keys, str)
            else f"{owner}: keys must be a list of names, got {list(keys)!r}"
        )
    doubled = [key for i, key in enumerate(keys) if key in list(keys)[:i]]
    if doubled:
        raise ConfigError(f"{owner}: key '{doubled[0]}' is named twice; name it once")
    return tuple(keys)
