"""Write a corpus file: checked, fitted to the window, complete or absent."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h5py
import numpy as np
import numpy.typing as npt

from blinklinmult.data.atomic import replacing
from blinklinmult.data.attributes import file_attributes
from blinklinmult.data.keys import build_sample_id
from blinklinmult.data.names import (
    BLINK_ID,
    BLINK_PRESENCE,
    EYE_SIDE,
    EYE_STATE,
    FRAME_GROUP,
    NO_BLINK,
    SAMPLE_KEY,
    SOURCE_KEY,
    SUBSETS,
    VIDEO_ID,
)
from blinklinmult.data.spec import DatasetSpec
from blinklinmult.data.tallies import SplitTally, Tallies, tallies_to_json
from blinklinmult.data.window import WindowFitter, checked_steps
from blinklinmult.errors import SchemaError, WriterError
from omniloader._types import PathLike

COMPRESSION = {"compression": "gzip", "compression_opts": 4, "shuffle": True}
STATISTICS = "statistics"
"""Root attribute with the counts of each split, as JSON."""


class H5Writer:
    """Writes one corpus file of schema version 3.

    Use it as a context manager. The file takes its name when the block ends without an error;
    after an error, or in a killed run, there is no ``.h5`` of that name::

        with H5Writer(spec, "data/processed/rn30/rn30.h5") as writer:
            writer.add("train", "clip-1", "000000", "left", images, blink_presence=labels)

    Args:
        spec: The corpus; decides what a sample has to have.
        h5_path: The file; an old one of this name is replaced.
        config_yaml: The config it is built with, kept in the file.
        git_sha: The commit it is built with, kept in the file.
        extra_attrs: More root attributes.

    Raises:
        WriterError: If an extra attribute has the name of one that every file carries.
    """

    def __init__(
        self,
        spec: DatasetSpec,
        h5_path: PathLike,
        config_yaml: str = "",
        git_sha: str = "unknown",
        extra_attrs: Mapping[str, Any] | None = None,
    ) -> None:
        self.spec = spec
        self.path = Path(h5_path)
        self.statistics: Tallies = {subset: SplitTally() for subset in SUBSETS}
        own = file_attributes(spec, config_yaml, git_sha)
        for name in extra_attrs or {}:
            if name in own or name == STATISTICS:
                raise WriterError(
                    f"corpus '{spec.name}': extra_attrs must not hold '{name}', which every file "
                    "carries; choose another name"
                )
        self._attributes = {**own, **(extra_attrs or {})}
        self._open: ExitStack | None = None
        self._file: h5py.File | None = None

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            temporary = undo.enter_context(replacing(self.path))
            self._file = undo.enter_context(h5py.File(temporary, "w"))
            self._file.attrs.update(self._attributes)
            for subset in SUBSETS:
                self._file.create_group(subset)
            self._open = undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        file, self._file = self._file, None
        undo, self._open = self._open, None
        if file is None or undo is None:
            return
        if error is None:
            file.attrs[STATISTICS] = tallies_to_json(self.statistics)
        undo.__exit__(kind, error, trace)

    def add(
        self,
        subset: str,
        video_id: str,
        frame_group: str,
        eye_side: str,
        eye_images: npt.ArrayLike,
        *,
        eye_image_mask: npt.ArrayLike | None = None,
        blink_presence: npt.ArrayLike | None = None,
        blink_presence_mask: npt.ArrayLike | None = None,
        eye_state: npt.ArrayLike | None = None,
        eye_state_mask: npt.ArrayLike | None = None,
        eye_features: npt.ArrayLike | None = None,
        eye_feature_mask: npt.ArrayLike | None = None,
        head_pose: npt.ArrayLike | None = None,
        quality_signals: Mapping[str, npt.ArrayLike] | None = None,
        blink_ids: npt.ArrayLike | None = None,
        blink_id: int = NO_BLINK,
        quality: Mapping[str, npt.ArrayLike] | None = None,
    ) -> str:
        """Add one eye over one window of t frames, cropped or padded to the corpus's T.

        A value must be given exactly when the corpus declares it. A mask that is not given is
        all True.

        Args:
            subset: ``train``, ``valid`` or ``test``.
            video_id: Names the recording.
            frame_group: Names the window in it, the same for both eyes.
            eye_side: ``left``, ``right`` or ``unknown``.
            eye_images: RGB crops ``(t, 3, H, W)`` in [0, 1], or uint8.
            eye_image_mask: Bool ``(t,)``.
            blink_presence: Labels ``(t,)`` in [0, 1]; what is masked may hold anything.
            blink_presence_mask: Bool ``(t,)``.
            eye_state: Labels ``(t,)`` in [0, 1], 1 = closed.
            eye_state_mask: Bool ``(t,)``.
            eye_features: Descriptors ``(t, F)``.
            eye_feature_mask: Bool ``(t,)``.
            head_pose: Yaw, pitch, roll ``(t, 3)`` in degrees.
            quality_signals: Name to values ``(t,)`` in [0, 1].
            blink_ids: Number of each frame's blink ``(t,)``; −1 none, −2 never readable.
            blink_id: The blink this window belongs to; −1 none.
            quality: Diagnostics by name.

        Returns:
            The sample's key.

        Raises:
            WriterError: If the window does not fit the corpus, or its key is already there.
        """
        key = self._new_key(subset, video_id, frame_group, eye_side)
        where = f"corpus '{self.spec.name}', {subset} sample '{key}'"
        fit = WindowFitter(self.spec, where, checked_steps(eye_images, self.spec, where))
        fit.images(eye_images, eye_image_mask)
        fit.features(eye_features, eye_feature_mask)
        fit.target(BLINK_PRESENCE, blink_presence, blink_presence_mask)
        fit.target(EYE_STATE, eye_state, eye_state_mask)
        fit.head_pose(head_pose)
        fit.signals(quality_signals or {})
        fit.blink_ids(blink_ids)
        fit.diagnostics(quality or {})
        parts = (key, self.spec.name, video_id, frame_group, eye_side)
        texts = (SAMPLE_KEY, SOURCE_KEY, VIDEO_ID, FRAME_GROUP, EYE_SIDE)
        group = self._opened()[subset].create_group(key)
        for name, value in zip(texts, parts, strict=True):
            group.create_dataset(name, data=value)
        group.create_dataset(BLINK_ID, data=np.int64(blink_id))
        for name, array in fit.stored.items():
            store_array(group, name, array)
        self.statistics[subset].count(fit.stored)
        return key

    def copy_from(self, file: h5py.File, tallies: Tallies) -> None:
        """Take over all samples of another file of this corpus as they are stored.

        Args:
            file: The other file, open.
            tallies: Its counts.

        Raises:
            WriterError: If a sample is already there.
        """
        for subset, tally in tallies.items():
            target = self._opened()[subset]
            for key, group in file[subset].items():
                if key in target:
                    raise self._duplicate(subset, key)
                # Copies the compressed chunks; nothing is decoded.
                file.copy(group, target, name=key)
            self.statistics[subset].merge(tally)

    def _new_key(self, subset: str, video_id: str, frame_group: str, eye_side: str) -> str:
        name = self.spec.name
        if subset not in SUBSETS:
            raise WriterError(
                f"corpus '{name}': subset must be one of {', '.join(SUBSETS)}, got {subset!r}"
            )
        try:
            key = build_sample_id(video_id, frame_group, eye_side)
        except SchemaError as error:
            raise WriterError(f"corpus '{name}', {subset}: {error}") from error
        if not self.spec.has_eye_side and eye_side != "unknown":
            raise WriterError(
                f"corpus '{name}', {subset} sample '{key}': eye_side must be 'unknown' in a corpus "
                f"declared with has_eye_side=False, got '{eye_side}'"
            )
        if key in self._opened()[subset]:
            raise self._duplicate(subset, key)
        return key

    def _duplicate(self, subset: str, key: str) -> WriterError:
        return WriterError(
            f"corpus '{self.spec.name}', {subset}: sample '{key}' is already there; give each "
            "window of a recording its own frame_group"
        )

    def _opened(self) -> h5py.File:
        if self._file is None:
            raise WriterError(
                f"corpus '{self.spec.name}': the writer is not open; use it in a with block"
            )
        return self._file


def store_array(group: h5py.Group, name: str, array: npt.NDArray[Any]) -> None:
    """Store one value: compressed in one chunk if it has an axis, else as it is."""
    options: dict[str, Any] = {}
    if array.dtype.kind == "U":
        array, options["dtype"] = array.astype(object), h5py.string_dtype()
    if array.ndim and array.size:
        # A window is always read whole: one chunk is one look-up and one inflate.
        options |= {"chunks": array.shape, **COMPRESSION}
    group.create_dataset(name, data=array, **options)


__all__ = ["COMPRESSION", "STATISTICS", "H5Writer", "WriterError", "store_array"]
