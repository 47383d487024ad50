"""Windows served one frame at a time, for models that look at single frames."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from blinklinmult.data.columns import (
    frame_of,
    frames_of,
    label_columns,
    lengths_of,
    read_columns,
    take,
)
from blinklinmult.data.keys import build_sample_id, parse_sample_id
from blinklinmult.data.names import (
    BLINK_PRESENCE_MASK,
    EYE_IMAGE_MASK,
    EYE_STATE,
    EYE_STATE_MASK,
    FRAME_GROUP,
    FRAME_VALUES,
    SAMPLE_KEY,
    TARGETS,
)
from blinklinmult.data.wrapper import SourceWrapper
from blinklinmult.errors import ConfigError, DataModuleError
from omniloader._types import Column, IntArray
from omniloader.masks import mask_name
from omniloader.utils.seeding import derive_keys, derive_seed

_TIMED = frozenset(
    name for value in (*FRAME_VALUES, *TARGETS) for name in (value, mask_name(value))
)

_MASKS = (EYE_IMAGE_MASK, EYE_STATE_MASK, BLINK_PRESENCE_MASK)


@dataclass(frozen=True)
class StillConfig:
    """How frames are chosen.

    Args:
        stride: Of the open frames of a window every so many-th is kept, from its first on;
            neighbours look alike.
        open_to_closed: Open frames kept for each closed one, when balancing.
        seed: Names which open frames are thinned out.

    Raises:
        ConfigError: If an option is not positive.
    """

    stride: int = 6
    open_to_closed: float = 1.0
    seed: int = 42

    def __post_init__(self) -> None:
        """Check both numbers."""
        if isinstance(self.stride, bool) or not isinstance(self.stride, int) or self.stride < 1:
            raise ConfigError(f"stride must be a whole number of at least 1, got {self.stride!r}")
        if not self.open_to_closed > 0:
            raise ConfigError(f"open_to_closed must be over 0, got {self.open_to_closed!r}")


class StillFramesDataset(SourceWrapper):
    """Serves single frames of a corpus's windows, with a time axis of length 1.

    Every closed frame is kept (``eye_state`` over 0.5), open ones are strided and, when balancing,
    thinned to the ratio. Frames whose image or label is masked are left out. The key's frame group
    becomes the frame's own number. Where a corpus has no ``eye_state``, the label is
    ``blink_presence``. Labels and masks are read once, at the start; images never.

    Args:
        dataset: A split of a corpus, in windows.
        config: How frames are chosen.
        name: Name of the corpus.
        balance: Thin open frames to ``open_to_closed``; for training.

    Raises:
        DataModuleError: If a corpus without ``eye_state`` is to be balanced, or the labels and
            masks of a window are not of one length.
    """

    def __init__(self, dataset: Any, config: StillConfig, name: str, balance: bool = True) -> None:
        super().__init__(dataset)
        self.config = config
        self._name = name
        self._windows, self._offsets = self._chosen(balance)

    @property
    def name(self) -> str:
        """Name of the corpus."""
        return self._name

    def __len__(self) -> int:
        return len(self._windows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """One frame.

        Raises:
            IndexError: If there is no such frame.
        """
        at = operator.index(index)
        if not -len(self) <= at < len(self):
            raise IndexError(f"the corpus holds {len(self)} frames, asked for index {at}")
        window, offset = int(self._windows[at]), int(self._offsets[at])
        sample = dict(self.dataset[window])
        for key in _TIMED & sample.keys():
            sample[key] = frame_of(key, sample[key], offset)
        return {**sample, **self._identity(self._key(window, sample.get(SAMPLE_KEY)), offset)}

    def read_batch(self, indices: IntArray | Sequence[int]) -> dict[str, Column]:
        """Columns of many frames; each window among them is read once."""
        at = np.asarray(indices, dtype=np.int64)
        offsets = self._offsets[at]
        windows, rows = np.unique(self._windows[at], return_inverse=True)
        columns = read_columns(self.dataset, windows)
        own = columns.get(SAMPLE_KEY)
        keys = [
            self._key(int(windows[row]), None if own is None else own[row])  # type: ignore[index]
            for row in rows
        ]
        out: dict[str, Column] = {
            key: frames_of(key, column, rows, offsets) if key in _TIMED else take(column, rows)
            for key, column in columns.items()
        }
        names = [self._identity(*pair) for pair in zip(keys, offsets.tolist(), strict=True)]
        for name in (SAMPLE_KEY, FRAME_GROUP):
            if all(names):
                out[name] = [identity[name] for identity in names]
        return out

    def sequence_lengths(self, key: str) -> IntArray:
        """1 for every frame; 0 where the corpus lacks the value."""
        lengths: IntArray = np.minimum(lengths_of(self.dataset, key)[self._windows], 1)
        return lengths

    # -- which frames ----------------------------------------------------------------------

    def _chosen(self, balance: bool) -> tuple[IntArray, IntArray]:
        """Windows and offsets of the frames to serve, in the order of the corpus."""
        columns = label_columns(self.dataset, [EYE_STATE, *_MASKS])
        state = columns[EYE_STATE]
        unlabelled = all(labels is None for labels in state)
        if balance and len(state) and unlabelled:
            raise DataModuleError(
                f"corpus '{self._name}': cannot be balanced, it has no '{EYE_STATE}'; serve it "
                "with balance=False"
            )
        windows, offsets, closed = [], [], []
        for i, labels in enumerate(state):
            masks = {name: columns[name][i] for name in _MASKS}
            if not unlabelled:  # then the label of a still is its eye state
                del masks[BLINK_PRESENCE_MASK]
            usable = self._usable(i, labels, masks)
            shut = (labels > 0.5) & usable if labels is not None else np.zeros_like(usable)
            strided = np.arange(len(usable)) % self.config.stride == 0
            kept = np.flatnonzero(shut | (usable & strided))
            windows.append(np.full(len(kept), i, dtype=np.int64))
            offsets.append(kept)
            closed.append(shut[kept])
        if not windows:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        frames = np.concatenate(windows), np.concatenate(offsets).astype(np.int64)
        if not balance:
            return frames
        kept = self._balanced(np.concatenate(closed))
        return frames[0][kept], frames[1][kept]

    def _usable(self, window: int, labels: Any, masks: Mapping[str, Any]) -> Any:
        """Which frames of a window have an image and, in a corpus with labels, a label."""
        given = {name: mask for name, mask in masks.items() if mask is not None}
        if labels is not None:
            given[EYE_STATE] = np.ones(len(labels), dtype=np.bool_)
        whose = f"corpus '{self._name}', window '{self._key(window, None) or window}'"
        if not given:
            raise DataModuleError(
                f"{whose}: must have '{EYE_IMAGE_MASK}' or '{EYE_STATE}' to be served frame by "
                "frame"
            )
        steps = {name: len(mask) for name, mask in given.items()}
        if len(set(steps.values())) > 1:
            raise DataModuleError(
                f"{whose}: labels and masks must have one entry a frame, got {steps}; build the "
                "file again"
            )
        usable: Any = np.logical_and.reduce([mask.astype(np.bool_) for mask in given.values()])
        return usable

    def _balanced(self, closed: np.ndarray[Any, np.dtype[np.bool_]]) -> IntArray:
        """Positions of all closed frames and of as many open ones as the ratio allows."""
        opened = np.flatnonzero(~closed)
        wanted = round(self.config.open_to_closed * int(closed.sum()))
        # A key a frame: which ones stay does not depend on how many there are to choose from.
        keys = derive_keys(derive_seed(self.config.seed, "stills", self._name), opened)
        thinned = opened[np.argsort(keys, kind="stable")[:wanted]]
        return np.sort(np.concatenate([np.flatnonzero(closed), thinned])).astype(np.int64)

    # -- what they are called --------------------------------------------------------------

    def _key(self, window: int, own: Any) -> str | None:
        if own is not None:
            return str(own)
        names = getattr(self.dataset, "sample_ids", None)
        return None if names is None else str(names[window])

    def _identity(self, key: str | None, offset: int) -> dict[str, Any]:
        """Key and frame group of one frame of the window ``key``."""
        if key is None:
            return {}
        video_id, group, side = parse_sample_id(key)
        group = frame_group_at(group, offset)
        return {SAMPLE_KEY: build_sample_id(video_id, group, side), FRAME_GROUP: group}

    @property
    def sample_ids(self) -> Sequence[str]:
        """Keys of the frames."""
        return _FrameNames(self)


def frame_group_at(group: str, offset: int) -> str:
    """The number of a frame: the window's first frame plus the offset, six digits.

    A group that is no number keeps its name; the offset follows it, if there is one.
    """
    if group.isdecimal():
        return f"{int(group) + offset:06d}"
    return f"{group}+{offset:06d}" if offset else group


class _FrameNames(Sequence[str]):
    """Keys of the frames of a dataset, made when asked for."""

    def __init__(self, frames: StillFramesDataset) -> None:
        self._frames = frames

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, index: Any) -> Any:
        frames = self._frames
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        window, offset = int(frames._windows[index]), int(frames._offsets[index])
        key = frames._key(window, None)
        return str(index) if key is None else frames._identity(key, offset)[SAMPLE_KEY]
