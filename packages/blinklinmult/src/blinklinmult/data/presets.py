"""The corpora as they are usually built, and where their files lie."""

from __future__ import annotations

from pathlib import Path

from blinklinmult.data.names import FEATURE_DIM, QUALITY_SIGNALS
from blinklinmult.data.spec import DatasetSpec
from omniloader._types import PathLike

PRESETS: dict[str, DatasetSpec] = {
    spec.name: spec
    for spec in (
        DatasetSpec(
            "talkingface",
            fps=25.0,
            feature_dim=FEATURE_DIM,
            has_blink_presence=True,
            has_eye_state=True,
            has_head_pose=True,
            has_blink_ids=True,
            quality_signals=QUALITY_SIGNALS,
        ),
        DatasetSpec(
            "rn15",
            fps=15.0,
            feature_dim=FEATURE_DIM,
            has_blink_presence=True,
            has_eye_state=True,
            has_head_pose=True,
            has_blink_ids=True,
            quality_signals=QUALITY_SIGNALS,
        ),
        DatasetSpec(
            "rn30",
            fps=30.0,
            feature_dim=FEATURE_DIM,
            has_blink_presence=True,
            has_eye_state=True,
            has_head_pose=True,
            has_blink_ids=True,
            quality_signals=QUALITY_SIGNALS,
        ),
        DatasetSpec("hust_lebw", fps=30.0, has_blink_presence=True, has_blink_ids=True),
        DatasetSpec("mpeblink", fps=24.0, has_blink_presence=True, has_blink_ids=True),
        DatasetSpec("cew", has_eye_state=True),
        DatasetSpec("mrl", has_eye_state=True, has_eye_side=False),
    )
}
"""One declaration a corpus; the video corpora that annotate events only have no ``eye_state``."""


def corpus_path(root: PathLike, name: str) -> Path:
    """Path of a corpus's file under the root of a run.

    Args:
        root: The run's root.
        name: The corpus.
    """
    return Path(root) / "data" / "processed" / name / f"{name}.h5"


def build_hint(name: str, root: PathLike, path: PathLike) -> str:
    """Which command builds a corpus, for messages.

    Args:
        name: The corpus.
        root: The run's root.
        path: The corpus's file.
    """
    synthetic = f"`blinklinmult synth --root {root} --corpora {name} --seconds 60`"
    if name == "talkingface":
        video = f"`blinklinmult build-talkingface --video VIDEO --tag TAG -o {path}`"
        return f"build it: {video}, or synthetic data: {synthetic}"
    return f"write it with blinklinmult's H5Writer, or synthetic data: {synthetic}"
