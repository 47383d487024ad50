"""A contact sheet: random windows as rows of frames, with labels as bars below them."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from blinklinmult.data.atomic import replacing
from blinklinmult.data.names import BLINK_PRESENCE, EYE_IMAGE, EYE_STATE, SUBSETS
from blinklinmult.errors import DataModuleError
from omniloader.masks import mask_name
from omniloader.utils.seeding import derive_keys, derive_seed

Picture = npt.NDArray[np.uint8]

BAR, GAP = 5, 2
"""Height of a bar and space between rows, in pixels."""

_COLOURS = {BLINK_PRESENCE: (220, 40, 40), EYE_STATE: (40, 90, 230)}
_OFF, _MASKED, _PAPER = 235, 140, 255


def write_sheet(path: Path, output: Path, windows: int, seed: int) -> list[str]:
    """Draw random windows of a corpus file.

    Args:
        path: The corpus file.
        output: The PNG file.
        windows: Number of windows.
        seed: Names which.

    Returns:
        ``<subset>/<key>`` of each row, from top to bottom.
    """
    with h5py.File(path, "r") as file:
        names = [f"{subset}/{key}" for subset in SUBSETS for key in file.get(subset, {})]
        if not names:
            raise DataModuleError(f"'{path}': has no sample to draw")
        keys = derive_keys(derive_seed(seed, "sheet"), np.arange(len(names)))
        chosen = [names[i] for i in sorted(np.argsort(keys)[:windows].tolist())]
        strips = [_strip(file[name]) for name in chosen]
    width = max(strip.shape[1] for strip in strips)
    sheet = np.concatenate([_on_paper(strip, width) for strip in strips])
    with replacing(output) as temporary:
        temporary.write_bytes(png_bytes(sheet))
    return chosen


def _strip(sample: h5py.Group) -> Picture:
    """One window: frames side by side ``(H + bars, T·W, 3)``."""
    images = (sample[EYE_IMAGE][()].astype(np.float32).clip(0, 1) * 255).round().astype(np.uint8)
    seen = sample[mask_name(EYE_IMAGE)][()].astype(np.bool_)
    images[~seen] //= 3
    frames, _, height, width = images.shape
    row = images.transpose(2, 0, 3, 1).reshape(height, frames * width, 3)
    bars = [_bar(sample, target, width) for target in _COLOURS if target in sample]
    return np.concatenate([row, *bars])


def _bar(sample: h5py.Group, target: str, width: int) -> Picture:
    labels, real = sample[target][()], sample[mask_name(target)][()].astype(np.bool_)
    colours = np.full((len(labels), 3), _OFF, dtype=np.uint8)
    colours[real & (labels > 0.5)] = _COLOURS[target]
    colours[~real] = _MASKED
    line = np.repeat(colours, width, axis=0)[None]
    return np.repeat(line, BAR, axis=0)


def _on_paper(strip: Picture, width: int) -> Picture:
    paper = np.full((strip.shape[0] + GAP, width, 3), _PAPER, dtype=np.uint8)
    paper[: strip.shape[0], : strip.shape[1]] = strip
    return paper


def png_bytes(picture: Any) -> bytes:
    """An RGB picture as a PNG file (ISO/IEC 15948), every line unfiltered.

    Args:
        picture: ``(H, W, 3)`` uint8.
    """
    height, width, _ = picture.shape
    lines = np.zeros((height, 1 + width * 3), dtype=np.uint8)
    lines[:, 1:] = picture.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_part(kind, data) for kind, data in parts)


def _part(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)
