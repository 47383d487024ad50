"""Root attributes of a corpus file: written from a declaration, checked against one."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np

from blinklinmult.data.names import ABSENT, IMAGE_CHANNELS, SCHEMA_VERSION, SUBSETS
from blinklinmult.data.spec import DatasetSpec

Attributes = dict[str, Any]

DAMAGE = (OSError, KeyError, RuntimeError)
"""What h5py raises of a damaged file, depending on which part of it is."""


def file_attributes(spec: DatasetSpec, config_yaml: str, git_sha: str) -> Attributes:
    """The attributes a file of this corpus carries, the time of writing included.

    Args:
        spec: The corpus.
        config_yaml: The config it is built with, as text.
        git_sha: The commit it is built with.
    """
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    return {
        "created_utc": now,
        "git_sha": git_sha,
        "builder_config_yaml": config_yaml,
        **declared_attributes(spec),
    }


def declared_attributes(spec: DatasetSpec) -> Attributes:
    """The attributes that follow from the declaration alone."""
    fps = spec.fps if spec.fps is not None else ABSENT
    seconds = spec.window_seconds if spec.is_video else None
    return {
        "schema_version": SCHEMA_VERSION,
        "dataset": spec.name,
        "time_dim": spec.time_dim,
        "image_size": spec.image_size,
        "image_channels": IMAGE_CHANNELS,
        "feature_dim": spec.feature_dim if spec.feature_dim is not None else ABSENT,
        "fps": float(fps),
        "window_seconds": float(seconds if seconds is not None else ABSENT),
        "has_blink_presence": spec.has_blink_presence,
        "has_eye_state": spec.has_eye_state,
        "has_head_pose": spec.has_head_pose,
        "has_blink_ids": spec.has_blink_ids,
        "quality_signals": ",".join(spec.quality_signals),
    }


def read_attributes(file: h5py.File) -> Attributes:
    """The root attributes as plain Python values."""
    return {str(name): _plain(value) for name, value in file.attrs.items()}


def splits_of(file: h5py.File) -> dict[str, Any]:
    """What stands under the names of the splits that a file has, in the usual order."""
    # By iterating: h5py's `get` takes damage for absence.
    found = {name: file[name] for name in file if name in SUBSETS}
    return {name: found[name] for name in SUBSETS if name in found}


def mismatches(attributes: Mapping[str, Any], spec: DatasetSpec) -> list[str]:
    """How a file differs from a declaration, one finding each; empty if it fits.

    A value that the file has and the declaration does not use is no mismatch: it never reaches
    a batch. An attribute that the file lacks is one.
    """
    found = []
    for name, wanted in declared_attributes(spec).items():
        if name not in attributes:
            found.append(f"the file lacks the attribute '{name}'")
        elif not _is_fit(name, attributes[name], wanted):
            found.append(f"{name} is {attributes[name]!r} in the file, {wanted!r} in the spec")
    return found


def _is_fit(name: str, held: Any, wanted: Any) -> bool:
    try:
        return _fits(name, held, wanted)
    except (TypeError, ValueError):  # neither a number nor a list of names
        return False


def _fits(name: str, held: Any, wanted: Any) -> bool:
    if name.startswith("has_"):
        return bool(held) or not wanted
    if name == "quality_signals":
        return set(_signals(wanted)) <= set(_signals(held))
    if name == "feature_dim" and wanted == ABSENT:
        return True
    if name == "window_seconds" and wanted == ABSENT:
        return True
    if isinstance(wanted, str):
        return bool(held == wanted)
    return bool(np.isclose(float(held), float(wanted), rtol=1e-9, atol=1e-6))


def _signals(value: Any) -> list[str]:
    """Names of signals out of a text (commas or JSON) or an array of texts."""
    if isinstance(value, str):
        text = value.strip()
        parts = json.loads(text) if text.startswith("[") else text.split(",")
    else:
        parts = list(value)
    return [name for name in (str(part).strip() for part in parts) if name]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, h5py.Empty):  # how HDF5 writes an empty text or list
        return ""
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    return value.item() if isinstance(value, np.generic) else value
