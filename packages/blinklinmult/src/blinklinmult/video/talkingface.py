"""Build the TalkingFace corpus from its video and annotation."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from blinklinmult.data.names import (
    BLINK_PRESENCE,
    EYE_STATE,
    IMAGE_CHANNELS,
    IMAGE_SIZE,
    INVALID_BLINK,
    SUBSETS,
    WINDOW_SECONDS,
)
from blinklinmult.data.spec import DatasetSpec
from blinklinmult.data.tallies import Tallies
from blinklinmult.data.tracks import EyeTrack, add_recording
from blinklinmult.data.writer import H5Writer
from blinklinmult.errors import SourceVideoError
from blinklinmult.video.tags import SIDES, TagTrack, read_tags
from omniloader._types import PathLike
from omniloader.masks import mask_name

logger = logging.getLogger(__name__)

SHARES = (0.6, 0.2, 0.2)
"""Shares of the one recording that are train, valid and test, one after the other in time."""
CROP_SCALE = 1.5
"""Side of a crop over the distance of the eye's corners."""


def build_talkingface(
    video: PathLike,
    tag: PathLike,
    output: PathLike,
    image_size: int = IMAGE_SIZE,
    window_seconds: float = WINDOW_SECONDS,
) -> tuple[DatasetSpec, Tallies]:
    """Cut both eyes out of a video, by the annotated corners, and write a corpus file.

    The declaration of the corpus is written beside the file, as ``talkingface.yaml``.

    Args:
        video: The video.
        tag: Its EyeBlink8 annotation.
        output: The corpus file.
        image_size: Side of the crops in pixels.
        window_seconds: Length of a window in seconds.

    Returns:
        The declaration, and counts by subset.

    Raises:
        SourceVideoError: If the video or the annotation cannot be read.
    """
    fps, frames = _probe(video)
    tags = read_tags(tag, frames)
    spec = DatasetSpec(
        "talkingface",
        fps=fps,
        window_seconds=window_seconds,
        image_size=image_size,
        has_blink_presence=True,
        has_eye_state=True,
        has_blink_ids=True,
    )
    crops = _crops(video, tags, frames, image_size)
    config = {"video": Path(video).name, "tag": Path(tag).name, "shares": list(SHARES)}
    with H5Writer(spec, output, config_yaml=yaml.safe_dump(config)) as writer:
        for subset, start, stop in _parts(frames):
            eyes = {side: _track(crops[side], tags, side, start, stop) for side in SIDES}
            add_recording(writer, subset, Path(video).stem, eyes, first_frame=start)
    declared = {
        field.name: getattr(spec, field.name)
        for field in dataclasses.fields(spec)
        if getattr(spec, field.name) != field.default
    }
    text = yaml.safe_dump(declared, sort_keys=False)
    Path(output).with_name("talkingface.yaml").write_text(text, encoding="utf-8")
    return spec, writer.statistics


def _parts(frames: int) -> Iterator[tuple[str, int, int]]:
    """Subset, first frame and end of each part; parts without a frame are left out."""
    ends = np.round(np.cumsum(SHARES) * frames).astype(int).tolist()
    for subset, start, stop in zip(SUBSETS, [0, *ends[:-1]], ends, strict=True):
        if stop > start:
            yield subset, start, stop


def _track(
    crops: npt.NDArray[np.float16], tags: TagTrack, side: str, start: int, stop: int
) -> EyeTrack:
    cut = slice(start, stop)
    ids, seen = tags.blink_ids[cut], tags.visible[side][cut]
    known = ids != INVALID_BLINK
    return EyeTrack(
        eye_images=crops[cut],
        arrays={
            "eye_image_mask": seen,
            BLINK_PRESENCE: (ids >= 0).astype(np.float32),
            mask_name(BLINK_PRESENCE): known,
            EYE_STATE: tags.closed[side][cut].astype(np.float32),
            mask_name(EYE_STATE): known & seen,
        },
        blink_ids=ids,
    )


def _crops(
    video: PathLike, tags: TagTrack, frames: int, size: int
) -> dict[str, npt.NDArray[np.float16]]:
    """Crops of both eyes of all frames ``(n, 3, size, size)``; zeros where an eye is not seen."""
    shape = (frames, IMAGE_CHANNELS, size, size)
    crops = {side: np.zeros(shape, dtype=np.float16) for side in SIDES}
    for number, image in enumerate(_frames(video)):
        for side in SIDES:
            if number < frames and tags.visible[side][number]:
                crop = _crop(image, tags.corners[side][number], size)
                crops[side][number] = crop.transpose(2, 0, 1) / 255
    return crops


def _crop(image: npt.NDArray[Any], corners: npt.NDArray[np.float32], size: int) -> Any:
    """A square around the middle of an eye; what lies outside of the picture repeats its edge."""
    cv2 = _opencv()
    centre = corners.mean(axis=0)
    half = max(CROP_SCALE * float(np.hypot(*(corners[1] - corners[0]))) / 2, 1.0)
    scale = size / (2 * half)
    # The matrix takes pixels of the picture to pixels of the crop.
    matrix = np.array(
        [[scale, 0, size / 2 - scale * centre[0]], [0, scale, size / 2 - scale * centre[1]]]
    )
    if scale < 1:
        # Without blurring first, a smaller crop would alias.
        image = cv2.GaussianBlur(image, (0, 0), 0.5 / scale)
    return cv2.warpAffine(
        image, matrix, (size, size), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )


def _probe(video: PathLike) -> tuple[float, int]:
    """Frames a second, and the number of frames that can be decoded."""
    cv2 = _opencv()
    capture = _opened(video)
    fps = float(capture.get(cv2.CAP_PROP_FPS))
    capture.release()
    # What the container claims is often wrong by a few frames: count.
    frames = sum(1 for _ in _frames(video))
    if frames == 0 or not fps > 0:
        raise SourceVideoError(f"'{video}': must have frames and a frame rate, got {frames}, {fps}")
    return fps, frames


def _frames(video: PathLike) -> Iterator[npt.NDArray[Any]]:
    """RGB frames ``(H, W, 3)`` uint8."""
    cv2 = _opencv()
    capture = _opened(video)
    try:
        while True:
            there, image = capture.read()
            if not there:
                return
            yield cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    finally:
        capture.release()


def _opened(video: PathLike) -> Any:
    if not Path(video).is_file():
        raise SourceVideoError(f"'{video}': there is no such video")
    capture = _opencv().VideoCapture(str(video))
    if not capture.isOpened():
        raise SourceVideoError(f"'{video}': OpenCV cannot read this video")
    return capture


def _opencv() -> Any:
    try:
        import cv2
    except ImportError as error:
        raise SourceVideoError(
            "building a corpus from a video needs OpenCV; pip install 'blinklinmult[video]'"
        ) from error
    return cv2
