"""When synthetic eyes blink: openness of the lids, labels and numbers of blinks per frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from blinklinmult.data.names import INVALID_BLINK, NO_BLINK

CLOSED = 0.3
"""An eye less open than this counts as closed."""


@dataclass(frozen=True, kw_only=True)
class LidTrack:
    """What the lids do in n frames.

    Args:
        openness: ``(n,)`` in [0, 1].
        presence: 1.0 during a blink, ``(n,)``.
        closed: 1.0 while the eye is closed, ``(n,)``.
        ids: Number of the blink, −1 none, −2 unreadable, ``(n,)`` int32.
        readable: False where the face was lost, ``(n,)``.
    """

    openness: npt.NDArray[np.float32]
    presence: npt.NDArray[np.float32]
    closed: npt.NDArray[np.float32]
    ids: npt.NDArray[np.int32]
    readable: npt.NDArray[np.bool_]


def lid_track(frames: int, fps: float, rng: np.random.Generator) -> LidTrack:
    """Blinks of 0.2 to 0.4 s about every two seconds, and now and then a frame nobody could read.

    Args:
        frames: Number of frames n.
        fps: Frames a second.
        rng: Draws all of it.
    """
    time = np.arange(frames) / fps
    openness = np.clip(0.92 + 0.05 * np.sin(time * rng.uniform(0.5, 1.5)), 0, 1)
    ids = np.full(frames, NO_BLINK, dtype=np.int32)
    centre, number = rng.uniform(0.4, 1.2), 0
    while centre < frames / fps:
        half = rng.uniform(0.1, 0.2)
        inside = np.abs(time - centre) < half
        dip = 0.5 + 0.5 * np.cos(np.pi * (time - centre) / half)
        openness = np.where(inside, openness * (1 - dip), openness)
        if inside.any():
            ids[inside] = number
            number += 1
        centre += rng.uniform(1.2, 2.8)
    presence = (ids >= 0).astype(np.float32)
    readable = rng.random(frames) >= 0.01
    ids[~readable] = INVALID_BLINK
    return LidTrack(
        openness=openness.astype(np.float32),
        presence=presence,
        closed=(openness < CLOSED).astype(np.float32),
        ids=ids,
        readable=readable,
    )


def still_track(frames: int, rng: np.random.Generator) -> LidTrack:
    """Stills that have nothing to do with each other, half of them closed."""
    closed = rng.random(frames) < 0.5
    openness = np.where(closed, rng.uniform(0, 0.2, frames), rng.uniform(0.5, 1.0, frames))
    return LidTrack(
        openness=openness.astype(np.float32),
        presence=np.zeros(frames, dtype=np.float32),
        closed=closed.astype(np.float32),
        ids=np.full(frames, NO_BLINK, dtype=np.int32),
        readable=np.ones(frames, dtype=np.bool_),
    )
