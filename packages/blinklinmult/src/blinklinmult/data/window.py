"""Check the arrays of one window against a corpus, and fit them to its length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from blinklinmult.data.names import (
    BLINK_IDS,
    DIAGNOSTICS,
    EYE_FEATURE,
    EYE_IMAGE,
    HEAD_POSE,
    HEAD_POSE_DIM,
    IMAGE_CHANNELS,
    NO_BLINK,
    QUALITY_SIGNALS,
    TARGET_PLACEHOLDER,
)
from blinklinmult.data.spec import DatasetSpec
from blinklinmult.errors import WriterError
from omniloader.masks import mask_name

Array = npt.NDArray[Any]


class WindowFitter:
    """Turns the arrays of one window into what is stored of it.

    Args:
        spec: The corpus.
        where: Whose window this is, for messages.
        steps: Frames that the window comes with.
    """

    def __init__(self, spec: DatasetSpec, where: str, steps: int) -> None:
        self._spec = spec
        self._where = where
        self._steps = steps
        self.stored: dict[str, Array] = {}

    def images(self, images: Any, mask: Any) -> None:
        """Crops ``(t, 3, H, W)``: floats in [0, 1], or uint8, which is divided by 255."""
        value = np.asarray(images)
        if value.dtype == np.uint8:
            value = value.astype(np.float32) / 255
        size = self._spec.image_size
        shape = (self._steps, IMAGE_CHANNELS, size, size)
        value = self._real(EYE_IMAGE, value, shape, np.float16)
        self._check_unit(EYE_IMAGE, value)
        self._store(EYE_IMAGE, value, 0.0, self._mask(EYE_IMAGE, mask))

    def features(self, features: Any, mask: Any) -> None:
        """Descriptors ``(t, F)``."""
        if self._wanted(EYE_FEATURE, features, self._spec.has_eye_feature):
            shape = (self._steps, self._spec.feature_dim or 0)
            value = self._real(EYE_FEATURE, features, shape, np.float16)
            self._store(EYE_FEATURE, value, 0.0, self._mask(EYE_FEATURE, mask))

    def target(self, name: str, labels: Any, mask: Any) -> None:
        """Labels ``(t,)`` in [0, 1] where they are real; elsewhere the placeholder is stored."""
        if not self._wanted(name, labels, name in self._spec.target_keys):
            return
        real = self._mask(name, mask)
        value = np.asarray(labels)
        self._check_shape(name, value, (self._steps,))
        self._check_numeric(name, value)
        value = np.where(real, value, TARGET_PLACEHOLDER).astype(np.float32)
        self._check_unit(name, value[real])
        self._store(name, value, TARGET_PLACEHOLDER, real)

    def head_pose(self, pose: Any) -> None:
        """Yaw, pitch, roll ``(t, 3)`` in degrees."""
        if self._wanted(HEAD_POSE, pose, self._spec.has_head_pose):
            value = self._real(HEAD_POSE, pose, (self._steps, HEAD_POSE_DIM), np.float32)
            self._store(HEAD_POSE, value, 0.0)

    def signals(self, signals: Mapping[str, Any]) -> None:
        """Quality signals ``(t,)`` in [0, 1], by name."""
        self._check_names("quality_signals", signals, QUALITY_SIGNALS)
        for name in QUALITY_SIGNALS:
            if self._wanted(name, signals.get(name), name in self._spec.quality_signals):
                value = self._real(name, signals[name], (self._steps,), np.float32)
                self._check_unit(name, value)
                self._store(name, value, 0.0)

    def blink_ids(self, ids: Any) -> None:
        """Numbers of blinks ``(t,)``."""
        if not self._wanted(BLINK_IDS, ids, self._spec.has_blink_ids):
            return
        value = np.asarray(ids)
        self._check_shape(BLINK_IDS, value, (self._steps,))
        limits = np.iinfo(np.int32)
        if value.dtype.kind not in "iu" or value.min() < limits.min or value.max() > limits.max:
            raise self._error(BLINK_IDS, "must be whole numbers that int32 holds", value.dtype)
        self._store(BLINK_IDS, value.astype(np.int32), NO_BLINK)

    def diagnostics(self, values: Mapping[str, Any]) -> None:
        """What people look at; one entry a frame is fitted like the rest."""
        self._check_names("quality", values, DIAGNOSTICS)
        for name, given in values.items():
            value = np.asarray(given)
            if name == "face_box":
                self._check_shape(name, value, (self._steps, 4))
                value = value.astype(np.int32)
            if value.dtype.kind not in "biufU":
                raise self._error(name, "must be numbers, bool or text", value.dtype)
            if value.ndim and len(value) == self._steps:
                self._store(name, value, "" if value.dtype.kind == "U" else 0)
            else:
                self.stored[name] = value

    # -- checks ----------------------------------------------------------------------------

    def _wanted(self, name: str, given: Any, declared: bool) -> bool:
        if declared and given is None:
            raise self._error(name, "is declared by the corpus and must be given", "nothing")
        if not declared and given is not None:
            raise self._error(
                name, "is not declared by the corpus; declare it, or leave it out", "a value"
            )
        return declared

    def _real(self, name: str, given: Any, shape: tuple[int, ...], dtype: Any) -> Array:
        value = np.asarray(given)
        self._check_shape(name, value, shape)
        self._check_numeric(name, value)
        with np.errstate(over="ignore"):  # what overflows becomes inf, and is refused below
            value = value.astype(dtype)
        if not np.isfinite(value).all():
            raise self._error(name, f"must be finite numbers that {value.dtype} holds", "others")
        return value

    def _check_shape(self, name: str, value: Array, shape: tuple[int, ...]) -> None:
        if value.shape != shape:
            raise self._error(name, f"must have shape {shape}", value.shape)

    def _check_numeric(self, name: str, value: Array) -> None:
        if value.dtype.kind not in "biuf":
            raise self._error(name, "must be numbers", value.dtype)

    def _check_unit(self, name: str, value: Array) -> None:
        wrong = ~((value >= 0) & (value <= 1))
        if wrong.any():
            raise self._error(name, "must be in [0, 1] where it is real", value[wrong].flat[0])

    def _check_names(self, label: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for name in given:
            if name not in known:
                raise self._error(label, f"may hold {', '.join(known)}", f"'{name}'")

    def _mask(self, name: str, given: Any) -> Array:
        if given is None:
            return np.ones(self._steps, dtype=np.bool_)
        mask = np.asarray(given)
        self._check_shape(mask_name(name), mask, (self._steps,))
        if mask.dtype != np.bool_ and not np.isin(mask, (0, 1)).all():
            raise self._error(mask_name(name), "must be bool or 0 and 1", mask.dtype)
        return mask.astype(np.bool_)

    def _error(self, name: str, must: str, got: object) -> WriterError:
        return WriterError(f"{self._where}: '{name}' {must}, got {got}")

    # -- fitting ---------------------------------------------------------------------------

    def _store(
        self, name: str, value: Array, filler: float | str, mask: Array | None = None
    ) -> None:
        self.stored[name] = _fitted(value, self._spec.time_dim, filler)
        if mask is not None:
            self.stored[mask_name(name)] = _fitted(mask, self._spec.time_dim, False)


def _fitted(value: Array, steps: int, filler: float | str) -> Array:
    """The first ``steps`` frames, or all of them and a tail of ``filler``."""
    if len(value) >= steps:
        return value[:steps]
    tail = np.full((steps - len(value), *value.shape[1:]), filler, dtype=value.dtype)
    return np.concatenate([value, tail])


def checked_steps(images: Any, spec: DatasetSpec, where: str) -> int:
    """Frames of a window, from its images."""
    shape = np.shape(images)
    if len(shape) != 4 or shape[0] < 1:
        size = spec.image_size
        raise WriterError(
            f"{where}: '{EYE_IMAGE}' must have shape (t, {IMAGE_CHANNELS}, {size}, {size}) with "
            f"at least one frame, got {shape}"
        )
    if not spec.is_video and shape[0] != 1:
        raise WriterError(
            f"{where}: a corpus of stills has one frame a sample, got {shape[0]}; add each frame "
            "as a sample of its own"
        )
    return int(shape[0])
