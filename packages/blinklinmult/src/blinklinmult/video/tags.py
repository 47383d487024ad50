"""Annotations in the form of EyeBlink8 (``.tag``): one line a frame, fields between colons.

``frame : blink : NF : LE_FC : LE_NV : RE_FC : RE_NV : F_X : F_Y : F_W : F_H : LE_LX : LE_LY :
LE_RX : LE_RY : RE_LX : RE_LY : RE_RX : RE_RY``, between the lines ``#start`` and ``#end``: number
of the blink (−1 none), N for a face not seen from the front, C for an eye fully closed, N for an
eye not visible, the box of the face, and the two corners of each eye.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from blinklinmult.data.names import INVALID_BLINK, NO_BLINK
from blinklinmult.errors import SourceVideoError
from omniloader._types import PathLike

FIELDS = 19
SIDES = ("left", "right")


@dataclass(frozen=True, kw_only=True)
class TagTrack:
    """The annotation of n frames.

    Args:
        blink_ids: Number of the blink, −1 none, −2 no annotation, ``(n,)`` int32.
        closed: Side to True where that eye is fully closed, ``(n,)``.
        visible: Side to True where that eye is annotated and to be seen, ``(n,)``.
        corners: Side to both corners of the eye in pixels, ``(n, 2, 2)``, x before y.
    """

    blink_ids: npt.NDArray[np.int32]
    closed: dict[str, npt.NDArray[np.bool_]]
    visible: dict[str, npt.NDArray[np.bool_]]
    corners: dict[str, npt.NDArray[np.float32]]


def read_tags(path: PathLike, frames: int) -> TagTrack:
    """Read the annotation of a video.

    Args:
        path: The ``.tag`` file.
        frames: Frames n of the video; what the file does not mention counts as not visible.

    Raises:
        SourceVideoError: If the file is missing or a line is not of that form.
    """
    track = TagTrack(
        blink_ids=np.full(frames, INVALID_BLINK, dtype=np.int32),
        closed={side: np.zeros(frames, dtype=np.bool_) for side in SIDES},
        visible={side: np.zeros(frames, dtype=np.bool_) for side in SIDES},
        corners={side: np.zeros((frames, 2, 2), dtype=np.float32) for side in SIDES},
    )
    for number, line in _rows(Path(path)):
        fields = [part.strip() for part in line.split(":")]
        if len(fields) < FIELDS:
            raise SourceVideoError(
                f"'{path}' line {number}: must have {FIELDS} fields between colons, got "
                f"{len(fields)}; is it an EyeBlink8 annotation?"
            )
        try:
            _fill(track, fields)
        except ValueError as error:
            raise SourceVideoError(f"'{path}' line {number}: {error}") from error
    return track


def _rows(path: Path) -> list[tuple[int, str]]:
    """Numbered lines between ``#start`` and ``#end``."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise SourceVideoError(f"'{path}': cannot be read: {error.strerror}") from error
    marks = [line.strip().lower() for line in lines]
    if "#start" not in marks:
        raise SourceVideoError(
            f"'{path}': has no line '#start'; is it an EyeBlink8 annotation (.tag)?"
        )
    start = marks.index("#start") + 1
    stop = marks.index("#end") if "#end" in marks else len(lines)
    return [(i + 1, lines[i]) for i in range(start, stop) if marks[i]]


def _fill(track: TagTrack, fields: list[str]) -> None:
    frame, blink = int(fields[0]), int(fields[1])
    if not 0 <= frame < len(track.blink_ids):
        raise ValueError(
            f"frame {frame} is not in the video of {len(track.blink_ids)} frames; is it the right "
            "video?"
        )
    track.blink_ids[frame] = blink if blink >= 0 else NO_BLINK
    points = np.array([float(part) for part in fields[11:FIELDS]], dtype=np.float32)
    for i, side in enumerate(SIDES):
        corners: npt.NDArray[Any] = points[4 * i : 4 * i + 4].reshape(2, 2)
        seen = fields[4 + 2 * i] != "N" and bool(np.ptp(corners, axis=0).any())
        track.closed[side][frame] = fields[3 + 2 * i] == "C"
        track.visible[side][frame] = seen
        track.corners[side][frame] = corners
