"""What a corpus holds: the one declaration it is written and read under."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from blinklinmult.data.names import (
    BLINK_IDS,
    BLINK_PRESENCE,
    DATASETS,
    EYE_FEATURE,
    EYE_IMAGE,
    EYE_STATE,
    HEAD_POSE,
    IMAGE_SIZE,
    QUALITY_SIGNALS,
    WINDOW_SECONDS,
)
from blinklinmult.errors import SchemaError
from omniloader.config.problems import did_you_mean, unknown_key


def frames_for(fps: float, window_seconds: float) -> int:
    """Frames in a window: ``floor(fps · seconds + 0.5)``, at least 1.

    Half a frame is rounded up: 25 fps × 0.5 s are 13 frames (``round`` would say 12).

    Args:
        fps: Frames a second.
        window_seconds: Length of the window in seconds.

    Raises:
        SchemaError: If one of them is not a positive, finite number.
    """
    for label, value in (("fps", fps), ("window_seconds", window_seconds)):
        if not _is_positive(value):
            raise SchemaError(f"{label} must be a positive number, got {value!r}")
    return max(1, math.floor(fps * window_seconds + 0.5))


@dataclass(frozen=True)
class DatasetSpec:
    """Declares one corpus.

    Args:
        name: One of ``DATASETS``.
        fps: Frames a second of its videos; None for stills.
        window_seconds: Length of a window in seconds; means nothing for stills.
        image_size: Side of the square eye crops in pixels.
        feature_dim: Width of the descriptor ``eye_feature``; None: it has none.
        has_blink_presence: Whether frames say if there is a blink.
        has_eye_state: Whether frames say if the eye is closed.
        has_eye_side: Whether samples say which eye they show.
        has_head_pose: Whether frames have yaw, pitch and roll.
        has_blink_ids: Whether frames have the number of their blink.
        quality_signals: Which of ``QUALITY_SIGNALS`` frames have.

    Raises:
        SchemaError: If no corpus can be like this, naming the corpus.
    """

    name: str
    fps: float | None = None
    window_seconds: float | None = WINDOW_SECONDS
    image_size: int = IMAGE_SIZE
    feature_dim: int | None = None
    has_blink_presence: bool = False
    has_eye_state: bool = False
    has_eye_side: bool = True
    has_head_pose: bool = False
    has_blink_ids: bool = False
    quality_signals: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check each field, then what they say together."""
        if self.name not in DATASETS:
            near = did_you_mean(str(self.name), DATASETS)
            raise SchemaError(f"unknown corpus {self.name!r}{near}; known: {', '.join(DATASETS)}")
        self._check_numbers()
        self._check_flags()
        self._check_signals()
        if not (self.has_blink_presence or self.has_eye_state):
            raise self._error(
                "must annotate at least one target; set has_blink_presence or has_eye_state"
            )
        if self.has_blink_presence and self.fps is None:
            raise self._error("has blink presence, so it must have fps: a still shows no blink")
        if self.fps is not None and self.window_seconds is None:
            raise self._error(
                f"is video (fps={self.fps:g}), so window_seconds must be a positive number, "
                "got None"
            )

    def _check_numbers(self) -> None:
        for label in ("fps", "window_seconds"):
            value = getattr(self, label)
            if value is not None and not _is_positive(value):
                raise self._error(f"{label} must be a positive number or None, got {value!r}")
        for label, optional in (("image_size", False), ("feature_dim", True)):
            value = getattr(self, label)
            if optional and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise self._error(f"{label} must be a whole number of at least 1, got {value!r}")

    def _check_flags(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name.startswith("has_") and not isinstance(value, bool):
                raise self._error(f"{field.name} must be True or False, got {value!r}")

    def _check_signals(self) -> None:
        given = self.quality_signals
        listed = isinstance(given, Iterable) and not isinstance(given, str)
        names = tuple(given) if listed else ()
        if not listed or any(name not in QUALITY_SIGNALS for name in names):
            raise self._error(
                f"quality_signals must be a list of {', '.join(QUALITY_SIGNALS)}, got {given!r}"
            )
        # In the order of the vocabulary, so that two corpora declare them alike.
        ordered = tuple(signal for signal in QUALITY_SIGNALS if signal in names)
        object.__setattr__(self, "quality_signals", ordered)

    def _error(self, problem: str) -> SchemaError:
        return SchemaError(f"corpus '{self.name}': {problem}")

    @property
    def is_video(self) -> bool:
        """Whether its samples are windows of video."""
        return self.fps is not None

    @property
    def time_dim(self) -> int:
        """Frames T in a window; 1 for stills."""
        if self.fps is None or self.window_seconds is None:
            return 1
        return frames_for(self.fps, self.window_seconds)

    @property
    def has_eye_feature(self) -> bool:
        """Whether frames have a descriptor."""
        return self.feature_dim is not None

    @property
    def has_quality_signals(self) -> bool:
        """Whether frames have any quality signal."""
        return bool(self.quality_signals)

    @property
    def feature_keys(self) -> tuple[str, ...]:
        """Names of its features, in the order of a schema."""
        return (
            EYE_IMAGE,
            *([EYE_FEATURE] if self.has_eye_feature else []),
            *([HEAD_POSE] if self.has_head_pose else []),
            *self.quality_signals,
            *([BLINK_IDS] if self.has_blink_ids else []),
        )

    @property
    def target_keys(self) -> tuple[str, ...]:
        """Names of its targets, in the order of a schema."""
        presence = [BLINK_PRESENCE] if self.has_blink_presence else []
        return (*presence, *([EYE_STATE] if self.has_eye_state else []))

    def with_window(self, seconds: float | None) -> Self:
        """The same corpus in windows of another length.

        Args:
            seconds: Length in seconds. None, or a corpus of stills: unchanged.
        """
        if seconds is None or not self.is_video:
            return self
        return dataclasses.replace(self, window_seconds=seconds)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """A declaration from plain values, as a YAML file gives them.

        Raises:
            SchemaError: If a key is unknown, naming the nearest, or a value cannot be used.
        """
        if not isinstance(data, Mapping):
            raise SchemaError(f"a corpus must be declared by keys and values, got {data!r}")
        whose = f"corpus '{data.get('name', '?')}'"
        known = [field.name for field in dataclasses.fields(cls)]
        for key in data:
            if key not in known:
                raise SchemaError(f"{whose}: '{key}': {unknown_key(str(key), known)}")
        if "name" not in data:
            raise SchemaError(f"{whose}: 'name' is required; known: {', '.join(DATASETS)}")
        return cls(**data)


def _is_positive(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value > 0
