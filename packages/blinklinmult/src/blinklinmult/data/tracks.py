"""One eye over a whole recording, and how it is cut into windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from blinklinmult.data.names import NO_BLINK
from blinklinmult.data.writer import H5Writer
from blinklinmult.errors import WriterError

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class EyeTrack:
    """Everything known of one eye in n frames; the arguments are those of ``H5Writer.add``.

    Args:
        eye_images: Crops ``(n, 3, H, W)``.
        arrays: More arrays of n entries, by the keyword they are added under.
        signals: Quality signals ``(n,)`` by name.
        blink_ids: Number of each frame's blink ``(n,)``; None where nobody numbered them.
        store_ids: Whether the corpus stores ``blink_ids``.
    """

    eye_images: Array
    arrays: Mapping[str, Array] = field(default_factory=dict)
    signals: Mapping[str, Array] = field(default_factory=dict)
    blink_ids: Array | None = None
    store_ids: bool = True

    def window(self, start: int, stop: int) -> dict[str, Any]:
        """The keywords of ``H5Writer.add`` for the frames from ``start`` to before ``stop``."""
        cut = slice(start, stop)
        values: dict[str, Any] = {name: array[cut] for name, array in self.arrays.items()}
        values["eye_images"] = self.eye_images[cut]
        values["quality_signals"] = {name: array[cut] for name, array in self.signals.items()}
        if self.blink_ids is not None:
            values["blink_id"] = main_blink(self.blink_ids[cut])
            if self.store_ids:
                values["blink_ids"] = self.blink_ids[cut]
        return values


def main_blink(ids: Array) -> int:
    """The blink with the most frames in a window, the first of equals; −1 if there is none."""
    numbers, counts = np.unique(ids[ids >= 0], return_counts=True)
    return int(numbers[counts.argmax()]) if len(numbers) else NO_BLINK


def window_starts(frames: int, time_dim: int, step: int) -> range:
    """First frames of the windows that cover a recording; the last one may stick out.

    Args:
        frames: Frames of the recording.
        time_dim: Frames T of a window.
        step: Frames from one start to the next.
    """
    beyond = max(frames - time_dim, 0)
    return range(0, -(-beyond // step) * step + 1, step)


def add_recording(
    writer: H5Writer,
    subset: str,
    video_id: str,
    eyes: Mapping[str, EyeTrack],
    first_frame: int = 0,
) -> int:
    """Cut a recording into windows and add both eyes of each.

    In ``train`` windows overlap by half, so that a blink cut by one window lies whole in the
    next; elsewhere they do not overlap, so that each frame is scored once.

    Args:
        writer: Of the corpus.
        subset: Where the recording goes; all of it, or a person would be in two splits.
        video_id: Names the recording.
        eyes: Side to track; all of one length.
        first_frame: Number of the tracks' first frame in the recording.

    Returns:
        Number of samples added.
    """
    lengths = {side: len(track.eye_images) for side, track in eyes.items()}
    if len(set(lengths.values())) != 1:
        raise WriterError(
            f"corpus '{writer.spec.name}', recording '{video_id}': all eyes must have one number "
            f"of frames, got {lengths}"
        )
    frames, steps = next(iter(lengths.values())), writer.spec.time_dim
    starts = window_starts(frames, steps, max(steps // 2, 1) if subset == "train" else steps)
    for start in starts:
        for side, track in eyes.items():
            values = track.window(start, start + steps)
            writer.add(subset, video_id, f"{first_frame + start:06d}", side, **values)
    return len(starts) * len(eyes)
