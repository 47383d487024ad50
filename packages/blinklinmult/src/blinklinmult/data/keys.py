"""Names of samples: ``<video_id>|<frame_group>|<eye_side>``."""

from __future__ import annotations

from typing import NamedTuple

from blinklinmult.data.names import EYE_SIDES
from blinklinmult.errors import SchemaError

SEPARATOR = "|"


class SampleId(NamedTuple):
    """The three parts of a sample's key."""

    video_id: str
    frame_group: str
    eye_side: str


def build_sample_id(video_id: str, frame_group: str, eye_side: str) -> str:
    """The key of one eye over one window.

    Args:
        video_id: Names the recording.
        frame_group: Names the window in it, the same for both eyes; usually its first frame,
            zero-padded.
        eye_side: ``left``, ``right`` or ``unknown``.

    Raises:
        SchemaError: If a part is empty, holds a ``|`` or ``/``, or is no side of a face.
    """
    for label, part in (("video_id", video_id), ("frame_group", frame_group)):
        # HDF5 would read a slash as a path, and the sample would become a tree of groups.
        if not isinstance(part, str) or not part or SEPARATOR in part or "/" in part:
            raise SchemaError(
                f"sample key: {label} must be a text without '{SEPARATOR}' and '/', got {part!r}; "
                "replace these characters"
            )
    if eye_side not in EYE_SIDES:
        raise SchemaError(
            f"sample key: eye_side must be one of {', '.join(EYE_SIDES)}, got {eye_side!r}"
        )
    return SEPARATOR.join((video_id, frame_group, eye_side))


def parse_sample_id(key: str) -> SampleId:
    """Take a key apart; the inverse of :func:`build_sample_id`.

    Raises:
        SchemaError: If the key has not three non-empty parts, the last a side of a face.
    """
    parts = key.split(SEPARATOR)
    if len(parts) != 3 or not all(parts) or parts[2] not in EYE_SIDES:
        raise SchemaError(
            f"sample key '{key}' must be '<video_id>|<frame_group>|<eye_side>' with eye_side one "
            f"of {', '.join(EYE_SIDES)}; build keys by build_sample_id"
        )
    return SampleId(*parts)
