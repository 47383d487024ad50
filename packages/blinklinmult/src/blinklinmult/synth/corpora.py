"""Write synthetic corpora, and the configs that go with them, under the root of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from blinklinmult.data.atomic import replacing
from blinklinmult.data.names import BLINK_PRESENCE, EYE_STATE, HEAD_POSE
from blinklinmult.data.presets import PRESETS, corpus_path
from blinklinmult.data.spec import DatasetSpec
from blinklinmult.data.tallies import Tallies
from blinklinmult.data.tracks import EyeTrack, add_recording
from blinklinmult.data.writer import H5Writer
from blinklinmult.errors import SchemaError
from blinklinmult.synth.lids import LidTrack, lid_track, still_track
from blinklinmult.synth.render import Face, draw_eyes
from omniloader._types import PathLike
from omniloader.config.problems import unknown_name
from omniloader.masks import mask_name
from omniloader.utils.seeding import derive_seed

RECORDINGS = (("train", 0.2), ("train", 0.2), ("train", 0.2), ("valid", 0.2), ("test", 0.2))
"""Split and share of the seconds of each recording; each is another person."""
STILLS_PER_SECOND = 2


def synth_root(
    root: PathLike, corpora: Sequence[str], seconds: float, seed: int = 42
) -> dict[str, Tallies]:
    """Write corpora under ``data/processed`` and their declarations under ``configs``.

    Args:
        root: The run's root.
        corpora: Names of corpora.
        seconds: Seconds of video each corpus gets; a corpus of stills gets two images a second.
        seed: Everything is drawn from it.

    Returns:
        Counts by corpus and subset.

    Raises:
        SchemaError: If a corpus is unknown.
    """
    for name in corpora:
        if name not in PRESETS:
            raise SchemaError(unknown_name("corpus", name, PRESETS))
    tallies = {}
    for name in corpora:
        tallies[name] = synth_corpus(PRESETS[name], corpus_path(root, name), seconds, seed)
        _write_yaml(Path(root) / "configs" / f"{name}.yaml", _plain(PRESETS[name]))
    data = {"datasets": list(corpora), "batch_size": 16, "num_workers": 2}
    _write_yaml(Path(root) / "configs" / "data.yaml", data)
    return tallies


def synth_corpus(spec: DatasetSpec, path: PathLike, seconds: float, seed: int = 42) -> Tallies:
    """Write one corpus in five recordings, three of them for training.

    Args:
        spec: The corpus, as :data:`PRESETS` or the caller declares it.
        path: The file.
        seconds: Seconds of video, or halves of the number of stills.
        seed: Everything is drawn from it.

    Returns:
        Counts by subset.
    """
    if not seconds > 0:
        raise SchemaError(f"seconds must be a positive number, got {seconds!r}")
    text = yaml.safe_dump({"synthetic": True, "seconds": seconds, "seed": seed})
    with H5Writer(spec, path, config_yaml=text) as writer:
        for number, (subset, share) in enumerate(RECORDINGS):
            rng = np.random.default_rng(derive_seed(seed, "synth", spec.name, number))
            rate = spec.fps if spec.fps is not None else STILLS_PER_SECOND
            frames = max(round(seconds * share * rate), 1)
            eyes = _eyes(spec, frames, rng)
            add_recording(writer, subset, f"{spec.name}-{number:02d}", eyes)
    return writer.statistics


def _eyes(spec: DatasetSpec, frames: int, rng: np.random.Generator) -> dict[str, EyeTrack]:
    if spec.fps is None:
        lids, faces = still_track(frames, rng), [Face.draw(rng) for _ in range(frames)]
    else:
        lids, faces = lid_track(frames, spec.fps, rng), [Face.draw(rng)]
    sides = ("left", "right") if spec.has_eye_side else ("unknown",)
    return {side: _track(spec, faces, lids, side, rng) for side in sides}


def _track(
    spec: DatasetSpec, faces: list[Face], lids: LidTrack, side: str, rng: np.random.Generator
) -> EyeTrack:
    parts = np.array_split(lids.openness, len(faces))
    images = np.concatenate(
        [
            draw_eyes(face, part, spec.image_size, rng, mirrored=side == "right")
            for face, part in zip(faces, parts, strict=True)
        ]
    )
    images[~lids.readable] = 0
    frames = len(images)
    arrays: dict[str, npt.NDArray[Any]] = {"eye_image_mask": lids.readable}
    for target, labels in ((BLINK_PRESENCE, lids.presence), (EYE_STATE, lids.closed)):
        if target in spec.target_keys:
            arrays |= {target: labels, mask_name(target): lids.readable}
    if spec.feature_dim is not None:
        # The first numbers follow the lids, as a descriptor of a contour would.
        features = rng.normal(0, 1, (frames, spec.feature_dim)).astype(np.float32)
        features[:, :8] = features[:, :8] * 0.1 + lids.openness[:, None]
        arrays |= {"eye_features": features, "eye_feature_mask": lids.readable}
    if spec.has_head_pose:
        turns = np.cumsum(rng.normal(0, 0.3, (frames, 3)), axis=0)
        arrays[HEAD_POSE] = turns.astype(np.float32)
    signals = {name: rng.uniform(0, 1, frames) for name in spec.quality_signals}
    return EyeTrack(
        eye_images=images,
        arrays=arrays,
        signals=signals,
        blink_ids=lids.ids,
        store_ids=spec.has_blink_ids,
    )


def _plain(spec: DatasetSpec) -> dict[str, Any]:
    """The declaration as YAML holds it, without what is at its default."""
    values = {}
    for field in dataclasses.fields(spec):
        value = getattr(spec, field.name)
        if value != field.default:
            values[field.name] = list(value) if isinstance(value, tuple) else value
    return values


def _write_yaml(path: Path, values: dict[str, Any]) -> None:
    with replacing(path) as temporary:
        temporary.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
